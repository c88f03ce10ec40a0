// SPDX-License-Identifier: Apache-2.0
//
// Collectives on one rank, which is all members of its groups: what is refused before they run, and
// what a wait says of a communicator that fails. rank_collective.sh has several ranks.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/rank_fixture.h"

// Sends [send] and receives [recv] (args of a call) in a group of one; [size] of another group.
#define COLLECTIVE(entry, size, send, recv, count)                                                 \
    "{'schema_version': 7, 'model': 'test', 'modules': {}, 'vars': {'n': {'max': 8}},"             \
    "'topology': {'groups': {'g': " size "}},"                                                     \
    "'buffers': {'x': {'dtype': 'f32', 'shape': [16], 'kind': 'inout'},"                           \
    "  'y': {'dtype': 'f32', 'shape': [16], 'kind': 'inout'}},"                                    \
    "'ops': {'f': {'params': ['in buffer<f32>', 'inout buffer<f32>', 'i32', 'i32'],"               \
    "    'impl': {'launches': [{'entry': 'extern:nccl_" entry "_f32'}]}},"                         \
    "  'touch': {'params': ['inout buffer<f32>', 'inout buffer<f32>', 'i32'], 'impl':"             \
    "    {'launches': [{'entry': 'extern:nccl_allreduce_f32', 'params': ['in buffer<f32>',"        \
    "    'inout buffer<f32>', 'i32', 'i32'], 'args': [{'param': 0}, {'param': 1}, {'param': 2},"   \
    "    {'rank': 'g'}]}]}}},"                                                                     \
    "'programs': {"                                                                                \
    "  'p': {'calls': [{'label': 'all', 'op': 'f', 'args': [" send "," recv "," count ","          \
    "    {'rank': 'g'}]}]},"                                                                       \
    "  'q': {'calls': [{'op': 'touch', 'args': [{'buf': 'x'}, {'buf': 'y'}, {'i32': 0}]}]}}}"

#define X "{'buf': 'x'}"
#define Y "{'buf': 'y'}"
#define N "{'var': 'n'}"
#define EIGHT "{'expr': {'add': [7, {'clamp': ['n', 0, 1]}]}}" // whatever n is

static ncclComm_t join(struct rank_fixture *fixture)
{
    const struct kern_nccl *nccl = &fixture->device->nccl;
    ncclUniqueId id;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = NULL;
    assert_int_equal(nccl->ncclGetUniqueId(&id), ncclSuccess);
    assert_int_equal(nccl->ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclSuccess);
    assert_true(kern_rank_set_communicator(fixture->rank, 0, comm, &fixture->diag));
    return comm;
}

static void part(struct rank_fixture *fixture, ncclComm_t comm)
{
    kern_rank_drop_communicators(fixture->rank);
    assert_int_equal(fixture->device->nccl.ncclCommDestroy(comm), ncclSuccess);
}

static void a_program_needs_its_communicator(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    fixture_open(&fixture, COLLECTIVE("allreduce", "1", X, Y, N));
    assert_true(kern_rank_needs_communicator(fixture.rank, 0));
    uint32_t p = fixture_program(&fixture, "p");
    assert_false(kern_rank_issue(fixture.rank, p, fixture.vars, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_PEER, "programs.p", "group g is not joined", NULL);

    ncclComm_t comm = join(&fixture);
    assert_false(kern_rank_set_communicator(fixture.rank, 0, comm, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_USAGE, "g", "joined this group already", NULL);
    const float sent[16] = {1, 2, 3, 4, 5}, before[16] = {9, 9, 9, 9, 9};
    float received[16];
    fixture_write(&fixture, "x", sent, sizeof(sent));
    fixture_write(&fixture, "y", before, sizeof(before));
    fixture_set_var(&fixture, "n", 3);
    fixture_run(&fixture, "p");
    fixture_read(&fixture, "y", received, sizeof(received));
    assert_memory_equal(received, sent, 3 * sizeof(float));
    assert_memory_equal(received + 3, before + 3, 13 * sizeof(float));

    // A count of 0 does nothing and is no launch that was issued.
    fixture_run(&fixture, "q");
    part(&fixture, comm);
    assert_false(kern_rank_issue(fixture.rank, p, fixture.vars, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_PEER, "is not joined", NULL);
    fixture_close(&fixture);
}

static void only_named_groups_are_joined(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    fixture_open(
        &fixture, FIXTURE_HEAD
        "'topology': {'groups': {'g': 1}},"
        "'buffers': {'c': {'dtype': 'i32', 'shape': [1], 'kind': 'carry'}},"
        "'ops': {'count': {'params': ['inout buffer<i32>', 'i32'],"
        "   'impl': {'launches': [" FIXTURE_LAUNCH(
            "count_up") "}]}}},"
                        "'programs': {'p': {'calls': [{'op': 'count', 'args': [{'buf': 'c'},"
                        "   {'rank': 'g'}]}]}}}");
    assert_false(kern_rank_needs_communicator(fixture.rank, 0));
    assert_false(kern_rank_set_communicator(fixture.rank, 0, NULL, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_USAGE, "g", "no launch names", NULL);
    fixture_close(&fixture);
}

// Each is refused for the second member of a group of two, for whom the first one's place in the
// larger buffer is not in place.
static void an_overlap_that_is_not_in_place_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *manifest, *right;
    } cases[] = {
        {COLLECTIVE("allreduce", "2", X, "{'buf': 'x', 'offset': 28}", N), "the same memory"},
        {COLLECTIVE("allgather", "2", X, X, N), "this member's block of recv"},
        {COLLECTIVE("reducescatter", "2", X, X, N), "this member's block of send"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct rank_fixture fixture = {.group_index = {1}};
        assert_false(fixture_try(&fixture, cases[i].manifest));
        fixture_expect(&fixture, KERN_EXIT_MANIFEST, "(all, op f)", "overlap", cases[i].right,
                       NULL);
        fixture_close(&fixture);
    }
    static const char *const in_place[] = {
        COLLECTIVE("allreduce", "2", X, X, N),
        COLLECTIVE("allreduce", "2", X, "{'buf': 'x', 'offset': 32}", N),
        COLLECTIVE("allgather", "2", "{'buf': 'x', 'offset': 32}", X, EIGHT),
        COLLECTIVE("reducescatter", "2", X, "{'buf': 'x', 'offset': 32}", EIGHT),
    };
    for (size_t i = 0; i < sizeof(in_place) / sizeof(*in_place); i++) {
        struct rank_fixture fixture = {.group_index = {1}};
        fixture_open(&fixture, in_place[i]);
        fixture_close(&fixture);
    }
}

static void buffers_that_are_too_small_are_refused(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    assert_true(fixture_create(&fixture, COLLECTIVE("allgather", "2", X, Y, N)));
    struct kern_buffer *y =
        (struct kern_buffer *)&fixture.manifest->buffers[fixture_buffer(&fixture, "y")];
    y->bytes -= 4;
    assert_true(kern_rank_load_modules(fixture.rank, &fixture.diag));
    assert_true(kern_rank_allocate(fixture.rank, KERN_HANDLE_FABRIC, &fixture.diag));
    assert_false(kern_rank_compile(fixture.rank, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_MANIFEST, "recv needs 64 bytes and has 60",
                   "8 elements of f32 for each of the 2 members of group g", NULL);
    fixture_close(&fixture);
}

// An event that is not over, as while a collective waits for a lost member.
static CUresult never_over(CUevent event)
{
    (void)event;
    return CUDA_ERROR_NOT_READY;
}

static ncclResult_t async_error;

static ncclResult_t failing(ncclComm_t comm, ncclResult_t *result)
{
    (void)comm;
    *result = async_error;
    return ncclSuccess;
}

static const char *last_words(ncclComm_t comm)
{
    (void)comm;
    return "connection closed by member 3";
}

static void a_wait_sees_a_communicator_fail(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    fixture_open(&fixture, COLLECTIVE("allreduce", "1", X, Y, N));
    ncclComm_t comm = join(&fixture);
    const struct kern_device real = *fixture.device;
    fixture.device->cu.cuEventQuery = never_over;
    fixture.device->nccl.ncclCommGetAsyncError = failing;
    fixture.device->nccl.ncclGetLastError = last_words;
    static const struct {
        ncclResult_t error;
        enum kern_exit code;
    } cases[] = {{ncclRemoteError, KERN_EXIT_PEER}, {ncclUnhandledCudaError, KERN_EXIT_DEVICE}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        async_error = cases[i].error;
        uint32_t p = fixture_program(&fixture, "p");
        assert_true(kern_rank_issue(fixture.rank, p, fixture.vars, &fixture.diag));
        uint64_t before = kern_now();
        assert_false(kern_rank_wait(fixture.rank, kern_deadline_in(20), NULL, &fixture.diag));
        assert_true(kern_now() - before < 5 * KERN_NS_PER_SECOND);
        struct kern_diag said = {0};
        kern_diag_append(&said, &fixture.diag);
        fixture_expect(&fixture, cases[i].code, "programs.p",
                       "group g, in which this rank is member 0 of 1", "closed by member 3", NULL);
        assert_non_null(strstr(kern_diag_line(&said, 1), "1 of its 1 launches were issued"));
        kern_diag_clear(&said);
    }
    *fixture.device = real;
    assert_true(kern_rank_wait(fixture.rank, kern_deadline_in(20), NULL, &fixture.diag));
    part(&fixture, comm);
    fixture_close(&fixture);
}

// A communicator without blocking may take its time over a collective, after which it is on the
// stream, or say then that it failed.
static int rounds_left;

static ncclResult_t slow_allreduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                                   ncclRedOp_t op, ncclComm_t comm, CUstream stream)
{
    (void)send, (void)recv, (void)count, (void)type, (void)op, (void)comm, (void)stream;
    return ncclInProgress;
}

static ncclResult_t progress(ncclComm_t comm, ncclResult_t *result)
{
    (void)comm;
    *result = rounds_left-- > 0 ? ncclInProgress : async_error;
    return ncclSuccess;
}

static void a_collective_is_awaited_until_it_is_enqueued(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    fixture_open(&fixture, COLLECTIVE("allreduce", "1", X, Y, N));
    ncclComm_t comm = join(&fixture);
    const struct kern_nccl real = fixture.device->nccl;
    fixture.device->nccl.ncclAllReduce = slow_allreduce;
    fixture.device->nccl.ncclCommGetAsyncError = progress;
    uint32_t p = fixture_program(&fixture, "p");
    rounds_left = 5;
    async_error = ncclSuccess;
    assert_true(kern_rank_issue(fixture.rank, p, fixture.vars, &fixture.diag));
    assert_int_equal(rounds_left, -1);
    rounds_left = 3;
    async_error = ncclInternalError;
    assert_false(kern_rank_issue(fixture.rank, p, fixture.vars, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_DEVICE, "(all, op f)", "extern:nccl_allreduce_f32 failed",
                   "ncclInternalError", NULL);
    fixture.device->nccl = real;
    assert_true(kern_rank_wait(fixture.rank, kern_deadline_in(20), NULL, &fixture.diag));
    part(&fixture, comm);
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_needs_its_communicator),
        cmocka_unit_test(only_named_groups_are_joined),
        cmocka_unit_test(an_overlap_that_is_not_in_place_is_refused),
        cmocka_unit_test(buffers_that_are_too_small_are_refused),
        cmocka_unit_test(a_wait_sees_a_communicator_fail),
        cmocka_unit_test(a_collective_is_awaited_until_it_is_enqueued),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
