// SPDX-License-Identifier: Apache-2.0
//
// Which kind of handle works between all ranks, found out by doing it.
#include <stdio.h>
#include <string.h>

#include "fabric/fabric.h"

// Creates a granule that can be exported as a fabric handle, and exports it.
static bool offer(const struct kern_device *device, int ordinal, struct kern_mapping *granule,
                  struct kern_shareable *handle, struct kern_diag *diag)
{
    const char *what = "the trial of fabric handles";
    return kern_vmm_create(device, ordinal, KERN_HANDLE_FABRIC, 1, what, granule, diag) &&
           kern_vmm_export(device, granule, KERN_HANDLE_FABRIC, what, handle, diag);
}

// Importing one's own handle would prove nothing about a peer's.
static bool take_neighbours(const struct kern_world *world, const struct kern_device *device,
                            int ordinal, uint64_t mapped, const struct kern_shareable *handle,
                            struct kern_diag *diag)
{
    struct kern_mapping trial = {0};
    struct kern_arena arena = {0};
    int neighbour = (world->rank + 1) % world->size;
    const char *what = kern_arena_print(&arena, "the trial of fabric handles with rank %d (%s)",
                                        neighbour, world->members[neighbour].host);
    bool good = kern_vmm_import(device, ordinal, handle, mapped, what, &trial, diag);
    kern_vmm_destroy(device, &trial);
    kern_arena_free(&arena);
    return good;
}

bool kern_road_choose(const struct kern_world *world, const struct kern_device *device, int ordinal,
                      bool needed, struct kern_road *road, struct kern_diag *diag)
{
    *road = (struct kern_road){.kind = KERN_HANDLE_NONE};
    if (!needed) {
        snprintf(road->why, sizeof road->why, "no memory is shared between ranks");
        return true;
    }
    // Nobody returns between these collectives: the others would wait for ever.
    struct kern_mapping granule = {0};
    struct kern_shareable mine = {.kind = KERN_HANDLE_NONE}, theirs = {.kind = KERN_HANDLE_NONE};
    int offered = offer(device, ordinal, &granule, &mine, diag);
    int left = (world->rank + world->size - 1) % world->size;
    int right = (world->rank + 1) % world->size;
    MPI_Sendrecv(&mine, sizeof mine, MPI_BYTE, left, 0, &theirs, sizeof theirs, MPI_BYTE, right, 0,
                 world->comm, MPI_STATUS_IGNORE);
    MPI_Allreduce(MPI_IN_PLACE, &offered, 1, MPI_INT, MPI_MIN, world->comm);
    bool good = offered && take_neighbours(world, device, ordinal, granule.mapped, &theirs, diag);
    // The neighbour maps our granule until here.
    MPI_Barrier(world->comm);
    kern_vmm_destroy(device, &granule);
    if (!good && diag->errors)
        return kern_fail(diag, KERN_EXIT_DEVICE, NULL,
                         "memory cannot be shared by fabric handles, which the exported buffers need; "
                         "on GPUs, is the IMEX daemon up and is a channel device readable "
                         "(/dev/nvidia-caps-imex-channels)?");
    road->kind = KERN_HANDLE_FABRIC;
    snprintf(road->why, sizeof road->why, "fabric handles; every rank mapped its neighbour's");
    return good;
}
