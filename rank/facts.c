// SPDX-License-Identifier: Apache-2.0
//
// Figures of a rank for reports.
#include "rank/internal.h"

// Adds the bytes of one operand of a call at [vars]: what lies behind its offset, once for each
// direction. What a state's operand spans is known to its kernels only: it counts nothing.
static bool add_operand(const struct kern_manifest *manifest, const struct kern_value *arg,
                        const struct kern_param *param, const uint64_t *vars, uint64_t *total)
{
    if (arg->kind != KERN_VALUE_BUFFER) {
        return true;
    }
    const struct kern_buffer *buffer = &manifest->buffers[arg->ref.index];
    uint64_t bytes = 0;
    if (!kern_shape_bytes(buffer->dtype, buffer->shape, buffer->rank, vars, &bytes)) {
        return false;
    }
    bytes = arg->offset < bytes ? bytes - arg->offset : 0;
    uint64_t directions = param->direction == KERN_BOTH ? 2 : 1;
    return !__builtin_mul_overflow(bytes, directions, &bytes) &&
           !__builtin_add_overflow(*total, bytes, total);
}

bool kern_rank_program_facts(const struct kern_rank *rank, uint32_t program, const uint64_t *vars,
                             struct kern_program_facts *facts, struct kern_diag *diag)
{
    const struct kern_manifest *manifest = rank->manifest;
    if (rank->programs == NULL || program >= manifest->n_programs) {
        return kern_fail(diag, KERN_EXIT_USAGE, NULL, "there is no compiled program %u", program);
    }
    const struct rank_program *compiled = &rank->programs[program];
    uint64_t bytes = 0;
    for (size_t c = 0; c < compiled->declared->n_calls; c++) {
        const struct kern_call *call = &compiled->declared->calls[c];
        const struct kern_op *op = &manifest->ops[call->op.index];
        for (size_t a = 0; a < call->n_args; a++) {
            if (!add_operand(manifest, &call->args[a], &op->params[a], vars, &bytes)) {
                return kern_fail(diag, KERN_EXIT_MANIFEST, compiled->place,
                                 "the bytes of call %zu exceed 2^64 at these vars", c);
            }
        }
    }
    *facts = (struct kern_program_facts){
        .launches = compiled->n_launches,
        .bytes = bytes,
        .graph = rank_graph_wanted(rank, compiled),
        .reads_var = compiled->reads_var,
        .touches_buffer = compiled->touches_buffer,
    };
    return true;
}

void kern_rank_memory(const struct kern_rank *rank, struct kern_rank_memory *memory)
{
    *memory = rank->memory;
}
