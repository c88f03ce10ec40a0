// SPDX-License-Identifier: Apache-2.0
//
// Communicators: how they start and end, and what has become of the other ranks.
#include "emu/nccl.h"
#include "emu/space.h"
#include "emu/spin.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CONFIG_MAGIC 0xcafebeefu

struct emu_nccl_comm *emu_nccl_get(ncclComm_t handle)
{
    struct emu_nccl_comm *comm = emu_handle_live(EMU_VALUE(handle), EMU_COMMUNICATOR);
    if (comm == NULL || atomic_load(&comm->life) == EMU_NCCL_GONE) {
        emu_nccl_fail(ncclInvalidArgument, "no communicator, or none any more");
        return NULL;
    }
    return comm;
}

// ---------------------------------------------------------------------------------------------
// The start, in a thread of its own

static ncclResult_t map_file(struct emu_nccl_comm *comm, int file)
{
    void *shared = mmap(NULL, emu_nccl_shared_bytes(comm->n_ranks), PROT_READ | PROT_WRITE,
                        MAP_SHARED, file, 0);
    close(file);
    if (shared == MAP_FAILED) {
        return emu_nccl_fail(ncclSystemError, "mapping the ranks' memory: %s", strerror(errno));
    }
    comm->shared = shared;
    return ncclSuccess;
}

// The first step: everybody's identity.
static ncclResult_t join(struct emu_nccl_comm *comm)
{
    struct emu_nccl_slot *own = &comm->shared->slots[comm->rank];
    own->pid = getpid();
    own->device = comm->handle.context->device;
    emu_device_uuid(emu_config()->node, emu_config()->visible[own->device], own->uuid);
    atomic_store(&own->presence, EMU_NCCL_JOINED);
    const struct emu_nccl_terms none = {0};
    int other;
    return emu_nccl_step(comm, &none, &other) == EMU_NCCL_MET
               ? ncclSuccess
               : emu_nccl_fail(ncclInternalError, "aborted while waiting for the other ranks");
}

// Every rank finds the same two, so all of them fail.
static ncclResult_t refuse_duplicates(struct emu_nccl_comm *comm)
{
    const struct emu_nccl_slot *slots = comm->shared->slots;
    for (int i = 0; i < comm->n_ranks; i++) {
        for (int j = i + 1; j < comm->n_ranks; j++) {
            if (memcmp(slots[i].uuid, slots[j].uuid, sizeof slots[i].uuid) == 0) {
                return emu_nccl_fail(ncclInvalidUsage,
                                     "Duplicate GPU detected : rank %d and rank %d both on CUDA "
                                     "device %d of process %d",
                                     i, j, slots[i].device, (int)slots[i].pid);
            }
        }
    }
    return ncclSuccess;
}

// A process may be gone before it can be watched: then its entry is -1.
static ncclResult_t watch_peers(struct emu_nccl_comm *comm)
{
    for (int rank = 0; rank < comm->n_ranks; rank++) {
        if (rank == comm->rank) {
            continue;
        }
        int pid = comm->shared->slots[rank].pid;
        comm->peers[rank] = (struct pollfd){(int)syscall(SYS_pidfd_open, pid, 0), POLLIN, 0};
        if (comm->peers[rank].fd >= 0) {
            emu_count_fd(1);
        } else if (errno != ESRCH) {
            return emu_nccl_fail(ncclSystemError, "watching process %d: %s", pid, strerror(errno));
        }
    }
    return ncclSuccess;
}

static ncclResult_t start(struct emu_nccl_comm *comm)
{
    int file;
    ncclResult_t result = emu_nccl_meet(comm, &file);
    if (result == ncclSuccess) {
        result = map_file(comm, file);
    }
    if (result == ncclSuccess) {
        result = join(comm);
    }
    if (result == ncclSuccess) {
        result = refuse_duplicates(comm);
    }
    return result == ncclSuccess ? watch_peers(comm) : result;
}

static void *run_start(void *given)
{
    struct emu_nccl_comm *comm = given;
    ncclResult_t result = start(comm);
    if (result != ncclSuccess) {
        snprintf(comm->message, sizeof comm->message, "%s", emu_nccl_last_error());
    }
    atomic_store(&comm->error, (int)result);
    atomic_store(&comm->life, result == ncclSuccess ? EMU_NCCL_READY : EMU_NCCL_FAILED);
    return NULL;
}

static bool start_thread(struct emu_nccl_comm *comm)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    comm->has_thread = pthread_create(&comm->thread, NULL, run_start, comm) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return comm->has_thread;
}

ncclResult_t emu_nccl_started(struct emu_nccl_comm *comm)
{
    if (comm->has_thread) {
        pthread_join(comm->thread, NULL);
        comm->has_thread = false;
    }
    int error = atomic_load(&comm->error);
    return error == ncclSuccess ? ncclSuccess
                                : emu_nccl_fail((ncclResult_t)error, "%s", comm->message);
}

// ---------------------------------------------------------------------------------------------
// The end

// Tells the others, and gives back what the communicator holds. A worker that a fault threw out of
// a collective never leaves it, which the context's error tells: then the memory stays mapped.
static void release(struct emu_nccl_comm *comm, enum emu_nccl_presence presence)
{
    if (atomic_exchange(&comm->life, EMU_NCCL_GONE) == EMU_NCCL_GONE) {
        return;
    }
    if (comm->shared != NULL) {
        atomic_store(&comm->shared->slots[comm->rank].presence, presence);
    }
    int looks = 0;
    while (atomic_load(&comm->users) != 0 &&
           atomic_load(&comm->handle.context->sticky) == CUDA_SUCCESS) {
        emu_relax(&looks);
    }
    if (comm->shared != NULL && atomic_load(&comm->users) == 0) {
        munmap(comm->shared, emu_nccl_shared_bytes(comm->n_ranks));
        comm->shared = NULL;
    }
    for (int rank = 0; rank < comm->n_ranks; rank++) {
        if (comm->peers[rank].fd >= 0) {
            close(comm->peers[rank].fd);
            emu_count_fd(-1);
        }
    }
    if (comm->last.stream != NULL) {
        emu_handle_put(comm->last.stream);
        comm->last.stream = NULL;
    }
}

static void abort_comm(struct emu_nccl_comm *comm)
{
    atomic_store(&comm->abort, true);
    if (comm->has_thread) {
        pthread_join(comm->thread, NULL);
        comm->has_thread = false;
    }
    if (comm->shared != NULL) {
        emu_nccl_wake(comm);
    }
    release(comm, EMU_NCCL_ABORTED);
}

// With its context, whose work has ended.
static void destroy(void *given)
{
    struct emu_nccl_comm *comm = given;
    if (atomic_load(&comm->life) != EMU_NCCL_GONE) {
        abort_comm(comm);
    }
    pthread_mutex_destroy(&comm->issue);
    free(comm);
}

static void finish(struct emu_nccl_comm *comm)
{
    atomic_store(&comm->shared->slots[comm->rank].presence, EMU_NCCL_LEFT);
}

// ---------------------------------------------------------------------------------------------
// NCCL's functions

static bool flag_or_undefined(int value)
{
    return value == NCCL_CONFIG_UNDEF_INT || value == 0 || value == 1;
}

static bool in_range_or_undefined(int value, int low, int high)
{
    return value == NCCL_CONFIG_UNDEF_INT || (value >= low && value <= high);
}

// Fills [config] from the caller's, which may be of an older or a newer NCCL.
static ncclResult_t read_config(ncclConfig_t *config, const ncclConfig_t *given)
{
    *config = (ncclConfig_t)NCCL_CONFIG_INITIALIZER;
    if (given == NULL) {
        return ncclSuccess;
    }
    if (given->magic != CONFIG_MAGIC || given->size < offsetof(ncclConfig_t, netName)) {
        return emu_nccl_fail(ncclInvalidArgument,
                             "the configuration does not begin as NCCL_CONFIG_INITIALIZER does");
    }
    memcpy(config, given, given->size < sizeof *config ? given->size : sizeof *config);
    if (!flag_or_undefined(config->blocking) || !flag_or_undefined(config->splitShare) ||
        !in_range_or_undefined(config->cgaClusterSize, 0, 8) ||
        !in_range_or_undefined(config->minCTAs, 1, INT_MAX) ||
        !in_range_or_undefined(config->maxCTAs, 1, INT_MAX) ||
        (config->minCTAs != NCCL_CONFIG_UNDEF_INT && config->maxCTAs != NCCL_CONFIG_UNDEF_INT &&
         config->minCTAs > config->maxCTAs)) {
        return emu_nccl_fail(ncclInvalidArgument, "the configuration has a value out of its range");
    }
    return ncclSuccess;
}

static struct emu_nccl_comm *make_comm(int n_ranks, const ncclUniqueId *id, int rank,
                                       const ncclConfig_t *config)
{
    struct emu_nccl_comm *comm =
        emu_handle_new(EMU_COMMUNICATOR, sizeof *comm, emu_context_current(), destroy);
    if (comm == NULL) {
        return NULL;
    }
    comm->n_ranks = n_ranks;
    comm->rank = rank;
    comm->id = *id;
    comm->blocking = config->blocking != 0;
    for (int i = 0; i < EMU_NCCL_MAX_RANKS; i++) {
        comm->peers[i].fd = -1;
    }
    pthread_mutex_init(&comm->issue, NULL);
    if (!start_thread(comm)) {
        atomic_store(&comm->life, EMU_NCCL_GONE);
        emu_handle_free(comm);
        return NULL;
    }
    return comm;
}

static ncclResult_t init_rank(ncclComm_t *out, int n_ranks, const ncclUniqueId *id, int rank,
                              const ncclConfig_t *given)
{
    ncclConfig_t config;
    if (out == NULL || n_ranks < 1 || n_ranks > EMU_NCCL_MAX_RANKS || rank < 0 || rank >= n_ranks) {
        return emu_nccl_fail(ncclInvalidArgument, "rank %d of %d, of at most %d", rank, n_ranks,
                             EMU_NCCL_MAX_RANKS);
    }
    ncclResult_t result = read_config(&config, given);
    if (result != ncclSuccess) {
        return result;
    }
    *out = NULL;
    struct emu_nccl_comm *comm = make_comm(n_ranks, id, rank, &config);
    if (comm == NULL) {
        return emu_nccl_fail(ncclSystemError, "no memory or no thread for a communicator");
    }
    *out = EMU_HANDLE(ncclComm_t, comm);
    if (emu_nccl_in_group()) {
        return emu_nccl_group_start(comm);
    }
    if (!comm->blocking) {
        return ncclInProgress;
    }
    result = emu_nccl_started(comm);
    if (result != ncclSuccess) {
        release(comm, EMU_NCCL_ABORTED);
        *out = NULL;
    }
    return result;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int n_ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    EMU_NCCL_ENTER(EMU_NEEDS_CONTEXT | EMU_UNSAFE_IN_CAPTURE);
    return emu_nccl_group_error(init_rank(out, n_ranks, &id, rank, config));
}

// Whether [rank], which did not leave, has ended or given up.
static bool is_lost(struct emu_nccl_comm *comm, int rank)
{
    uint32_t presence = atomic_load(&comm->shared->slots[rank].presence);
    return presence == EMU_NCCL_ABORTED ||
           (presence == EMU_NCCL_JOINED &&
            (comm->peers[rank].fd < 0 || comm->peers[rank].revents != 0));
}

static ncclResult_t look_at_peers(struct emu_nccl_comm *comm)
{
    poll(comm->peers, (nfds_t)comm->n_ranks, 0);
    for (int rank = 0; rank < comm->n_ranks; rank++) {
        // Between the two looks at a process that leaves and ends, it has left.
        if (rank != comm->rank && is_lost(comm, rank)) {
            return emu_nccl_fail(ncclRemoteError, "rank %d, process %d, has ended or given up",
                                 rank, (int)comm->shared->slots[rank].pid);
        }
    }
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t *result)
{
    EMU_NCCL_ENTER(EMU_IGNORE_STICKY);
    struct emu_nccl_comm *comm = emu_nccl_get(handle);
    if (comm == NULL) {
        return ncclInvalidArgument;
    }
    if (result == NULL) {
        return emu_nccl_fail(ncclInvalidArgument, "ncclCommGetAsyncError: the result is NULL");
    }
    int life = atomic_load(&comm->life);
    int error = atomic_load(&comm->error);
    if (life == EMU_NCCL_STARTING) {
        *result = ncclInProgress;
    } else if (error != ncclSuccess) {
        *result = emu_nccl_fail((ncclResult_t)error, "%s", comm->message);
    } else if (life == EMU_NCCL_FINALIZING && !emu_fence_reached(comm->last)) {
        *result = ncclInProgress;
    } else {
        if (life == EMU_NCCL_FINALIZING) {
            finish(comm);
        }
        *result = life == EMU_NCCL_FINALIZING ? ncclSuccess : look_at_peers(comm);
    }
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t handle)
{
    EMU_NCCL_ENTER(EMU_IGNORE_STICKY);
    struct emu_nccl_comm *comm = emu_nccl_get(handle);
    if (comm == NULL) {
        return ncclInvalidArgument;
    }
    int ready = EMU_NCCL_READY;
    if (!atomic_compare_exchange_strong(&comm->life, &ready, EMU_NCCL_FINALIZING)) {
        return emu_nccl_fail(ncclInvalidArgument,
                             "the communicator has not started, or was finalized before");
    }
    if (!comm->blocking && !emu_fence_reached(comm->last)) {
        return ncclInProgress;
    }
    emu_fence_wait(comm->last);
    finish(comm);
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t handle)
{
    EMU_NCCL_ENTER(EMU_IGNORE_STICKY);
    struct emu_nccl_comm *comm = emu_nccl_get(handle);
    if (comm == NULL) {
        return ncclInvalidArgument;
    }
    if (atomic_load(&comm->life) == EMU_NCCL_STARTING) {
        abort_comm(comm);
        return ncclSuccess;
    }
    bool failed = emu_nccl_started(comm) != ncclSuccess;
    emu_fence_wait(comm->last);
    release(comm, failed ? EMU_NCCL_ABORTED : EMU_NCCL_LEFT);
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t handle)
{
    EMU_NCCL_ENTER(EMU_IGNORE_STICKY);
    struct emu_nccl_comm *comm = emu_nccl_get(handle);
    if (comm == NULL) {
        return ncclInvalidArgument;
    }
    abort_comm(comm);
    return ncclSuccess;
}

// What went wrong in the communicator, else what went wrong last in this thread.
const char *ncclGetLastError(ncclComm_t handle)
{
    struct emu_nccl_comm *comm = emu_handle_live(EMU_VALUE(handle), EMU_COMMUNICATOR);
    bool failed = comm != NULL && atomic_load(&comm->error) != ncclSuccess;
    return failed ? comm->message : emu_nccl_last_error();
}
