// SPDX-License-Identifier: Apache-2.0
//
// What a rank shows to its peers and what it is told of theirs.
#include "rank/internal.h"

#include <string.h>

#include "manifest/footprint.h"

static void add_export(struct kern_rank *rank, enum kern_target target, uint32_t index,
                       const char *name, uint64_t bytes, const struct kern_mapping *mapping)
{
    rank->exports[rank->n_exports++] = (struct kern_export){
        .target = target,
        .index = index,
        .name = name,
        .address = mapping->address,
        .bytes = bytes,
        .mapped = mapping->mapped,
        .handle = mapping->handle,
    };
}

// Buffers and states are each in order of their names, so the two lists are merged.
void rank_exports_list(struct kern_rank *rank)
{
    const struct kern_manifest *manifest = rank->manifest;
    size_t most = (size_t)manifest->n_buffers + manifest->n_states;
    rank->exports = kern_arena_array(&rank->arena, most, sizeof(*rank->exports));
    rank->n_exports = 0;
    uint32_t b = 0, s = 0;
    for (;;) {
        while (b < manifest->n_buffers &&
               (!manifest->buffers[b].exported || rank->buffers[b].arrives)) {
            b++;
        }
        while (s < manifest->n_states && !kern_state_is_exported(manifest, s)) {
            s++;
        }
        bool buffer_left = b < manifest->n_buffers, state_left = s < manifest->n_states;
        if (!buffer_left && !state_left) {
            return;
        }
        if (buffer_left &&
            (!state_left || strcmp(manifest->buffers[b].name, manifest->states[s].name) <= 0)) {
            add_export(rank, KERN_TARGET_BUFFER, b, manifest->buffers[b].name,
                       manifest->buffers[b].bytes, &rank->buffers[b].mapping);
            b++;
        } else {
            add_export(rank, KERN_TARGET_STATE, s, manifest->states[s].name, rank->states[s].bytes,
                       &rank->states[s].mapping);
            s++;
        }
    }
}

size_t kern_rank_exports(const struct kern_rank *rank, const struct kern_export **exports)
{
    *exports = rank->exports;
    return rank->n_exports;
}

bool kern_rank_fill_peer(struct kern_rank *rank, uint32_t buffer, const CUdeviceptr *addresses,
                         size_t count, struct kern_diag *diag)
{
    const struct kern_buffer *peer = &rank->manifest->buffers[buffer];
    char what[RANK_WHAT];
    rank_print(what, "filling peer buffer %s", peer->name);
    if (peer->kind != KERN_PEER || count != rank->manifest->groups[peer->group.index].size) {
        return kern_fail(diag, KERN_EXIT_PEER, what,
                         "%zu addresses were given for a %s buffer of %llu bytes; a peer buffer "
                         "takes one for each member of its group",
                         count, kern_buffer_kind_name(peer->kind), (unsigned long long)peer->bytes);
    }
    for (size_t i = 0; i < count; i++) {
        if (addresses[i] == 0) {
            return kern_fail(diag, KERN_EXIT_PEER, what, "member %zu of group %s has no address", i,
                             peer->group.name);
        }
    }
    if (!rank_enter(rank, diag) ||
        !KERN_CU(rank->device, diag, what, cuMemcpyHtoDAsync, rank->buffers[buffer].address,
                 addresses, count * sizeof(*addresses), rank->stream) ||
        !rank_synchronize(rank, what, diag)) {
        return false;
    }
    rank->buffers[buffer].filled = true;
    return true;
}
