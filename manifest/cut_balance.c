// SPDX-License-Identifier: Apache-2.0
//
// Where to cut so that the stages read about as many bytes of weights each: a table of the best way
// to reach each point with each number of stages, filled from left to right, has the best of all.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "manifest/cut.h"
#include "manifest/cut_ends.h"

struct balance {
    struct kern_cut_ends ends;
    struct kern_cut_touch *touches; // of weights, by call
    size_t *first;                  // [call]: its first touch; first[longest] is their number
};

static int compare_calls(const void *left, const void *right)
{
    const struct kern_cut_touch *a = left;
    const struct kern_cut_touch *b = right;
    return (a->call > b->call) - (a->call < b->call);
}

static void find_weights(struct balance *balance)
{
    struct kern_cut_ends *ends = &balance->ends;
    const bool *weights = kern_cut_weights(ends->manifest, &ends->arena);
    uint64_t calls = ends->flow.longest;
    balance->touches =
        kern_arena_array(&ends->arena, ends->flow.n_accesses, sizeof *balance->touches);
    size_t count = kern_cut_touches(&ends->flow, weights, balance->touches);
    qsort(balance->touches, count, sizeof *balance->touches, compare_calls);
    balance->first = kern_arena_array(&ends->arena, calls + 1, sizeof *balance->first);
    size_t touch = 0;
    for (uint64_t i = 0; i <= calls; i++) {
        while (touch < count && balance->touches[touch].call < i)
            touch++;
        balance->first[i] = touch;
    }
}

// The best way found to split the calls before an end into so many stages.
struct way {
    bool found;
    size_t from; // the end at which the last of the stages begins
    uint64_t worst;
    double squares;
    uint64_t crossing;
};

static uint64_t sum(uint64_t a, uint64_t b)
{
    uint64_t total;
    return __builtin_add_overflow(a, b, &total) ? UINT64_MAX : total;
}

static bool is_better(const struct way *a, const struct way *b, bool by_worst)
{
    if (!b->found)
        return true;
    if (by_worst)
        return a->worst < b->worst;
    if (a->squares != b->squares)
        return a->squares < b->squares;
    return a->crossing < b->crossing;
}

// Offers every way to [end] whose last stage is the calls from end [begin] on, with [weights]
// bytes.
static void offer(const struct balance *balance, struct way *ways, size_t n_stages, size_t begin,
                  size_t end, uint64_t weights, bool by_worst)
{
    size_t n_ends = balance->ends.count;
    for (size_t stages = 1; stages <= n_stages; stages++) {
        const struct way *before = &ways[(stages - 1) * n_ends + begin];
        struct way *best = &ways[stages * n_ends + end];
        if (!before->found)
            continue;
        struct way way = {
            .found = true,
            .from = begin,
            .worst = weights > before->worst ? weights : before->worst,
            .squares = before->squares + (double)weights * (double)weights,
            .crossing = sum(before->crossing, balance->ends.crossing[balance->ends.calls[begin]]),
        };
        if (is_better(&way, best, by_worst))
            *best = way;
    }
}

// Fills [ways], [stages * n_ends + end], with the best ways whose stages have at most [limit]
// bytes.
static void search(const struct balance *balance, struct way *ways, size_t n_stages, uint64_t limit,
                   bool by_worst)
{
    memset(ways, 0, (n_stages + 1) * balance->ends.count * sizeof *ways);
    ways[0].found = true;
    for (size_t end = 1; end < balance->ends.count; end++) {
        uint64_t to = balance->ends.calls[end];
        uint64_t weights = 0;
        size_t begin = end - 1;
        // The stage grows to the left; a weight that it reads already costs nothing more.
        for (uint64_t i = to; i-- > 0 && weights <= limit;) {
            for (size_t j = balance->first[i]; j < balance->first[i + 1]; j++)
                if (balance->touches[j].next >= to)
                    weights = sum(
                        weights, balance->ends.manifest->buffers[balance->touches[j].buffer].bytes);
            if (i != balance->ends.calls[begin])
                continue;
            if (balance->ends.reach[i] < to && weights <= limit)
                offer(balance, ways, n_stages, begin, end, weights, by_worst);
            begin -= begin > 0;
        }
    }
}

static bool find_points(struct balance *balance, size_t n_stages, uint64_t *points,
                        struct kern_diag *diag)
{
    size_t n_ends = balance->ends.count;
    size_t open = n_ends - 2;
    if (n_stages - 1 > open)
        return kern_fail_rule(diag, "V-CUT", 0, "programs",
                              "%zu stages need %zu points, and the manifest can be cut at %zu",
                              n_stages, n_stages - 1, open);
    struct way *ways = kern_calloc((n_stages + 1) * n_ends, sizeof *ways);
    const struct way *best = &ways[n_stages * n_ends + n_ends - 1];
    search(balance, ways, n_stages, UINT64_MAX, true);
    bool found = best->found;
    if (found)
        search(balance, ways, n_stages, best->worst, false);
    for (size_t stage = n_stages, end = n_ends - 1; found && stage > 1; stage--) {
        end = ways[stage * n_ends + end].from;
        points[stage - 2] = balance->ends.calls[end];
    }
    free(ways);
    return found || kern_fail_rule(diag, "V-CUT", 0, "programs",
                                   "no %zu of the %zu points at which it can be cut go together: "
                                   "between two of them a buffer would only pass through, or the "
                                   "calls would name no var of an axis",
                                   n_stages - 1, open);
}

bool kern_manifest_balance(const struct kern_manifest *manifest, size_t n_stages, uint64_t *points,
                           struct kern_diag *diag)
{
    struct balance balance = {0};
    if (!kern_cut_check_manifest(manifest, diag))
        return false;
    if (n_stages < 2)
        return kern_fail_rule(diag, "V-CUT", 0, "stages", "a cut has at least 2 stages, not %zu",
                              n_stages);
    kern_cut_ends_open(&balance.ends, manifest);
    find_weights(&balance);
    bool found = find_points(&balance, n_stages, points, diag);
    kern_cut_ends_close(&balance.ends);
    return found;
}
