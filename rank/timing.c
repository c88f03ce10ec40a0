// SPDX-License-Identifier: Apache-2.0
//
// What each launch of a step took: an event behind every one that is issued by itself.
#include <stdlib.h>

#include "base/memory.h"
#include "rank/internal.h"

bool kern_rank_time_launches(struct kern_rank *rank, struct kern_diag *diag)
{
    struct rank_timing *timing = &rank->timing;
    size_t most = 0;
    for (uint32_t p = 0; p < rank->manifest->n_programs; p++) {
        most = rank->programs[p].n_launches > most ? rank->programs[p].n_launches : most;
    }
    timing->events = kern_arena_array(&rank->arena, most, sizeof(*timing->events));
    timing->times = kern_arena_array(&rank->arena, most, sizeof(*timing->times));
    if (!rank_enter(rank, diag)) {
        return false;
    }
    for (; timing->n_events < most; timing->n_events++) {
        if (!KERN_CU(rank->device, diag, "preparing to time launches", cuEventCreate,
                     &timing->events[timing->n_events], CU_EVENT_DEFAULT)) {
            return false;
        }
    }
    return true;
}

bool rank_timing_mark(struct kern_rank *rank, const struct rank_launch *launch,
                      struct kern_diag *diag)
{
    struct rank_timing *timing = &rank->timing;
    if (!timing->marking) {
        return true;
    }
    timing->times[timing->count].place = launch->place;
    return KERN_CU(rank->device, diag, launch->place, cuEventRecord,
                   timing->events[timing->count++], rank->stream);
}

bool kern_rank_launch_times(struct kern_rank *rank, const struct kern_launch_time **times,
                            size_t *count, struct kern_diag *diag)
{
    struct rank_timing *timing = &rank->timing;
    *times = timing->times;
    *count = timing->count;
    if (timing->count == 0) {
        return true;
    }
    if (kern_rank_in_flight(rank) > 0) {
        return kern_fail(diag, KERN_EXIT_USAGE, NULL,
                         "launch times are known of a program that was waited for");
    }
    if (!rank_enter(rank, diag)) {
        return false;
    }
    CUevent start = rank->items[(rank->issued - 1) % rank->most_in_flight].start;
    uint64_t last = 0;
    for (size_t i = 0; i < timing->count; i++) {
        float milliseconds = 0;
        if (!KERN_CU(rank->device, diag, timing->times[i].place, cuEventElapsedTime, &milliseconds,
                     start, timing->events[i])) {
            return false;
        }
        timing->times[i].begin = last;
        last = (uint64_t)((double)milliseconds * 1e6);
        timing->times[i].end = last;
    }
    return true;
}

void rank_timing_close(struct kern_rank *rank)
{
    for (size_t i = 0; i < rank->timing.n_events; i++) {
        rank->device->cu.cuEventDestroy(rank->timing.events[i]);
    }
    rank->timing = (struct rank_timing){0};
}
