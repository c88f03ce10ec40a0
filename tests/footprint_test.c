// SPDX-License-Identifier: Apache-2.0
//
// The memory that is planned for a rank is what a rank takes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "manifest/footprint.h"
#include "tests/rank_fixture.h"

// Memory of every kind. Sources s1 and s2 are needed together, s3 later, in the place of one.
// clang-format off
#define I32(name, kind, more)                                                                      \
    "'" name "': {'dtype': 'i32', 'shape': [1000], 'kind': '" kind "'" more "},"
#define ADD(from, to)                                                                              \
    "{'op': 'add', 'args': [{'buf': '" from "'}, {'buf': '" to "'}, {'i32': 1}, {'i32': 1000}]}"
#define INDEX(name, state, stride)                                                                 \
    I32(name, "input", ", 'domain': {'index_into': '" state "', 'stride': " stride "}")
#define ADDING "'params': ['in buffer<i32>', 'out buffer<i32>', 'i32', 'i32']"
#define EVERYTHING                                                                                 \
    FIXTURE_HEAD                                                                                   \
    "'vars': {'n': {'max': 300}}, 'topology': {'groups': {'g': 1}},"                               \
    "'states': {'fixed': {'bytes': 100}, 'kv': {'bytes_per_token': 4096},"                         \
    "  'seq': {'bytes_per_seq': 1048576}},"                                                        \
    "'buffers': {" INDEX("a", "kv", "4") INDEX("b", "kv", "6") INDEX("l", "seq", "1024")           \
    I32("w", "weight", ", 'bind': [{'tensor': 't0'}]")                                             \
    I32("h", "weight", ", 'placement': 'host', 'bind': [{'tensor': 't1'}]")                        \
    I32("s1", "source", ", 'bind': [{'tensor': 't2'}]")                                            \
    I32("s2", "source", ", 'bind': [{'tensor': 't3'}]")                                            \
    I32("s3", "source", ", 'bind': [{'tensor': 't4'}]")                                            \
    I32("c1", "carry", "") I32("c2", "carry", ", 'export': true")                                  \
    I32("x", "workspace", "") I32("y", "output", "") I32("e", "output", ", 'export': true")        \
    "'c2_peers': {'dtype': 'u64', 'shape': [1], 'kind': 'peer', 'of': 'c2', 'group': 'g'},"        \
    "'kv_peers': {'dtype': 'u64', 'shape': [1], 'kind': 'peer', 'of': 'kv', 'group': 'g'}},"       \
    "'ops': {'add': {" ADDING ", 'impl': {'launches': [" FIXTURE_LAUNCH("add") "}]}},"             \
    "  'touch': {'params': ['inout state', 'i32'], 'impl': {'launches': ["                         \
    FIXTURE_LAUNCH("count_up") "}]}},"                                                             \
    "  'look': {'params': ['in buffer<u64>', 'out buffer<i32>'], 'impl': {"                        \
    "    'scratch': {'t': {'dtype': 'i32', 'shape': ['n', 7]}}, 'launches': ["                     \
    FIXTURE_LAUNCH("add") ", 'params': ['in buffer<u64>', 'out buffer<i32>', 'i32', 'i32'],"       \
    "     'args': [{'param': 0}, {'scratch': 't'}, {'i32': 0}, {'i32': 1}]},"                      \
    FIXTURE_LAUNCH("add") ", " ADDING ","                                                          \
    "     'args': [{'scratch': 't'}, {'param': 1}, {'i32': 0}, {'i32': 1}]}]}},"                   \
    "  'both': {'params': ['in buffer<i32>', 'in buffer<i32>', 'out buffer<i32>'], 'impl': {"      \
    "    'launches': [" FIXTURE_LAUNCH("add") ", " ADDING ","                                      \
    "     'args': [{'param': 0}, {'param': 2}, {'i32': 0}, {'i32': 1}]},"                          \
    FIXTURE_LAUNCH("add") ", " ADDING ","                                                          \
    "     'args': [{'param': 1}, {'param': 2}, {'i32': 0}, {'i32': 1}]}]}}},"                      \
    "'programs': {'derive': {'derive': true, 'calls': ["                                           \
    "    {'op': 'both', 'args': [{'buf': 's1'}, {'buf': 's2'}, {'buf': 'c1'}]},"                   \
    ADD("s3", "c2") "]},"                                                                          \
    "  'step': {'calls': ["                                                                        \
    "    {'op': 'touch', 'args': [{'state': 'fixed'}, {'i32': 1}]},"                               \
    "    {'op': 'touch', 'args': [{'state': 'kv'}, {'i32': 1}]},"                                  \
    "    {'op': 'touch', 'args': [{'state': 'seq'}, {'i32': 1}]},"                                 \
    "    {'op': 'look', 'args': [{'buf': 'c2_peers'}, {'buf': 'x'}]},"                             \
    "    {'op': 'look', 'args': [{'buf': 'kv_peers'}, {'buf': 'x'}]},"                             \
    ADD("a", "y") "," ADD("b", "y") "," ADD("l", "y") "," ADD("w", "y") "," ADD("h", "e") "]}}}"
// clang-format on

static void test_the_plan_is_what_a_rank_takes(void **state)
{
    (void)state;
    struct rank_fixture fixture = {.capacity = 1000, .seqs = 3};
    fixture_open(&fixture, EVERYTHING);
    struct kern_footprint footprint;
    assert_true(kern_footprint_plan(fixture.manifest, 1000, 3, &footprint, &fixture.diag));
    struct kern_rank_memory memory;
    kern_rank_memory(fixture.rank, &memory);
    assert_int_equal(footprint.taken[KERN_MEMORY_WEIGHTS], memory.weights);
    assert_int_equal(footprint.taken[KERN_MEMORY_WORKSPACE], memory.workspace);
    assert_int_equal(footprint.taken[KERN_MEMORY_CARRY], memory.carry);
    assert_int_equal(footprint.taken[KERN_MEMORY_IO], memory.io);
    assert_int_equal(footprint.taken[KERN_MEMORY_PEER], memory.peer);
    assert_int_equal(footprint.taken[KERN_MEMORY_SCRATCH], memory.scratch);
    assert_int_equal(footprint.taken[KERN_MEMORY_STATES], memory.states);
    assert_int_equal(footprint.exported, memory.exported);
    struct kern_provision provision = kern_rank_provision(fixture.rank);
    assert_int_equal(footprint.provision.page, 12);
    assert_int_equal(footprint.provision.tokens, provision.tokens);
    assert_int_equal(footprint.provision.slots, provision.slots);
    kern_footprint_free(&footprint);
    fixture_close(&fixture);
}

static void test_figures(void **state)
{
    (void)state;
    struct rank_fixture fixture = {.capacity = 1000, .seqs = 3};
    fixture_open(&fixture, EVERYTHING);
    struct kern_footprint footprint;
    assert_true(kern_footprint_plan(fixture.manifest, 1000, 3, &footprint, &fixture.diag));
    uint64_t sum = 0;
    for (enum kern_memory_kind kind = 0; kind < KERN_MEMORY_KINDS; kind++)
        sum += footprint.taken[kind];
    assert_int_equal(footprint.total, sum);
    for (size_t i = 1; i < footprint.n_items; i++)
        assert_true(footprint.items[i - 1].taken >= footprint.items[i].taken);
    // 5 slots of 1 MiB come to 3 granules, 1020 tokens of 4 KiB to 2, and are the largest.
    assert_string_equal(footprint.items[0].name, "seq");
    assert_int_equal(footprint.items[0].bytes, 5 << 20);
    assert_int_equal(footprint.items[0].taken, 6 << 20);
    assert_string_equal(footprint.items[1].name, "kv");
    assert_true(footprint.items[1].exported);
    assert_int_equal(footprint.taken[KERN_MEMORY_SCRATCH], 4 * 300 * 7);
    // Two windows of 4000 bytes, the second at a multiple of 256.
    assert_int_equal(footprint.sources, 4096 + 4000);
    assert_int_equal(footprint.staging, 5 * 4000);
    assert_int_equal(footprint.host_weights, 4000);
    assert_int_equal(footprint.upload, 8 * 4000);
    kern_footprint_free(&footprint);
    fixture_close(&fixture);
}

// What no rank can be given is refused as the rank would.
static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        uint64_t capacity, seqs;
        const char *says;
    } cases[] = {
        {0, 3, "states.kv: 0 tokens"},
        {UINT64_MAX, 3, "beyond 64 bits"},
        {1000, UINT64_MAX, "beyond 64 bits"},
        {UINT64_MAX / 2, 3, "states.kv"},
        {1000, UINT64_MAX / 1048576, "states.seq"},
        {UINT64_MAX / 8192, UINT64_MAX / 1048576 - 8, "all memory together"},
    };
    struct rank_fixture fixture = {.capacity = 1000, .seqs = 3};
    fixture_open(&fixture, EVERYTHING);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kern_diag diag = {0};
        struct kern_footprint footprint;
        assert_false(kern_footprint_plan(fixture.manifest, cases[i].capacity, cases[i].seqs,
                                         &footprint, &diag));
        assert_int_equal(diag.count, 1);
        assert_int_equal(diag.entries[0].code, KERN_EXIT_USAGE);
        assert_non_null(strstr(kern_diag_line(&diag, 0), cases[i].says));
        assert_int_equal(footprint.n_items, 0);
        kern_diag_clear(&diag);
    }
    fixture_close(&fixture);
}

// With pages of one token the pages that are held beside those of the capacity are what is beyond.
static void test_a_capacity_of_all_there_are(void **state)
{
    (void)state;
    struct kern_diag diag = {0};
    struct kern_provision_plan plan;
    struct kern_state paged = {.name = "kv", .bytes_per_token = 16};
    struct kern_manifest manifest = {.states = &paged, .n_states = 1};
    assert_true(kern_provision_plan(&manifest, UINT64_MAX - KERN_HELD_PAGES, 3, &plan, &diag));
    assert_int_equal(plan.tokens, UINT64_MAX);
    assert_false(kern_provision_plan(&manifest, UINT64_MAX, 3, &plan, &diag));
    assert_int_equal(diag.entries[0].code, KERN_EXIT_USAGE);
    assert_non_null(strstr(diag.entries[0].text, "beyond 64 bits"));
    kern_diag_clear(&diag);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_plan_is_what_a_rank_takes),
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_a_capacity_of_all_there_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
