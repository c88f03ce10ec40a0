// SPDX-License-Identifier: Apache-2.0
//
// V-SHAPE: shapes of buffers and scratch, and the bytes they take with the vars at their max. A
// shape that breaks the rule leaves the bytes at 0, which no sound one has: the size is unknown.
#include "manifest/verify.h"

static uint64_t check_shape(struct kern_verify *verify, enum kern_dtype dtype,
                            const struct kern_dim *shape, size_t rank, uint64_t order,
                            const struct kern_place *owner)
{
    struct kern_place place = kern_place_member(owner, "shape");
    if (rank == 0) {
        kern_place_fail(verify->diag, "V-SHAPE", order, &place,
                        "the shape is empty; a single element is [1]");
        return 0;
    }
    bool sound = true;
    for (size_t i = 0; i < rank; i++) {
        struct kern_place extent = kern_place_element(&place, i);
        if (shape[i].var.name)
            sound = sound && shape[i].var.index != KERN_NONE;
        else if (shape[i].extent == 0)
            sound = kern_place_fail(verify->diag, "V-SHAPE", order, &extent,
                                    "the extent is 0; it must be at least 1");
    }
    uint64_t bytes = 0;
    if (sound && !kern_shape_bytes(dtype, shape, rank, verify->high, &bytes)) {
        kern_place_fail(verify->diag, "V-SHAPE", order, &place,
                        "the size exceeds 64 bits with the vars at their max");
        bytes = 0;
    }
    return bytes;
}

void kern_rules_shape(struct kern_verify *verify)
{
    const struct kern_manifest *manifest = verify->manifest;
    struct kern_place buffers = kern_place_member(NULL, "buffers");
    for (uint32_t i = 0; i < manifest->n_buffers; i++) {
        struct kern_buffer *buffer = kern_rewrite(&manifest->buffers[i]);
        struct kern_place place = kern_place_member(&buffers, buffer->name);
        buffer->bytes =
            check_shape(verify, buffer->dtype, buffer->shape, buffer->rank, buffer->order, &place);
    }
    struct kern_place ops = kern_place_member(NULL, "ops");
    for (uint32_t i = 0; i < manifest->n_ops; i++) {
        const struct kern_op *op = &manifest->ops[i];
        struct kern_place op_place = kern_place_member(&ops, op->name);
        struct kern_place impl = kern_place_member(&op_place, "impl");
        struct kern_place scratches = kern_place_member(&impl, "scratch");
        for (size_t j = 0; j < op->n_scratch; j++) {
            struct kern_scratch *scratch = kern_rewrite(&op->scratch[j]);
            struct kern_place place = kern_place_member(&scratches, scratch->name);
            scratch->bytes = check_shape(verify, scratch->dtype, scratch->shape, scratch->rank,
                                         scratch->order, &place);
        }
    }
}
