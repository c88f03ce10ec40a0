// SPDX-License-Identifier: Apache-2.0
//
// What a rank allocates: states by capacity, exports, memory shared between two ranks, peer arrays.
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/rank_fixture.h"

#define GRANULARITY (2u << 20)

// States of every size, indexed with strides 4 and 6, so pages of 12 tokens.
// clang-format off
#define STATES                                                                                     \
    FIXTURE_HEAD                                                                                   \
    "'states': {'fixed': {'bytes': 100}, 'kv': {'bytes_per_token': 4096},"                         \
    "  'seq': {'bytes_per_seq': 1048576}},"                                                        \
    "'buffers': {'a': {'dtype': 'i32', 'shape': [2], 'kind': 'input',"                             \
    "   'domain': {'index_into': 'kv', 'stride': 4}},"                                             \
    "  'b': {'dtype': 'i32', 'shape': [2], 'kind': 'input',"                                       \
    "   'domain': {'index_into': 'kv', 'stride': 6}},"                                             \
    "  'l': {'dtype': 'i32', 'shape': [2], 'kind': 'input',"                                       \
    "   'domain': {'index_into': 'seq', 'stride': 1048576}},"                                      \
    "  'y': {'dtype': 'i32', 'shape': [2], 'kind': 'output'}},"                                    \
    "'ops': {'add': {'params': ['in buffer<i32>', 'out buffer<i32>', 'i32', 'i32'],"               \
    "   'impl': {'launches': [" FIXTURE_LAUNCH("add") "}]}},"                                      \
    "  'touch': {'params': ['inout state', 'i32'], 'impl': {'launches': ["                         \
    FIXTURE_LAUNCH("count_up") "}]}}},"                                                            \
    "'programs': {'step': {'calls': ["                                                             \
    "  {'op': 'touch', 'args': [{'state': 'fixed'}, {'i32': 1}]},"                                 \
    "  {'op': 'touch', 'args': [{'state': 'kv', 'offset': 4096}, {'i32': 1}]},"                    \
    "  {'op': 'touch', 'args': [{'state': 'seq'}, {'i32': 1}]},"                                   \
    "  {'op': 'add', 'args': [{'buf': 'a'}, {'buf': 'y'}, {'i32': 0}, {'i32': 2}]},"               \
    "  {'op': 'add', 'args': [{'buf': 'l'}, {'buf': 'y'}, {'i32': 0}, {'i32': 2}]},"               \
    "  {'op': 'add', 'args': [{'buf': 'b'}, {'buf': 'y'}, {'i32': 0}, {'i32': 2}]}]}}}"
// clang-format on

static void states_follow_capacity(void **state)
{
    (void)state;
    struct rank_fixture fixture = {.capacity = 1000, .seqs = 3};
    fixture_open(&fixture, STATES);
    struct kern_provision provision = kern_rank_provision(fixture.rank);
    assert_int_equal(provision.tokens, 1020); // 84 pages of 12 and the one for padding
    assert_int_equal(provision.slots, 5);
    struct kern_rank_memory memory;
    kern_rank_memory(fixture.rank, &memory);
    // 100 bytes, 1020 · 4096 = 3.98 MiB and 5 MiB, each rounded up to 2 MiB.
    assert_int_equal(memory.states, (1 + 2 + 3) * GRANULARITY);
    assert_int_equal(memory.exported, 0);
    fixture_run(&fixture, "step");

    // Block indices go up to what was provisioned.
    const int32_t last[2] = {0, 1020 / 4 - 1}, beyond[2] = {0, 1020 / 4};
    fixture_write(&fixture, "a", last, 8);
    assert_false(kern_rank_write(fixture.rank, fixture_buffer(&fixture, "a"), beyond, 8,
                                 fixture.vars, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_ARTIFACT, "255", NULL);
    fixture_close(&fixture);
}

static void a_paged_state_needs_a_capacity(void **state)
{
    (void)state;
    struct rank_fixture fixture = {.capacity = 0, .seqs = 3};
    assert_false(fixture_try(&fixture, STATES));
    fixture_expect(&fixture, KERN_EXIT_USAGE, "states.kv", "0 tokens", NULL);
    fixture_close(&fixture);
    fixture = (struct rank_fixture){.capacity = UINT64_MAX, .seqs = 3};
    assert_false(fixture_try(&fixture, STATES));
    fixture_expect(&fixture, KERN_EXIT_USAGE, "capacity", NULL);
    fixture_close(&fixture);
    fixture = (struct rank_fixture){.capacity = UINT64_MAX / 8192, .seqs = 3};
    assert_false(fixture_try(&fixture, STATES));
    fixture_expect(&fixture, KERN_EXIT_DEVICE, "state kv", NULL);
    fixture_close(&fixture);
}

static void a_host_state_is_refused(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    // clang-format off
    assert_false(fixture_try(
        &fixture,
        FIXTURE_HEAD
        "'states': {'kv': {'host': {'dtype': 'i32', 'shape': [0, 4], 'strides': [4, 1]}}},"
        "'buffers': {},"
        "'ops': {'touch': {'params': ['inout state', 'i32'], 'impl': {'launches': ["
        FIXTURE_LAUNCH("count_up") "}]}}},"
        "'programs': {'step': {'calls': [{'op': 'touch', 'args': [{'state': 'kv'}, {'i32': 1}]}]}}"
        "}"));
    // clang-format on
    fixture_expect(&fixture, KERN_EXIT_USAGE, "states.kv", "host layout", NULL);
    fixture_close(&fixture);
}

// Each rank shows word 0 of x and lets its peers add to word 1.
// clang-format off
#define PEERS                                                                                      \
    FIXTURE_HEAD                                                                                   \
    "'topology': {'groups': {'ep': 2}}, 'states': {'m': {'bytes': 64}, 'w': {'bytes': 64}},"       \
    "'buffers': {'x': {'dtype': 'i32', 'shape': [2], 'kind': 'inout', 'export': true},"            \
    "  'px': {'dtype': 'u64', 'shape': [2], 'kind': 'peer', 'of': 'x', 'group': 'ep'},"            \
    "  'pm': {'dtype': 'u64', 'shape': [2], 'kind': 'peer', 'of': 'm', 'group': 'ep'},"            \
    "  'y': {'dtype': 'i32', 'shape': [2], 'kind': 'output'}},"                                    \
    "'ops': {'greet': {'params': ['in buffer<u64>', 'out buffer<i32>', 'i32', 'i32'],"             \
    "   'impl': {'launches': [" FIXTURE_LAUNCH("greet") "}]}},"                                    \
    "  'touch': {'params': ['inout state', 'i32'], 'impl': {'launches': ["                         \
    FIXTURE_LAUNCH("count_up") "}]}},"                                                             \
    "  'bump': {'params': ['inout buffer<i32>', 'i32'], 'impl': {'launches': ["                    \
    FIXTURE_LAUNCH("count_up") "}]}}},"                                                            \
    "'programs': {'step': {'calls': [{'op': 'greet', 'args': [{'buf': 'px'}, {'buf': 'y'},"        \
    "   {'i32': 2}, {'rank': 'ep'}]}]},"                                                           \
    "  'states': {'calls': [{'op': 'greet', 'args': [{'buf': 'pm'}, {'buf': 'y'},"                 \
    "   {'i32': 2}, {'rank': 'ep'}]},"                                                             \
    "   {'op': 'touch', 'args': [{'state': 'm'}, {'i32': 1}]}]},"                                  \
    "  'bump': {'calls': [{'op': 'bump', 'args': [{'buf': 'x'}, {'i32': 1}]},"                     \
    "   {'op': 'touch', 'args': [{'state': 'w'}, {'i32': 1}]}]}}}"
// clang-format on

static void share(struct rank_fixture *from, struct rank_fixture *to, size_t index,
                  enum kern_handle_kind kind, struct kern_mapping *mapping)
{
    const struct kern_export *exports;
    size_t count = kern_rank_exports(from->rank, &exports);
    assert_true(index < count);
    struct kern_mapping exported = {.address = exports[index].address,
                                    .mapped = exports[index].mapped,
                                    .handle = exports[index].handle};
    struct kern_shareable shareable;
    assert_true(kern_vmm_export(from->device, &exported, kind, exports[index].name, &shareable,
                                &from->diag));
    assert_int_equal(shareable.kind, kind);
    assert_true(kern_vmm_import(to->device, to->ordinal, &shareable, exports[index].mapped,
                                exports[index].name, mapping, &to->diag));
    if (kind == KERN_HANDLE_POSIX_FD) {
        assert_true(fcntl(shareable.fd, F_GETFD) & FD_CLOEXEC);
        close(shareable.fd);
    }
    assert_int_equal(mapping->handle, 0);
    assert_int_equal(mapping->mapped, exports[index].mapped);
}

static bool make_peer(struct rank_fixture *fixture, enum kern_handle_kind kind)
{
    return fixture_create(fixture, PEERS) &&
           kern_rank_load_modules(fixture->rank, &fixture->diag) &&
           kern_rank_allocate(fixture->rank, kind, &fixture->diag) &&
           kern_rank_compile(fixture->rank, &fixture->diag);
}

static void exports_are_in_order_of_names(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    assert_true(make_peer(&fixture, KERN_HANDLE_FABRIC));
    const struct kern_export *exports;
    assert_int_equal(kern_rank_exports(fixture.rank, &exports), 2);
    assert_string_equal(exports[0].name, "m");
    assert_int_equal(exports[0].target, KERN_TARGET_STATE);
    assert_int_equal(exports[0].bytes, 64);
    assert_int_equal(exports[0].mapped, GRANULARITY);
    assert_string_equal(exports[1].name, "x");
    assert_int_equal(exports[1].target, KERN_TARGET_BUFFER);
    assert_int_equal(exports[1].bytes, 8);
    assert_true(exports[1].handle != 0);
    struct kern_rank_memory memory;
    kern_rank_memory(fixture.rank, &memory);
    assert_int_equal(memory.exported, 2 * GRANULARITY);
    assert_int_equal(memory.states, 2 * GRANULARITY);
    assert_int_equal(memory.io, GRANULARITY + 8);
    assert_int_equal(memory.peer, 32);
    fixture_close(&fixture);
}

static void unfilled_peers_are_refused(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    assert_true(make_peer(&fixture, KERN_HANDLE_FABRIC));
    uint32_t step = fixture_program(&fixture, "step"), px = fixture_buffer(&fixture, "px");
    assert_false(kern_rank_issue(fixture.rank, step, fixture.vars, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_PEER, "programs.step", "px", "group ep", NULL);
    const CUdeviceptr missing[2] = {1, 0};
    assert_false(kern_rank_fill_peer(fixture.rank, px, missing, 2, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_PEER, "px", "member 1", NULL);
    assert_false(kern_rank_fill_peer(fixture.rank, px, missing, 1, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_PEER, "px", "1 addresses", NULL);
    // A program that reads no peer runs all the same.
    fixture_run(&fixture, "bump");
    fixture_close(&fixture);
}

// Two ranks on two devices of one process: what each finds behind its peer array is the other's.
static void two_ranks_share(enum kern_handle_kind kind)
{
    struct rank_fixture ranks[2] = {{.group_index = {0}, .ordinal = 0},
                                    {.group_index = {1}, .ordinal = 1}};
    struct kern_mapping mappings[2] = {{0}};
    for (int r = 0; r < 2; r++) {
        assert_true(make_peer(&ranks[r], kind));
        const int32_t x[2] = {40 + r, 0};
        fixture_write(&ranks[r], "x", x, sizeof(x));
        fixture_run(&ranks[r], "bump"); // orders the copy before the other rank's kernels
    }
    for (int r = 0; r < 2; r++) {
        const struct kern_export *exports;
        share(&ranks[1 - r], &ranks[r], 1, kind, &mappings[r]);
        kern_rank_exports(ranks[r].rank, &exports);
        CUdeviceptr addresses[2];
        addresses[r] = exports[1].address;
        addresses[1 - r] = mappings[r].address;
        assert_true(kern_rank_fill_peer(ranks[r].rank, fixture_buffer(&ranks[r], "px"), addresses,
                                        2, &ranks[r].diag));
        int32_t word = 0;
        assert_true(kern_rank_peek(ranks[r].rank, addresses[1 - r], &word, 4, &ranks[r].diag));
        assert_int_equal(word, 42 - r);
    }
    for (int r = 0; r < 2; r++) {
        int32_t y[2];
        fixture_run(&ranks[r], "step");
        fixture_read(&ranks[r], "y", y, sizeof(y));
        assert_int_equal(y[0], 41);
        assert_int_equal(y[1], 42);
    }
    for (int r = 0; r < 2; r++) {
        int32_t x[2];
        fixture_read(&ranks[r], "x", x, sizeof(x));
        assert_int_equal(x[1], 1 + 2);
    }
    // Poking through a mapping is seen on the other side.
    const int32_t seven = 7;
    assert_true(kern_rank_poke(ranks[0].rank, mappings[0].address, &seven, 4, &ranks[0].diag));
    int32_t x = 0;
    fixture_read(&ranks[1], "x", &x, 4);
    assert_int_equal(x, 7);
    for (int r = 0; r < 2; r++) {
        kern_vmm_destroy(ranks[r].device, &mappings[r]);
        assert_int_equal(mappings[r].mapped, 0);
    }
    // emu counts for the whole process, so the second rank goes before the first is closed.
    kern_rank_destroy(ranks[1].rank, false);
    kern_manifest_destroy(ranks[1].manifest);
    kern_device_close(ranks[1].device);
    kern_diag_clear(&ranks[1].diag);
    fixture_close(&ranks[0]);
}

static void two_ranks_share_by_fabric_handles(void **state)
{
    (void)state;
    two_ranks_share(KERN_HANDLE_FABRIC);
}

static void two_ranks_share_by_file_descriptors(void **state)
{
    (void)state;
    two_ranks_share(KERN_HANDLE_POSIX_FD);
}

static void imports_that_cannot_be(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    assert_true(make_peer(&fixture, KERN_HANDLE_FABRIC));
    const struct kern_export *exports;
    kern_rank_exports(fixture.rank, &exports);
    struct kern_mapping own = {
        .address = exports[0].address, .mapped = exports[0].mapped, .handle = exports[0].handle};
    struct kern_mapping mapping = {0};
    struct kern_shareable shareable;
    assert_false(kern_vmm_export(fixture.device, &own, KERN_HANDLE_POSIX_FD, "m", &shareable,
                                 &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_DEVICE, "exporting m as a posix-fd handle",
                   "cuMemExportToShareableHandle", NULL);
    assert_false(
        kern_vmm_export(fixture.device, &own, KERN_HANDLE_NONE, "m", &shareable, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_DEVICE, "cannot be shared", NULL);
    assert_true(
        kern_vmm_export(fixture.device, &own, KERN_HANDLE_FABRIC, "m", &shareable, &fixture.diag));
    // More than was exported: the import is undone, which fixture_close sees.
    assert_false(kern_vmm_import(fixture.device, 0, &shareable, 2 * own.mapped, "m", &mapping,
                                 &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_DEVICE, "importing m", "cuMemMap", NULL);
    shareable.fabric[5] ^= 1;
    assert_false(
        kern_vmm_import(fixture.device, 0, &shareable, own.mapped, "m", &mapping, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_DEVICE, "cuMemImportFromShareableHandle", NULL);
    assert_int_equal(mapping.mapped, 0);
    fixture_close(&fixture);
}

static void more_memory_than_there_is(void **state)
{
    (void)state;
    struct rank_fixture fixture = {.capacity = 1 << 20, .seqs = 3};
    assert_false(fixture_try(&fixture, STATES));
    fixture_expect(&fixture, KERN_EXIT_DEVICE, "4295049216 bytes", "state kv", "cuMemCreate",
                   "CUDA_ERROR_OUT_OF_MEMORY", NULL);
    fixture_close(&fixture);
}

int main(void)
{
    setenv("KERN_EMU_DEVICES", "2", 1);
    setenv("KERN_EMU_MEMORY", "1G", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_follow_capacity),
        cmocka_unit_test(a_paged_state_needs_a_capacity),
        cmocka_unit_test(a_host_state_is_refused),
        cmocka_unit_test(exports_are_in_order_of_names),
        cmocka_unit_test(unfilled_peers_are_refused),
        cmocka_unit_test(two_ranks_share_by_fabric_handles),
        cmocka_unit_test(two_ranks_share_by_file_descriptors),
        cmocka_unit_test(imports_that_cannot_be),
        cmocka_unit_test(more_memory_than_there_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
