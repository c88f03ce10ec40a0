// SPDX-License-Identifier: Apache-2.0
//
// A set of address ranges, no two overlapping, in ascending order. A range is the first member of
// what the set's owner keeps about it, and stays the owner's.
#ifndef KERN_EMU_RANGES_H
#define KERN_EMU_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct emu_range {
    uintptr_t begin;
    size_t bytes; // never 0; begin + bytes does not overflow
};

struct emu_ranges {
    struct emu_range **at;
    size_t n;
    size_t capacity;
};

// False when there is no memory, or [range] overlaps another.
bool emu_ranges_insert(struct emu_ranges *ranges, struct emu_range *range);
void emu_ranges_remove(struct emu_ranges *ranges, const struct emu_range *range);

// The index of the first range that ends beyond [p]; ranges->n if there is none.
size_t emu_ranges_lower(const struct emu_ranges *ranges, uintptr_t p);

// The range that holds the byte at [p], or NULL.
struct emu_range *emu_ranges_find(const struct emu_ranges *ranges, uintptr_t p);

// Whether any range has a byte of [begin, begin + bytes), which does not overflow.
bool emu_ranges_overlap(const struct emu_ranges *ranges, uintptr_t begin, size_t bytes);

#endif
