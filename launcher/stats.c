// SPDX-License-Identifier: Apache-2.0
#include "launcher/stats.h"

#include <stdlib.h>

static int by_time(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

struct kern_stats kern_stats_of(uint64_t *times, size_t count)
{
    struct kern_stats stats = {0};
    if (!count)
        return stats;
    qsort(times, count, sizeof *times, by_time);
    for (size_t i = 0; i < count; i++)
        stats.mean += (double)times[i] / (double)count;
    stats.min = (double)times[0];
    stats.max = (double)times[count - 1];
    size_t lower = (count - 1) / 2, upper = count / 2, p99 = (count * 99 + 99) / 100 - 1;
    stats.median = ((double)times[lower] + (double)times[upper]) / 2;
    stats.p99 = (double)times[p99];
    return stats;
}
