// SPDX-License-Identifier: Apache-2.0
//
// What the driven programs touch, call by call, and which buffers are alive between their calls.
#include <stdlib.h>

#include "base/memory.h"
#include "manifest/cut_parts.h"

// What a walk through a program knows of a buffer.
struct alive {
    uint32_t program; // counted from 1, that the rest is about; 0: none yet
    bool written;
    uint64_t writer; // the last call that wrote all of it, else the first that wrote it
    uint64_t reader; // the last call that read it since, or the writer
};

static void add_span(struct kern_cut_flow *flow, const struct kern_cut_span *span)
{
    kern_reserve(&flow->spans, &flow->spans_capacity, flow->n_spans + 1, sizeof *flow->spans);
    flow->spans[flow->n_spans++] = *span;
}

static void add_access(struct kern_cut_flow *flow, const struct kern_cut_access *access)
{
    kern_reserve(&flow->accesses, &flow->accesses_capacity, flow->n_accesses + 1,
                 sizeof *flow->accesses);
    flow->accesses[flow->n_accesses++] = *access;
}

static struct alive *alive_in(struct alive *buffers, const struct kern_cut_access *one)
{
    struct alive *alive = &buffers[one->access.index];
    if (alive->program != one->program + 1)
        *alive = (struct alive){.program = one->program + 1};
    return alive;
}

static void note_read(struct kern_cut_flow *flow, struct alive *buffers,
                      const struct kern_cut_access *one)
{
    struct alive *alive = alive_in(buffers, one);
    // An inout is read back as a whole, so one that is written in part needs what was there.
    bool completes = flow->manifest->buffers[one->access.index].kind == KERN_INOUT &&
                     one->access.writes && !one->access.whole;
    if (!alive->written || !(one->access.reads || completes))
        return;
    struct kern_cut_span span = {.program = one->program,
                                 .buffer = one->access.index,
                                 .from = alive->reader + 1,
                                 .to = one->call,
                                 .writer = alive->writer};
    if (span.from <= span.to)
        add_span(flow, &span);
    alive->reader = one->call;
}

static void note_write(struct alive *buffers, const struct kern_cut_access *one)
{
    struct alive *alive = alive_in(buffers, one);
    if (!one->access.writes || (alive->written && !one->access.whole))
        return;
    alive->written = true;
    alive->writer = alive->reader = one->call;
}

static void walk_call(struct kern_cut_flow *flow, struct alive *buffers, uint32_t program,
                      uint64_t index)
{
    const struct kern_call *call = &flow->manifest->programs[program].calls[index];
    size_t first = flow->n_accesses;
    for (size_t i = 0; i < call->n_args; i++) {
        struct kern_cut_access one = {
            .access = kern_call_access(flow->manifest, call, i), .program = program, .call = index};
        if (one.access.target != KERN_TARGET_NONE)
            add_access(flow, &one);
    }
    // Within a call reads come before writes, whatever the order of the arguments.
    for (size_t i = first; i < flow->n_accesses; i++)
        if (flow->accesses[i].access.target == KERN_TARGET_BUFFER)
            note_read(flow, buffers, &flow->accesses[i]);
    for (size_t i = first; i < flow->n_accesses; i++)
        if (flow->accesses[i].access.target == KERN_TARGET_BUFFER)
            note_write(buffers, &flow->accesses[i]);
}

void kern_cut_flow_open(struct kern_cut_flow *flow, const struct kern_manifest *manifest)
{
    *flow = (struct kern_cut_flow){.manifest = manifest, .shortest = UINT64_MAX};
    struct alive *buffers = kern_calloc(manifest->n_buffers, sizeof *buffers);
    for (uint32_t i = 0; i < manifest->n_programs; i++) {
        const struct kern_program *program = &manifest->programs[i];
        if (!program->batch)
            continue;
        if (program->n_calls < flow->shortest)
            flow->shortest = program->n_calls;
        if (program->n_calls > flow->longest)
            flow->longest = program->n_calls;
        for (uint64_t call = 0; call < program->n_calls; call++)
            walk_call(flow, buffers, i, call);
    }
    free(buffers);
}

void kern_cut_flow_close(struct kern_cut_flow *flow)
{
    free(flow->accesses);
    free(flow->spans);
}

// The first point that is not below [value].
static size_t point_from(const struct kern_cut_points *cut, uint64_t value)
{
    size_t from = 0;
    size_t to = cut->count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (cut->points[middle] < value)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

size_t kern_cut_stage_of(const struct kern_cut_points *cut, uint64_t call)
{
    return point_from(cut, call + 1);
}

void kern_cut_points_open(struct kern_cut_points *cut, const struct kern_cut_flow *flow,
                          const uint64_t *points, size_t count)
{
    size_t n_buffers = flow->manifest->n_buffers;
    *cut = (struct kern_cut_points){.flow = flow, .points = points, .count = count};
    cut->crosses = kern_arena_array(&cut->arena, count, n_buffers * sizeof *cut->crosses);
    cut->touches = kern_arena_array(&cut->arena, count + 1, n_buffers * sizeof *cut->touches);
    for (size_t i = 0; i < flow->n_spans; i++) {
        const struct kern_cut_span *span = &flow->spans[i];
        for (size_t j = point_from(cut, span->from); j < count && points[j] <= span->to; j++)
            cut->crosses[j * n_buffers + span->buffer] = true;
    }
    for (size_t i = 0; i < flow->n_accesses; i++) {
        const struct kern_cut_access *one = &flow->accesses[i];
        if (one->access.target != KERN_TARGET_BUFFER)
            continue;
        size_t stage = kern_cut_stage_of(cut, one->call);
        int flags =
            (one->access.reads ? KERN_CUT_READS : 0) | (one->access.writes ? KERN_CUT_WRITES : 0);
        cut->touches[stage * n_buffers + one->access.index] |= (uint8_t)flags;
    }
}

void kern_cut_points_close(struct kern_cut_points *cut)
{
    kern_arena_free(&cut->arena);
}

bool kern_cut_arrives(const struct kern_cut_points *cut, size_t stage, uint32_t buffer)
{
    return stage > 0 && cut->crosses[(stage - 1) * cut->flow->manifest->n_buffers + buffer];
}

bool kern_cut_leaves(const struct kern_cut_points *cut, size_t stage, uint32_t buffer)
{
    return stage < cut->count && cut->crosses[stage * cut->flow->manifest->n_buffers + buffer];
}
