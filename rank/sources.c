// SPDX-License-Identifier: Apache-2.0
//
// The common area of the sources. A source is needed only from the first call of a derive program
// that names it to the last, so those that are never needed together may lie in the same bytes.
#include "rank/internal.h"

#include <stdlib.h>

#include "base/memory.h"

// Of a window's first byte: what cuMemAlloc aligns to.
#define WINDOW_ALIGNMENT 256

static void note_call(struct rank_window *window, size_t call)
{
    if (window->first_call == SIZE_MAX) {
        window->first_call = call;
    }
    window->last_call = call;
}

// Notes in [lives], one per buffer, which calls of the derive programs name each source.
static void find_lives(const struct kern_manifest *manifest, struct rank_window *lives)
{
    size_t call = 0;
    for (uint32_t p = 0; p < manifest->n_programs; p++) {
        const struct kern_program *program = &manifest->programs[p];
        for (size_t c = 0; program->derive && c < program->n_calls; c++, call++) {
            for (size_t a = 0; a < program->calls[c].n_args; a++) {
                const struct kern_value *arg = &program->calls[c].args[a];
                if (arg->kind == KERN_VALUE_BUFFER) {
                    note_call(&lives[arg->ref.index], call);
                }
            }
        }
    }
}

static int by_first_call(const void *a, const void *b)
{
    const struct rank_window *x = a, *y = b;
    if (x->first_call != y->first_call) {
        return x->first_call < y->first_call ? -1 : 1;
    }
    return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

// The end of the window among the [count] placed ones that is alive at [call] and has bytes in
// [offset, offset + bytes), or 0 if those are free.
static uint64_t collision(const struct rank_window *windows, size_t count,
                          const struct kern_buffer *buffers, size_t call, uint64_t offset,
                          uint64_t bytes)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t end = windows[i].offset + buffers[windows[i].buffer].bytes;
        if (windows[i].last_call >= call && windows[i].offset < offset + bytes && offset < end) {
            return end;
        }
    }
    return 0;
}

// Gives each window the lowest place that is free during its life.
static bool place_windows(struct rank_sources *sources, const struct kern_manifest *manifest,
                          struct kern_diag *diag)
{
    for (size_t i = 0; i < sources->count; i++) {
        struct rank_window *window = &sources->windows[i];
        uint64_t bytes = manifest->buffers[window->buffer].bytes;
        uint64_t offset = 0, end = 0;
        do {
            offset = (end + WINDOW_ALIGNMENT - 1) / WINDOW_ALIGNMENT * WINDOW_ALIGNMENT;
            if (offset < end || bytes > UINT64_MAX - WINDOW_ALIGNMENT - offset) {
                return kern_fail(diag, KERN_EXIT_MANIFEST, NULL,
                                 "the sources of the derive programs exceed 2^64 bytes");
            }
            end = collision(sources->windows, i, manifest->buffers, window->first_call, offset,
                            bytes);
        } while (end != 0);
        window->offset = offset;
        if (offset + bytes > sources->bytes) {
            sources->bytes = offset + bytes;
        }
    }
    return true;
}

bool rank_sources_allocate(struct kern_rank *rank, struct kern_diag *diag)
{
    const struct kern_manifest *manifest = rank->manifest;
    struct rank_sources *sources = &rank->sources;
    struct rank_window *lives = kern_calloc(manifest->n_buffers + 1, sizeof(*lives));
    for (uint32_t b = 0; b < manifest->n_buffers; b++) {
        lives[b] = (struct rank_window){.buffer = b, .first_call = SIZE_MAX};
    }
    find_lives(manifest, lives);
    sources->windows =
        kern_arena_array(&rank->arena, manifest->n_buffers, sizeof(*sources->windows));
    for (uint32_t b = 0; b < manifest->n_buffers; b++) {
        if (manifest->buffers[b].kind == KERN_SOURCE && lives[b].first_call != SIZE_MAX) {
            sources->windows[sources->count++] = lives[b];
        }
    }
    free(lives);
    if (sources->count == 0) {
        return true;
    }
    qsort(sources->windows, sources->count, sizeof(*sources->windows), by_first_call);
    char what[RANK_WHAT];
    if (!place_windows(sources, manifest, diag)) {
        return false;
    }
    rank_print(what, "allocating %llu bytes for the sources of derive programs",
               (unsigned long long)sources->bytes);
    if (!KERN_CU(rank->device, diag, what, cuMemAlloc, &sources->base, sources->bytes)) {
        return false;
    }
    for (size_t i = 0; i < sources->count; i++) {
        const struct rank_window *window = &sources->windows[i];
        rank->buffers[window->buffer].address = sources->base + window->offset;
    }
    return true;
}

void rank_sources_free(struct kern_rank *rank)
{
    struct rank_sources *sources = &rank->sources;
    for (size_t i = 0; i < sources->count; i++) {
        rank->buffers[sources->windows[i].buffer].address = 0;
    }
    if (sources->base != 0) {
        rank->device->cu.cuMemFree(sources->base);
    }
    *sources = (struct rank_sources){0};
}
