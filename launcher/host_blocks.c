// SPDX-License-Identifier: Apache-2.0
//
// The program as the host of its own host states: blocks of zeros, in place of what an embedding
// program would lend.
#include <inttypes.h>
#include <stdlib.h>

#include "base/memory.h"
#include "launcher/run.h"
#include "manifest/provision.h"

static bool lend(struct kern_run *run, uint32_t index, uint64_t blocks)
{
    const struct kern_state *state = &run->manifest->states[index];
    const struct kern_host_layout *host = state->host;
    struct kern_arena arena = {0};
    uint64_t bytes, *shape = kern_arena_array(&arena, host->rank, sizeof *shape);
    const char *what = kern_arena_print(&arena, "allocating %" PRIu64 " blocks for host state %s",
                                        blocks, state->name);
    for (size_t i = 0; i < host->rank; i++)
        shape[i] = i == 0 ? blocks : host->shape[i];
    CUdeviceptr *address = &run->host_blocks[index];
    bool good = (kern_host_bytes(host, blocks, &bytes) ||
                 kern_fail(&run->diag, KERN_EXIT_USAGE, what, "they span 2^64 bytes or more")) &&
                KERN_CU(run->device, &run->diag, what, cuMemAlloc, address, bytes) &&
                KERN_CU(run->device, &run->diag, what, cuMemsetD8Async, *address, 0, bytes, NULL) &&
                KERN_CU(run->device, &run->diag, what, cuStreamSynchronize, NULL);
    struct kern_host_memory memory = {
        .address = *address,
        .dtype = host->dtype,
        .shape = shape,
        .strides = host->strides,
        .n = host->rank,
    };
    good = good && kern_rank_bind_host_state(run->rank, index, &memory, &run->diag);
    kern_arena_free(&arena);
    return good;
}

bool kern_run_lend_host_blocks(struct kern_run *run)
{
    const struct kern_manifest *manifest = run->manifest;
    run->host_blocks = kern_calloc(manifest->n_states, sizeof *run->host_blocks);
    for (uint32_t s = 0; s < manifest->n_states; s++) {
        const struct kern_host_layout *host = manifest->states[s].host;
        uint64_t blocks = host && host->shape[0] ? host->shape[0] : run->options.host_blocks;
        if (host && blocks == 0)
            return kern_fail(&run->diag, KERN_EXIT_USAGE, manifest->states[s].name,
                             "is a state with a host layout, whose memory its host lends; "
                             "--host-blocks N makes kern-rank its host");
        if (host && !lend(run, s, blocks))
            return false;
    }
    return true;
}

void kern_run_free_host_blocks(struct kern_run *run)
{
    for (uint32_t s = 0; run->host_blocks && s < run->manifest->n_states; s++)
        if (run->host_blocks[s])
            run->device->cu.cuMemFree(run->host_blocks[s]);
    free(run->host_blocks);
    run->host_blocks = NULL;
}
