// SPDX-License-Identifier: Apache-2.0
//
// Programs from a manifest to their results on the emulated device: parameters, packs, expressions,
// conditions, and what is refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "device/abi/host_module.h"
#include "emu/tensormap.h"
#include "tests/rank_fixture.h"

// y = x + 10, then y = y + n; run for n of 8 elements.
// clang-format off
#define ADD_TWICE                                                                                  \
    FIXTURE_HEAD                                                                                   \
    "'vars': {'n': {'max': 8}},"                                                                   \
    "'buffers': {'x': {'dtype': 'i32', 'shape': ['n'], 'kind': 'input',"                           \
    "   'domain': {'min': 0, 'max': 100}},"                                                        \
    " 'y': {'dtype': 'i32', 'shape': ['n'], 'kind': 'output'}},"                                   \
    "'ops': {'add': {'params': ['in buffer<i32>', 'out buffer<i32>', 'i32', 'i32'],"               \
    "  'impl': {'launches': [" FIXTURE_LAUNCH("add") "}]}}},"                                      \
    "'programs': {'step': {'calls': ["                                                             \
    "  {'op': 'add', 'args': [{'buf': 'x'}, {'buf': 'y'}, {'i32': 10}, {'var': 'n'}]},"            \
    "  {'label': 'again\\n', 'op': 'add', 'args': [{'buf': 'y'}, {'buf': 'y'}, {'var': 'n'},"      \
    "   {'var': 'n'}]}]}}}"
// clang-format on

static void a_program_runs_end_to_end(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    fixture_open(&fixture, ADD_TWICE);
    assert_true(kern_rank_load_weights(fixture.rank, NULL, 0, &fixture.diag));
    assert_true(kern_rank_derive(fixture.rank, &fixture.diag));
    const int32_t x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (uint64_t n = 1; n <= 8; n += 7) {
        int32_t y[8] = {0};
        fixture_set_var(&fixture, "n", n);
        fixture_write(&fixture, "x", x, n * 4);
        fixture_run(&fixture, "step");
        fixture_read(&fixture, "y", y, n * 4);
        for (uint64_t i = 0; i < n; i++) {
            assert_int_equal(y[i], x[i] + 10 + (int32_t)n);
        }
    }
    uint64_t nanoseconds = 0;
    assert_true(kern_rank_elapsed(fixture.rank, &nanoseconds, &fixture.diag));
    assert_true(nanoseconds < 20 * KERN_NS_PER_SECOND);
    fixture_close(&fixture);
}

static void launches_are_timed(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    fixture_open(&fixture, ADD_TWICE);
    assert_true(kern_rank_load_weights(fixture.rank, NULL, 0, &fixture.diag));
    assert_true(kern_rank_derive(fixture.rank, &fixture.diag));
    const int32_t x[8] = {0};
    const struct kern_launch_time *times;
    size_t count;
    fixture_set_var(&fixture, "n", 8);
    fixture_write(&fixture, "x", x, sizeof x);
    fixture_run(&fixture, "step");
    assert_true(kern_rank_launch_times(fixture.rank, &times, &count, &fixture.diag));
    assert_int_equal(count, 0); // nobody asked
    assert_true(kern_rank_time_launches(fixture.rank, &fixture.diag));
    for (int run = 0; run < 3; run++) {
        uint64_t nanoseconds = 0;
        fixture_write(&fixture, "x", x, sizeof x);
        fixture_run(&fixture, "step");
        assert_true(kern_rank_elapsed(fixture.rank, &nanoseconds, &fixture.diag));
        assert_true(kern_rank_launch_times(fixture.rank, &times, &count, &fixture.diag));
        assert_int_equal(count, 2);
        assert_non_null(strstr(times[0].place, "programs.step.calls[0]"));
        assert_non_null(strstr(times[1].place, "programs.step.calls[1] (again?, op add)"));
        assert_int_equal(times[0].begin, 0);
        assert_true(times[0].end >= times[0].begin && times[0].end == times[1].begin);
        assert_true(times[1].end >= times[1].begin && times[1].end <= nanoseconds);
    }
    fixture_close(&fixture);
}

static void facts_of_a_program(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    fixture_open(&fixture, ADD_TWICE);
    struct kern_program_facts facts;
    fixture_set_var(&fixture, "n", 3);
    assert_true(kern_rank_program_facts(fixture.rank, 0, fixture.vars, &facts, &fixture.diag));
    assert_int_equal(facts.launches, 2);
    assert_int_equal(facts.bytes, 4 * 3 * 4);
    assert_true(facts.reads_var[0]);
    assert_true(facts.touches_buffer[0] && facts.touches_buffer[1]);
    struct kern_rank_memory memory;
    kern_rank_memory(fixture.rank, &memory);
    assert_int_equal(memory.io, 64);
    assert_int_equal(memory.weights + memory.carry + memory.states + memory.exported, 0);
    fixture_close(&fixture);
}

static void values_outside_a_domain_are_refused(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    fixture_open(&fixture, ADD_TWICE);
    const int32_t x[2] = {7, 101};
    uint32_t buffer = fixture_buffer(&fixture, "x");
    assert_true(kern_rank_write(fixture.rank, buffer, x, 4, fixture.vars, &fixture.diag));
    assert_false(kern_rank_write(fixture.rank, buffer, x, 8, fixture.vars, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_ARTIFACT, "x", "101", "100", NULL);
    // What was refused has not been copied.
    int32_t y = 0;
    fixture_run(&fixture, "step");
    fixture_read(&fixture, "y", &y, 4);
    assert_int_equal(y, 7 + 10 + 1);
    fixture_close(&fixture);
}

static void wrong_uses_are_refused(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    fixture_open(&fixture, ADD_TWICE);
    int32_t words[16] = {0};
    uint32_t x = fixture_buffer(&fixture, "x"), y = fixture_buffer(&fixture, "y");
    assert_false(kern_rank_write(fixture.rank, y, words, 4, fixture.vars, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_USAGE, "buffer y", "output", NULL);
    assert_false(kern_rank_read(fixture.rank, x, words, 4, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_USAGE, "buffer x", "input", NULL);
    assert_false(kern_rank_write(fixture.rank, x, words, 36, fixture.vars, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_ARTIFACT, "buffer x", "36", "32", NULL);
    assert_false(kern_rank_read(fixture.rank, y, words, 3, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_ARTIFACT, "buffer y", NULL);
    for (uint64_t n = 0; n <= 9; n += 9) {
        fixture_set_var(&fixture, "n", n);
        assert_false(kern_rank_issue(fixture.rank, 0, fixture.vars, &fixture.diag));
        fixture_expect(&fixture, KERN_EXIT_USAGE, "programs.step", "var n", "1 to 8", NULL);
    }
    uint64_t nanoseconds = 0;
    assert_false(kern_rank_elapsed(fixture.rank, &nanoseconds, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_USAGE, "issued", NULL);
    fixture_close(&fixture);
}

static void a_carry_is_zero_at_first_and_kept(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    // clang-format off
    fixture_open(&fixture,
                 FIXTURE_HEAD
                 "'buffers': {'c': {'dtype': 'i32', 'shape': [1], 'kind': 'carry'}},"
                 "'ops': {'count': {'params': ['inout buffer<i32>', 'i32'],"
                 "  'impl': {'launches': [" FIXTURE_LAUNCH("count_up") "}]}}},"
                 "'programs': {'step': {'calls': [{'op': 'count', 'args': [{'buf': 'c'},"
                 " {'i32': -3}]}]}}}");
    // clang-format on
    int32_t count = 1;
    fixture_read(&fixture, "c", &count, 4);
    assert_int_equal(count, 0);
    for (int i = 1; i <= 5; i++) {
        fixture_run(&fixture, "step");
        fixture_read(&fixture, "c", &count, 4);
        assert_int_equal(count, -3 * i);
    }
    fixture_close(&fixture);
}

static void scalars_of_every_type(void **state)
{
    (void)state;
    struct rank_fixture fixture = {.group_index = {2}};
    // clang-format off
    fixture_open(&fixture,
                 FIXTURE_HEAD
                 "'topology': {'groups': {'g': 4}}, 'vars': {'n': {'max': 100}},"
                 "'buffers': {'y': {'dtype': 'u8', 'shape': [64], 'kind': 'output'}},"
                 "'ops': {'s': {'params': ['out buffer<u8>', 'u8', 'i64', 'f32', 'i32'],"
                 "  'impl': {'launches': [" FIXTURE_LAUNCH("scalars") "}]}}},"
                 "'programs': {"
                 " 'a': {'calls': [{'op': 's', 'args': [{'buf': 'y', 'offset': 8}, {'u8': 255},"
                 "  {'i64': -2}, {'f32': 1.5}, {'rank': 'g'}]}]},"
                 " 'b': {'calls': [{'op': 's', 'args': [{'buf': 'y'}, {'var': 'n'},"
                 "  {'expr': {'mul': [{'add': ['n', 1]}, 1000000000000]}}, {'f32': -0.0},"
                 "  {'expr': {'ceil_div': ['n', 8]}}]}]}}}");
    // clang-format on
    uint8_t y[64];
    int64_t wide;
    float real;
    int32_t word;
    fixture_run(&fixture, "a");
    fixture_read(&fixture, "y", y, sizeof(y));
    memcpy(&wide, y + 16, 8);
    memcpy(&real, y + 24, 4);
    memcpy(&word, y + 28, 4);
    assert_int_equal(y[8], 255);
    assert_int_equal(wide, -2);
    assert_true(real == 1.5f);
    assert_int_equal(word, 2);

    fixture_set_var(&fixture, "n", 41);
    fixture_run(&fixture, "b");
    fixture_read(&fixture, "y", y, sizeof(y));
    memcpy(&wide, y + 8, 8);
    memcpy(&word, y + 20, 4);
    assert_int_equal(y[0], 41);
    assert_int_equal(wide, 42000000000000);
    assert_int_equal(y[19], 0x80);
    assert_int_equal(word, 6);
    fixture_close(&fixture);
}

// clang-format off
#define GEOMETRY(launch)                                                                           \
    FIXTURE_HEAD                                                                                   \
    "'vars': {'n': {'max': 64}},"                                                                  \
    "'buffers': {'y': {'dtype': 'u8', 'shape': [64], 'kind': 'output'}},"                          \
    "'ops': {'g': {'params': ['out buffer<u8>'], 'impl': {'launches': ["                           \
    "  {'module': 'k', 'entry': 'geometry', " launch "}]}}},"                                      \
    "'programs': {'step': {'calls': [{'op': 'g', 'args': [{'buf': 'y'}]}]}}}"
// clang-format on

#define FIXTURE_GRID(grid)                                                                         \
    "{'module': 'k', 'entry': 'geometry', 'block': [1, 1, 1], 'grid': " grid "}"

static struct kern_host_grid run_geometry(struct rank_fixture *fixture, uint64_t n)
{
    struct kern_host_grid grid;
    fixture_set_var(fixture, "n", n);
    fixture_run(fixture, "step");
    fixture_read(fixture, "y", &grid, sizeof(grid));
    return grid;
}

static void grids_and_shared_memory_are_expressions(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    // clang-format off
    fixture_open(&fixture, GEOMETRY("'block': [32, 2, 1],"
                                    "'grid': [{'mul': [{'ceil_div': ['n', 8]}, 2]}, 'n', 3],"
                                    "'shared_mem': {'mul': ['n', 1024]}, 'cluster': [2, 1, 3]"));
    // clang-format on
    struct kern_host_grid grid = run_geometry(&fixture, 9);
    assert_int_equal(grid.grid[0], 4);
    assert_int_equal(grid.grid[1], 9);
    assert_int_equal(grid.grid[2], 3);
    assert_int_equal(grid.block[0], 32);
    assert_int_equal(grid.block[1], 2);
    assert_int_equal(grid.cluster[0], 2);
    assert_int_equal(grid.cluster[1], 1);
    assert_int_equal(grid.cluster[2], 3);
    assert_int_equal(grid.dynamic_shared, 9 * 1024);
    // 64 KiB are more than a block gets without opting in.
    grid = run_geometry(&fixture, 64);
    assert_int_equal(grid.dynamic_shared, 64 * 1024);
    fixture_close(&fixture);
}

static void a_large_cluster_with_programmatic_launch(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    // clang-format off
    fixture_open(&fixture, GEOMETRY("'block': [1, 1, 1], 'grid': [{'mul': ['n', 16]}, 1, 1],"
                                    "'cluster': [16, 1, 1], 'pdl': true"));
    // clang-format on
    struct kern_host_grid grid = run_geometry(&fixture, 2);
    assert_int_equal(grid.grid[0], 32);
    assert_int_equal(grid.cluster[0], 16);
    fixture_close(&fixture);
}

// Both corners are multiples of the cluster, some values between are not.
static void a_grid_that_a_cluster_does_not_divide(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    // clang-format off
    fixture_open(&fixture, GEOMETRY("'block': [1, 1, 1], 'grid': [{'add': ['n', 1]}, 1, 1],"
                                    "'cluster': [1, 1, 1]"));
    // clang-format on
    assert_int_equal(run_geometry(&fixture, 3).grid[0], 4);
    fixture_close(&fixture);
    // clang-format off
    fixture_open(&fixture,
                 GEOMETRY("'block': [1, 1, 1],"
                          "'grid': [{'add': [{'clamp': ['n', 1, 1]}, {'add': [{'clamp': ['n', 8, "
                          "1]}, 2]}]}, 1, 1], 'cluster': [2, 1, 1]"));
    // clang-format on
    assert_int_equal(run_geometry(&fixture, 1).grid[0], 2);
    assert_int_equal(run_geometry(&fixture, 64).grid[0], 4);
    fixture_set_var(&fixture, "n", 5);
    assert_false(kern_rank_issue(fixture.rank, 0, fixture.vars, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_MANIFEST, "programs.step.calls[0] (g) launch 0 geometry",
                   "3 x 1 x 1", "cluster 2 x 1 x 1", NULL);
    assert_true(kern_rank_wait(fixture.rank, kern_deadline_in(20), NULL, &fixture.diag));
    fixture_close(&fixture);
}

static void conditions_and_empty_grids(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    // clang-format off
    fixture_open(&fixture,
                 FIXTURE_HEAD
                 "'vars': {'n': {'max': 64}},"
                 "'buffers': {'c': {'dtype': 'i32', 'shape': [4], 'kind': 'carry'}},"
                 "'ops': {'count': {'params': ['inout buffer<i32>'], 'impl': {'launches': ["
                 "  {'module': 'k', 'entry': 'count_up', 'block': [1,1,1], 'grid': [1,1,1],"
                 "   'params': ['inout buffer<i32>', 'i32'], 'args': [{'param': 0}, {'i32': 1}],"
                 "   'when': {'var': 'n', 'max': 16}},"
                 "  {'module': 'k', 'entry': 'count_up', 'block': [1,1,1], 'grid': [1,1,1],"
                 "   'params': ['inout buffer<i32>', 'i32'], 'args': [{'param': 0}, {'i32': 100}],"
                 "   'when': {'var': 'n', 'min': 17, 'max': 32}},"
                 "  {'module': 'k', 'entry': 'count_up', 'block': [1,1,1],"
                 "   'grid': [{'clamp': ['n', 32, 1]},1,1],"
                 "   'params': ['inout buffer<i32>', 'i32'], 'args': [{'param': 0}, {'i32': "
                 "10000}]}]}}},"
                 "'programs': {'step': {'calls': [{'op': 'count', 'args': [{'buf': 'c', 'offset': "
                 "8}]}]}}}");
    // clang-format on
    static const struct {
        uint64_t n;
        int32_t added;
    } cases[] = {{1, 1}, {16, 1}, {17, 100}, {32, 100}, {33, 10000}, {64, 10000}};
    int32_t expected = 0;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        int32_t counters[4];
        fixture_set_var(&fixture, "n", cases[i].n);
        fixture_run(&fixture, "step");
        fixture_read(&fixture, "c", counters, sizeof(counters));
        expected += cases[i].added;
        assert_int_equal(counters[2], expected);
        assert_int_equal(counters[0] + counters[1] + counters[3], 0);
    }
    fixture_close(&fixture);
}

// A launch that no value of the var lets run asks for nothing, so that its geometry, which no
// device takes, keeps nobody from loading.
static void a_launch_that_never_runs(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    // clang-format off
    fixture_open(&fixture,
                 FIXTURE_HEAD
                 "'vars': {'n': {'max': 64}},"
                 "'buffers': {'c': {'dtype': 'i32', 'shape': [4], 'kind': 'carry'}},"
                 "'ops': {'count': {'params': ['inout buffer<i32>'], 'impl': {'launches': ["
                 "  {'module': 'k', 'entry': 'count_up', 'block': [1,1,1], 'grid': [1,70000,1],"
                 "   'params': ['inout buffer<i32>', 'i32'], 'args': [{'param': 0}, {'i32': 10}],"
                 "   'when': {'var': 'n', 'min': 65}},"
                 "  {'module': 'k', 'entry': 'count_up', 'block': [1,1,1], 'grid': [1,1,1],"
                 "   'params': ['inout buffer<i32>', 'i32'], 'args': [{'param': 0}, {'i32': 100}],"
                 "   'shared_mem': 300000, 'when': {'var': 'n', 'max': 0}},"
                 "  {'module': 'k', 'entry': 'count_up', 'block': [1,1,1], 'grid': [1,1,1],"
                 "   'params': ['inout buffer<i32>', 'i32'], 'args': [{'param': 0}, {'i32': 1}],"
                 "   'shared_mem': 1024, 'when': {'var': 'n', 'min': 64}}]}}},"
                 "'programs': {'step': {'calls': [{'op': 'count', 'args': [{'buf': 'c'}]}]}}}");
    // clang-format on
    int32_t counters[4];
    fixture_run(&fixture, "step");
    fixture_set_var(&fixture, "n", 64);
    fixture_run(&fixture, "step");
    fixture_read(&fixture, "c", counters, sizeof(counters));
    assert_int_equal(counters[0], 1);
    fixture_close(&fixture);
}

// Launches follow the vars whatever came between: they were not run, the grid was empty, or the
// step was refused. Both grids are the same expression, which is one value.
static void launches_follow_the_vars(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    // clang-format off
    fixture_open(&fixture,
                 FIXTURE_HEAD
                 "'vars': {'n': {'max': 64}},"
                 "'buffers': {'y': {'dtype': 'u8', 'shape': [64], 'kind': 'output'},"
                 "           'z': {'dtype': 'u8', 'shape': [64], 'kind': 'output'}},"
                 "'ops': {'g': {'params': ['out buffer<u8>'], 'impl': {'launches': ["
                 FIXTURE_GRID("[{'clamp': ['n', 0, 40]}, 1, 1], 'when': {'var': 'n', 'max': 50}")
                 "]}}, 'h': {'params': ['out buffer<u8>'], 'impl': {'launches': ["
                 FIXTURE_GRID("[{'clamp': ['n', 0, 40]}, {'clamp': ['n', 2, 40]}, 1],"
                              " 'shared_mem': {'mul': ['n', 16]}") "]}}},"
                 "'programs': {'step': {'calls': [{'op': 'g', 'args': [{'buf': 'y'}]},"
                 " {'op': 'h', 'args': [{'buf': 'z'}]}]}}}");
    // clang-format on
    static const struct {
        uint64_t n;
        uint32_t y, z_rows, z_shared; // what the grids are then, or were before
    } cases[] = {{5, 5, 3, 80},    {60, 5, 40, 960}, {5, 5, 3, 80},  {2, 2, 3, 80},
                 {60, 2, 40, 960}, {7, 7, 5, 112},   {7, 7, 5, 112}, {3, 3, 1, 48}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct kern_host_grid y = run_geometry(&fixture, cases[i].n), z;
        fixture_read(&fixture, "z", &z, sizeof(z));
        assert_int_equal(y.grid[0], cases[i].y);
        assert_int_equal(z.grid[1], cases[i].z_rows);
        assert_int_equal(z.dynamic_shared, cases[i].z_shared);
    }
    fixture_set_var(&fixture, "n", 65);
    assert_false(kern_rank_issue(fixture.rank, 0, fixture.vars, &fixture.diag));
    kern_diag_clear(&fixture.diag);
    assert_int_equal(run_geometry(&fixture, 9).grid[0], 9);
    fixture_close(&fixture);
}

// What overflows is an error of a launch that runs, and of no other.
static void a_value_that_overflows(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    // clang-format off
    fixture_open(&fixture,
                 FIXTURE_HEAD
                 "'vars': {'n': {'max': 64}},"
                 "'buffers': {'y': {'dtype': 'u8', 'shape': [64], 'kind': 'output'}},"
                 "'ops': {'g': {'params': ['out buffer<u8>'], 'impl': {'launches': ["
                 FIXTURE_GRID("['n', 1, 1]") ","
                 FIXTURE_GRID("[{'clamp': [{'mul': ['n', 9223372036854775807]}, 0, 7]}, 1, 1],"
                              " 'when': {'var': 'n', 'max': 2}") "]}}},"
                 "'programs': {'step': {'calls': [{'op': 'g', 'args': [{'buf': 'y'}]}]}}}");
    // clang-format on
    assert_int_equal(run_geometry(&fixture, 2).grid[0], 7);
    assert_int_equal(run_geometry(&fixture, 3).grid[0], 3);
    assert_int_equal(run_geometry(&fixture, 1).grid[0], 7);
    fixture_close(&fixture);
}

static void packs_hold_every_source(void **state)
{
    (void)state;
    struct rank_fixture fixture = {.group_index = {3}, .capacity = 8};
    // clang-format off
    fixture_open(
        &fixture,
        FIXTURE_HEAD
        "'topology': {'groups': {'g': 4}}, 'vars': {'n': {'max': 300}},"
        "'states': {'kv': {'bytes_per_token': 256}},"
        "'buffers': {'w': {'dtype': 'bf16', 'shape': [4096], 'kind': 'carry', 'export': true},"
        " 'y': {'dtype': 'u8', 'shape': [256], 'kind': 'output'}},"
        "'ops': {'d': {'params': ['inout buffer<bf16>', 'inout state', 'out buffer<u8>', 'i32',"
        "  'i32'], 'impl': {'scratch': {'s': {'dtype': 'f32', 'shape': ['n']}},"
        "  'launches': [{'module': 'k', 'entry': 'dump', 'block': [1,1,1], 'grid': [1,1,1],"
        "   'params': ['bytes<256>', 'out buffer<u8>'],"
        "   'args': [{'pack': {'size': 256, 'fields': ["
        "     {'at': 0, 'tensormap': {'param': 0, 'dtype': 'bf16', 'dims': [64, 0],"
        "      'strides': [128], 'box': [64, 8], 'swizzle': 128, 'l2_promotion': 256,"
        "      'oob_nan': true}},"
        "     {'at': 128, 'param': 0}, {'at': 136, 'param': 1}, {'at': 144, 'scratch': 's'},"
        "     {'at': 152, 'i32': -1}, {'at': 160, 'i64': -5}, {'at': 168, 'f32': 2.0},"
        "     {'at': 172, 'u8': 7}, {'at': 174, 'width': 2, 'i32': -3}, {'at': 176, 'var': 'n'},"
        "     {'at': 180, 'expr': {'add': ['n', 5]}}, {'at': 184, 'rank': 'g'},"
        "     {'at': 190, 'width': 2, 'var': 'n'}, {'at': 192, 'width': 8, 'var': 'n'},"
        "     {'at': 200, 'param': 3}, {'at': 208, 'width': 8, 'i32': -7},"
        "     {'at': 216, 'width': 8, 'param': 4}, {'at': 224, 'param': 4},"
        "     {'at': 230, 'width': 2, 'param': 4}]}}, {'param': 2}]}]}}},"
        "'programs': {'step': {'calls': [{'op': 'd', 'args': [{'buf': 'w', 'offset': 256},"
        "  {'state': 'kv', 'offset': 512}, {'buf': 'y'}, {'expr': {'mul': ['n', 3]}}, {'i32': -9}]}]}}}");
    // clang-format on
    const struct kern_export *exports;
    assert_int_equal(kern_rank_exports(fixture.rank, &exports), 1);
    for (uint64_t n = 200; n <= 300; n += 100) {
        uint8_t y[256];
        uint64_t pointer, wide;
        int32_t words[14], narrow;
        fixture_set_var(&fixture, "n", n);
        fixture_run(&fixture, "step");
        fixture_read(&fixture, "y", y, sizeof(y));
        struct kern_emu_tensor_map map;
        memcpy(&map, y, sizeof(map));
        assert_int_equal(map.magic, KERN_EMU_TENSOR_MAP_MAGIC);
        assert_int_equal(map.address, exports[0].address + 256);
        assert_int_equal(map.data_type, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
        assert_int_equal(map.rank, 2);
        assert_int_equal(map.dims[0], 64);
        assert_int_equal(map.dims[1], (8192 - 256) / 128); // what is left of the buffer
        assert_int_equal(map.strides[0], 128);
        assert_int_equal(map.box[0], 64);
        assert_int_equal(map.box[1], 8);
        assert_int_equal(map.swizzle, CU_TENSOR_MAP_SWIZZLE_128B);
        assert_int_equal(map.promotion, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
        assert_int_equal(map.fill, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);
        memcpy(&pointer, y + 128, 8);
        assert_int_equal(pointer, exports[0].address + 256);
        memcpy(&pointer, y + 144, 8);
        assert_true(pointer != 0);
        memcpy(words, y + 152, sizeof(words));
        assert_int_equal(words[0], -1);
        memcpy(&wide, y + 160, 8);
        assert_int_equal((int64_t)wide, -5);
        assert_int_equal(words[4], 0x40000000);
        assert_int_equal(y[172], 7);
        assert_int_equal(y[173], 0);
        assert_int_equal(y[174], 0xfd);
        assert_int_equal(y[175], 0xff);
        assert_int_equal(words[6], n);
        assert_int_equal(words[7], n + 5);
        assert_int_equal(words[8], 3);
        assert_int_equal(y[190] + 256 * y[191], n);
        memcpy(&wide, y + 192, 8);
        assert_int_equal(wide, n);
        assert_int_equal(words[12], 3 * n);
        assert_int_equal(words[13], 0);
        // A field that is wider than an i32 has its sign.
        memcpy(&wide, y + 208, 8);
        assert_int_equal((int64_t)wide, -7);
        memcpy(&wide, y + 216, 8);
        assert_int_equal((int64_t)wide, -9);
        memcpy(&narrow, y + 224, 4);
        assert_int_equal(narrow, -9);
        assert_int_equal(y[228] + y[229], 0);
        assert_int_equal(y[230], 0xf7);
        assert_int_equal(y[231], 0xff);
        assert_int_equal(y[232], 0);
    }
    fixture_close(&fixture);
}

// How much of a state there is behind an offset is known here, not in the manifest.
static void a_tensormap_that_finds_no_slice(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    // clang-format off
    assert_false(fixture_try(
        &fixture,
        FIXTURE_HEAD
        "'states': {'s': {'bytes': 4096}},"
        "'buffers': {'y': {'dtype': 'u8', 'shape': [256], 'kind': 'output'}},"
        "'ops': {'d': {'params': ['inout state', 'out buffer<u8>'],"
        "  'impl': {'launches': [{'module': 'k', 'entry': 'dump', 'block': [1,1,1],"
        "   'grid': [1,1,1], 'params': ['bytes<256>', 'out buffer<u8>'],"
        "   'args': [{'pack': {'size': 256, 'fields': ["
        "     {'at': 64, 'tensormap': {'param': 0, 'dtype': 'u8', 'dims': [64, 2, 0],"
        "      'strides': [64, 128], 'box': [16, 1, 1]}}]}}, {'param': 1}]}]}}},"
        "'programs': {'step': {'calls': [{'op': 'd', 'args': [{'state': 's', 'offset': 4000},"
        " {'buf': 'y'}]}]}}}"));
    // clang-format on
    fixture_expect(&fixture, KERN_EXIT_MANIFEST, "programs.step.calls[0] (d) launch 0 dump",
                   "96 bytes", NULL);
    fixture_close(&fixture);
}

// The artifact of the examples, with its real kernels.
static void the_example_artifact_runs(void **state)
{
    (void)state;
    static const char *const dirs[] = {KERN_BUILD_DIR "/kernels"};
    struct rank_fixture fixture = {
        .artifact = KERN_BUILD_DIR "/kernels/toy_scale.so", .dirs = dirs, .n_dirs = 1};
    if (access(fixture.artifact, R_OK) != 0) {
        skip();
    }
    // clang-format off
    fixture_open(&fixture,
                 FIXTURE_HEAD
                 "'vars': {'n': {'max': 1000}},"
                 "'buffers': {'x': {'dtype': 'f32', 'shape': ['n'], 'kind': 'input'},"
                 " 'y': {'dtype': 'f32', 'shape': ['n'], 'kind': 'output'}},"
                 "'ops': {'scale': {'params': ['in buffer<f32>', 'out buffer<f32>', 'f32', 'f32',"
                 "  'i32'], 'impl': {'launches': [{'module': 'k', 'entry': 'toy_scale_f32',"
                 "  'block': [128,1,1], 'grid': [{'ceil_div': ['n', 128]},1,1]}]}}},"
                 "'programs': {'step': {'calls': [{'op': 'scale', 'args': [{'buf': 'x'},"
                 "  {'buf': 'y'}, {'f32': 1.5}, {'f32': -0.25}, {'var': 'n'}]}]}}}");
    // clang-format on
    static float x[1000], y[1000];
    for (int i = 0; i < 1000; i++) {
        x[i] = (float)i;
    }
    fixture_set_var(&fixture, "n", 999);
    fixture_write(&fixture, "x", x, sizeof(x));
    fixture_run(&fixture, "step");
    fixture_read(&fixture, "y", y, sizeof(y));
    for (int i = 0; i < 999; i++) {
        assert_true(y[i] == 1.5f * x[i] - 0.25f);
    }
    assert_true(y[999] == 0);
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_runs_end_to_end),
        cmocka_unit_test(launches_are_timed),
        cmocka_unit_test(facts_of_a_program),
        cmocka_unit_test(values_outside_a_domain_are_refused),
        cmocka_unit_test(wrong_uses_are_refused),
        cmocka_unit_test(a_carry_is_zero_at_first_and_kept),
        cmocka_unit_test(scalars_of_every_type),
        cmocka_unit_test(grids_and_shared_memory_are_expressions),
        cmocka_unit_test(a_large_cluster_with_programmatic_launch),
        cmocka_unit_test(a_grid_that_a_cluster_does_not_divide),
        cmocka_unit_test(conditions_and_empty_grids),
        cmocka_unit_test(a_launch_that_never_runs),
        cmocka_unit_test(launches_follow_the_vars),
        cmocka_unit_test(a_value_that_overflows),
        cmocka_unit_test(packs_hold_every_source),
        cmocka_unit_test(a_tensormap_that_finds_no_slice),
        cmocka_unit_test(the_example_artifact_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
