// SPDX-License-Identifier: Apache-2.0
#include "rank/rank.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "rank/internal.h"

// The config's arrays are copied: a rank outlives the call that made it.
static void copy_config(struct kern_rank *rank, const struct kern_rank_config *config)
{
    uint32_t n_groups = config->manifest->n_groups;
    uint32_t *group_index = kern_arena_array(&rank->arena, n_groups, sizeof(*group_index));
    for (uint32_t g = 0; g < n_groups; g++) {
        group_index[g] = config->group_index[g];
    }
    const char **dirs = kern_arena_array(&rank->arena, config->n_kernel_dirs, sizeof(*dirs));
    for (size_t i = 0; i < config->n_kernel_dirs; i++) {
        dirs[i] =
            kern_arena_copy(&rank->arena, config->kernel_dirs[i], strlen(config->kernel_dirs[i]));
    }
    rank->communicators = kern_arena_array(&rank->arena, n_groups, sizeof(*rank->communicators));
    rank->device = config->device;
    rank->manifest = config->manifest;
    rank->ordinal = config->ordinal;
    rank->group_index = group_index;
    rank->kernel_dirs = dirs;
    rank->n_kernel_dirs = config->n_kernel_dirs;
    rank->digests = config->digests;
    rank->scan_multicast = config->scan_multicast;
    rank->capacity = config->capacity;
    rank->seqs = config->seqs;
    rank->graph_use = config->graphs;
    rank->local_ranks = config->local_ranks > 0 ? config->local_ranks : 1;
    rank->keep_tokens = config->keep_tokens;
    rank->progress = config->progress;
    rank->most_in_flight = config->in_flight > 0 ? config->in_flight : 1;
    rank->items = kern_arena_array(&rank->arena, rank->most_in_flight, sizeof(*rank->items));
    rank->arrivals.slots = config->arrivals;
    rank_host_weights_list(rank);
}

static bool check_groups(const struct kern_rank_config *config, struct kern_diag *diag)
{
    for (uint32_t g = 0; g < config->manifest->n_groups; g++) {
        const struct kern_group *group = &config->manifest->groups[g];
        if (config->group_index[g] >= group->size) {
            return kern_fail(diag, KERN_EXIT_USAGE, NULL,
                             "this rank is member %u of group %s, which has members 0 to %llu",
                             config->group_index[g], group->name,
                             (unsigned long long)group->size - 1);
        }
    }
    return true;
}

struct kern_rank *kern_rank_create(const struct kern_rank_config *config, struct kern_diag *diag)
{
    if (!check_groups(config, diag)) {
        return NULL;
    }
    struct kern_rank *rank = kern_calloc(1, sizeof(*rank));
    copy_config(rank, config);
    if (!rank_context_open(rank, diag)) {
        kern_arena_free(&rank->arena);
        free(rank);
        return NULL;
    }
    return rank;
}

void kern_rank_destroy(struct kern_rank *rank, bool abandon)
{
    if (rank == NULL) {
        return;
    }
    // Almost everything in the driver that gives memory or code back waits for the kernels first.
    // If those may never end, the driver's objects are left to the end of the process.
    rank_gemms_free(rank);
    if (!abandon) {
        rank->device->cu.cuCtxSetCurrent(rank->context);
        rank->device->cu.cuStreamSynchronize(rank->stream);
        rank_blas_close(rank);
        rank_graphs_destroy(rank);
        rank_timing_close(rank);
        rank_memory_free(rank);
        rank_modules_unload(rank);
        rank_context_close(rank);
    }
    rank_leases_close(rank);
    rank_pool_forget(&rank->pool);
    rank_checkpoint_close(rank);
    rank_graphs_free(rank->graphs);
    free(rank->modules.handles);
    free(rank->modules.artifact);
    free(rank->modules.functions);
    kern_arena_free(&rank->arena);
    free(rank);
}
