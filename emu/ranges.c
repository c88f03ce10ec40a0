// SPDX-License-Identifier: Apache-2.0
#include "emu/ranges.h"

#include <stdlib.h>
#include <string.h>

size_t emu_ranges_lower(const struct emu_ranges *ranges, uintptr_t p)
{
    size_t low = 0;
    size_t high = ranges->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct emu_range *range = ranges->at[middle];
        if (range->begin + range->bytes > p) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

struct emu_range *emu_ranges_find(const struct emu_ranges *ranges, uintptr_t p)
{
    size_t i = emu_ranges_lower(ranges, p);
    return i < ranges->n && ranges->at[i]->begin <= p ? ranges->at[i] : NULL;
}

bool emu_ranges_overlap(const struct emu_ranges *ranges, uintptr_t begin, size_t bytes)
{
    size_t i = emu_ranges_lower(ranges, begin);
    return i < ranges->n && ranges->at[i]->begin < begin + bytes;
}

bool emu_ranges_insert(struct emu_ranges *ranges, struct emu_range *range)
{
    if (emu_ranges_overlap(ranges, range->begin, range->bytes)) {
        return false;
    }
    if (ranges->n == ranges->capacity) {
        size_t capacity = ranges->capacity == 0 ? 64 : 2 * ranges->capacity;
        void *at = reallocarray(ranges->at, capacity, sizeof(struct emu_range *));
        if (at == NULL) {
            return false;
        }
        ranges->at = at;
        ranges->capacity = capacity;
    }
    size_t i = emu_ranges_lower(ranges, range->begin);
    memmove(&ranges->at[i + 1], &ranges->at[i], (ranges->n - i) * sizeof(struct emu_range *));
    ranges->at[i] = range;
    ranges->n++;
    return true;
}

void emu_ranges_remove(struct emu_ranges *ranges, const struct emu_range *range)
{
    size_t i = emu_ranges_lower(ranges, range->begin);
    ranges->n--;
    memmove(&ranges->at[i], &ranges->at[i + 1], (ranges->n - i) * sizeof(struct emu_range *));
}
