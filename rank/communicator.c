// SPDX-License-Identifier: Apache-2.0
//
// The communicators of a rank's groups, which the fabric joins and owns.
#include "rank/internal.h"

bool kern_rank_needs_communicator(const struct kern_rank *rank, uint32_t group)
{
    return rank->communicators[group].needed;
}

bool kern_rank_set_communicator(struct kern_rank *rank, uint32_t group, ncclComm_t comm,
                                struct kern_diag *diag)
{
    struct rank_communicator *communicator = &rank->communicators[group];
    const char *name = rank->manifest->groups[group].name;
    if (!communicator->needed) {
        return kern_fail(diag, KERN_EXIT_USAGE, name,
                         "no launch names a communicator of this group");
    }
    if (communicator->comm != NULL) {
        return kern_fail(diag, KERN_EXIT_USAGE, name, "the rank has joined this group already");
    }
    communicator->comm = comm;
    return true;
}

// NCCL destroys a communicator when the last graph that holds it is gone, and waits for that.
void kern_rank_drop_communicators(struct kern_rank *rank)
{
    rank->device->cu.cuCtxSetCurrent(rank->context);
    rank_graphs_destroy(rank);
    rank_graphs_free(rank->graphs);
    rank->graphs = NULL;
    for (uint32_t g = 0; g < rank->manifest->n_groups; g++) {
        rank->communicators[g].comm = NULL;
    }
}

bool rank_communicators_joined(const struct kern_rank *rank, const struct rank_program *program,
                               struct kern_diag *diag)
{
    bool ok = true;
    for (uint32_t g = 0; g < rank->manifest->n_groups; g++) {
        if (program->uses_communicator[g] && rank->communicators[g].comm == NULL) {
            ok = kern_fail(diag, KERN_EXIT_PEER, program->place,
                           "the communicator of group %s is not joined yet: that comes before a "
                           "program with a collective over the group runs",
                           rank->manifest->groups[g].name);
        }
    }
    return ok;
}

static bool is_sound(const struct kern_rank *rank, uint32_t group, const char *place,
                     struct kern_diag *diag)
{
    const struct kern_nccl *nccl = &rank->device->nccl;
    const struct kern_group *declared = &rank->manifest->groups[group];
    ncclComm_t comm = rank->communicators[group].comm;
    ncclResult_t error = ncclSuccess;
    ncclResult_t asked = nccl->ncclCommGetAsyncError(comm, &error);
    error = asked == ncclSuccess ? error : asked;
    if (error == ncclSuccess || error == ncclInProgress) {
        return true;
    }
    const char *words = nccl->ncclGetLastError(comm);
    bool logged = words != NULL && *words != '\0';
    return kern_fail(
        diag, error == ncclRemoteError ? KERN_EXIT_PEER : KERN_EXIT_DEVICE, place,
        "the communicator of group %s, in which this rank is member %u of %llu, failed: "
        "%s%s%s",
        declared->name, rank->group_index[group], (unsigned long long)declared->size,
        nccl->ncclGetErrorString(error), logged ? "; NCCL's last words: " : "",
        logged ? words : "");
}

bool rank_communicators_sound(const struct kern_rank *rank, const struct rank_program *program,
                              struct kern_diag *diag)
{
    bool ok = true;
    for (uint32_t g = 0; g < rank->manifest->n_groups; g++) {
        if (program->uses_communicator[g]) {
            ok = is_sound(rank, g, program->place, diag) && ok;
        }
    }
    return ok;
}
