// SPDX-License-Identifier: Apache-2.0
//
// What the stage before hands over lies in slots, which items use in turn: a stage that is ahead
// fills one while the calls of an earlier item read another. Programs are compiled once for every
// slot, so what arrives is read where it was put.
#include "rank/internal.h"

#include "manifest/arrivals.h"
#include "manifest/cut.h"

static bool count_bytes(const struct kern_rank *rank, uint64_t *bytes)
{
    const struct rank_arrivals *arrivals = &rank->arrivals;
    return !__builtin_mul_overflow(arrivals->slot_bytes, arrivals->slots, bytes) &&
           !__builtin_add_overflow(*bytes, KERN_ARRIVALS_HEAD, bytes);
}

bool rank_arrivals_allocate(struct kern_rank *rank, struct kern_diag *diag)
{
    const struct kern_manifest *manifest = rank->manifest;
    struct rank_arrivals *arrivals = &rank->arrivals;
    if (arrivals->slots == 0) {
        return true;
    }
    const char *what = "what arrives from the stage before";
    uint64_t *offsets = kern_arena_array(&rank->arena, manifest->n_buffers, sizeof(*offsets));
    uint64_t bytes = 0;
    if (!kern_arrivals_layout(manifest, offsets, &arrivals->slot_bytes) ||
        !count_bytes(rank, &bytes)) {
        return kern_fail(diag, KERN_EXIT_DEVICE, what, "%u slots of it exceed 2^64 bytes",
                         arrivals->slots);
    }
    if (!kern_vmm_create(rank->device, rank->ordinal, rank->handle_kind, bytes, what,
                         &arrivals->mapping, diag)) {
        return false;
    }
    rank->memory.exported += arrivals->mapping.mapped;
    rank->memory.io += arrivals->mapping.mapped;
    for (uint32_t b = 0; b < manifest->n_buffers; b++) {
        if (kern_manifest_arrives(manifest, &manifest->buffers[b])) {
            rank->buffers[b].arrives = true;
            rank->buffers[b].address = arrivals->mapping.address + KERN_ARRIVALS_HEAD + offsets[b];
        }
    }
    return rank_zero(rank, arrivals->mapping.address, arrivals->mapping.mapped, what, diag);
}

void rank_arrivals_free(struct kern_rank *rank)
{
    kern_vmm_destroy(rank->device, &rank->arrivals.mapping);
}

struct rank_program *rank_arrivals_program(const struct kern_rank *rank,
                                           struct rank_program *program, uint64_t item)
{
    if (!program->takes) {
        return program;
    }
    return program + item % rank->arrivals.slots * rank->manifest->n_programs;
}

CUdeviceptr kern_rank_address(const struct kern_rank *rank, uint32_t buffer, uint64_t item)
{
    const struct rank_buffer *memory = &rank->buffers[buffer];
    if (!memory->arrives) {
        return memory->address;
    }
    return memory->address + item % rank->arrivals.slots * rank->arrivals.slot_bytes;
}

bool kern_rank_arrivals(const struct kern_rank *rank, struct kern_mapping *mapping)
{
    *mapping = rank->arrivals.mapping;
    return rank->arrivals.slots > 0;
}

void kern_rank_set_hand_over(struct kern_rank *rank, const struct kern_hand_over *hand_over)
{
    rank->hand_over = *hand_over;
    rank->hands_over = true;
}

CUstream kern_rank_stream(const struct kern_rank *rank)
{
    return rank->stream;
}
