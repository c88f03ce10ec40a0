// SPDX-License-Identifier: Apache-2.0
//
// Weights placed on the host lie in memory that the ranks of a node share; who made it is not known
// here.
#include "rank/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

void rank_host_weights_list(struct kern_rank *rank)
{
    const struct kern_manifest *manifest = rank->manifest;
    rank->host_weights =
        kern_arena_array(&rank->arena, manifest->n_buffers, sizeof(*rank->host_weights));
    for (uint32_t b = 0; b < manifest->n_buffers; b++) {
        const struct kern_buffer *buffer = &manifest->buffers[b];
        if (buffer->placement == KERN_ON_HOST) {
            rank->host_weights[rank->n_host_weights++] = (struct kern_host_weight){
                .buffer = b, .name = buffer->name, .bytes = buffer->bytes};
        }
    }
}

size_t kern_rank_host_weights(const struct kern_rank *rank, const struct kern_host_weight **weights)
{
    *weights = rank->host_weights;
    return rank->n_host_weights;
}

bool kern_rank_adopt_host_weight(struct kern_rank *rank, uint32_t buffer, void *memory, bool fill,
                                 struct kern_diag *diag)
{
    const struct kern_buffer *declared = &rank->manifest->buffers[buffer];
    struct rank_buffer *own = rank->buffers != NULL ? &rank->buffers[buffer] : NULL;
    char what[RANK_WHAT];
    rank_print(what, "sharing the %llu bytes of buffer %s, which is on the host",
               (unsigned long long)declared->bytes, declared->name);
    if (own == NULL || own->host != NULL || declared->placement != KERN_ON_HOST) {
        return kern_fail(diag, KERN_EXIT_USAGE, what,
                         "memory is taken over once, after allocation, for a weight on the host");
    }
    if (!rank_enter(rank, diag) ||
        !KERN_CU(rank->device, diag, what, cuMemHostRegister, memory, declared->bytes,
                 CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP)) {
        return false;
    }
    if (!KERN_CU(rank->device, diag, what, cuMemHostGetDevicePointer, &own->address, memory, 0)) {
        rank->device->cu.cuMemHostUnregister(memory);
        return false;
    }
    own->host = memory;
    own->fill = fill;
    return true;
}

bool rank_host_weights_adopted(const struct kern_rank *rank, struct kern_diag *diag)
{
    for (size_t i = 0; i < rank->n_host_weights; i++) {
        if (rank->buffers[rank->host_weights[i].buffer].host == NULL) {
            return kern_fail(diag, KERN_EXIT_USAGE, rank->host_weights[i].name,
                             "is a weight on the host, which needs memory before programs are "
                             "compiled");
        }
    }
    return true;
}

bool rank_host_weights_protect(const struct kern_rank *rank, struct kern_diag *diag)
{
    for (size_t i = 0; i < rank->n_host_weights; i++) {
        const struct kern_host_weight *weight = &rank->host_weights[i];
        if (mprotect(rank->buffers[weight->buffer].host, weight->bytes, PROT_READ) != 0) {
            return kern_fail(diag, KERN_EXIT_DEVICE, weight->name,
                             "cannot be protected from being written to: %s", strerror(errno));
        }
    }
    return true;
}

void rank_host_weight_free(const struct kern_rank *rank, uint32_t buffer)
{
    rank->device->cu.cuMemHostUnregister(rank->buffers[buffer].host);
    munmap(rank->buffers[buffer].host, rank->manifest->buffers[buffer].bytes);
}
