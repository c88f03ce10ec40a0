// SPDX-License-Identifier: Apache-2.0
//
// Memory of buffers and of ops' scratch, and the order in which all memory of a rank is taken and
// given back.
#include "rank/internal.h"

bool rank_zero(const struct kern_rank *rank, CUdeviceptr address, uint64_t bytes, const char *what,
               struct kern_diag *diag)
{
    return KERN_CU(rank->device, diag, what, cuMemsetD8Async, address, 0, bytes, rank->stream);
}

// What kern_rank_memory counts a buffer of this kind under; NULL: it has no memory of its own.
static uint64_t *account(struct kern_rank *rank, const struct kern_buffer *buffer)
{
    switch (buffer->kind) {
    case KERN_INPUT:
    case KERN_OUTPUT:
    case KERN_INOUT:
        return &rank->memory.io;
    case KERN_WEIGHT:
        return &rank->memory.weights;
    case KERN_WORKSPACE:
        return &rank->memory.workspace;
    case KERN_CARRY:
        return &rank->memory.carry;
    case KERN_PEER:
        return &rank->memory.peer;
    case KERN_SOURCE:
        break;
    }
    return NULL;
}

// Of the blocks of page-locked memory: a cache line.
#define BLOCK_ALIGNMENT 64

// Page-locked memory that inputs are written from and outputs are read to.
static bool allocate_staging(struct kern_rank *rank, const struct kern_buffer *buffer,
                             struct rank_buffer *memory, struct kern_diag *diag)
{
    char what[RANK_WHAT];
    bool output = buffer->kind == KERN_OUTPUT;
    bool single = output && !rank_keeps(rank, buffer);
    uint32_t blocks = single ? 1 : rank->most_in_flight;
    rank_print(what, "allocating %u times %llu bytes of page-locked host memory for buffer %s",
               blocks, (unsigned long long)buffer->bytes, buffer->name);
    uint64_t bytes = 0;
    if (__builtin_add_overflow(buffer->bytes, BLOCK_ALIGNMENT - 1, &memory->block) ||
        __builtin_mul_overflow(memory->block -= memory->block % BLOCK_ALIGNMENT, blocks, &bytes)) {
        return kern_fail(diag, KERN_EXIT_DEVICE, what, "they exceed 2^64 bytes");
    }
    void *staging = NULL;
    if (!KERN_CU(rank->device, diag, what, cuMemHostAlloc, &staging, bytes, 0)) {
        return false;
    }
    memory->staging = staging;
    if (output) {
        return true;
    }
    memory->staged = kern_arena_array(&rank->arena, blocks, sizeof(*memory->staged));
    for (uint32_t i = 0; i < blocks; i++) {
        if (!KERN_CU(rank->device, diag, what, cuEventCreate, &memory->staged[i],
                     CU_EVENT_DISABLE_TIMING)) {
            return false;
        }
    }
    return true;
}

static bool allocate_buffer(struct kern_rank *rank, const struct kern_buffer *buffer,
                            struct rank_buffer *memory, struct kern_diag *diag)
{
    char what[RANK_WHAT];
    rank_print(what, "allocating %llu bytes for buffer %s", (unsigned long long)buffer->bytes,
               buffer->name);
    uint64_t counted = buffer->bytes;
    if (buffer->exported) {
        char name[RANK_WHAT];
        rank_print(name, "buffer %s", buffer->name);
        if (!kern_vmm_create(rank->device, rank->ordinal, rank->handle_kind, buffer->bytes, name,
                             &memory->mapping, diag)) {
            return false;
        }
        memory->address = memory->mapping.address;
        counted = memory->mapping.mapped;
        rank->memory.exported += counted;
    } else if (!KERN_CU(rank->device, diag, what, cuMemAlloc, &memory->address, buffer->bytes)) {
        return false;
    }
    *account(rank, buffer) += counted;
    // Of a granule only what the buffer has: a thousand small buffers have gigabytes of granules.
    rank_print(what, "zeroing buffer %s", buffer->name);
    if (!rank_zero(rank, memory->address, buffer->bytes, what, diag)) {
        return false;
    }
    bool staged =
        buffer->kind == KERN_INPUT || buffer->kind == KERN_OUTPUT || buffer->kind == KERN_INOUT;
    return !staged || allocate_staging(rank, buffer, memory, diag);
}

static bool allocate_buffers(struct kern_rank *rank, struct kern_diag *diag)
{
    const struct kern_manifest *manifest = rank->manifest;
    rank->buffers = kern_arena_array(&rank->arena, manifest->n_buffers, sizeof(*rank->buffers));
    if (!rank_arrivals_allocate(rank, diag)) {
        return false;
    }
    for (uint32_t b = 0; b < manifest->n_buffers; b++) {
        const struct kern_buffer *buffer = &manifest->buffers[b];
        if (buffer->kind != KERN_SOURCE && buffer->placement != KERN_ON_HOST &&
            !rank->buffers[b].arrives && !allocate_buffer(rank, buffer, &rank->buffers[b], diag)) {
            return false;
        }
    }
    return true;
}

static void free_buffer(const struct kern_rank *rank, uint32_t buffer)
{
    const struct kern_cuda *cu = &rank->device->cu;
    struct rank_buffer *memory = &rank->buffers[buffer];
    for (uint32_t i = 0; memory->staged != NULL && i < rank->most_in_flight; i++) {
        if (memory->staged[i] != NULL) {
            cu->cuEventDestroy(memory->staged[i]);
        }
    }
    if (memory->staging != NULL) {
        cu->cuMemFreeHost(memory->staging);
    }
    if (memory->host != NULL) {
        rank_host_weight_free(rank, buffer);
    } else if (memory->mapping.mapped != 0) {
        kern_vmm_destroy(rank->device, &memory->mapping);
    } else if (memory->address != 0 && !memory->arrives) {
        cu->cuMemFree(memory->address);
    }
    *memory = (struct rank_buffer){0};
}

static bool allocate_scratch(struct kern_rank *rank, struct kern_diag *diag)
{
    const struct kern_manifest *manifest = rank->manifest;
    rank->scratch = kern_arena_array(&rank->arena, manifest->n_ops, sizeof(*rank->scratch));
    for (uint32_t o = 0; o < manifest->n_ops; o++) {
        const struct kern_op *op = &manifest->ops[o];
        rank->scratch[o] = kern_arena_array(&rank->arena, op->n_scratch, sizeof(**rank->scratch));
        for (size_t s = 0; s < op->n_scratch; s++) {
            uint64_t bytes = op->scratch[s].bytes;
            char what[RANK_WHAT];
            rank_print(what, "allocating %llu bytes for scratch %s of op %s",
                       (unsigned long long)bytes, op->scratch[s].name, op->name);
            if (!KERN_CU(rank->device, diag, what, cuMemAlloc, &rank->scratch[o][s], bytes) ||
                !rank_zero(rank, rank->scratch[o][s], bytes, what, diag)) {
                return false;
            }
            rank->memory.scratch += bytes;
        }
    }
    return true;
}

static void free_scratch(struct kern_rank *rank)
{
    for (uint32_t o = 0; rank->scratch != NULL && o < rank->manifest->n_ops; o++) {
        for (size_t s = 0; rank->scratch[o] != NULL && s < rank->manifest->ops[o].n_scratch; s++) {
            if (rank->scratch[o][s] != 0) {
                rank->device->cu.cuMemFree(rank->scratch[o][s]);
            }
        }
    }
    rank->scratch = NULL;
}

bool kern_rank_allocate(struct kern_rank *rank, enum kern_handle_kind kind, struct kern_diag *diag)
{
    rank->handle_kind = kind;
    bool ok = rank_enter(rank, diag) && allocate_buffers(rank, diag) &&
              allocate_scratch(rank, diag) && rank_states_allocate(rank, diag) &&
              rank_sources_allocate(rank, diag) &&
              rank_synchronize(rank, "zeroing the rank's memory", diag);
    if (!ok) {
        // What was queued must not find its memory gone.
        rank->device->cu.cuStreamSynchronize(rank->stream);
        rank_memory_free(rank);
        return false;
    }
    rank_exports_list(rank);
    rank->allocated = true;
    return true;
}

void rank_memory_free(struct kern_rank *rank)
{
    rank_sources_free(rank);
    rank_states_free(rank);
    free_scratch(rank);
    for (uint32_t b = 0; rank->buffers != NULL && b < rank->manifest->n_buffers; b++) {
        free_buffer(rank, b);
    }
    rank->buffers = NULL;
    rank_arrivals_free(rank);
    rank->allocated = false;
    rank->memory = (struct kern_rank_memory){0};
    rank->n_exports = 0;
}
