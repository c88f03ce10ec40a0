// SPDX-License-Identifier: Apache-2.0
//
// NCCL of the emulated GPU: what collectives give, in which order, and what is refused.
#include "tests/emu_nccl_world.h"

#include <stdbool.h>

// Values: what rank r has at index i, small enough that the order of a sum of f32 is seen in its
// last bits, not more.

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

    char *wanted = calloc(n_recv + 1, width);
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

// Two streams, one communicator: what is issued later comes later, and not before what the other
// stream was given first.
static void two_streams(const struct world *world, int rank)
{
    enum { ROUNDS = 30 };
    const size_t count = 4096;
    ncclComm_t comm = join(world, rank);
    CUstream streams[2];
    OK(cuStreamCreate(&streams[0], CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING));
    uint32_t *x = device_bytes(count * 4), *y = device_bytes(count * 4);
    OK(cuMemsetD32Async((uintptr_t)x, 1, count, streams[0]));
    OK(cuStreamSynchronize(streams[0]));
    uint32_t wanted = 1;
    for (int i = 0; i < ROUNDS; i++) {
        CUstream stream = streams[i % 2];
        NCCL_OK(ncclAllReduce(x, y, count, ncclInt32, ncclSum, comm, stream));
        NCCL_OK(ncclAllReduce(y, x, count, ncclInt32, ncclSum, comm, streams[(i + 1) % 2]));
        wanted *= (uint32_t)(world->n_ranks * world->n_ranks);
    }
    OK(cuStreamSynchronize(streams[0]));
    OK(cuStreamSynchronize(streams[1]));
    for (size_t i = 0; i < count; i++) {
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
    const size_t count = 1000;
    ncclComm_t comm = join(world, rank);
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    uint32_t *x = device_bytes(count * 4), *all = device_bytes(count * 4 * 8);
    CUgraph graph;
    CUgraphExec exec;
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclAllReduce(x, x, count, ncclInt32, ncclSum, comm, stream));
    NCCL_OK(ncclAllGather(x, all, count, ncclInt32, comm, stream));
    NCCL_OK(ncclGroupEnd());
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (uint32_t round = 1; round <= 20; round++) {
        OK(cuMemsetD32Async((uintptr_t)x, round * (uint32_t)(rank + 1), count, stream));
        OK(cuGraphLaunch(exec, stream));
        OK(cuStreamSynchronize(stream));
        for (size_t i = 0; i < count * 4; i++) {
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
        cmocka_unit_test(arguments),
        cmocka_unit_test(faults),
        cmocka_unit_test(a_context_that_goes),
    };
    return cmocka_run_group_tests_name("emu nccl", tests, NULL, NULL);
}
