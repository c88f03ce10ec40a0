// SPDX-License-Identifier: Apache-2.0
#include "launcher/trace.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct kern_trace *kern_trace_open(size_t ranks, uint64_t opened)
{
    enum { LEAST = 1024 };
    struct kern_trace *trace = kern_calloc(1, sizeof *trace);
    size_t share = KERN_TRACE_SPANS / ranks;
    trace->limit = share > LEAST ? share : LEAST;
    trace->opened = opened;
    return trace;
}

void kern_trace_close(struct kern_trace *trace)
{
    if (!trace)
        return;
    kern_names_free(&trace->index);
    kern_arena_free(&trace->arena);
    free(trace->names);
    free(trace->steps);
    free(trace->spans);
    free(trace);
}

static uint32_t index_of(struct kern_trace *trace, const char *name)
{
    uint32_t index = kern_names_find(&trace->index, name);
    if (index != KERN_NONE)
        return index;
    const char *copy = kern_arena_copy(&trace->arena, name, strlen(name));
    kern_reserve(&trace->names, &trace->names_capacity, trace->n_names + 1, sizeof *trace->names);
    kern_reserve(&trace->steps, &trace->steps_capacity, trace->n_names + 1, sizeof *trace->steps);
    trace->names[trace->n_names] = copy;
    trace->steps[trace->n_names] = 0;
    kern_names_add(&trace->index, copy, (uint32_t)trace->n_names);
    return (uint32_t)trace->n_names++;
}

void kern_trace_span(struct kern_trace *trace, enum kern_trace_row row, const char *name,
                     uint64_t number, uint64_t begin, uint64_t end)
{
    if (!trace)
        return;
    // Phases are few, and the frame of everything else.
    if (row != KERN_TRACE_PHASES && trace->count >= trace->limit) {
        trace->dropped++;
        return;
    }
    uint32_t index = index_of(trace, name);
    kern_reserve(&trace->spans, &trace->capacity, trace->count + 1, sizeof *trace->spans);
    trace->spans[trace->count++] = (struct kern_trace_span){
        .begin = begin,
        .end = end > begin ? end : begin,
        .number = number,
        .name = index,
        .row = (uint32_t)row,
    };
}

uint64_t kern_trace_step(struct kern_trace *trace, const char *name)
{
    if (!trace)
        return 0;
    uint32_t index = index_of(trace, name);
    return ++trace->steps[index];
}
