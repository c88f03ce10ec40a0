// SPDX-License-Identifier: Apache-2.0
//
// malloc for bookkeeping, the kind of memory without which nothing sensible can be done: these
// never return NULL. Memory whose size an input decides (buffers, files) is asked for with malloc,
// and a refusal is an error like any other.
#ifndef KERN_BASE_MEMORY_H
#define KERN_BASE_MEMORY_H

#include <stddef.h>

// [count] zeroed elements of [size] bytes; the caller frees them with free().
void *kern_calloc(size_t count, size_t size);

// Makes room for [needed] elements in the array *[items] of *[capacity] elements of [size] bytes,
// at least doubling it when it grows. New elements are not initialised.
void kern_reserve(void *items, size_t *capacity, size_t needed, size_t size);

// A copy of [text] that the caller frees.
char *kern_strdup(const char *text);

// Says "out of memory" with [bytes] on stderr and leaves with KERN_EXIT_DEVICE.
_Noreturn void kern_out_of_memory(size_t bytes);

#endif
