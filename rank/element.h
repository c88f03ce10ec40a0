// SPDX-License-Identifier: Apache-2.0
//
// Elements of every dtype as numbers: what domain checks, synthesis and comparison read and write.
#ifndef KERN_RANK_ELEMENT_H
#define KERN_RANK_ELEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "manifest/manifest.h"

// Element [index] of the array at [bytes] (any alignment) as a double. Integers of 64 bits lose
// precision beyond 2^53: compare those with kern_element_integer.
double kern_element_real(enum kern_dtype dtype, const void *bytes, size_t index);

// Element [index] of an integer dtype, exactly: *[negative] with its magnitude.
uint64_t kern_element_integer(enum kern_dtype dtype, const void *bytes, size_t index,
                              bool *negative);

// Stores [value] as element [index]: floats rounded to nearest even, integers truncated toward zero
// and saturated, NaN to 0.
void kern_element_store(enum kern_dtype dtype, void *bytes, size_t index, double value);

#endif
