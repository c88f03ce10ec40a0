// SPDX-License-Identifier: Apache-2.0
#include "topo/choose.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "topo/watchdog.h"

static bool choose_own(const struct kern_world *world, const struct kern_device *device, bool share,
                       struct kern_place *place, struct kern_diag *diag)
{
    struct kern_place *visible;
    int count;
    if (!kern_place_visible(device, &visible, &count, diag))
        return false;
    // With one visible device per process that one is ours, whatever our local rank; whether the
    // neighbours were given another one shows when everybody's choice is compared.
    bool good = true;
    if (count < 1)
        good =
            kern_fail(diag, KERN_EXIT_DEVICE, NULL,
                      "no device is visible to this process (CUDA_VISIBLE_DEVICES=%s)",
                      getenv("CUDA_VISIBLE_DEVICES") ? getenv("CUDA_VISIBLE_DEVICES") : "(unset)");
    else if (count > 1 && world->local_rank >= count && !share)
        good =
            kern_fail(diag, KERN_EXIT_USAGE, NULL,
                      "%d processes on %s but %d visible devices; start at most %d per node%s, or "
                      "let them share devices with --share-devices",
                      world->local_size, world->members[world->rank].host, count, count,
                      device->kind == KERN_DEVICE_EMU ? ", set KERN_EMU_DEVICES higher" : "");
    else
        *place = visible[world->local_rank % count];
    free(visible);
    return good;
}

// Two processes on one device wait for each other's kernels, and NCCL refuses them much later.
static bool check_distinct(const struct kern_world *world, const struct kern_place *places,
                           struct kern_diag *diag)
{
    const struct kern_place *mine = &places[world->rank];
    for (int r = 0; r < world->rank; r++) {
        if (world->members[r].node != world->members[world->rank].node ||
            memcmp(places[r].uuid, mine->uuid, sizeof mine->uuid) != 0)
            continue;
        return kern_fail(
            diag, KERN_EXIT_USAGE, NULL,
            "ranks %d and %d on %s have the same device %s (visible device %d); give each "
            "its own (srun: --gpus-per-task=1, or make all devices of the node visible "
            "to every task), or let them share with --share-devices",
            r, world->rank, world->members[r].host, mine->bus_id, mine->ordinal);
    }
    return true;
}

bool kern_place_choose(const struct kern_world *world, const struct kern_device *device, bool share,
                       enum kern_bind bind, struct kern_place **places, struct kern_diag *diag)
{
    struct kern_place own = {.numa = -1};
    bool good = choose_own(world, device, share, &own, diag);
    if (good)
        kern_place_bind(&own, device->kind == KERN_DEVICE_CUDA, bind);
    *places = kern_calloc((size_t)world->size, sizeof **places);
    KERN_WITH_OTHERS(
        world, "comparing devices",
        MPI_Allgather(&own, sizeof own, MPI_BYTE, *places, sizeof own, MPI_BYTE, world->comm));
    return good && (share || check_distinct(world, *places, diag));
}
