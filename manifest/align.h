// SPDX-License-Identifier: Apache-2.0
//
// Which elements of two sequences are the same ones: a longest common subsequence.
#ifndef KERN_MANIFEST_ALIGN_H
#define KERN_MANIFEST_ALIGN_H

#include <stddef.h>
#include <stdint.h>

// Sets matches[i], for each of the [n] elements of [a], to the index of the element of [b] that it
// goes with, or to KERN_NONE. Equal elements have equal numbers; matches ascend. Time and memory
// grow with the number of elements that have no match; if there are very many of them, only what
// is the same at both ends is matched.
void kern_align(const uint32_t *a, size_t n, const uint32_t *b, size_t m, uint32_t *matches);

#endif
