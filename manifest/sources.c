// SPDX-License-Identifier: Apache-2.0
#include "manifest/sources.h"

#include <stdlib.h>

#include "base/memory.h"

// Of a window's first byte: what cuMemAlloc aligns to.
#define WINDOW_ALIGNMENT 256

static void note_call(struct kern_source_window *window, size_t call)
{
    if (window->first_call == SIZE_MAX)
        window->first_call = call;
    window->last_call = call;
}

// Notes in [lives], one per buffer, which calls of the derive programs name each buffer.
static void find_lives(const struct kern_manifest *manifest, struct kern_source_window *lives)
{
    size_t call = 0;
    for (uint32_t p = 0; p < manifest->n_programs; p++) {
        const struct kern_program *program = &manifest->programs[p];
        for (size_t c = 0; program->derive && c < program->n_calls; c++, call++)
            for (size_t a = 0; a < program->calls[c].n_args; a++)
                if (program->calls[c].args[a].kind == KERN_VALUE_BUFFER)
                    note_call(&lives[program->calls[c].args[a].ref.index], call);
    }
}

static int by_first_call(const void *a, const void *b)
{
    const struct kern_source_window *x = a, *y = b;
    if (x->first_call != y->first_call)
        return x->first_call < y->first_call ? -1 : 1;
    return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

// The end of the window among the [count] placed ones that is alive at [call] and has bytes in
// [offset, offset + bytes), or 0 if those are free.
static uint64_t collision(const struct kern_source_window *windows, size_t count,
                          const struct kern_buffer *buffers, size_t call, uint64_t offset,
                          uint64_t bytes)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t end = windows[i].offset + buffers[windows[i].buffer].bytes;
        if (windows[i].last_call >= call && windows[i].offset < offset + bytes && offset < end)
            return end;
    }
    return 0;
}

// Gives each window the lowest place that is free during its life.
static bool place_windows(const struct kern_manifest *manifest, struct kern_source_window *windows,
                          struct kern_source_area *area, struct kern_diag *diag)
{
    for (size_t i = 0; i < area->count; i++) {
        uint64_t bytes = manifest->buffers[windows[i].buffer].bytes;
        uint64_t offset = 0, end = 0;
        do {
            offset = (end + WINDOW_ALIGNMENT - 1) / WINDOW_ALIGNMENT * WINDOW_ALIGNMENT;
            if (offset < end || bytes > UINT64_MAX - WINDOW_ALIGNMENT - offset)
                return kern_fail(diag, KERN_EXIT_MANIFEST, NULL,
                                 "the sources of the derive programs exceed 2^64 bytes");
            end = collision(windows, i, manifest->buffers, windows[i].first_call, offset, bytes);
        } while (end != 0);
        windows[i].offset = offset;
        if (offset + bytes > area->bytes)
            area->bytes = offset + bytes;
    }
    return true;
}

bool kern_sources_place(const struct kern_manifest *manifest, struct kern_arena *arena,
                        struct kern_source_area *area, struct kern_diag *diag)
{
    struct kern_source_window *lives = kern_calloc(manifest->n_buffers, sizeof *lives);
    for (uint32_t b = 0; b < manifest->n_buffers; b++)
        lives[b] = (struct kern_source_window){.buffer = b, .first_call = SIZE_MAX};
    find_lives(manifest, lives);
    struct kern_source_window *windows =
        kern_arena_array(arena, manifest->n_buffers, sizeof *windows);
    *area = (struct kern_source_area){.windows = windows};
    for (uint32_t b = 0; b < manifest->n_buffers; b++)
        if (manifest->buffers[b].kind == KERN_SOURCE && lives[b].first_call != SIZE_MAX)
            windows[area->count++] = lives[b];
    free(lives);
    qsort(windows, area->count, sizeof *windows, by_first_call);
    return place_windows(manifest, windows, area, diag);
}
