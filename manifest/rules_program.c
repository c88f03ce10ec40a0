// SPDX-License-Identifier: Apache-2.0
//
// V-PROGRAM: what a program is for and what shape a call of it has.
#include <inttypes.h>

#include "manifest/verify.h"

static bool has_axis(const struct kern_manifest *manifest, enum kern_axis axis)
{
    for (uint32_t i = 0; i < manifest->n_vars; i++)
        if (manifest->vars[i].axis == axis)
            return true;
    return false;
}

static bool has_fill(const struct kern_manifest *manifest, enum kern_fill fill)
{
    for (uint32_t i = 0; i < manifest->n_buffers; i++)
        if (manifest->buffers[i].fill == fill)
            return true;
    return false;
}

static void check_batch(struct kern_verify *verify, const struct kern_program *program,
                        bool packs_sequences, const struct kern_place *program_place)
{
    const struct kern_batch *batch = program->batch;
    struct kern_place place = kern_place_member(program_place, "batch");
    struct kern_place groups = kern_place_member(&place, "groups");
    struct kern_place rows = kern_place_member(&place, "rows");
    if (batch->groups == 0)
        kern_place_fail(verify->diag, "V-PROGRAM", program->order, &groups,
                        "a call of 0 sequences; it must cover at least 1");
    if (!batch->rows.var.name && batch->rows.extent == 0)
        kern_place_fail(verify->diag, "V-PROGRAM", program->order, &rows,
                        "0 rows per sequence; there must be at least 1");
    if (batch->rows.var.name && batch->groups > 1 && !packs_sequences)
        kern_place_fail(verify->diag, "V-PROGRAM", program->order, &groups,
                        "%" PRIu64 " sequences of \"%s\" rows; without an input with the role "
                        "cu_seqlens to tell them apart it must be 1",
                        batch->groups, batch->rows.var.name);
}

static void check_axes(struct kern_verify *verify, const struct kern_program *first)
{
    struct kern_place programs = kern_place_member(NULL, "programs");
    struct kern_place program = kern_place_member(&programs, first->name);
    struct kern_place batch = kern_place_member(&program, "batch");
    bool rows = has_axis(verify->manifest, KERN_AXIS_ROWS);
    bool groups = has_axis(verify->manifest, KERN_AXIS_GROUPS);
    if (!rows || !groups)
        kern_place_fail(verify->diag, "V-PROGRAM", first->order, &batch,
                        "a program with a batch needs a var with the axis \"rows\" and one with "
                        "\"groups\"; %s missing",
                        rows     ? "\"groups\" is"
                        : groups ? "\"rows\" is"
                                 : "both are");
}

void kern_rules_program(struct kern_verify *verify)
{
    const struct kern_manifest *manifest = verify->manifest;
    struct kern_place programs = kern_place_member(NULL, "programs");
    const struct kern_program *first = NULL; // with a batch, in document order
    bool packs_sequences = has_fill(manifest, KERN_FILL_CU_SEQLENS);
    if (manifest->n_programs == 0)
        kern_place_fail(verify->diag, "V-PROGRAM", 0, &programs,
                        "there is no program, so nothing can run");
    for (uint32_t i = 0; i < manifest->n_programs; i++) {
        const struct kern_program *program = &manifest->programs[i];
        struct kern_place place = kern_place_member(&programs, program->name);
        struct kern_place graph = kern_place_member(&place, "graph");
        if (program->once + program->derive + (program->batch != NULL) > 1)
            kern_place_fail(verify->diag, "V-PROGRAM", program->order, &place,
                            "once, derive and batch exclude each other; the program has%s%s%s",
                            program->once ? " once" : "", program->derive ? " derive" : "",
                            program->batch ? " batch" : "");
        if (program->graph && !program->batch)
            kern_place_fail(verify->diag, "V-PROGRAM", program->order, &graph,
                            "only a program with a batch is driven through a graph");
        if (!program->batch)
            continue;
        check_batch(verify, program, packs_sequences, &place);
        if (!first || program->order < first->order)
            first = program;
    }
    if (first)
        check_axes(verify, first);
}
