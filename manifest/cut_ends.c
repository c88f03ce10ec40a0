// SPDX-License-Identifier: Apache-2.0
//
// Where a manifest can be cut. What the contract refuses is a matter of single points (what crosses
// there, states and results on both sides) or of two neighbours (what only passes between them), so
// no cut has to be tried.
#include "manifest/cut_ends.h"

#include <stdlib.h>

#include "base/memory.h"

// Closes the points after call [first] up to call [last].
static void close_between(struct kern_cut_ends *ends, uint64_t first, uint64_t last)
{
    for (uint64_t i = first + 1; i <= last && i < ends->flow.shortest; i++)
        ends->closed[i] = true;
}

static void close_states(struct kern_cut_ends *ends)
{
    struct kern_cut_access *regions = kern_calloc(ends->flow.n_accesses + 1, sizeof *regions);
    size_t count = kern_cut_regions(&ends->flow, regions);
    for (size_t i = 1; i < count; i++)
        if (kern_cut_same_region(&regions[i - 1], &regions[i]))
            close_between(ends, regions[i - 1].call, regions[i].call);
    free(regions);
}

// No point lies behind the first call that writes a result, nor behind one that reads a carry
// which driven calls write.
static void close_results(struct kern_cut_ends *ends)
{
    const struct kern_manifest *manifest = ends->manifest;
    uint64_t first = UINT64_MAX;
    bool *written = kern_arena_array(&ends->arena, manifest->n_buffers, sizeof *written);
    for (size_t i = 0; i < ends->flow.n_accesses; i++) {
        const struct kern_cut_access *one = &ends->flow.accesses[i];
        if (one->access.target == KERN_TARGET_BUFFER && one->access.writes)
            written[one->access.index] = true;
    }
    for (size_t i = 0; i < ends->flow.n_accesses; i++) {
        const struct kern_cut_access *one = &ends->flow.accesses[i];
        if (one->access.target != KERN_TARGET_BUFFER || !written[one->access.index])
            continue;
        enum kern_buffer_kind kind = manifest->buffers[one->access.index].kind;
        bool is_result = kind == KERN_CARRY || (kind == KERN_OUTPUT && one->access.writes);
        if (is_result && one->call < first)
            first = one->call;
    }
    if (first != UINT64_MAX)
        close_between(ends, first, ends->flow.shortest);
}

// By buffer, then by the first point.
static int compare_spans(const void *left, const void *right)
{
    const struct kern_cut_span *a = left;
    const struct kern_cut_span *b = right;
    if (a->buffer != b->buffer)
        return a->buffer < b->buffer ? -1 : 1;
    return (a->from > b->from) - (a->from < b->from);
}

// Flags for the buffers that derive programs touch. What crosses is no workspace any more on the
// stages beside it, and derive programs touch nothing but workspaces and carries (V-DERIVE).
static bool *find_derived(struct kern_cut_ends *ends)
{
    const struct kern_manifest *manifest = ends->manifest;
    bool *derived = kern_arena_array(&ends->arena, manifest->n_buffers, sizeof *derived);
    for (uint32_t i = 0; i < manifest->n_programs; i++) {
        const struct kern_program *program = &manifest->programs[i];
        for (size_t j = 0; program->derive && j < program->n_calls; j++)
            for (size_t k = 0; k < program->calls[j].n_args; k++) {
                struct kern_access access = kern_call_access(manifest, &program->calls[j], k);
                if (access.target == KERN_TARGET_BUFFER)
                    derived[access.index] = true;
            }
    }
    return derived;
}

static void add_crossing(struct kern_cut_ends *ends, const struct kern_buffer *buffer,
                         uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i <= to && i < ends->flow.shortest; i++)
        if (__builtin_add_overflow(ends->crossing[i], buffer->bytes, &ends->crossing[i]))
            ends->crossing[i] = UINT64_MAX;
}

// Of a buffer that crosses the same points in several programs each point is counted once.
static void add_spans(struct kern_cut_ends *ends)
{
    struct kern_cut_flow *flow = &ends->flow;
    const bool *derived = find_derived(ends);
    uint64_t done = 0; // points up to here have been counted for the buffer
    if (flow->n_spans > 0)
        qsort(flow->spans, flow->n_spans, sizeof *flow->spans, compare_spans);
    for (size_t i = 0; i < flow->n_spans; i++) {
        const struct kern_cut_span *span = &flow->spans[i];
        if (i == 0 || span->buffer != flow->spans[i - 1].buffer)
            done = 0;
        uint64_t from = span->from > done ? span->from : done + 1;
        const struct kern_buffer *buffer = &ends->manifest->buffers[span->buffer];
        if (from <= span->to)
            add_crossing(ends, buffer, from, span->to);
        if (buffer->kind != KERN_WORKSPACE || derived[span->buffer])
            close_between(ends, span->from - 1, span->to);
        done = span->to > done ? span->to : done;
    }
}

static int compare_touches(const void *left, const void *right)
{
    const struct kern_cut_touch *a = left;
    const struct kern_cut_touch *b = right;
    if (a->buffer != b->buffer)
        return a->buffer < b->buffer ? -1 : 1;
    return (a->call > b->call) - (a->call < b->call);
}

size_t kern_cut_touches(const struct kern_cut_flow *flow, const bool *flags,
                        struct kern_cut_touch *touches)
{
    size_t count = 0;
    size_t kept = 0;
    for (size_t i = 0; i < flow->n_accesses; i++) {
        const struct kern_cut_access *one = &flow->accesses[i];
        if (one->access.target == KERN_TARGET_BUFFER && flags[one->access.index])
            touches[count++] = (struct kern_cut_touch){one->access.index, one->call, UINT64_MAX};
    }
    qsort(touches, count, sizeof *touches, compare_touches);
    for (size_t i = 0; i < count; i++) {
        bool same = kept > 0 && touches[kept - 1].buffer == touches[i].buffer;
        if (same && touches[kept - 1].call == touches[i].call)
            continue;
        if (same)
            touches[kept - 1].next = touches[i].call;
        touches[kept++] = touches[i];
    }
    return kept;
}

static void extend(struct kern_cut_ends *ends, uint64_t point, uint64_t call)
{
    if (ends->reach[point] < call)
        ends->reach[point] = call;
}

// A stage that a buffer reaches and leaves has a call that touches it: one that begins between two
// touches of it, at a point that it crosses, holds the second.
static void find_passing(struct kern_cut_ends *ends)
{
    const struct kern_manifest *manifest = ends->manifest;
    bool *crosses = kern_arena_array(&ends->arena, manifest->n_buffers, sizeof *crosses);
    struct kern_cut_touch *touches = kern_calloc(ends->flow.n_accesses + 1, sizeof *touches);
    for (size_t i = 0; i < ends->flow.n_spans; i++)
        crosses[ends->flow.spans[i].buffer] = true;
    size_t count = kern_cut_touches(&ends->flow, crosses, touches);
    size_t touch = 0;
    // Both are sorted by buffer and ascend within one, save that spans of programs overlap.
    for (size_t i = 0; i < ends->flow.n_spans; i++) {
        const struct kern_cut_span *span = &ends->flow.spans[i];
        while (touches[touch].buffer < span->buffer ||
               (touches[touch].buffer == span->buffer && touches[touch].call < span->from))
            touch++;
        // The span ends at a touch, so there is one in it. A point before the next touch has it.
        uint64_t from = span->from;
        for (size_t j = touch; j < count && touches[j].buffer == span->buffer && from <= span->to;
             from = touches[j++].call + 1)
            extend(ends, from, touches[j].call);
    }
    // So far only the first point of each stretch has been told.
    for (uint64_t i = 1; i < ends->flow.longest; i++)
        if (ends->reach[i - 1] >= i)
            extend(ends, i, ends->reach[i - 1]);
    free(touches);
}

// A stage from [i] on must hold a call of those that are flagged.
static void demand_call(struct kern_cut_ends *ends, const bool *flags)
{
    uint64_t next = UINT64_MAX;
    for (uint64_t i = ends->flow.longest; i-- > 0;) {
        if (flags[i])
            next = i;
        extend(ends, i, next);
    }
}

static bool packs_sequences(const struct kern_manifest *manifest)
{
    bool packs = false;
    for (uint32_t i = 0; i < manifest->n_programs; i++) {
        const struct kern_batch *batch = manifest->programs[i].batch;
        packs = packs || (batch && batch->groups > 1 && batch->rows.var.name);
    }
    return packs;
}

// A batch of several sequences of var rows needs an input that tells them apart (V-PROGRAM).
static void demand_packing(struct kern_cut_ends *ends)
{
    bool *flags = kern_arena_array(&ends->arena, ends->flow.longest, sizeof *flags);
    if (!packs_sequences(ends->manifest))
        return;
    for (size_t i = 0; i < ends->flow.n_accesses; i++) {
        const struct kern_cut_access *one = &ends->flow.accesses[i];
        if (one->access.target == KERN_TARGET_BUFFER &&
            ends->manifest->buffers[one->access.index].fill == KERN_FILL_CU_SEQLENS)
            flags[one->call] = true;
    }
    demand_call(ends, flags);
}

// A stage needs a var of each axis (V-PROGRAM) and keeps those that it names.
static void demand_axis(struct kern_cut_ends *ends, enum kern_axis axis)
{
    const struct kern_manifest *manifest = ends->manifest;
    struct kern_cut_uses uses;
    bool *flags = kern_arena_array(&ends->arena, ends->flow.longest, sizeof *flags);
    uint32_t var = 0;
    while (var < manifest->n_vars && manifest->vars[var].axis != axis)
        var++;
    kern_cut_uses_open(&uses, manifest, &ends->arena);
    for (uint32_t i = 0; i < manifest->n_programs; i++)
        if (manifest->programs[i].batch)
            kern_cut_use_batch(&uses, manifest->programs[i].batch);
    if (var == manifest->n_vars || uses.vars[var])
        return;
    for (uint32_t i = 0; i < manifest->n_programs; i++) {
        const struct kern_program *program = &manifest->programs[i];
        for (size_t j = 0; program->batch && j < program->n_calls; j++) {
            uses.vars[var] = false;
            uses.ops[program->calls[j].op.index] = false;
            kern_cut_use_call(&uses, &program->calls[j]);
            flags[j] = flags[j] || uses.vars[var];
        }
    }
    demand_call(ends, flags);
}

static void find_ends(struct kern_cut_ends *ends)
{
    ends->calls = kern_arena_array(&ends->arena, ends->flow.shortest + 2, sizeof *ends->calls);
    ends->calls[ends->count++] = 0;
    for (uint64_t i = 1; i < ends->flow.shortest; i++)
        if (!ends->closed[i])
            ends->calls[ends->count++] = i;
    ends->calls[ends->count++] = ends->flow.longest;
}

void kern_cut_ends_open(struct kern_cut_ends *ends, const struct kern_manifest *manifest)
{
    *ends = (struct kern_cut_ends){.manifest = manifest};
    kern_cut_flow_open(&ends->flow, manifest);
    uint64_t calls = ends->flow.longest;
    ends->closed = kern_arena_array(&ends->arena, calls + 1, sizeof *ends->closed);
    ends->crossing = kern_arena_array(&ends->arena, calls + 1, sizeof *ends->crossing);
    ends->reach = kern_arena_array(&ends->arena, calls + 1, sizeof *ends->reach);
    close_states(ends);
    close_results(ends);
    add_spans(ends);
    find_passing(ends);
    demand_packing(ends);
    demand_axis(ends, KERN_AXIS_ROWS);
    demand_axis(ends, KERN_AXIS_GROUPS);
    find_ends(ends);
}

void kern_cut_ends_close(struct kern_cut_ends *ends)
{
    kern_arena_free(&ends->arena);
    kern_cut_flow_close(&ends->flow);
}
