// SPDX-License-Identifier: Apache-2.0
#ifndef KERN_LAUNCHER_STATS_H
#define KERN_LAUNCHER_STATS_H

#include <stddef.h>
#include <stdint.h>

// Of a set of times, in the unit that they came in; all 0 for none.
struct kern_stats {
    double min, median, p99, max, mean;
};

// Sorts [times] and sums them up. The median of an even count is the mean of the middle two; p99 is
// the smallest time that at least 99 in 100 do not exceed.
struct kern_stats kern_stats_of(uint64_t *times, size_t count);

#endif
