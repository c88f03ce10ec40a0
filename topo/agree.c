// SPDX-License-Identifier: Apache-2.0
//
// How a phase ends: every rank says whether it may go on, and rank 0 prints what stands in the way.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "topo/stage.h"
#include "topo/watchdog.h"

// The most text that one rank sends: more would be 200 errors of a manifest that all ranks have.
enum { MESSAGES_MAX = 200, TEXT_MAX = 1 << 20 };

struct line {
    const char *text;
    int rank;
    size_t order;
};

static int by_text_then_rank(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    int text = strcmp(x->text, y->text);
    return text ? text : x->rank - y->rank;
}

static int by_order(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    return x->order < y->order ? -1 : x->order > y->order;
}

// Writes the ranks of lines[0..count) as "0-3,5".
static void print_ranks(const struct line *lines, size_t count)
{
    for (size_t i = 0; i < count;) {
        size_t last = i;
        while (last + 1 < count && lines[last + 1].rank <= lines[last].rank + 1)
            last++;
        fprintf(stderr, "%s%d", i ? "," : "", lines[i].rank);
        if (lines[last].rank != lines[i].rank)
            fprintf(stderr, "-%d", lines[last].rank);
        i = last + 1;
    }
}

static void print_place(const struct kern_world *world, int rank)
{
    char stage[KERN_STAGE_TEXT];
    kern_stage_print(world, rank, stage);
    fprintf(stderr, " (%s%s)", world->members[rank].host, stage);
}

// Folds equal lines and prints each once, in the order in which the first rank said it.
static void print_folded(struct line *lines, size_t count, const struct kern_world *world,
                         const char *phase)
{
    qsort(lines, count, sizeof *lines, by_text_then_rank);
    struct line *firsts = kern_calloc(count, sizeof *firsts);
    size_t *spans = kern_calloc(count, sizeof *spans), n = 0;
    for (size_t i = 0; i < count;) {
        size_t end = i + 1;
        while (end < count && strcmp(lines[end].text, lines[i].text) == 0)
            end++;
        firsts[n] = (struct line){lines[i].text, (int)n, lines[i].order};
        for (size_t j = i; j < end; j++)
            if (lines[j].order < firsts[n].order)
                firsts[n].order = lines[j].order;
        spans[n++] = i;
        i = end;
    }
    struct line *sorted = kern_calloc(n, sizeof *sorted);
    memcpy(sorted, firsts, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_order);
    for (size_t k = 0; k < n; k++) {
        size_t which = (size_t)sorted[k].rank, from = spans[which];
        size_t to = which + 1 < n ? spans[which + 1] : count;
        fprintf(stderr, "kern-rank: %s: ", phase);
        if (world->size > 1 && to - from == (size_t)world->size) {
            fprintf(stderr, "all %d ranks", world->size);
        } else if (world->size > 1) {
            fprintf(stderr, to - from > 1 ? "ranks " : "rank ");
            print_ranks(lines + from, to - from);
            if (to - from == 1)
                print_place(world, lines[from].rank);
        }
        fprintf(stderr, "%s%s\n", world->size > 1 ? ": " : "", sorted[k].text);
    }
    free(sorted);
    free(spans);
    free(firsts);
    fflush(stderr);
}

// The messages of this rank as NUL-ended lines end to end; the caller frees them.
static char *pack_lines(struct kern_diag *diag, int *length)
{
    char *text = NULL;
    size_t capacity = 0, used = 0;
    for (size_t i = 0; i < diag->count; i++) {
        struct kern_arena arena = {0};
        const char *line = kern_diag_line(diag, i);
        if (i == MESSAGES_MAX || used + strlen(line) >= TEXT_MAX)
            line = kern_arena_print(&arena, "and %zu more", diag->count - i);
        size_t bytes = strlen(line) + 1;
        kern_reserve(&text, &capacity, used + bytes, 1);
        memcpy(text + used, line, bytes);
        used += bytes;
        bool last = arena.head != NULL;
        kern_arena_free(&arena);
        if (last)
            break;
    }
    *length = (int)used;
    return text;
}

// Rank 0 receives everybody's lines in rank order and prints them.
static void gather_and_print(const struct kern_world *world, const char *phase,
                             struct kern_diag *diag)
{
    int length = 0, *lengths = NULL, *offsets = NULL;
    char *mine = pack_lines(diag, &length), *all = NULL;
    size_t total = 0;
    if (world->rank == 0) {
        lengths = kern_calloc((size_t)world->size, sizeof *lengths);
        offsets = kern_calloc((size_t)world->size, sizeof *offsets);
    }
    MPI_Gather(&length, 1, MPI_INT, lengths, 1, MPI_INT, 0, world->comm);
    for (int r = 0; world->rank == 0 && r < world->size; r++) {
        offsets[r] = (int)total;
        total += (size_t)lengths[r];
    }
    if (world->rank == 0)
        all = kern_calloc(total + 1, 1);
    MPI_Gatherv(mine, length, MPI_BYTE, all, lengths, offsets, MPI_BYTE, 0, world->comm);
    if (world->rank == 0 && total) {
        struct line *lines = NULL;
        size_t capacity = 0, count = 0;
        for (int r = 0; r < world->size; r++)
            for (const char *at = all + offsets[r]; at < all + offsets[r] + lengths[r];
                 at += strlen(at) + 1, count++) {
                kern_reserve(&lines, &capacity, count + 1, sizeof *lines);
                lines[count] = (struct line){at, r, count};
            }
        if (count)
            print_folded(lines, count, world, phase);
        free(lines);
    }
    free(all);
    free(offsets);
    free(lengths);
    free(mine);
}

enum kern_exit kern_world_agree(const struct kern_world *world, const char *phase,
                                struct kern_diag *diag)
{
    enum { CODES = KERN_EXIT_PEER + 1 };
    // One vote per code, and one for "has something to print".
    int votes[CODES + 1] = {0}, sum[CODES + 1] = {0};
    votes[kern_diag_code(diag)] = 1;
    votes[CODES] = diag->count > 0;
    KERN_WITH_OTHERS(world, phase,
                     MPI_Allreduce(votes, sum, CODES + 1, MPI_INT, MPI_SUM, world->comm));
    if (sum[CODES])
        KERN_WITH_OTHERS(world, phase, gather_and_print(world, phase, diag));
    kern_diag_clear(diag);
    enum kern_exit code = KERN_EXIT_OK;
    for (int c = 0; c < CODES; c++)
        if (sum[c])
            code = kern_exit_worse(code, (enum kern_exit)c);
    return code;
}
