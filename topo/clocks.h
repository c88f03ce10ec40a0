// SPDX-License-Identifier: Apache-2.0
//
// The clocks of the processes against that of rank 0, so that times of different nodes can be laid
// beside each other.
#ifndef KERN_TOPO_CLOCKS_H
#define KERN_TOPO_CLOCKS_H

#include <stdint.h>

#include "topo/world.h"

// One comparison: at the time [at] of this process rank 0's clock showed at + offset, give or take
// error. Nanoseconds of base/clock.h.
struct kern_clock_reading {
    uint64_t at;
    int64_t offset;
    uint64_t error;
};

// Compares this process's clock with rank 0's, by messages back and forth of which the fastest
// counts. The answer was given somewhere on its way, so the middle of that is wrong by at most half
// of it. Collective.
void kern_clock_read(const struct kern_world *world, struct kern_clock_reading *reading);

// A clock that was compared at two times and is taken to drift evenly between them.
struct kern_clock {
    struct kern_clock_reading first, last;
};

// What rank 0's clock showed at [time] of this process; never negative.
uint64_t kern_clock_align(const struct kern_clock *clock, uint64_t time);

// The most that kern_clock_align is wrong by at either reading.
uint64_t kern_clock_error(const struct kern_clock *clock);

#endif
