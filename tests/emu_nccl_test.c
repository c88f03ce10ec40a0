// SPDX-License-Identifier: Apache-2.0
//
// NCCL of the emulated GPU, between processes made by fork: each rank is a child with a device of
// its own.
#include "emu/libraries.h"
#include "tests/emu_check.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#define NCCL_EXPECT(wanted, call) nccl_expect((call), (wanted), #call, __FILE__, __LINE__)
#define NCCL_OK(call) NCCL_EXPECT(ncclSuccess, call)

static void nccl_expect(ncclResult_t got, ncclResult_t wanted, const char *call, const char *file,
                        int line)
{
    if (got != wanted) {
        fprintf(stderr, "%s:%d: %s: %s (%s) instead of %s\n", file, line, call,
                ncclGetErrorString(got), ncclGetLastError(NULL), ncclGetErrorString(wanted));
        _exit(1);
    }
}

// ---------------------------------------------------------------------------------------------
// Ranks as processes

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void begin_on(int device)
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

struct world {
    int n_ranks;
    ncclUniqueId id;
    struct shared *shared;
};

typedef void rank_body(const struct world *world, int rank);

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

// The ranks' processes, started: rank r has device r.
static struct world world_start(int n_ranks, rank_body *body, pid_t *pids)
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

// One failed check ends its rank, and then the others, which may be waiting for it.
static void world_end(const struct world *world, const pid_t *pids)
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
    munmap(world->shared, sizeof *world->shared);
    assert_int_equal(failed, 0);
}

static void run_world(int n_ranks, rank_body *body)
{
    pid_t pids[64];
    struct world world = world_start(n_ranks, body, pids);
    world_end(&world, pids);
}

static ncclComm_t join(const struct world *world, int rank)
{
    ncclComm_t comm;
    NCCL_OK(ncclCommInitRankConfig(&comm, world->n_ranks, world->id, rank, NULL));
    return comm;
}

// Waits until [count] of all ranks have passed here.
static void meet(const struct world *world, int at, int count)
{
    atomic_fetch_add(&world->shared->met[at], 1);
    while (atomic_load(&world->shared->met[at]) < count) {
        usleep(1000);
    }
}

static void *device_bytes(size_t bytes)
{
    CUdeviceptr p;
    OK(cuMemAlloc(&p, bytes == 0 ? 1 : bytes));
    return (void *)(uintptr_t)p;
}

// ---------------------------------------------------------------------------------------------
// Values: what rank r has at index i, small enough that the order of a sum of f32 is seen in its
// last bits, not more

static const struct {
    ncclDataType_t type;
    size_t width;
} types[] = {{ncclFloat32, 4}, {ncclBfloat16, 2}, {ncclInt32, 4}, {ncclUint8, 1}};

static uint32_t hash(uint32_t rank, size_t index)
{
    uint64_t x = ((uint64_t)rank + 1) * 0x9e3779b97f4a7c15u + index * 0xbf58476d1ce4e5b9u;
    return (uint32_t)((x ^ x >> 29) * 0x94d049bb133111ebu >> 32);
}

static float float_of_bf16(uint16_t value)
{
    uint32_t bits = (uint32_t)value << 16;
    float result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

static void put(ncclDataType_t type, void *to, size_t at, uint32_t rank, size_t index)
{
    uint32_t value = hash(rank, index);
    switch (type) {
    case ncclFloat32:
        ((float *)to)[at] = (float)(int32_t)value * 0x1p-31f;
        break;
    case ncclBfloat16:
        ((uint16_t *)to)[at] = (uint16_t)((value & 0x807f) | (0x3f00 + (value >> 16 & 0x80)));
        break;
    case ncclInt32:
        ((uint32_t *)to)[at] = value;
        break;
    default:
        ((uint8_t *)to)[at] = (uint8_t)value;
        break;
    }
}

// What the sum over all ranks is, to the bit: f32 in rank order, bf16 in f32 and rounded once,
// integers modulo their size.
static void put_sum(ncclDataType_t type, void *to, size_t at, int n_ranks, size_t index)
{
    float sum = 0;
    uint32_t integer = 0;
    for (int rank = 0; rank < n_ranks; rank++) {
        uint32_t word = 0;
        put(type, &word, 0, (uint32_t)rank, index);
        float value;
        memcpy(&value, &word, sizeof value);
        value = type == ncclBfloat16 ? float_of_bf16((uint16_t)word) : value;
        sum = rank == 0 ? value : sum + value;
        integer += word;
    }
    uint32_t bits;
    memcpy(&bits, &sum, sizeof bits);
    switch (type) {
    case ncclFloat32:
        ((float *)to)[at] = sum;
        break;
    case ncclBfloat16: // ties to even
        ((uint16_t *)to)[at] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
        break;
    case ncclInt32:
        ((uint32_t *)to)[at] = integer;
        break;
    default:
        ((uint8_t *)to)[at] = (uint8_t)integer;
        break;
    }
}

static void check_bytes(const char *what, const void *got, const void *wanted, size_t bytes,
                        size_t width)
{
    for (size_t i = 0; i < bytes; i++) {
        if (((const uint8_t *)got)[i] != ((const uint8_t *)wanted)[i]) {
            fprintf(stderr, "%s: element %zu of %zu is wrong\n", what, i / width, bytes / width);
            _exit(1);
        }
    }
}

// ---------------------------------------------------------------------------------------------
// Results

enum { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER };
static const char *const names[] = {"all-reduce", "all-gather", "reduce-scatter"};

struct job {
    int kind;
    ncclDataType_t type;
    size_t width, count;
    bool in_place;
};

static ncclResult_t issue(const struct job *job, const void *send, void *recv, ncclComm_t comm,
                          CUstream stream)
{
    switch (job->kind) {
    case ALL_REDUCE:
        return ncclAllReduce(send, recv, job->count, job->type, ncclSum, comm, stream);
    case ALL_GATHER:
        return ncclAllGather(send, recv, job->count, job->type, comm, stream);
    default:
        return ncclReduceScatter(send, recv, job->count, job->type, ncclSum, comm, stream);
    }
}

static void run_job(const struct job *job, int n_ranks, int rank, ncclComm_t comm, CUstream stream)
{
    size_t n = (size_t)n_ranks, r = (size_t)rank, count = job->count, width = job->width;
    size_t n_send = job->kind == REDUCE_SCATTER ? n * count : count;
    size_t n_recv = job->kind == ALL_GATHER ? n * count : count;
    char *big = device_bytes(n * count * width), *small = device_bytes(n * count * width);
    char *send = big, *recv = small;
    if (job->in_place) {
        recv = job->kind == REDUCE_SCATTER ? big + r * count * width : big;
        send = job->kind == ALL_GATHER ? big + r * count * width : big;
    }
    for (size_t i = 0; i < n_send; i++) {
        put(job->type, send, i, (uint32_t)rank, i);
    }
    NCCL_OK(issue(job, send, recv, comm, stream));
    OK(cuStreamSynchronize(stream));

    char *wanted = malloc(n_recv * width + 1);
    for (size_t i = 0; i < n_recv; i++) {
        if (job->kind == ALL_GATHER) {
            put(job->type, wanted, i, (uint32_t)(i / count), i % count);
        } else {
            put_sum(job->type, wanted, i, n_ranks, job->kind == REDUCE_SCATTER ? r * count + i : i);
        }
    }
    check_bytes(names[job->kind], recv, wanted, n_recv * width, width);
    free(wanted);
    OK(cuMemFree((uintptr_t)big));
    OK(cuMemFree((uintptr_t)small));
}

static void every_collective(const struct world *world, int rank)
{
    static const size_t counts[] = {0, 1, 3, 1023, 70001, 300007};
    ncclComm_t comm = join(world, rank);
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int kind = ALL_REDUCE; kind <= REDUCE_SCATTER; kind++) {
        for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
            for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
                // More than a megabyte in each process, however many share the cores.
                size_t count = kind == ALL_REDUCE ? counts[c] : counts[c] / (size_t)world->n_ranks;
                struct job job = {kind, types[t].type, types[t].width, count, c % 2 == 0};
                run_job(&job, world->n_ranks, rank, comm, stream);
            }
        }
    }
    ncclResult_t async;
    NCCL_OK(ncclCommGetAsyncError(comm, &async));
    NCCL_OK(async);
    NCCL_OK(ncclCommFinalize(comm));
    NCCL_OK(ncclCommDestroy(comm));
    CHECK(emu_stats().fds == 0); // no process is watched any more
}

static void collectives_of_1_2_4_and_8(void **state)
{
    (void)state;
    run_world(1, every_collective);
    run_world(2, every_collective);
    run_world(4, every_collective);
    run_world(8, every_collective);
}

static void nan_and_infinity_in_a_sum(const struct world *world, int rank)
{
    ncclComm_t comm = join(world, rank);
    uint16_t *bf16 = device_bytes(8);
    float *f32 = device_bytes(16);
    memcpy(bf16,
           rank == 1 ? (uint16_t[]){0x7fc1, 0x7f80, 0xff80, 0x7f7f}
                     : (uint16_t[]){0x3f80, 0x3f80, 0x7f80, 0x7f7f},
           8);
    for (int i = 0; i < 4; i++) {
        f32[i] = float_of_bf16(bf16[i]);
    }
    NCCL_OK(ncclAllReduce(bf16, bf16, 4, ncclBfloat16, ncclSum, comm, NULL));
    NCCL_OK(ncclAllReduce(f32, f32, 4, ncclFloat32, ncclSum, comm, NULL));
    OK(cuStreamSynchronize(NULL));
    for (int i = 0; i < 4; i++) { // NaN, infinity, infinity - infinity, overflow
        bool is_nan = i == 0 || i == 2;
        CHECK(is_nan ? (bf16[i] & 0x7fff) > 0x7f80 : bf16[i] == 0x7f80);
        CHECK(is_nan ? f32[i] != f32[i] : f32[i] > 3.38e38f);
    }
    NCCL_OK(ncclCommDestroy(comm));
}

static void nan_and_infinity(void **state)
{
    (void)state;
    run_world(2, nan_and_infinity_in_a_sum);
}

// ---------------------------------------------------------------------------------------------
// Order

// Two streams, one communicator: what is issued later comes later, and not before what the other
// stream was given first.
static void two_streams(const struct world *world, int rank)
{
    enum { COUNT = 4096, ROUNDS = 30 };
    ncclComm_t comm = join(world, rank);
    CUstream streams[2];
    OK(cuStreamCreate(&streams[0], CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING));
    uint32_t *x = device_bytes(COUNT * 4), *y = device_bytes(COUNT * 4);
    OK(cuMemsetD32Async((uintptr_t)x, 1, COUNT, streams[0]));
    OK(cuStreamSynchronize(streams[0]));
    uint32_t wanted = 1;
    for (int i = 0; i < ROUNDS; i++) {
        CUstream stream = streams[i % 2];
        NCCL_OK(ncclAllReduce(x, y, COUNT, ncclInt32, ncclSum, comm, stream));
        NCCL_OK(ncclAllReduce(y, x, COUNT, ncclInt32, ncclSum, comm, streams[(i + 1) % 2]));
        wanted *= (uint32_t)(world->n_ranks * world->n_ranks);
    }
    OK(cuStreamSynchronize(streams[0]));
    OK(cuStreamSynchronize(streams[1]));
    for (int i = 0; i < COUNT; i++) {
        CHECK(x[i] == wanted);
    }
    NCCL_OK(ncclCommDestroy(comm));
}

static void issue_order_over_streams(void **state)
{
    (void)state;
    assert_int_equal(setenv("KERN_EMU_DELAY_US_MAX", "200", 1), 0);
    run_world(3, two_streams);
    unsetenv("KERN_EMU_DELAY_US_MAX");
}

static void graph_of_collectives(const struct world *world, int rank)
{
    enum { COUNT = 1000 };
    ncclComm_t comm = join(world, rank);
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    uint32_t *x = device_bytes(COUNT * 4), *all = device_bytes(COUNT * 4 * 8);
    CUgraph graph;
    CUgraphExec exec;
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclAllReduce(x, x, COUNT, ncclInt32, ncclSum, comm, stream));
    NCCL_OK(ncclAllGather(x, all, COUNT, ncclInt32, comm, stream));
    NCCL_OK(ncclGroupEnd());
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (uint32_t round = 1; round <= 20; round++) {
        OK(cuMemsetD32Async((uintptr_t)x, round * (uint32_t)(rank + 1), COUNT, stream));
        OK(cuGraphLaunch(exec, stream));
        OK(cuStreamSynchronize(stream));
        for (int i = 0; i < COUNT * world->n_ranks; i++) {
            CHECK(all[i] == round * 10); // 1 + 2 + 3 + 4
        }
    }
    NCCL_OK(ncclCommDestroy(comm));

    // A graph may outlive its communicator, and must not be launched any more.
    OK(cuGraphLaunch(exec, stream));
    EXPECT(ERROR_LAUNCH_FAILED, cuStreamSynchronize(stream));
}

static void graphs(void **state)
{
    (void)state;
    run_world(4, graph_of_collectives);
}

// ---------------------------------------------------------------------------------------------
// Starting

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

// ---------------------------------------------------------------------------------------------
// Ranks that go wrong

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
    munmap(world.shared, sizeof *world.shared);
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

// ---------------------------------------------------------------------------------------------
// Refusals

static void in_arguments(void)
{
    ncclUniqueId id, rubbish;
    int version;
    ncclComm_t comm;
    NCCL_OK(ncclGetVersion(&version));
    CHECK(version == NCCL_VERSION_CODE);
    NCCL_EXPECT(ncclInvalidArgument, ncclGetVersion(NULL));
    NCCL_EXPECT(ncclInvalidArgument, ncclGetUniqueId(NULL));
    NCCL_OK(ncclGetUniqueId(&id));
    NCCL_EXPECT(ncclUnhandledCudaError, ncclCommInitRankConfig(&comm, 1, id, 0, NULL));
    begin_on(0);
    memset(&rubbish, 7, sizeof rubbish);
    NCCL_EXPECT(ncclInvalidArgument, ncclCommInitRankConfig(&comm, 1, rubbish, 0, NULL));
    NCCL_EXPECT(ncclInvalidArgument, ncclCommInitRankConfig(NULL, 1, id, 0, NULL));
    NCCL_EXPECT(ncclInvalidArgument, ncclCommInitRankConfig(&comm, 0, id, 0, NULL));
    NCCL_EXPECT(ncclInvalidArgument, ncclCommInitRankConfig(&comm, 2, id, 2, NULL));
    NCCL_EXPECT(ncclInvalidArgument, ncclCommInitRankConfig(&comm, 2, id, -1, NULL));
    NCCL_EXPECT(ncclInvalidArgument, ncclCommInitRankConfig(&comm, 1025, id, 0, NULL));
    ncclConfig_t config = {0};
    NCCL_EXPECT(ncclInvalidArgument, ncclCommInitRankConfig(&comm, 1, id, 0, &config));
    config = (ncclConfig_t)NCCL_CONFIG_INITIALIZER;
    config.blocking = 2;
    NCCL_EXPECT(ncclInvalidArgument, ncclCommInitRankConfig(&comm, 1, id, 0, &config));
    config.blocking = 1;
    config.minCTAs = 4;
    config.maxCTAs = 2;
    NCCL_EXPECT(ncclInvalidArgument, ncclCommInitRankConfig(&comm, 1, id, 0, &config));
    config.maxCTAs = 4;
    config.size = offsetof(ncclConfig_t, commName); // an older NCCL's
    NCCL_OK(ncclCommInitRankConfig(&comm, 1, id, 0, &config));

    char *x = device_bytes(64);
    static float host[4];
    ncclResult_t async;
#define REDUCE(send, recv, count, type, op) ncclAllReduce(send, recv, count, type, op, comm, NULL)
    NCCL_OK(REDUCE(x, x, 16, ncclFloat32, ncclSum));
    NCCL_OK(REDUCE(NULL, NULL, 0, ncclFloat32, ncclSum));
    NCCL_EXPECT(ncclInvalidArgument, REDUCE(x, x, 17, ncclFloat32, ncclSum));
    NCCL_EXPECT(ncclInvalidArgument, REDUCE(x, x, SIZE_MAX / 2, ncclFloat32, ncclSum));
    NCCL_EXPECT(ncclInvalidArgument, REDUCE(host, x, 1, ncclFloat32, ncclSum));
    NCCL_EXPECT(ncclInvalidArgument, REDUCE(x, host, 1, ncclFloat32, ncclSum));
    NCCL_EXPECT(ncclInvalidArgument, REDUCE(x + 2, x + 2, 1, ncclFloat32, ncclSum));
    NCCL_EXPECT(ncclInvalidArgument, REDUCE(x, x, 1, ncclFloat16, ncclSum));
    NCCL_EXPECT(ncclInvalidArgument, REDUCE(x, x, 1, (ncclDataType_t)99, ncclSum));
    NCCL_EXPECT(ncclInvalidArgument, REDUCE(x, x, 1, ncclFloat32, ncclAvg));
    NCCL_EXPECT(ncclInvalidUsage, REDUCE(x, x + 4, 2, ncclFloat32, ncclSum)); // neither in place
    NCCL_EXPECT(ncclUnhandledCudaError,
                ncclAllReduce(x, x, 1, ncclFloat32, ncclSum, comm, (CUstream)(uintptr_t)0x1234));
    NCCL_EXPECT(ncclInvalidArgument, ncclAllReduce(x, x, 1, ncclFloat32, ncclSum, NULL, NULL));
    NCCL_EXPECT(ncclInvalidArgument, ncclReduceScatter(x, x, 1, ncclFloat32, ncclProd, comm, NULL));
    NCCL_EXPECT(ncclInvalidArgument, ncclCommGetAsyncError(comm, NULL));
    NCCL_EXPECT(ncclInvalidArgument, ncclCommGetAsyncError(NULL, &async));
    NCCL_EXPECT(ncclInvalidArgument, ncclCommAbort(NULL));
#undef REDUCE
    for (int result = 0; result <= 7; result++) {
        CHECK(strcmp(ncclGetErrorString((ncclResult_t)result), "unknown result code") != 0);
    }
    CHECK(strcmp(ncclGetErrorString((ncclResult_t)8), "unknown result code") == 0);
    OK(cuStreamSynchronize(NULL));
    NCCL_OK(ncclCommDestroy(comm));

    // The process that made the id does not listen any more.
    NCCL_EXPECT(ncclSystemError, ncclCommInitRankConfig(&comm, 1, id, 0, NULL));
}
EMU_TEST(arguments)

static void in_faults(void)
{
    ncclUniqueId id;
    ncclComm_t comm;
    ncclResult_t async;
    begin_on(0);
    NCCL_EXPECT(ncclSystemError, ncclGetUniqueId(&id));
    NCCL_OK(ncclGetUniqueId(&id));
    NCCL_OK(ncclCommInitRankConfig(&comm, 1, id, 0, NULL));
    float *x = device_bytes(4);
    NCCL_OK(ncclAllReduce(x, x, 1, ncclFloat32, ncclSum, comm, NULL));
    NCCL_EXPECT(ncclRemoteError, ncclAllReduce(x, x, 1, ncclFloat32, ncclSum, comm, NULL));
    NCCL_EXPECT(ncclInternalError, ncclCommGetAsyncError(comm, &async));
    NCCL_OK(ncclCommDestroy(comm));
}

static void faults(void **state)
{
    (void)state;
    EMU_CHILD(in_faults, "KERN_EMU_FAIL=ncclGetUniqueId:1:ncclSystemError,ncclAllReduce:2:6,"
                         "ncclCommGetAsyncError:*");
}

// A context takes its communicators with it.
static void in_a_context_that_goes(void)
{
    ncclUniqueId id;
    ncclComm_t comm;
    begin_on(0);
    NCCL_OK(ncclGetUniqueId(&id));
    NCCL_OK(ncclCommInitRankConfig(&comm, 1, id, 0, NULL));
    OK(cuDevicePrimaryCtxRelease(0));
    begin_on(0);
    NCCL_EXPECT(ncclInvalidArgument, ncclCommDestroy(comm));
    CHECK(emu_stats().fds == 0);
}
EMU_TEST(a_context_that_goes)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(collectives_of_1_2_4_and_8),
        cmocka_unit_test(nan_and_infinity),
        cmocka_unit_test(issue_order_over_streams),
        cmocka_unit_test(graphs),
        cmocka_unit_test(starting_without_blocking),
        cmocka_unit_test(a_missing_rank_at_the_start),
        cmocka_unit_test(two_ranks_on_one_device),
        cmocka_unit_test(an_id_is_used_once),
        cmocka_unit_test(one_process_of_three_devices),
        cmocka_unit_test(a_killed_rank),
        cmocka_unit_test(ranks_that_abort_or_leave),
        cmocka_unit_test(pending_work_of_an_aborted_communicator),
        cmocka_unit_test(ranks_that_disagree),
        cmocka_unit_test(arguments),
        cmocka_unit_test(faults),
        cmocka_unit_test(a_context_that_goes),
    };
    return cmocka_run_group_tests_name("emu nccl", tests, NULL, NULL);
}
