// SPDX-License-Identifier: Apache-2.0
//
// Loading a checkpoint: weights go where they stay, sources into their windows just before the
// first call that reads them, and the derive programs run call by call in between.
#include "rank/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "rank/weights.h"

// One buffer is assembled while the other one is being copied.
#define N_SLOTS 2

struct loader {
    struct kern_rank *rank;
    const struct kern_safetensors *checkpoint;
    void *slots[N_SLOTS]; // page-locked, each as large as the largest buffer
    CUevent copied[N_SLOTS];
    unsigned next;
};

static bool is_source_in_use(const struct kern_rank *rank, uint32_t buffer)
{
    return rank->manifest->buffers[buffer].kind == KERN_SOURCE &&
           rank->buffers[buffer].address != 0;
}

static bool is_weight(const struct kern_rank *rank, uint32_t buffer)
{
    return rank->manifest->buffers[buffer].kind == KERN_WEIGHT;
}

static uint64_t largest_upload(const struct kern_rank *rank)
{
    uint64_t largest = 0;
    for (uint32_t b = 0; b < rank->manifest->n_buffers; b++) {
        bool uploaded =
            is_source_in_use(rank, b) || (is_weight(rank, b) && rank->buffers[b].host == NULL);
        if (uploaded && rank->manifest->buffers[b].bytes > largest) {
            largest = rank->manifest->buffers[b].bytes;
        }
    }
    return largest;
}

static bool loader_open(struct loader *loader, struct kern_diag *diag)
{
    const struct kern_device *device = loader->rank->device;
    uint64_t bytes = largest_upload(loader->rank);
    char what[RANK_WHAT];
    rank_print(what, "allocating %llu bytes of page-locked host memory to load weights",
               (unsigned long long)bytes);
    for (int s = 0; bytes > 0 && s < N_SLOTS; s++) {
        if (!KERN_CU(device, diag, what, cuMemHostAlloc, &loader->slots[s], bytes, 0) ||
            !KERN_CU(device, diag, what, cuEventCreate, &loader->copied[s],
                     CU_EVENT_DISABLE_TIMING)) {
            return false;
        }
    }
    return true;
}

static void loader_close(struct loader *loader)
{
    const struct kern_cuda *cu = &loader->rank->device->cu;
    for (int s = 0; s < N_SLOTS; s++) {
        if (loader->copied[s] != NULL) {
            cu->cuEventDestroy(loader->copied[s]);
        }
        if (loader->slots[s] != NULL) {
            cu->cuMemFreeHost(loader->slots[s]);
        }
    }
}

static bool assemble(const struct loader *loader, uint32_t buffer, void *bytes,
                     struct kern_diag *diag)
{
    const struct kern_rank *rank = loader->rank;
    return kern_weights_assemble(rank->manifest, &rank->manifest->buffers[buffer],
                                 rank->group_index, loader->checkpoint, bytes, diag);
}

static bool upload(struct loader *loader, uint32_t buffer, struct kern_diag *diag)
{
    const struct kern_rank *rank = loader->rank;
    const struct kern_buffer *declared = &rank->manifest->buffers[buffer];
    unsigned slot = loader->next++ % N_SLOTS;
    char what[RANK_WHAT];
    rank_print(what, "loading buffer %s", declared->name);
    return KERN_CU(rank->device, diag, what, cuEventSynchronize, loader->copied[slot]) &&
           assemble(loader, buffer, loader->slots[slot], diag) &&
           KERN_CU(rank->device, diag, what, cuMemcpyHtoDAsync, rank->buffers[buffer].address,
                   loader->slots[slot], declared->bytes, rank->stream) &&
           KERN_CU(rank->device, diag, what, cuEventRecord, loader->copied[slot], rank->stream);
}

static bool load_weight_buffers(struct loader *loader, struct kern_diag *diag)
{
    const struct kern_rank *rank = loader->rank;
    for (uint32_t b = 0; b < rank->manifest->n_buffers; b++) {
        void *host = rank->buffers[b].host;
        if (is_weight(rank, b) &&
            !(host != NULL ? assemble(loader, b, host, diag) : upload(loader, b, diag))) {
            return false;
        }
    }
    return true;
}

// The stream orders an upload after the calls that read what lay in the window before.
static bool run_derive_programs(struct loader *loader, const uint64_t *vars, struct kern_diag *diag)
{
    struct kern_rank *rank = loader->rank;
    const struct rank_sources *sources = &rank->sources;
    size_t call = 0, window = 0;
    for (uint32_t p = 0; p < rank->manifest->n_programs; p++) {
        struct rank_program *program = &rank->programs[p];
        if (program->declared->derive && !rank_program_fit(rank, program, vars, diag)) {
            return false;
        }
        for (size_t c = 0; program->declared->derive && c < program->declared->n_calls;
             c++, call++) {
            for (; window < sources->count && sources->windows[window].first_call == call;
                 window++) {
                if (!upload(loader, sources->windows[window].buffer, diag)) {
                    return false;
                }
            }
            if (!rank_launch_range(rank, program, program->call_first[c],
                                   program->call_first[c + 1], vars, diag)) {
                return false;
            }
        }
    }
    return rank_synchronize(rank, "loading weights and running the derive programs", diag);
}

static bool load_all(struct loader *loader, struct kern_diag *diag)
{
    const struct kern_manifest *manifest = loader->rank->manifest;
    uint64_t *vars = kern_calloc(manifest->n_vars + 1, sizeof(*vars));
    for (uint32_t v = 0; v < manifest->n_vars; v++) {
        vars[v] = 1;
    }
    bool ok = loader_open(loader, diag) && load_weight_buffers(loader, diag) &&
              run_derive_programs(loader, vars, diag);
    if (!ok) {
        // Copies out of the slots may still be on their way.
        loader->rank->device->cu.cuStreamSynchronize(loader->rank->stream);
    }
    loader_close(loader);
    free(vars);
    return ok;
}

static size_t count_bound(const struct kern_manifest *manifest)
{
    size_t count = 0;
    for (uint32_t b = 0; b < manifest->n_buffers; b++) {
        count += manifest->buffers[b].n_bind > 0;
    }
    return count;
}

bool kern_rank_load_weights(struct kern_rank *rank, const char *const *paths, size_t n_paths,
                            struct kern_diag *diag)
{
    if (rank->programs == NULL || rank->weights_loaded) {
        return kern_fail(diag, KERN_EXIT_USAGE, NULL,
                         "weights are loaded once, after the programs are compiled");
    }
    struct loader loader = {.rank = rank};
    struct kern_safetensors *checkpoint = NULL;
    size_t n_bound = count_bound(rank->manifest);
    if (n_bound > 0) {
        if (n_paths == 0) {
            return kern_fail(diag, KERN_EXIT_USAGE, NULL,
                             "%zu buffers are bound to tensors of a checkpoint and none was given",
                             n_bound);
        }
        checkpoint = kern_safetensors_open(paths, n_paths, diag);
        if (checkpoint == NULL) {
            return false;
        }
    }
    loader.checkpoint = checkpoint;
    bool ok =
        rank_enter(rank, diag) &&
        (n_bound == 0 || kern_weights_check(rank->manifest, rank->group_index, checkpoint, diag)) &&
        load_all(&loader, diag);
    kern_safetensors_close(checkpoint);
    if (ok) {
        rank_sources_free(rank);
        rank->weights_loaded = true;
    }
    return ok;
}
