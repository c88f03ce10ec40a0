// SPDX-License-Identifier: Apache-2.0
#include "base/memory.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/exit.h"

void kern_out_of_memory(size_t bytes)
{
    fprintf(stderr, "kern: out of host memory (asked for %zu bytes)\n", bytes);
    // exit() would run the handlers of libraries that may need memory, or wait for peers.
    _exit(KERN_EXIT_DEVICE);
}

void *kern_calloc(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size ? size : 1);
    if (!memory)
        kern_out_of_memory(count * size);
    return memory;
}

void kern_reserve(void *items, size_t *capacity, size_t needed, size_t size)
{
    if (needed <= *capacity)
        return;
    size_t grown = *capacity < SIZE_MAX / 4 ? *capacity * 2 : needed;
    if (grown < needed)
        grown = needed < 8 ? 8 : needed;
    size_t bytes;
    void *old, *memory = NULL;
    memcpy(&old, items, sizeof old);
    if (!__builtin_mul_overflow(grown, size, &bytes))
        memory = realloc(old, bytes);
    if (!memory)
        kern_out_of_memory(needed);
    memcpy(items, &memory, sizeof memory);
    *capacity = grown;
}

char *kern_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    return memcpy(kern_calloc(bytes, 1), text, bytes);
}
