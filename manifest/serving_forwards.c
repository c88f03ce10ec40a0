// SPDX-License-Identifier: Apache-2.0
//
// The programs that step sequences: the shape of a call of each, and what it hands back. That a
// call of several sequences with a var of rows has cu_seqlens (P15) is V-PROGRAM's to say.
#include <inttypes.h>

#include "manifest/flow.h"
#include "manifest/serving_parts.h"

// P13 and P14: the rows of a call fit the rows axis.
static void check_rows(struct kern_projection *projection, const struct kern_program *program,
                       const struct kern_place *place)
{
    const struct kern_batch *batch = program->batch;
    const struct kern_serving_axis *axis = &projection->serving->axes[KERN_AXIS_ROWS];
    uint64_t rows;
    if (batch->rows.var.name) {
        if (batch->rows.var.index != axis->var)
            kern_place_fail(projection->diag, "P14", program->order, place,
                            "the rows are counted by the var \"%s\"; it must be \"%s\", which has "
                            "the axis \"rows\"",
                            batch->rows.var.name, projection->manifest->vars[axis->var].name);
    } else if (__builtin_mul_overflow(batch->groups, batch->rows.extent, &rows) ||
               rows > axis->max) {
        kern_place_fail(projection->diag, "P13", program->order, place,
                        "%" PRIu64 " sequences of %" PRIu64 " rows are more than the %" PRIu64
                        " that \"%s\" can count",
                        batch->groups, batch->rows.extent, axis->max,
                        projection->manifest->vars[axis->var].name);
    }
}

// P16.
static void check_groups(struct kern_projection *projection, const struct kern_program *program,
                         const struct kern_place *place)
{
    const struct kern_serving_axis *axis = &projection->serving->axes[KERN_AXIS_GROUPS];
    if (program->batch->groups > axis->max)
        kern_place_fail(projection->diag, "P16", program->order, place,
                        "%" PRIu64 " sequences are more than the %" PRIu64 " that \"%s\" can count",
                        program->batch->groups, axis->max,
                        projection->manifest->vars[axis->var].name);
}

// P20 and P21: one var that counts nothing else bounds the context of every forward.
static void check_context(struct kern_projection *projection, const struct kern_program *program,
                          const struct kern_place *place)
{
    const struct kern_ref *context = &program->batch->context;
    struct kern_serving *serving = projection->serving;
    if (!context->name)
        return;
    for (enum kern_axis axis = KERN_AXIS_ROWS; axis <= KERN_AXIS_RANKS; axis++) {
        if (serving->axes[axis].var == context->index) {
            kern_place_fail(projection->diag, "P20", program->order, place,
                            "the context's var \"%s\" has an axis already; it must be one of its "
                            "own",
                            context->name);
            return;
        }
    }
    if (serving->context == KERN_NONE)
        serving->context = context->index;
    else if (serving->context != context->index)
        kern_place_fail(projection->diag, "P21", program->order, place,
                        "the context's var is \"%s\" here and \"%s\" in another program; it must "
                        "be one var",
                        context->name, projection->manifest->vars[serving->context].name);
}

// P17: finds what [program] writes that has a role to hand back.
static void find_written(struct kern_projection *projection, const struct kern_program *program,
                         const struct kern_place *place, struct kern_forward *forward)
{
    const struct kern_manifest *manifest = projection->manifest;
    for (size_t c = 0; c < program->n_calls; c++) {
        const struct kern_call *call = &program->calls[c];
        for (size_t a = 0; a < call->n_args; a++) {
            struct kern_access access = kern_call_access(manifest, call, a);
            if (access.target != KERN_TARGET_BUFFER || !access.writes)
                continue;
            const struct kern_buffer *buffer = &manifest->buffers[access.index];
            if (buffer->fill == KERN_FILL_COUNT && projection->widths[access.index])
                forward->count = access.index;
            if (buffer->fill != KERN_FILL_TOKENS || forward->tokens == access.index)
                continue;
            if (forward->tokens == KERN_NONE)
                forward->tokens = access.index;
            else
                kern_place_fail(projection->diag, "P17", program->order, place,
                                "it writes the tokens \"%s\" and \"%s\"; a call hands back one "
                                "buffer of them",
                                manifest->buffers[forward->tokens].name, buffer->name);
        }
    }
}

// P18 and P19: as many tokens as the call has rows of each sequence, or one.
static void check_tokens(struct kern_projection *projection, const struct kern_program *program,
                         const struct kern_place *place, struct kern_forward *forward)
{
    const struct kern_buffer *buffers = projection->manifest->buffers;
    // Tokens that were refused are not judged again.
    uint64_t width = forward->tokens == KERN_NONE ? 0 : projection->widths[forward->tokens];
    forward->tokens_width = width;
    if (width > 1 && width != forward->rows)
        kern_place_fail(projection->diag, "P18", program->order, place,
                        "it writes %" PRIu64 " tokens of each sequence to \"%s\"; with %s it "
                        "must be 1%s",
                        width, buffers[forward->tokens].name,
                        forward->rows == KERN_ROWS_VAR ? "a var of rows" : "this many rows",
                        forward->rows > 1 ? " or as many as the rows" : "");
    bool unknown = forward->tokens != KERN_NONE && width == 0;
    if (forward->count != KERN_NONE && width <= 1 && !unknown)
        kern_place_fail(projection->diag, "P19", program->order, place,
                        "it writes the count \"%s\" and no tokens to choose from: a count belongs "
                        "to several tokens of each sequence",
                        buffers[forward->count].name);
}

// P22: no two forwards take the same calls.
static void check_shape(struct kern_projection *projection, const struct kern_program *program,
                        const struct kern_place *place, const struct kern_forward *forward)
{
    for (size_t i = 0; i < projection->serving->n_forwards; i++) {
        const struct kern_forward *other = &projection->serving->forwards[i];
        if (other->groups == forward->groups && other->rows == forward->rows) {
            kern_place_fail(projection->diag, "P22", program->order, place,
                            "the program \"%s\" takes as many sequences of as many rows; nothing "
                            "says which of the two to call",
                            projection->manifest->programs[other->program].name);
            return;
        }
    }
}

// P23 and P24.
static void check_any(struct kern_projection *projection, enum kern_serving_mode mode)
{
    const struct kern_serving *serving = projection->serving;
    struct kern_place programs = kern_place_member(NULL, "programs");
    bool samples = mode == KERN_SERVING_UNSAMPLED;
    for (size_t i = 0; i < serving->n_forwards; i++)
        samples = samples || serving->forwards[i].tokens != KERN_NONE;
    if (serving->n_forwards == 0)
        kern_place_fail(projection->diag, "P23", 0, &programs,
                        "none has a batch, so none steps sequences");
    else if (!samples)
        kern_place_fail(projection->diag, "P24", 0, &programs,
                        "none with a batch writes an output with the role tokens, so nothing would "
                        "be generated");
}

void kern_project_forwards(struct kern_projection *projection, enum kern_serving_mode mode)
{
    const struct kern_manifest *manifest = projection->manifest;
    struct kern_serving *serving = projection->serving;
    struct kern_place programs = kern_place_member(NULL, "programs");
    struct kern_forward *forwards =
        kern_arena_array(&serving->arena, manifest->n_programs, sizeof *forwards);
    serving->forwards = forwards;
    for (uint32_t p = 0; p < manifest->n_programs; p++) {
        const struct kern_program *program = &manifest->programs[p];
        if (!program->batch)
            continue;
        struct kern_place place = kern_place_member(&programs, program->name);
        struct kern_place batch = kern_place_member(&place, "batch");
        struct kern_forward forward = {
            .program = p,
            .groups = program->batch->groups,
            .rows = program->batch->rows.var.name ? KERN_ROWS_VAR : program->batch->rows.extent,
            .tokens = KERN_NONE,
            .count = KERN_NONE,
        };
        check_rows(projection, program, &batch);
        check_groups(projection, program, &batch);
        check_context(projection, program, &batch);
        find_written(projection, program, &place, &forward);
        check_tokens(projection, program, &place, &forward);
        check_shape(projection, program, &batch, &forward);
        forwards[serving->n_forwards++] = forward;
    }
    check_any(projection, mode);
}
