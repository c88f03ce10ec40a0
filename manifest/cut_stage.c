// SPDX-License-Identifier: Apache-2.0
//
// One stage: the whole manifest cut down to what the stage's calls name, with what crosses declared
// anew. It is made as a draft that borrows everything from the whole and is then written out.
#include <string.h>

#include "manifest/cut_parts.h"
#include "manifest/write.h"

struct draft {
    const struct kern_cut_points *cut;
    size_t stage;
    struct kern_cut_uses uses;
    struct kern_manifest manifest;
    struct kern_arena arena;
};

// Copies the items of [count], each of [size] bytes, whose flag is set; *[kept] is how many.
static void *keep_items(struct draft *draft, const void *items, uint32_t count, size_t size,
                        const bool *flags, uint32_t *kept)
{
    char *copies = kern_arena_array(&draft->arena, count, size);
    *kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (flags[i])
            memcpy(copies + (*kept)++ * size, (const char *)items + i * size, size);
    return copies;
}

static void keep_programs(struct draft *draft)
{
    const struct kern_manifest *whole = draft->cut->flow->manifest;
    bool **keep = kern_cut_slice(draft->cut, draft->stage, &draft->arena);
    struct kern_program *programs =
        kern_arena_array(&draft->arena, whole->n_programs, sizeof *programs);
    for (uint32_t i = 0; i < whole->n_programs; i++) {
        const struct kern_program *program = &whole->programs[i];
        struct kern_call *calls = kern_arena_array(&draft->arena, program->n_calls, sizeof *calls);
        size_t n_calls = 0;
        for (size_t j = 0; j < program->n_calls; j++) {
            if (!keep[i][j])
                continue;
            kern_cut_use_call(&draft->uses, &program->calls[j]);
            calls[n_calls++] = program->calls[j];
        }
        if (n_calls == 0)
            continue;
        if (program->batch)
            kern_cut_use_batch(&draft->uses, program->batch);
        struct kern_program *kept = &programs[draft->manifest.n_programs++];
        *kept = *program;
        kept->calls = calls;
        kept->n_calls = n_calls;
    }
    draft->manifest.programs = programs;
}

static bool same_kind(const struct kern_state *a, const struct kern_state *b)
{
    return !a->host == !b->host && !a->bytes_per_token == !b->bytes_per_token &&
           !a->bytes_per_seq == !b->bytes_per_seq;
}

// The kept state that an index into [dropped] may as well point into: of the same kind, and where
// lines of sequences are counted one of the same size before one whose lines are only as long.
static const struct kern_state *stand_in(const struct draft *draft,
                                         const struct kern_domain *domain)
{
    const struct kern_manifest *whole = draft->cut->flow->manifest;
    const struct kern_state *dropped = &whole->states[domain->index_into.index];
    const struct kern_state *fitting = NULL;
    for (uint32_t i = 0; i < whole->n_states; i++) {
        const struct kern_state *state = &whole->states[i];
        if (!draft->uses.states[i] || !same_kind(state, dropped))
            continue;
        if (state->bytes_per_seq == dropped->bytes_per_seq)
            return state;
        if (!fitting && state->bytes_per_seq % domain->stride == 0)
            fitting = state;
    }
    return fitting;
}

// The domain of a kept buffer, which may point at nothing that the stage drops.
static const struct kern_domain *keep_domain(struct draft *draft, const struct kern_buffer *buffer,
                                             bool arrives)
{
    const struct kern_domain *domain = buffer->domain;
    if (!domain || !domain->index_into.name)
        return domain;
    uint32_t target = domain->index_into.index;
    if (domain->target == KERN_TARGET_BUFFER)
        return draft->uses.buffers[target] ? domain : NULL;
    // An input that points into a state is a table that the host writes, which what arrives is not.
    if (arrives)
        return NULL;
    if (draft->uses.states[target])
        return domain;
    const struct kern_state *state = stand_in(draft, domain);
    if (!state)
        return NULL;
    struct kern_domain *redirected = kern_arena_alloc(&draft->arena, sizeof *redirected);
    *redirected = *domain;
    redirected->index_into.name = state->name;
    return redirected;
}

static void keep_buffers(struct draft *draft)
{
    const struct kern_manifest *whole = draft->cut->flow->manifest;
    struct kern_buffer *buffers =
        kern_arena_array(&draft->arena, whole->n_buffers, sizeof *buffers);
    for (uint32_t i = 0; i < whole->n_buffers; i++) {
        if (!draft->uses.buffers[i])
            continue;
        struct kern_buffer *buffer = &buffers[draft->manifest.n_buffers++];
        bool arrives = kern_cut_arrives(draft->cut, draft->stage, i);
        *buffer = whole->buffers[i];
        if (arrives)
            buffer->kind = draft->uses.written[i] ? KERN_INOUT : KERN_INPUT;
        else if (kern_cut_leaves(draft->cut, draft->stage, i))
            buffer->kind = KERN_OUTPUT;
        // A single rank exports to nobody, so the flag is free to say what arrives.
        buffer->exported = arrives;
        buffer->domain = keep_domain(draft, buffer, arrives);
        if (buffer->domain)
            kern_cut_use_domain(&draft->uses, buffer->domain);
    }
    draft->manifest.buffers = buffers;
}

char *kern_cut_stage_text(const struct kern_cut_points *cut, size_t stage, const char *id,
                          size_t *length)
{
    const struct kern_manifest *whole = cut->flow->manifest;
    struct kern_cut mark = {.id = id, .stage = stage, .stages = cut->count + 1};
    struct draft draft = {.cut = cut, .stage = stage};
    struct kern_manifest *manifest = &draft.manifest;
    manifest->model = whole->model;
    manifest->has_chat = whole->has_chat;
    manifest->tool_parser = whole->tool_parser;
    manifest->cut = &mark;
    kern_cut_uses_open(&draft.uses, whole, &draft.arena);
    keep_programs(&draft);
    keep_buffers(&draft);
    manifest->vars = keep_items(&draft, whole->vars, whole->n_vars, sizeof *whole->vars,
                                draft.uses.vars, &manifest->n_vars);
    manifest->states = keep_items(&draft, whole->states, whole->n_states, sizeof *whole->states,
                                  draft.uses.states, &manifest->n_states);
    manifest->modules = keep_items(&draft, whole->modules, whole->n_modules, sizeof *whole->modules,
                                   draft.uses.modules, &manifest->n_modules);
    manifest->ops = keep_items(&draft, whole->ops, whole->n_ops, sizeof *whole->ops, draft.uses.ops,
                               &manifest->n_ops);
    char *text = kern_manifest_write(manifest, length);
    kern_arena_free(&draft.arena);
    return text;
}
