// SPDX-License-Identifier: Apache-2.0
#include "fabric/communicators.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "topo/watchdog.h"

struct kern_communicators {
    const struct kern_world *world;
    const struct kern_groups *groups;
    const struct kern_device *device;
    struct kern_rank *rank;
    ncclComm_t *comms; // by group; NULL: not joined
};

// The first member of [place]'s groups, in world order, that has the device of one before it; -1 if
// all are on different ones. Every rank looks at all groups of the name and finds the same.
static int find_shared(const struct kern_world *world, const struct kern_group_place *place,
                       const struct kern_place *places, int *other)
{
    for (int r = 0; r < world->size; r++)
        for (*other = 0; *other < r; ++*other)
            if (place->number_of[r] >= 0 && place->number_of[r] == place->number_of[*other] &&
                world->members[r].node == world->members[*other].node &&
                memcmp(places[r].uuid, places[*other].uuid, sizeof places[r].uuid) == 0)
                return r;
    return -1;
}

static bool check_devices(const struct kern_world *world, const struct kern_group_place *place,
                          const struct kern_place *places, struct kern_diag *diag)
{
    int other;
    int rank = find_shared(world, place, places, &other);
    if (rank < 0)
        return true;
    return kern_fail(diag, KERN_EXIT_USAGE, place->name,
                     "ranks %d and %d on %s, members %d and %d of one group, share device %s; NCCL "
                     "takes one rank per device",
                     other, rank, world->members[rank].host, place->index_of[other],
                     place->index_of[rank], places[rank].bus_id);
}

// The id of a group's communicator, from its first member to all.
struct invitation {
    int good;
    ncclUniqueId id;
};

static bool invite(const struct kern_communicators *all, const struct kern_group_place *place,
                   struct invitation *invitation, struct kern_diag *diag)
{
    struct kern_diag own = {0};
    *invitation = (struct invitation){0};
    if (place->index == 0) {
        ncclResult_t result = all->device->nccl.ncclGetUniqueId(&invitation->id);
        invitation->good =
            kern_nccl_check(all->device, result, NULL, "ncclGetUniqueId", place->name, &own);
    }
    MPI_Request request;
    MPI_Ibcast(invitation, sizeof *invitation, MPI_BYTE, 0, place->comm, &request);
    if (!kern_world_await(all->world, &request, "sending the id of a communicator")) {
        kern_world_abandon(all->world, &own);
    }
    kern_diag_append(diag, &own);
    kern_diag_clear(&own);
    return invitation->good;
}

// Polls [comm] until it is no longer busy, which leaves its result in *[result]. A rank that fails
// meanwhile says so, and the others stop waiting for it.
static bool poll_comm(const struct kern_communicators *all, const struct kern_group_place *place,
                      ncclComm_t comm, ncclResult_t *result, const char *function,
                      struct kern_diag *diag)
{
    uint64_t deadline = kern_deadline_in(all->world->timeout);
    struct kern_patience patience = {0};
    while (*result == ncclInProgress) {
        if (kern_deadline_passed(deadline)) {
            kern_wait_overdue();
            return kern_fail(diag, KERN_EXIT_PEER, place->name,
                             "%s is not done after %g s: one of the %u members does not take part "
                             "(--timeout sets the limit)",
                             function, all->world->timeout, place->size);
        }
        if (kern_world_alarm_raised(all->world))
            return kern_fail(diag, KERN_EXIT_PEER, place->name,
                             "%s was given up since another rank failed", function);
        kern_relax(&patience);
        ncclResult_t asked = all->device->nccl.ncclCommGetAsyncError(comm, result);
        *result = asked == ncclSuccess ? *result : asked;
    }
    return true;
}

// Waits for what [comm] was asked by [function], which returned [result].
static bool await_comm(const struct kern_communicators *all, const struct kern_group_place *place,
                       ncclComm_t comm, ncclResult_t result, const char *function,
                       struct kern_diag *diag)
{
    kern_poll_begin(all->world, function);
    bool answered = poll_comm(all, place, comm, &result, function, diag);
    kern_wait_end(all->world);
    return answered && kern_nccl_check(all->device, result, comm, function, place->name, diag);
}

static bool join_group(struct kern_communicators *all, uint32_t group, struct kern_diag *diag)
{
    const struct kern_group_place *place = &all->groups->places[group];
    const struct kern_nccl *nccl = &all->device->nccl;
    struct invitation invitation;
    if (!invite(all, place, &invitation, diag)) // the first member says why
        return false;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.commName = place->name;
    ncclComm_t comm = NULL;
    ncclResult_t result = nccl->ncclCommInitRankConfig(&comm, (int)place->size, invitation.id,
                                                       (int)place->index, &config);
    if (await_comm(all, place, comm, result, "ncclCommInitRankConfig", diag) &&
        kern_rank_set_communicator(all->rank, group, comm, diag)) {
        all->comms[group] = comm;
        return true;
    }
    kern_world_raise_alarm(all->world);
    if (comm)
        nccl->ncclCommAbort(comm);
    return false;
}

// Whether all ranks of the stage are [good]; nobody goes on to a group where somebody will not
// come.
static bool all_good(const struct kern_world *world, const struct kern_stage *stage, bool good,
                     struct kern_diag *diag)
{
    int vote = good;
    MPI_Request request;
    MPI_Iallreduce(MPI_IN_PLACE, &vote, 1, MPI_INT, MPI_MIN, stage->comm, &request);
    if (!kern_world_await(world, &request, "joining a communicator")) {
        kern_world_abandon(world, diag);
    }
    return vote;
}

struct kern_communicators *kern_communicators_join(const struct kern_world *world,
                                                   const struct kern_stage *stage,
                                                   const struct kern_groups *groups,
                                                   const struct kern_place *places,
                                                   const struct kern_device *device,
                                                   struct kern_rank *rank, struct kern_diag *diag)
{
    struct kern_communicators *all = kern_calloc(1, sizeof *all);
    *all = (struct kern_communicators){
        .world = world, .groups = groups, .device = device, .rank = rank};
    all->comms = kern_calloc(groups->count, sizeof *all->comms);
    bool good = true;
    for (uint32_t g = 0; g < groups->count; g++)
        if (kern_rank_needs_communicator(rank, g))
            good = check_devices(world, &groups->places[g], places, diag) && good;
    for (uint32_t g = 0; good && g < groups->count; g++)
        if (kern_rank_needs_communicator(rank, g))
            good = all_good(world, stage, join_group(all, g, diag), diag);
    return all;
}

static void leave(const struct kern_communicators *all, uint32_t group)
{
    const struct kern_nccl *nccl = &all->device->nccl;
    ncclComm_t comm = all->comms[group];
    struct kern_diag unheard = {0};
    if (await_comm(all, &all->groups->places[group], comm, nccl->ncclCommFinalize(comm),
                   "ncclCommFinalize", &unheard))
        nccl->ncclCommDestroy(comm);
    else
        nccl->ncclCommAbort(comm);
    kern_diag_clear(&unheard);
}

void kern_communicators_close(struct kern_communicators *all, bool abandon)
{
    if (!all)
        return;
    if (!abandon)
        kern_rank_drop_communicators(all->rank);
    for (uint32_t g = all->groups->count; g-- > 0;) {
        if (all->comms[g] && abandon)
            all->device->nccl.ncclCommAbort(all->comms[g]);
        else if (all->comms[g])
            leave(all, g);
    }
    free(all->comms);
    free(all);
}
