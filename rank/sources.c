// SPDX-License-Identifier: Apache-2.0
//
// The memory of the sources (manifest/sources.h), which is given back once the derive programs ran.
#include "rank/internal.h"

bool rank_sources_allocate(struct kern_rank *rank, struct kern_diag *diag)
{
    struct rank_sources *sources = &rank->sources;
    struct kern_source_area *area = &sources->area;
    if (!kern_sources_place(rank->manifest, &rank->arena, area, diag)) {
        return false;
    }
    if (area->count == 0) {
        return true;
    }
    char what[RANK_WHAT];
    rank_print(what, "allocating %llu bytes for the sources of derive programs",
               (unsigned long long)area->bytes);
    if (!KERN_CU(rank->device, diag, what, cuMemAlloc, &sources->base, area->bytes)) {
        return false;
    }
    for (size_t i = 0; i < area->count; i++) {
        const struct kern_source_window *window = &area->windows[i];
        rank->buffers[window->buffer].address = sources->base + window->offset;
    }
    return true;
}

void rank_sources_free(struct kern_rank *rank)
{
    struct rank_sources *sources = &rank->sources;
    for (size_t i = 0; i < sources->area.count; i++) {
        rank->buffers[sources->area.windows[i].buffer].address = 0;
    }
    if (sources->base != 0) {
        rank->device->cu.cuMemFree(sources->base);
    }
    *sources = (struct rank_sources){0};
}
