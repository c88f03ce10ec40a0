// SPDX-License-Identifier: Apache-2.0
#include "manifest/suggest.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

// Longer names are not compared; the distance of two names is quadratic in their length.
#define LONGEST 120

// Candidates that are compared for one name: a manifest with very many unknown names and very many
// declared ones must not take minutes to be refused.
#define MOST_COMPARED 512

// How many edits a misspelling of a name of [length] bytes may be away: short names differ from
// each other by little without being meant for each other.
static size_t farthest(size_t length)
{
    if (length <= 1)
        return 0;
    return length <= 4 ? 1 : length <= 8 ? 2 : 3;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

// Insertions, deletions, substitutions and swaps of neighbours that turn [a] into [b] (the optimal
// string alignment distance), or some number above [limit] if there are more than that.
static size_t distance(const char *a, size_t a_length, const char *b, size_t b_length, size_t limit)
{
    uint8_t rows[3][LONGEST + 1];
    uint8_t *before = rows[0], *last = rows[1], *current = rows[2];
    size_t last_least = 0;
    for (size_t j = 0; j <= b_length; j++)
        last[j] = (uint8_t)j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t row_least = i;
        current[0] = (uint8_t)i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t edits = last[j - 1] + (size_t)(a[i - 1] != b[j - 1]);
            edits = least(edits, least((size_t)last[j], (size_t)current[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                edits = least(edits, (size_t)before[j - 2] + 1);
            current[j] = (uint8_t)edits;
            row_least = least(row_least, edits);
        }
        // What follows builds on the last two rows and does not fall below them.
        if (row_least > limit && last_least > limit)
            return row_least;
        last_least = row_least;
        uint8_t *reused = before;
        before = last;
        last = current;
        current = reused;
    }
    return last[b_length];
}

const char *kern_suggest(const char *name, const void *items, size_t count, size_t stride)
{
    size_t length = strlen(name);
    if (length > LONGEST)
        return NULL;
    const char *nearest = NULL;
    size_t allowed = farthest(length), compared = 0;
    for (size_t i = 0; i < count && allowed > 0; i++) {
        const char *candidate = *(const char *const *)((const char *)items + i * stride);
        size_t candidate_length = strlen(candidate);
        if (candidate_length > LONGEST || candidate_length > length + allowed ||
            candidate_length + allowed < length)
            continue;
        if (compared++ == MOST_COMPARED)
            return nearest;
        size_t edits = strcasecmp(name, candidate) == 0
                           ? 1
                           : distance(name, length, candidate, candidate_length, allowed);
        if (edits > allowed)
            continue;
        nearest = candidate;
        allowed = edits - 1; // only a nearer one replaces it
    }
    return nearest;
}

const char *kern_did_you_mean(struct kern_arena *arena, const char *name, const void *items,
                              size_t count, size_t stride)
{
    const char *nearest = kern_suggest(name, items, count, stride);
    return nearest ? kern_arena_print(arena, "; did you mean \"%s\"?", nearest) : "";
}
