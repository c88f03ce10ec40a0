// SPDX-License-Identifier: Apache-2.0
//
// Which kind of handle works between all ranks, found out by doing it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "fabric/fabric.h"
#include "fabric/fds.h"
#include "topo/watchdog.h"

// Whether [trial] says that this kind of handle is not to be had here, rather than that something
// broke. Without IMEX or a channel device, drivers answer with any of these.
static bool is_refusal(const struct kern_diag *trial)
{
    static const CUresult refusals[] = {
        CUDA_ERROR_NOT_SUPPORTED,  CUDA_ERROR_NOT_PERMITTED,    CUDA_ERROR_INVALID_VALUE,
        CUDA_ERROR_INVALID_DEVICE, CUDA_ERROR_OPERATING_SYSTEM, CUDA_ERROR_SYSTEM_NOT_READY,
        CUDA_ERROR_INVALID_HANDLE,
    };
    for (size_t i = 0; trial->count && i < sizeof refusals / sizeof *refusals; i++)
        if (trial->entries[0].library_code == (int)refusals[i])
            return true;
    return false;
}

static bool map_trial(const struct kern_world *world, const struct kern_device *device, int ordinal,
                      const struct kern_shareable *handle, uint64_t mapped, int owner,
                      struct kern_diag *diag)
{
    struct kern_mapping trial = {0};
    struct kern_arena arena = {0};
    const char *what = kern_arena_print(&arena, "the trial granule of rank %d (%s)", owner,
                                        world->members[owner].host);
    bool good = kern_vmm_import(device, ordinal, handle, mapped, what, &trial, diag);
    kern_vmm_destroy(device, &trial);
    kern_arena_free(&arena);
    return good;
}

// Offers a granule by fabric handle to the rank before us and maps that of the rank after us.
// Importing one's own handle would prove nothing about a peer's.
static void try_fabric(const struct kern_world *world, const struct kern_device *device,
                       int ordinal, struct kern_diag *diag)
{
    struct kern_mapping granule = {0};
    struct kern_shareable mine = {.kind = KERN_HANDLE_NONE}, theirs = {.kind = KERN_HANDLE_NONE};
    const char *what = "the trial of fabric handles";
    if (kern_vmm_create(device, ordinal, KERN_HANDLE_FABRIC, 1, what, &granule, diag))
        kern_vmm_export(device, &granule, KERN_HANDLE_FABRIC, what, &mine, diag);
    int before = (world->rank + world->size - 1) % world->size;
    int after = (world->rank + 1) % world->size;
    // Nobody returns before these: the others would wait for ever.
    KERN_WITH_OTHERS(world, "trying fabric handles",
                     MPI_Sendrecv(&mine, sizeof mine, MPI_BYTE, before, 0, &theirs, sizeof theirs,
                                  MPI_BYTE, after, 0, world->comm, MPI_STATUS_IGNORE));
    if (mine.kind != KERN_HANDLE_NONE && theirs.kind != KERN_HANDLE_NONE)
        map_trial(world, device, ordinal, &theirs, granule.mapped, after, diag);
    KERN_WITH_OTHERS(world, "trying fabric handles", MPI_Barrier(world->comm));
    kern_vmm_destroy(device, &granule);
}

// The processes of this node as a group, so that they can pass file descriptors.
static void node_as_group(const struct kern_world *world, struct kern_group_place *place)
{
    int node = world->members[world->rank].node;
    *place = (struct kern_group_place){.name = "of this node",
                                       .size = (uint32_t)world->local_size,
                                       .index = (uint32_t)world->local_rank,
                                       .comm = world->node_comm};
    place->members = kern_calloc(place->size, sizeof *place->members);
    for (int r = 0; r < world->size; r++)
        if (world->members[r].node == node)
            place->members[world->members[r].local_rank] = r;
}

// The same with file descriptors between the processes of each node.
static void try_descriptors(const struct kern_world *world, const struct kern_device *device,
                            int ordinal, struct kern_diag *diag)
{
    struct kern_group_place node;
    struct kern_mapping granule = {0};
    struct kern_shareable mine = {.kind = KERN_HANDLE_NONE, .fd = -1};
    struct kern_shareable theirs = {.kind = KERN_HANDLE_POSIX_FD, .fd = -1};
    struct kern_fds fds = {.listener = -1};
    const char *what = "the trial of file descriptors";
    node_as_group(world, &node);
    bool able = kern_vmm_create(device, ordinal, KERN_HANDLE_POSIX_FD, 1, what, &granule, diag) &&
                kern_vmm_export(device, &granule, KERN_HANDLE_POSIX_FD, what, &mine, diag) &&
                kern_fds_open(&fds, world, &node, diag);
    struct kern_fd_address *addresses = kern_calloc(node.size, sizeof *addresses);
    KERN_WITH_OTHERS(world, "trying file descriptors",
                     MPI_Allgather(&fds.address, sizeof fds.address, MPI_BYTE, addresses,
                                   sizeof fds.address, MPI_BYTE, node.comm));
    able = kern_world_all(world, node.comm, able);
    uint32_t before = (node.index + node.size - 1) % node.size,
             after = (node.index + 1) % node.size;
    bool sent = false;
    if (able && node.size > 1 && kern_fds_connect(&fds, addresses, diag) &&
        kern_fds_send(&fds, before, &mine.fd, 1, diag) &&
        kern_fds_receive(&fds, after, &theirs.fd, 1, &sent, diag) && sent)
        map_trial(world, device, ordinal, &theirs, granule.mapped, node.members[after], diag);
    KERN_WITH_OTHERS(world, "trying file descriptors", MPI_Barrier(node.comm));
    if (theirs.fd >= 0)
        close(theirs.fd);
    if (mine.fd >= 0)
        close(mine.fd);
    kern_fds_close(&fds);
    kern_vmm_destroy(device, &granule);
    free(addresses);
    free(node.members);
}

// What the lowest rank with an error said, on every rank; empty if nobody has one.
static void share_reason(const struct kern_world *world, struct kern_diag *trial, char *why,
                         size_t size)
{
    struct {
        int failed_not;
        int rank;
    } mine = {trial->errors == 0, world->rank}, first;
    KERN_WITH_OTHERS(world, "agreeing on a road",
                     MPI_Allreduce(&mine, &first, 1, MPI_2INT, MPI_MINLOC, world->comm));
    why[0] = '\0';
    if (first.failed_not)
        return;
    if (first.rank == world->rank)
        snprintf(why, size, "%s", trial->entries[0].text);
    KERN_WITH_OTHERS(world, "agreeing on a road",
                     MPI_Bcast(why, (int)size, MPI_BYTE, first.rank, world->comm));
}

static bool is_shared(const struct kern_groups *groups, const struct kern_buffer *buffer)
{
    return buffer->kind == KERN_PEER && groups->places[buffer->group.index].size > 1;
}

static bool shares_anything(const struct kern_manifest *manifest, const struct kern_groups *groups,
                            const struct kern_stage *stage)
{
    if (stage->count > 1)
        return true;
    for (uint32_t b = 0; b < manifest->n_buffers; b++)
        if (is_shared(groups, &manifest->buffers[b]))
            return true;
    return false;
}

// "slab, flags": what peer buffers of group [group] are `of`.
static const char *targets_text(const struct kern_manifest *manifest, uint32_t group,
                                struct kern_arena *arena)
{
    const char *text = "";
    for (uint32_t b = 0; b < manifest->n_buffers; b++)
        if (manifest->buffers[b].kind == KERN_PEER && manifest->buffers[b].group.index == group)
            text = kern_arena_print(arena, "%s%s%s", text, *text ? ", " : "",
                                    manifest->buffers[b].of.name);
    return text;
}

static const char *hosts_text(const struct kern_world *world, const struct kern_group_place *place,
                              struct kern_arena *arena)
{
    const char *text = "";
    int last = -1;
    for (uint32_t m = 0; m < place->size; m++) {
        const struct kern_member *member = &world->members[place->members[m]];
        if (member->node != last)
            text = kern_arena_print(arena, "%s%s%s", text, *text ? ", " : "", member->host);
        last = member->node;
    }
    return text;
}

// File descriptors end at the node: every group that shares memory must lie inside one.
static bool refuse_spanning(const struct kern_world *world, const struct kern_manifest *manifest,
                            const struct kern_groups *groups, const char *why,
                            struct kern_diag *diag)
{
    struct kern_arena arena = {0};
    bool good = true;
    for (uint32_t g = 0; g < groups->count; g++) {
        const struct kern_group_place *place = &groups->places[g];
        const char *targets = targets_text(manifest, g, &arena);
        if (place->spans_nodes && *targets)
            good =
                kern_fail(diag, KERN_EXIT_DEVICE, NULL,
                          "group %s spans the nodes %s and shares %s, which takes fabric handles, "
                          "and these do not work: %s; is the IMEX daemon up on every node and a "
                          "channel device readable (/dev/nvidia-caps-imex-channels)? Otherwise lay "
                          "the group inside a node (--group %s=block)",
                          place->name, hosts_text(world, place, &arena), targets, why, place->name);
    }
    kern_arena_free(&arena);
    return good;
}

// So must the two ends of every edge between stages.
static bool refuse_distant_stages(const struct kern_world *world, const struct kern_stage *stage,
                                  const char *why, struct kern_diag *diag)
{
    int after = kern_stage_neighbour(stage, 1);
    if (after == MPI_PROC_NULL || world->members[after].node == world->members[world->rank].node)
        return true;
    return kern_fail(diag, KERN_EXIT_DEVICE, NULL,
                     "stage %d (rank %d, %s) hands over to stage %d (rank %d, %s) on another node, "
                     "which takes fabric handles, and these do not work: %s; is the IMEX daemon up "
                     "on every node and a channel device readable "
                     "(/dev/nvidia-caps-imex-channels)? Otherwise run all stages on one node",
                     stage->index, world->rank, world->members[world->rank].host, stage->index + 1,
                     after, world->members[after].host, why);
}

// Whether no rank has an error in [trial] that is more than a refusal; such errors go to [diag].
static bool only_refused(const struct kern_world *world, const struct kern_diag *trial,
                         struct kern_diag *diag)
{
    bool fine = trial->errors == 0 || is_refusal(trial);
    if (!fine)
        kern_diag_append(diag, trial);
    return kern_world_all(world, world->comm, fine);
}

bool kern_road_choose(const struct kern_world *world, const struct kern_stage *stage,
                      const struct kern_manifest *manifest, const struct kern_groups *groups,
                      const struct kern_device *device, int ordinal, struct kern_road *road,
                      struct kern_diag *diag)
{
    *road = (struct kern_road){.kind = KERN_HANDLE_NONE};
    if (!shares_anything(manifest, groups, stage)) {
        snprintf(road->why, sizeof road->why, "no memory is shared between ranks");
        return true;
    }
    char why[160];
    struct kern_diag trial = {0};
    try_fabric(world, device, ordinal, &trial);
    bool good = only_refused(world, &trial, diag);
    share_reason(world, &trial, why, sizeof why);
    kern_diag_clear(&trial);
    if (!good)
        return false;
    if (!*why) {
        road->kind = KERN_HANDLE_FABRIC;
        snprintf(road->why, sizeof road->why, "fabric handles; every rank mapped its neighbour's");
        return true;
    }
    bool inside = refuse_spanning(world, manifest, groups, why, diag);
    inside = refuse_distant_stages(world, stage, why, diag) && inside;
    if (!kern_world_all(world, world->comm, inside))
        return false;
    size_t errors = diag->errors;
    try_descriptors(world, device, ordinal, diag);
    road->kind = KERN_HANDLE_POSIX_FD;
    snprintf(road->why, sizeof road->why,
             "file descriptors, because fabric handles are not to be had: %s", why);
    return diag->errors == errors;
}
