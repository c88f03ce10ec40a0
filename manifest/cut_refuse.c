// SPDX-License-Identifier: Apache-2.0
//
// V-CUT: the cuts that the contract refuses.
#include <inttypes.h>
#include <stdlib.h>

#include "base/memory.h"
#include "manifest/cut_parts.h"
#include "manifest/verify.h"

static const char rule[] = "V-CUT";

bool kern_cut_check_manifest(const struct kern_manifest *manifest, struct kern_diag *diag)
{
    size_t errors = diag->errors;
    bool driven = false;
    for (uint32_t i = 0; i < manifest->n_programs; i++)
        driven = driven || manifest->programs[i].batch;
    if (manifest->has_topology)
        kern_fail_rule(diag, rule, 0, "topology",
                       "only the manifest of a single rank is cut; this one has groups of ranks");
    if (manifest->cut)
        kern_fail_rule(diag, rule, manifest->cut->order, "cut",
                       "this is stage %" PRIu64 " of %" PRIu64 " already; cut the whole manifest",
                       manifest->cut->stage, manifest->cut->stages);
    if (!driven)
        kern_fail_rule(diag, rule, 0, "programs",
                       "no program has a batch, so there is none to drive through stages");
    return diag->errors == errors;
}

static void check_lengths(const struct kern_cut_flow *flow, uint64_t last, struct kern_diag *diag)
{
    struct kern_place programs = kern_place_member(NULL, "programs");
    for (uint32_t i = 0; i < flow->manifest->n_programs; i++) {
        const struct kern_program *program = &flow->manifest->programs[i];
        struct kern_place place = kern_place_member(&programs, program->name);
        if (program->batch && last >= program->n_calls)
            kern_place_fail(diag, rule, program->order, &place,
                            "it has %zu call%s, none of them behind the point %" PRIu64,
                            program->n_calls, kern_plural(program->n_calls), last);
    }
}

bool kern_cut_check_points(const struct kern_cut_flow *flow, const uint64_t *points, size_t count,
                           struct kern_diag *diag)
{
    size_t errors = diag->errors;
    if (count == 0)
        return kern_fail_rule(diag, rule, 0, "points",
                              "there is none; give the index of the first call of each stage but "
                              "the first");
    uint64_t last = points[0];
    for (size_t i = 0; i < count; i++) {
        struct kern_place all = kern_place_member(NULL, "points");
        struct kern_place place = kern_place_element(&all, i);
        if (points[i] == 0)
            kern_place_fail(diag, rule, 0, &place,
                            "a point of 0 leaves nothing before it; the first stage begins there "
                            "anyway");
        else if (i > 0 && points[i] <= points[i - 1])
            kern_place_fail(diag, rule, 0, &place, "%" PRIu64 " after %" PRIu64 "; points increase",
                            points[i], points[i - 1]);
        last = points[i] > last ? points[i] : last;
    }
    check_lengths(flow, last, diag);
    return diag->errors == errors;
}

// What the checks of the dataflow share. The arena is for texts.
struct refusal {
    const struct kern_cut_points *cut;
    const struct kern_manifest *manifest;
    struct kern_diag *diag;
    struct kern_arena arena;
    bool *told; // per buffer: an error about it has been added
};

// The place of a call in the text of a message: `programs.decode.calls[3] (l0.attn)`.
static const char *call_text(struct refusal *refusal, uint32_t program, uint64_t call)
{
    char text[KERN_PLACE_MAX];
    const struct kern_program *owner = &refusal->manifest->programs[program];
    struct kern_place programs = kern_place_member(NULL, "programs");
    struct kern_place one = kern_place_member(&programs, owner->name);
    struct kern_place calls = kern_place_member(&one, "calls");
    struct kern_place place = kern_place_element(&calls, call);
    place.label = owner->calls[call].label;
    return kern_arena_print(&refusal->arena, "%s", kern_place_text(&place, text));
}

// Where a call stands in the document.
static uint64_t order_of(const struct refusal *refusal, uint32_t program, uint64_t call)
{
    return refusal->manifest->programs[program].calls[call].order;
}

// Outputs, carries and the like have a place after a run, so they cannot travel within one.
static void check_crossing(struct refusal *refusal)
{
    const struct kern_cut_points *cut = refusal->cut;
    for (size_t i = 0; i < cut->flow->n_spans; i++) {
        const struct kern_cut_span *span = &cut->flow->spans[i];
        const struct kern_buffer *buffer = &refusal->manifest->buffers[span->buffer];
        size_t stage = kern_cut_stage_of(cut, span->to);
        bool crosses = stage > 0 && cut->points[stage - 1] >= span->from;
        if (!crosses || buffer->kind == KERN_WORKSPACE || refusal->told[span->buffer])
            continue;
        refusal->told[span->buffer] = true;
        kern_fail_rule(refusal->diag, rule, order_of(refusal, span->program, span->to),
                       call_text(refusal, span->program, span->to),
                       "\"%s\" crosses the cut at %" PRIu64 ": it is needed here, and %s wrote it; "
                       "only a workspace crosses, and it is of kind %s",
                       buffer->name, cut->points[stage - 1],
                       call_text(refusal, span->program, span->writer),
                       kern_buffer_kind_name(buffer->kind));
    }
}

static void check_early_writes(struct refusal *refusal)
{
    const struct kern_cut_points *cut = refusal->cut;
    for (size_t i = 0; i < cut->flow->n_accesses; i++) {
        const struct kern_cut_access *one = &cut->flow->accesses[i];
        size_t stage = kern_cut_stage_of(cut, one->call);
        if (one->access.target != KERN_TARGET_BUFFER || !one->access.writes || stage == cut->count)
            continue;
        const struct kern_buffer *buffer = &refusal->manifest->buffers[one->access.index];
        bool last_only = buffer->kind == KERN_OUTPUT || buffer->kind == KERN_CARRY;
        if (!last_only || refusal->told[one->access.index])
            continue;
        refusal->told[one->access.index] = true;
        kern_fail_rule(
            refusal->diag, rule, order_of(refusal, one->program, one->call),
            call_text(refusal, one->program, one->call),
            "the %s \"%s\" is written on stage %zu; only the last stage, %zu, writes one",
            kern_buffer_kind_name(buffer->kind), buffer->name, stage, cut->count);
    }
}

// A carry that the last stage writes holds, for the next run of an earlier one, what never came.
static void check_late_carries(struct refusal *refusal)
{
    const struct kern_cut_points *cut = refusal->cut;
    size_t n_buffers = refusal->manifest->n_buffers;
    const uint8_t *last = &cut->touches[cut->count * n_buffers];
    for (size_t i = 0; i < cut->flow->n_accesses; i++) {
        const struct kern_cut_access *one = &cut->flow->accesses[i];
        size_t stage = kern_cut_stage_of(cut, one->call);
        if (one->access.target != KERN_TARGET_BUFFER || !one->access.reads || stage == cut->count)
            continue;
        const struct kern_buffer *buffer = &refusal->manifest->buffers[one->access.index];
        if (buffer->kind != KERN_CARRY || !(last[one->access.index] & KERN_CUT_WRITES) ||
            refusal->told[one->access.index])
            continue;
        refusal->told[one->access.index] = true;
        kern_fail_rule(refusal->diag, rule, order_of(refusal, one->program, one->call),
                       call_text(refusal, one->program, one->call),
                       "the carry \"%s\" is read on stage %zu and written on stage %zu; nothing "
                       "travels back",
                       buffer->name, stage, cut->count);
    }
}

static void check_passing(struct refusal *refusal)
{
    const struct kern_cut_points *cut = refusal->cut;
    struct kern_place buffers = kern_place_member(NULL, "buffers");
    for (size_t stage = 1; stage < cut->count; stage++) {
        for (uint32_t i = 0; i < refusal->manifest->n_buffers; i++) {
            const struct kern_buffer *buffer = &refusal->manifest->buffers[i];
            struct kern_place place = kern_place_member(&buffers, buffer->name);
            bool passes = kern_cut_arrives(cut, stage, i) && kern_cut_leaves(cut, stage, i) &&
                          !cut->touches[stage * refusal->manifest->n_buffers + i];
            if (passes)
                kern_place_fail(refusal->diag, rule, buffer->order, &place,
                                "it only passes through stage %zu: calls %" PRIu64 " to %" PRIu64
                                " neither read nor write it",
                                stage, cut->points[stage - 1], cut->points[stage] - 1);
        }
    }
}

// By state, then offset, then call.
static int compare_regions(const void *left, const void *right)
{
    const struct kern_cut_access *a = left;
    const struct kern_cut_access *b = right;
    if (a->access.index != b->access.index)
        return a->access.index < b->access.index ? -1 : 1;
    if (a->access.offset != b->access.offset)
        return a->access.offset < b->access.offset ? -1 : 1;
    if (a->call != b->call)
        return a->call < b->call ? -1 : 1;
    return (a->program > b->program) - (a->program < b->program);
}

size_t kern_cut_regions(const struct kern_cut_flow *flow, struct kern_cut_access *regions)
{
    size_t count = 0;
    for (size_t i = 0; i < flow->n_accesses; i++)
        if (flow->accesses[i].access.target == KERN_TARGET_STATE)
            regions[count++] = flow->accesses[i];
    qsort(regions, count, sizeof *regions, compare_regions);
    return count;
}

bool kern_cut_same_region(const struct kern_cut_access *a, const struct kern_cut_access *b)
{
    return a->access.index == b->access.index && a->access.offset == b->access.offset;
}

static void check_states(struct refusal *refusal)
{
    const struct kern_cut_points *cut = refusal->cut;
    struct kern_cut_access *touches = kern_calloc(cut->flow->n_accesses, sizeof *touches);
    size_t count = kern_cut_regions(cut->flow, touches);
    for (size_t first = 0, next; first < count; first = next) {
        size_t home = kern_cut_stage_of(cut, touches[first].call);
        size_t other = 0; // the first touch on another stage; 0, which is at home: none
        for (next = first + 1;
             next < count && kern_cut_same_region(&touches[first], &touches[next]); next++)
            if (!other && kern_cut_stage_of(cut, touches[next].call) != home)
                other = next;
        if (!other)
            continue;
        const struct kern_cut_access *one = &touches[other];
        kern_fail_rule(refusal->diag, rule, order_of(refusal, one->program, one->call),
                       call_text(refusal, one->program, one->call),
                       "the state \"%s\" at offset %" PRIu64
                       " is touched here on stage %zu, and by "
                       "%s on stage %zu; each part of a state stays on one stage",
                       refusal->manifest->states[one->access.index].name, one->access.offset,
                       kern_cut_stage_of(cut, one->call),
                       call_text(refusal, touches[first].program, touches[first].call), home);
    }
    free(touches);
}

bool kern_cut_check_flow(const struct kern_cut_points *cut, struct kern_diag *diag)
{
    size_t errors = diag->errors;
    struct refusal refusal = {.cut = cut, .manifest = cut->flow->manifest, .diag = diag};
    refusal.told =
        kern_arena_array(&refusal.arena, refusal.manifest->n_buffers, sizeof *refusal.told);
    check_crossing(&refusal);
    check_early_writes(&refusal);
    check_late_carries(&refusal);
    check_passing(&refusal);
    check_states(&refusal);
    kern_arena_free(&refusal.arena);
    kern_diag_sort(diag);
    return diag->errors == errors;
}
