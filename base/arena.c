// SPDX-License-Identifier: Apache-2.0
#include "base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { FIRST_BLOCK = 4096, LARGEST_BLOCK = 1 << 22, ALIGNMENT = alignof(max_align_t) };

struct kern_arena_block {
    struct kern_arena_block *previous;
    alignas(max_align_t) char bytes[];
};

static void add_block(struct kern_arena *arena, size_t needed)
{
    // An eighth of what is there keeps the unused tail of a large arena small.
    size_t size = arena->reserved / 8;
    if (size < FIRST_BLOCK)
        size = FIRST_BLOCK;
    if (size > LARGEST_BLOCK)
        size = LARGEST_BLOCK;
    if (size < needed)
        size = needed;
    struct kern_arena_block *block = NULL;
    size_t bytes;
    if (!__builtin_add_overflow(size, sizeof *block, &bytes))
        block = calloc(1, bytes);
    if (!block)
        kern_out_of_memory(needed);
    block->previous = arena->head;
    arena->head = block;
    arena->next = block->bytes;
    arena->end = block->bytes + size;
    arena->reserved += bytes;
}

void *kern_arena_alloc(struct kern_arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        kern_out_of_memory(bytes);
    size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (!arena->next || rounded > (size_t)(arena->end - arena->next))
        add_block(arena, rounded);
    void *memory = arena->next;
    arena->next += rounded;
    return memory;
}

void *kern_arena_array(struct kern_arena *arena, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        kern_out_of_memory(SIZE_MAX);
    return kern_arena_alloc(arena, bytes);
}

char *kern_arena_copy(struct kern_arena *arena, const char *text, size_t length)
{
    char *copy = kern_arena_alloc(arena, length + 1);
    memcpy(copy, text, length);
    return copy;
}

char *kern_arena_vprint(struct kern_arena *arena, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    char *text = kern_arena_alloc(arena, length < 0 ? 1 : (size_t)length + 1);
    if (length > 0)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

char *kern_arena_print(struct kern_arena *arena, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = kern_arena_vprint(arena, format, arguments);
    va_end(arguments);
    return text;
}

void kern_arena_free(struct kern_arena *arena)
{
    for (struct kern_arena_block *block = arena->head, *previous; block; block = previous) {
        previous = block->previous;
        free(block);
    }
    *arena = (struct kern_arena){0};
}
