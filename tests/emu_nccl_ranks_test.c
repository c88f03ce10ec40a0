// SPDX-License-Identifier: Apache-2.0
//
// NCCL of the emulated GPU: how communicators begin and end, whatever their ranks do.
#include "tests/emu_nccl_world.h"

#include <signal.h>
#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static ncclResult_t await(ncclComm_t comm, double seconds)
{
    ncclResult_t async = ncclInProgress;
    for (double end = now() + seconds; async == ncclInProgress && now() < end;) {
        NCCL_OK(ncclCommGetAsyncError(comm, &async));
        usleep(1000);
    }
    return async;
}

static ncclComm_t begin_join(const struct world *world, int n_ranks, int rank)
{
    ncclComm_t comm;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    NCCL_EXPECT(ncclInProgress, ncclCommInitRankConfig(&comm, n_ranks, world->id, rank, &config));
    return comm;
}

static void late_rank(const struct world *world, int rank)
{
    if (rank == 1) {
        usleep(200000);
    }
    ncclComm_t comm = begin_join(world, 2, rank);
    uint32_t *x = device_bytes(4);
    if (rank == 0) {
        NCCL_EXPECT(ncclInvalidArgument,
                    ncclAllReduce(x, x, 1, ncclInt32, ncclSum, comm, NULL)); // not yet
        NCCL_EXPECT(ncclInvalidArgument, ncclCommFinalize(comm));
        NCCL_EXPECT(ncclInProgress, await(comm, 0.05));
    }
    NCCL_OK(await(comm, 60));
    *x = (uint32_t)rank + 1;
    NCCL_OK(ncclAllReduce(x, x, 1, ncclInt32, ncclSum, comm, NULL));
    ncclResult_t ended = ncclCommFinalize(comm);
    CHECK(ended == ncclSuccess || ended == ncclInProgress);
    NCCL_OK(await(comm, 60));
    CHECK(*x == 3);
    NCCL_EXPECT(ncclInvalidArgument, ncclAllReduce(x, x, 1, ncclInt32, ncclSum, comm, NULL));
    NCCL_EXPECT(ncclInvalidArgument, ncclCommFinalize(comm));
    NCCL_OK(ncclCommDestroy(comm));
    NCCL_EXPECT(ncclInvalidArgument, ncclCommDestroy(comm));
    NCCL_EXPECT(ncclInvalidArgument, ncclAllReduce(x, x, 1, ncclInt32, ncclSum, comm, NULL));
}

static void starting_without_blocking(void **state)
{
    (void)state;
    run_world(2, late_rank);
}

static void missing_rank(const struct world *world, int rank)
{
    ncclComm_t comm = begin_join(world, world->n_ranks + 1, rank);
    NCCL_EXPECT(ncclInProgress, await(comm, 0.1));
    double begin = now();
    NCCL_OK(ncclCommAbort(comm));
    CHECK(now() - begin < 1);
    ncclResult_t async;
    NCCL_EXPECT(ncclInvalidArgument, ncclCommGetAsyncError(comm, &async));
    NCCL_EXPECT(ncclInvalidArgument, ncclCommAbort(comm));
}

static void a_missing_rank_at_the_start(void **state)
{
    (void)state;
    run_world(2, missing_rank);
}

static void same_device(const struct world *world, int rank)
{
    CUcontext context;
    OK(cuDevicePrimaryCtxRetain(&context, rank == 3 ? 1 : rank));
    OK(cuCtxSetCurrent(context));
    ncclComm_t comm;
    NCCL_EXPECT(ncclInvalidUsage,
                ncclCommInitRankConfig(&comm, world->n_ranks, world->id, rank, NULL));
    CHECK(comm == NULL);
    CHECK(strstr(ncclGetLastError(NULL), "Duplicate GPU detected : rank 1 and rank 3"));
}

static void two_ranks_on_one_device(void **state)
{
    (void)state;
    run_world(4, same_device);
}

static ncclResult_t state_of(ncclComm_t comm)
{
    ncclResult_t async;
    NCCL_OK(ncclCommGetAsyncError(comm, &async));
    return async;
}

// Two want to be rank 0 of 2: one of them is refused, and the other waits for rank 1.
static ncclComm_t rank_0_of_two_that_want_to_be(const struct world *world)
{
    ncclComm_t comms[2] = {begin_join(world, 2, 0), begin_join(world, 2, 0)};
    while (state_of(comms[0]) == ncclInProgress && state_of(comms[1]) == ncclInProgress) {
        usleep(1000);
    }
    int refused = state_of(comms[0]) != ncclInProgress ? 0 : 1;
    NCCL_EXPECT(ncclInvalidUsage, state_of(comms[refused]));
    CHECK(strstr(ncclGetLastError(comms[refused]), "another rank of the same id"));
    NCCL_OK(ncclCommAbort(comms[refused]));
    return comms[1 - refused];
}

static void same_number(const struct world *world, int rank)
{
    ncclComm_t comm = NULL;
    if (rank == 0) {
        comm = rank_0_of_two_that_want_to_be(world);
    }
    meet(world, 0, 2);
    if (rank == 1) {
        NCCL_EXPECT(ncclInvalidUsage, ncclCommInitRankConfig(&comm, 3, world->id, 1, NULL));
        comm = begin_join(world, 2, rank);
    }
    NCCL_OK(await(comm, 60));
    meet(world, 1, 2);
    // All ranks have joined, and the id has done its work.
    ncclComm_t again;
    NCCL_EXPECT(ncclSystemError, ncclCommInitRankConfig(&again, 2, world->id, rank, NULL));
    NCCL_OK(ncclCommDestroy(comm));
}

static void an_id_is_used_once(void **state)
{
    (void)state;
    run_world(2, same_number);
}

// Several communicators of one process, one per device, as one thread starts and uses them.
static void in_one_process_of_three_devices(void)
{
    enum { DEVICES = 3 };
    ncclUniqueId id;
    ncclComm_t comms[DEVICES];
    CUcontext contexts[DEVICES];
    CUstream streams[DEVICES];
    uint32_t *x[DEVICES];
    NCCL_OK(ncclGetUniqueId(&id));
    OK(cuInit(0));
    NCCL_OK(ncclGroupStart());
    for (int i = 0; i < DEVICES; i++) {
        OK(cuDevicePrimaryCtxRetain(&contexts[i], i));
        OK(cuCtxSetCurrent(contexts[i]));
        OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
        x[i] = device_bytes(4);
        *x[i] = 1u << i;
        NCCL_OK(ncclCommInitRankConfig(&comms[i], DEVICES, id, i, NULL));
    }
    NCCL_OK(ncclGroupEnd());
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclGroupStart());
    for (int i = 0; i < DEVICES; i++) {
        NCCL_OK(ncclAllReduce(x[i], x[i], 1, ncclInt32, ncclSum, comms[i], streams[i]));
    }
    NCCL_OK(ncclGroupEnd());
    OK(cuStreamSynchronize(streams[0]));
    CHECK(*x[0] == 1); // the outer group has not ended
    NCCL_OK(ncclGroupEnd());
    for (int i = 0; i < DEVICES; i++) {
        OK(cuStreamSynchronize(streams[i]));
        CHECK(*x[i] == 7);
    }
    // A stream of another device.
    NCCL_EXPECT(ncclInvalidArgument,
                ncclAllReduce(x[0], x[0], 1, ncclInt32, ncclSum, comms[0], streams[1]));
    // An error in a group is the group's, and nothing of it runs.
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclAllReduce(x[0], x[0], 1, ncclInt32, ncclSum, comms[0], streams[0]));
    NCCL_EXPECT(ncclInvalidArgument,
                ncclAllReduce(x[1], x[1], 1, ncclInt32, ncclMax, comms[1], streams[1]));
    NCCL_EXPECT(ncclInvalidArgument, ncclGroupEnd());
    OK(cuStreamSynchronize(streams[0]));
    NCCL_EXPECT(ncclInvalidUsage, ncclGroupEnd());
    for (int i = 0; i < DEVICES; i++) {
        NCCL_OK(ncclCommDestroy(comms[i]));
    }
}
EMU_TEST(one_process_of_three_devices)

// Rank 1 is killed; rank 0, which waits for it in a collective, is told and gives up.
static void killed_peer(const struct world *world, int rank)
{
    ncclComm_t comm = join(world, rank);
    uint32_t *x = device_bytes(4);
    meet(world, 0, 2);
    if (rank == 1) {
        kill(getpid(), SIGKILL);
    }
    NCCL_OK(ncclAllReduce(x, x, 1, ncclInt32, ncclSum, comm, NULL));
    double begin = now();
    ncclResult_t async = ncclSuccess;
    while (async == ncclSuccess && now() - begin < 1) {
        NCCL_OK(ncclCommGetAsyncError(comm, &async));
    }
    NCCL_EXPECT(ncclRemoteError, async);
    CHECK(strstr(ncclGetLastError(NULL), "rank 1"));
    EXPECT(ERROR_NOT_READY, cuStreamQuery(NULL));
    NCCL_OK(ncclCommAbort(comm));
    OK(cuStreamSynchronize(NULL)); // the collective has ended, and the device is sound
    CHECK(now() - begin < 2);
    *x = 5;
    OK(cuMemFree((uintptr_t)x));
    CHECK(emu_stats().fds == 0);
}

static void a_killed_rank(void **state)
{
    (void)state;
    pid_t pids[2];
    struct world world = world_start(2, killed_peer, pids);
    int status;
    assert_int_equal(waitpid(pids[1], &status, 0), pids[1]);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(waitpid(pids[0], &status, 0), pids[0]);
    assert_int_equal(status, 0);
    world_free(&world);
}

// Rank 1 aborts, rank 2 leaves: rank 0 is told of the one, and not because of the other.
static void aborting_peer(const struct world *world, int rank)
{
    ncclComm_t comm = join(world, rank);
    ncclResult_t async;
    meet(world, 0, 3);
    if (rank == 2) {
        NCCL_OK(ncclCommDestroy(comm));
        meet(world, 1, 3);
        return;
    }
    if (rank == 1) {
        meet(world, 1, 3);
        meet(world, 2, 2);
        NCCL_OK(ncclCommAbort(comm));
        return;
    }
    meet(world, 1, 3);
    usleep(50000); // rank 2 has ended
    NCCL_OK(ncclCommGetAsyncError(comm, &async));
    NCCL_OK(async);
    meet(world, 2, 2);
    double begin = now();
    while (async == ncclSuccess && now() - begin < 1) {
        NCCL_OK(ncclCommGetAsyncError(comm, &async));
    }
    NCCL_EXPECT(ncclRemoteError, async);
    NCCL_OK(ncclCommAbort(comm));
}

static void ranks_that_abort_or_leave(void **state)
{
    (void)state;
    run_world(3, aborting_peer);
}

// Work that has not begun when its communicator is aborted is skipped.
static void pending_work(const struct world *world, int rank)
{
    ncclComm_t comm = join(world, rank);
    uint32_t *x = device_bytes(4);
    for (int i = 0; i < 10 && rank == 0; i++) {
        NCCL_OK(ncclAllReduce(x, x, 1, ncclInt32, ncclSum, comm, NULL));
    }
    meet(world, 0, 2);
    NCCL_OK(ncclCommAbort(comm));
    OK(cuStreamSynchronize(NULL));
    OK(cuMemFree((uintptr_t)x));
}

static void pending_work_of_an_aborted_communicator(void **state)
{
    (void)state;
    run_world(2, pending_work);
}

static void different_collectives(const struct world *world, int rank)
{
    ncclComm_t comm = join(world, rank);
    uint32_t *x = device_bytes(64);
    NCCL_OK(ncclAllReduce(x, x, rank == 0 ? 4 : 5, ncclInt32, ncclSum, comm, NULL));
    EXPECT(ERROR_LAUNCH_FAILED, cuStreamSynchronize(NULL));
    ncclResult_t async;
    NCCL_OK(ncclCommGetAsyncError(comm, &async));
    NCCL_EXPECT(ncclInvalidUsage, async);
    CHECK(strstr(ncclGetLastError(comm), "ncclAllReduce of 5 elements"));
    meet(world, 0, 2);
    NCCL_OK(ncclCommAbort(comm));
}

static void ranks_that_disagree(void **state)
{
    (void)state;
    run_world(2, different_collectives);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starting_without_blocking),
        cmocka_unit_test(a_missing_rank_at_the_start),
        cmocka_unit_test(two_ranks_on_one_device),
        cmocka_unit_test(an_id_is_used_once),
        cmocka_unit_test(one_process_of_three_devices),
        cmocka_unit_test(a_killed_rank),
        cmocka_unit_test(ranks_that_abort_or_leave),
        cmocka_unit_test(pending_work_of_an_aborted_communicator),
        cmocka_unit_test(ranks_that_disagree),
    };
    return cmocka_run_group_tests_name("emu nccl ranks", tests, NULL, NULL);
}
