// SPDX-License-Identifier: Apache-2.0
//
// Memory that is freed all at once. Blocks grow geometrically; what was handed out never moves.
#ifndef KERN_BASE_ARENA_H
#define KERN_BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>

struct kern_arena_block;

// All zero is a valid empty arena.
struct kern_arena {
    struct kern_arena_block *head;
    char *next;
    char *end;
    size_t reserved; // bytes taken from malloc so far
};

// Returns [bytes] zeroed bytes, aligned for any type. Never NULL: a process that is out of memory
// says so and leaves with KERN_EXIT_DEVICE (base/memory.h).
void *kern_arena_alloc(struct kern_arena *arena, size_t bytes);

// As kern_arena_alloc for [count] elements of [size] bytes each.
void *kern_arena_array(struct kern_arena *arena, size_t count, size_t size);

// Copies [length] bytes and ends them with a NUL.
char *kern_arena_copy(struct kern_arena *arena, const char *text, size_t length);

// As printf, into the arena.
char *kern_arena_print(struct kern_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
char *kern_arena_vprint(struct kern_arena *arena, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

// Frees everything that the arena handed out; the arena is empty and usable again.
void kern_arena_free(struct kern_arena *arena);

#endif
