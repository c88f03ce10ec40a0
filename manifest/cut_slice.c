// SPDX-License-Identifier: Apache-2.0
//
// Which calls a stage keeps: its own of the driven programs and, of the programs that prepare,
// those that its own need, found by walking backwards from what they touch.
#include "manifest/cut_parts.h"

// What the calls that follow need to have been written.
struct needed {
    const struct kern_manifest *manifest;
    bool *buffers;
    bool *states;
};

// What survives from a program to the next. A workspace does not, and nobody writes the others.
static bool survives(enum kern_buffer_kind kind)
{
    return kind == KERN_CARRY || kind == KERN_INOUT || kind == KERN_OUTPUT;
}

// A state is needed as a whole, since nobody knows how far a write at an offset goes.
static void need_of_stage(struct needed *needed, const struct kern_cut_points *cut, size_t stage)
{
    const struct kern_manifest *manifest = needed->manifest;
    for (size_t i = 0; i < cut->flow->n_accesses; i++) {
        const struct kern_cut_access *one = &cut->flow->accesses[i];
        if (one->access.target == KERN_TARGET_STATE && kern_cut_stage_of(cut, one->call) == stage)
            needed->states[one->access.index] = true;
    }
    for (uint32_t i = 0; i < manifest->n_buffers; i++)
        if (survives(manifest->buffers[i].kind))
            needed->buffers[i] =
                (cut->touches[stage * manifest->n_buffers + i] & KERN_CUT_READS) != 0;
}

// What is read back after a run and written by the preparation alone belongs to the last stage.
static void need_of_host(struct needed *needed, const struct kern_cut_points *cut)
{
    const struct kern_manifest *manifest = needed->manifest;
    for (uint32_t i = 0; i < manifest->n_buffers; i++) {
        enum kern_buffer_kind kind = manifest->buffers[i].kind;
        bool driven = false;
        for (size_t stage = 0; stage <= cut->count; stage++)
            driven = driven || cut->touches[stage * manifest->n_buffers + i];
        if (!driven && (kind == KERN_OUTPUT || kind == KERN_INOUT))
            needed->buffers[i] = true;
    }
}

static bool writes_needed(const struct needed *needed, const struct kern_call *call)
{
    for (size_t i = 0; i < call->n_args; i++) {
        struct kern_access access = kern_call_access(needed->manifest, call, i);
        if (access.target == KERN_TARGET_NONE || !access.writes)
            continue;
        if ((access.target == KERN_TARGET_BUFFER ? needed->buffers : needed->states)[access.index])
            return true;
    }
    return false;
}

static void step_before(struct needed *needed, const struct kern_call *call)
{
    for (size_t i = 0; i < call->n_args; i++) {
        struct kern_access access = kern_call_access(needed->manifest, call, i);
        if (access.target == KERN_TARGET_BUFFER && access.whole)
            needed->buffers[access.index] = false;
    }
    for (size_t i = 0; i < call->n_args; i++) {
        struct kern_access access = kern_call_access(needed->manifest, call, i);
        if (access.target != KERN_TARGET_NONE && access.reads)
            (access.target == KERN_TARGET_BUFFER ? needed->buffers : needed->states)[access.index] =
                true;
    }
}

static void slice_program(struct needed *needed, const struct kern_program *program, bool *keep)
{
    for (size_t i = program->n_calls; i-- > 0;) {
        keep[i] = writes_needed(needed, &program->calls[i]);
        if (keep[i])
            step_before(needed, &program->calls[i]);
    }
    for (uint32_t i = 0; i < needed->manifest->n_buffers; i++)
        if (!survives(needed->manifest->buffers[i].kind))
            needed->buffers[i] = false;
}

static void keep_driven(const struct kern_cut_points *cut, size_t stage,
                        const struct kern_program *program, bool *keep)
{
    uint64_t from = stage ? cut->points[stage - 1] : 0;
    uint64_t to = stage < cut->count ? cut->points[stage] : program->n_calls;
    for (uint64_t i = from; i < to; i++)
        keep[i] = true;
}

bool **kern_cut_slice(const struct kern_cut_points *cut, size_t stage, struct kern_arena *arena)
{
    const struct kern_manifest *manifest = cut->flow->manifest;
    struct needed needed = {
        .manifest = manifest,
        .buffers = kern_arena_array(arena, manifest->n_buffers, sizeof *needed.buffers),
        .states = kern_arena_array(arena, manifest->n_states, sizeof *needed.states),
    };
    bool **keep = kern_arena_array(arena, manifest->n_programs, sizeof *keep);
    need_of_stage(&needed, cut, stage);
    if (stage == cut->count)
        need_of_host(&needed, cut);
    for (uint32_t i = 0; i < manifest->n_programs; i++) {
        keep[i] = kern_arena_array(arena, manifest->programs[i].n_calls, sizeof **keep);
        if (manifest->programs[i].batch)
            keep_driven(cut, stage, &manifest->programs[i], keep[i]);
    }
    // Derive programs run while weights are loaded, once programs after that, each kind by name.
    for (uint32_t i = manifest->n_programs; i-- > 0;)
        if (manifest->programs[i].once)
            slice_program(&needed, &manifest->programs[i], keep[i]);
    for (uint32_t i = manifest->n_programs; i-- > 0;)
        if (manifest->programs[i].derive)
            slice_program(&needed, &manifest->programs[i], keep[i]);
    return keep;
}
