// SPDX-License-Identifier: Apache-2.0
#include "tests/emu_nccl_world.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>

void nccl_expect(ncclResult_t got, ncclResult_t wanted, const char *call, const char *file,
                 int line)
{
    if (got != wanted) {
        fprintf(stderr, "%s:%d: %s: %s (%s) instead of %s\n", file, line, call,
                ncclGetErrorString(got), ncclGetLastError(NULL), ncclGetErrorString(wanted));
        _exit(1);
    }
}

void begin_on(int device)
{
    CUcontext context;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
}

// A page that all ranks see, zero at first.
struct shared {
    atomic_int met[4]; // see meet()
    atomic_bool has_id;
    ncclUniqueId id;
};

// Rank 0 makes the id, as it would in a job; the parent stays without a thread that a fork could
// leave with half a lock.
static void run_rank(struct world world, rank_body *body, int rank)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); // if the test is stopped
    begin_on(rank);
    if (rank == 0) {
        NCCL_OK(ncclGetUniqueId(&world.shared->id));
        atomic_store(&world.shared->has_id, true);
    }
    while (!atomic_load(&world.shared->has_id)) {
        usleep(1000);
    }
    world.id = world.shared->id;
    body(&world, rank);
}

struct world world_start(int n_ranks, rank_body *body, pid_t *pids)
{
    struct world world = {.n_ranks = n_ranks};
    world.shared =
        mmap(NULL, sizeof *world.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(world.shared != MAP_FAILED);
    fflush(NULL);
    for (int rank = 0; rank < n_ranks; rank++) {
        pids[rank] = fork();
        assert_true(pids[rank] >= 0);
        if (pids[rank] == 0) {
            run_rank(world, body, rank);
            _exit(0);
        }
    }
    return world;
}

void world_free(const struct world *world)
{
    munmap(world->shared, sizeof *world->shared);
}

void world_end(const struct world *world, const pid_t *pids)
{
    int failed = 0;
    for (int ended = 0; ended < world->n_ranks; ended++) {
        int status;
        assert_true(wait(&status) > 0);
        for (int rank = 0; failed == 0 && status != 0 && rank < world->n_ranks; rank++) {
            kill(pids[rank], SIGKILL);
        }
        failed = failed == 0 ? status : failed;
    }
    world_free(world);
    assert_int_equal(failed, 0);
}

void run_world(int n_ranks, rank_body *body)
{
    pid_t pids[64];
    struct world world = world_start(n_ranks, body, pids);
    world_end(&world, pids);
}

ncclComm_t join(const struct world *world, int rank)
{
    ncclComm_t comm;
    NCCL_OK(ncclCommInitRankConfig(&comm, world->n_ranks, world->id, rank, NULL));
    return comm;
}

void meet(const struct world *world, int at, int count)
{
    atomic_fetch_add(&world->shared->met[at], 1);
    while (atomic_load(&world->shared->met[at]) < count) {
        usleep(1000);
    }
}

void *device_bytes(size_t bytes)
{
    CUdeviceptr p;
    OK(cuMemAlloc(&p, bytes == 0 ? 1 : bytes));
    return (void *)(uintptr_t)p;
}
