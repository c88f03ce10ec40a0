// SPDX-License-Identifier: Apache-2.0
#include "launcher/trace.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
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
    free(trace->begun);
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

void kern_trace_issue(struct kern_trace *trace)
{
    if (!trace)
        return;
    kern_reserve(&trace->begun, &trace->begun_capacity, trace->n_begun + 1, sizeof *trace->begun);
    trace->begun[trace->n_begun++] = kern_now();
}

void kern_trace_flow(struct kern_trace *trace, const char *name, uint64_t number, uint64_t begin,
                     uint64_t end)
{
    kern_trace_span(trace, KERN_TRACE_FLOW, name, number, begin, end);
}

void kern_trace_device_clock(struct kern_trace *trace, uint64_t time)
{
    int64_t behind = (int64_t)(kern_now() - time);
    if (!trace->device_known || behind < trace->device_behind)
        trace->device_behind = behind;
    trace->device_known = true;
}

// Adds the step to [row] and returns its span; steps of a row do not overlap.
static struct kern_trace_span add_step(struct kern_trace *trace, enum kern_trace_row row,
                                       const char *name, uint64_t number, uint64_t begin,
                                       uint64_t end)
{
    if (begin < trace->last_end[row])
        begin = trace->last_end[row];
    trace->last_end[row] = end;
    kern_trace_span(trace, row, name, number, begin, end);
    return (struct kern_trace_span){.begin = begin, .end = end, .number = number};
}

struct kern_trace_span kern_trace_step(struct kern_trace *trace, const char *name, uint64_t taken)
{
    uint64_t end = kern_now(), begin = trace->n_begun ? trace->begun[0] : end;
    if (trace->n_begun)
        memmove(trace->begun, trace->begun + 1, --trace->n_begun * sizeof *trace->begun);
    uint32_t index = index_of(trace, name);
    uint64_t number = ++trace->steps[index];
    add_step(trace, KERN_TRACE_STEPS, name, number, begin, end);
    return add_step(trace, KERN_TRACE_DEVICE, name, number, end - taken, end);
}
