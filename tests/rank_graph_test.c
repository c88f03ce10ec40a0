// SPDX-License-Identifier: Apache-2.0
//
// Programs as graphs: what they compute, how many there are, and what is left when a capture fails.
//
// Failures are put between the rank and emu: the test replaces functions in the device's table.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/rank_fixture.h"

// step: y = x + 10, y = y + n, y = y + n, and the last once more for n in 5 to 6. skip: nothing
// unless m is 2. set: a once program. tall: y = x + m.
// clang-format off
#define MODEL                                                                                      \
    FIXTURE_HEAD                                                                                   \
    "'vars': {'n': {'max': 8, 'axis': 'rows'}, 'm': {'max': 1000, 'axis': 'groups'}},"             \
    "'buffers': {'x': {'dtype': 'i32', 'shape': ['n'], 'kind': 'input'},"                          \
    " 'y': {'dtype': 'i32', 'shape': [8], 'kind': 'output'},"                                      \
    " 'c': {'dtype': 'i32', 'shape': [1], 'kind': 'carry'}},"                                      \
    "'ops': {'add': {'params': ['in buffer<i32>', 'out buffer<i32>', 'i32', 'i32'],"               \
    "  'impl': {'launches': [" FIXTURE_LAUNCH("add") "}]}},"                                       \
    " 'late': {'params': ['inout buffer<i32>', 'i32', 'i32'], 'impl': {'launches': ["              \
    FIXTURE_LAUNCH("add") ", 'params': ['in buffer<i32>', 'inout buffer<i32>', 'i32', 'i32'],"     \
    "   'args': [{'param': 0}, {'param': 0}, {'param': 1}, {'param': 2}]},"                        \
    FIXTURE_LAUNCH("add") ", 'params': ['in buffer<i32>', 'inout buffer<i32>', 'i32', 'i32'],"     \
    "   'args': [{'param': 0}, {'param': 0}, {'param': 1}, {'param': 2}],"                         \
    "   'when': {'var': 'n', 'min': 5, 'max': 6}}]}},"                                             \
    " 'count': {'params': ['inout buffer<i32>', 'i32'],"                                           \
    "  'impl': {'launches': [" FIXTURE_LAUNCH("count_up") "}]}},"                                  \
    " 'skip': {'params': ['inout buffer<i32>', 'i32'],"                                            \
    "  'impl': {'launches': [" FIXTURE_LAUNCH("count_up")                                          \
    ", 'when': {'var': 'm', 'min': 2, 'max': 2}}]}}},"                                             \
    "'programs': {'step': {'graph': true, 'batch': {'groups': 1, 'rows': 'n'}, 'calls': ["         \
    "  {'op': 'add', 'args': [{'buf': 'x'}, {'buf': 'y'}, {'i32': 10}, {'var': 'n'}]},"            \
    "  {'op': 'add', 'args': [{'buf': 'y'}, {'buf': 'y'}, {'var': 'n'}, {'var': 'n'}]},"           \
    "  {'op': 'late', 'args': [{'buf': 'y'}, {'var': 'n'}, {'var': 'n'}]}]},"                      \
    " 'skip': {'graph': true, 'batch': {'groups': 2, 'rows': 1}, 'calls': ["                       \
    "  {'op': 'skip', 'args': [{'buf': 'c'}, {'i32': 100}]}]},"                                    \
    " 'set': {'once': true, 'calls': [{'op': 'count', 'args': [{'buf': 'c'}, {'i32': 1}]}]},"      \
    " 'tall': {'calls': ["                                                                         \
    "  {'op': 'add', 'args': [{'buf': 'x'}, {'buf': 'y'}, {'var': 'm'}, {'i32': 1}]}]}}}"
// clang-format on

// The device's own functions, and which call of one of them fails.
static struct kern_cuda own;
static unsigned failing, calls, captures;

static bool is_failing(void)
{
    return ++calls == failing;
}

static CUresult begin_capture(CUstream stream, CUstreamCaptureMode mode)
{
    assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    captures++;
    return own.cuStreamBeginCapture(stream, mode);
}

static CUresult failing_begin(CUstream stream, CUstreamCaptureMode mode)
{
    return is_failing() ? CUDA_ERROR_OUT_OF_MEMORY : own.cuStreamBeginCapture(stream, mode);
}

// A refused launch leaves a capture valid; emu refuses an empty grid, as the driver does.
static CUresult refused_launch(const CUlaunchConfig *config, CUfunction function, void **params,
                               void **extra)
{
    CUlaunchConfig changed = *config;
    changed.gridDimX *= !is_failing();
    return own.cuLaunchKernelEx(&changed, function, params, extra);
}

// What a stream that is capturing forbids makes the capture invalid, and every launch after it
// fails.
static CUresult breaking_launch(const CUlaunchConfig *config, CUfunction function, void **params,
                                void **extra)
{
    if (is_failing()) {
        own.cuStreamSynchronize(config->hStream);
    }
    return own.cuLaunchKernelEx(config, function, params, extra);
}

// The capture ends, but with an error and no graph.
static CUresult failing_end(CUstream stream, CUgraph *graph)
{
    CUresult result = own.cuStreamEndCapture(stream, graph);
    if (is_failing()) {
        own.cuGraphDestroy(*graph);
        *graph = NULL;
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    return result;
}

static CUresult failing_instantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    return is_failing() ? CUDA_ERROR_OUT_OF_MEMORY
                        : own.cuGraphInstantiateWithFlags(exec, graph, flags);
}

static CUresult failing_destroy(CUgraph graph)
{
    own.cuGraphDestroy(graph);
    return is_failing() ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult failing_graph_launch(CUgraphExec exec, CUstream stream)
{
    return is_failing() ? CUDA_ERROR_OUT_OF_MEMORY : own.cuGraphLaunch(exec, stream);
}

static void open_model(struct rank_fixture *fixture, enum kern_graphs graphs)
{
    *fixture = (struct rank_fixture){.graphs = graphs};
    fixture_open(fixture, MODEL);
    own = fixture->device->cu;
    captures = calls = failing = 0;
    fixture->device->cu.cuStreamBeginCapture = begin_capture;
}

static uint64_t count_graphs(struct rank_fixture *fixture)
{
    struct kern_emu_stats stats = fixture_stats(fixture);
    assert_int_equal(stats.graphs, 0); // templates go when they are instantiated
    return stats.graph_execs;
}

static bool prepare(struct rank_fixture *fixture, const char *program)
{
    return kern_rank_prepare(fixture->rank, fixture_program(fixture, program), fixture->vars,
                             &fixture->diag);
}

// Runs step at [n] with x = [start], [start] + 1, … and checks y.
static void check_step(struct rank_fixture *fixture, uint64_t n, int32_t start)
{
    int32_t x[8], y[8];
    for (int32_t i = 0; i < 8; i++) {
        x[i] = start + i;
    }
    fixture_set_var(fixture, "n", n);
    fixture_write(fixture, "x", x, n * sizeof(*x));
    fixture_run(fixture, "step");
    fixture_read(fixture, "y", y, n * sizeof(*y));
    int32_t added = (int32_t)n * (n == 5 || n == 6 ? 3 : 2) + 10;
    for (uint64_t i = 0; i < n; i++) {
        assert_int_equal(y[i], x[i] + added);
    }
}

static void graphs_compute_what_launches_do(void **state)
{
    (void)state;
    struct rank_fixture fixture;
    open_model(&fixture, KERN_GRAPHS_OFF);
    for (uint64_t n = 1; n <= 8; n++) {
        check_step(&fixture, n, 7);
    }
    assert_int_equal(captures, 0);
    fixture_close(&fixture);

    open_model(&fixture, KERN_GRAPHS_DECLARED);
    for (int32_t round = 0; round < 3; round++) {
        for (uint64_t n = 1; n <= 8; n++) {
            check_step(&fixture, n, 100 * round);
        }
    }
    assert_int_equal(captures, 8);
    assert_int_equal(count_graphs(&fixture), 8);
    fixture_close(&fixture);
}

static void a_prepared_graph_is_only_replayed(void **state)
{
    (void)state;
    struct rank_fixture fixture;
    open_model(&fixture, KERN_GRAPHS_DECLARED);
    fixture_set_var(&fixture, "n", 3);
    assert_true(prepare(&fixture, "step") && prepare(&fixture, "step"));
    assert_int_equal(captures, 1);
    // The capture has executed nothing.
    int32_t y[8];
    fixture_read(&fixture, "y", y, sizeof(y));
    assert_int_equal(y[0] | y[1] | y[2], 0);
    fixture.device->cu.cuLaunchKernelEx = breaking_launch;
    check_step(&fixture, 3, 1);
    assert_int_equal(calls, 0);
    assert_int_equal(captures, 1);
    fixture_close(&fixture);
}

static void vars_that_are_not_read_make_no_second_graph(void **state)
{
    (void)state;
    struct rank_fixture fixture;
    open_model(&fixture, KERN_GRAPHS_DECLARED);
    for (uint64_t m = 0; m <= 5000; m += 1000) { // 0 and 5000 are no values of m
        fixture_set_var(&fixture, "m", m);
        check_step(&fixture, 4, (int32_t)m);
    }
    assert_int_equal(count_graphs(&fixture), 1);
    fixture_close(&fixture);
}

static void bad_values_are_refused_before_a_capture(void **state)
{
    (void)state;
    struct rank_fixture fixture;
    open_model(&fixture, KERN_GRAPHS_ON);
    for (uint64_t n = 0; n <= 9; n += 9) {
        fixture_set_var(&fixture, "n", n);
        assert_false(prepare(&fixture, "step"));
        fixture_expect(&fixture, KERN_EXIT_USAGE, "programs.step", "var n", "1 to 8", NULL);
    }
    assert_false(kern_rank_prepare(fixture.rank, 99, fixture.vars, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_USAGE, "99", NULL);
    assert_int_equal(captures, 0);
    check_step(&fixture, 8, 0);
    fixture_close(&fixture);
}

static void who_runs_as_a_graph(void **state)
{
    (void)state;
    static const char *const programs[] = {"set", "skip", "step", "tall"};
    static const bool expected[][4] = {
        [KERN_GRAPHS_DECLARED] = {false, true, true, false},
        [KERN_GRAPHS_OFF] = {false, false, false, false},
        [KERN_GRAPHS_ON] = {false, true, true, true},
    };
    for (int graphs = KERN_GRAPHS_DECLARED; graphs <= KERN_GRAPHS_ON; graphs++) {
        struct rank_fixture fixture;
        open_model(&fixture, (enum kern_graphs)graphs);
        for (size_t p = 0; p < 4; p++) {
            unsigned before = captures;
            struct kern_program_facts facts;
            assert_true(kern_rank_program_facts(fixture.rank,
                                                fixture_program(&fixture, programs[p]),
                                                fixture.vars, &facts, &fixture.diag));
            assert_int_equal(facts.graph, expected[graphs][p]);
            assert_true(prepare(&fixture, programs[p]));
            fixture_run(&fixture, programs[p]);
            assert_int_equal(captures - before, expected[graphs][p]);
        }
        fixture_close(&fixture);
    }
}

static void a_graph_may_be_empty(void **state)
{
    (void)state;
    struct rank_fixture fixture;
    open_model(&fixture, KERN_GRAPHS_DECLARED);
    int32_t count = 0;
    for (uint64_t m = 1; m <= 3; m++) {
        fixture_set_var(&fixture, "m", m);
        fixture_run(&fixture, "skip");
    }
    fixture_read(&fixture, "c", &count, sizeof(count));
    assert_int_equal(count, 100);
    assert_int_equal(count_graphs(&fixture), 3);
    fixture_close(&fixture);
}

static void run_tall(struct rank_fixture *fixture, uint64_t m)
{
    int32_t y = 0;
    fixture_set_var(fixture, "m", m);
    fixture_run(fixture, "tall");
    fixture_read(fixture, "y", &y, sizeof(y));
    assert_int_equal(y, 5 + m);
}

static void the_graph_used_least_recently_goes(void **state)
{
    (void)state;
    struct rank_fixture fixture;
    open_model(&fixture, KERN_GRAPHS_ON);
    const int32_t x = 5;
    fixture_write(&fixture, "x", &x, sizeof(x));
    for (uint64_t m = 1; m <= 256; m++) {
        run_tall(&fixture, m);
    }
    run_tall(&fixture, 1);
    assert_int_equal(captures, 256);
    run_tall(&fixture, 257); // 2 goes
    assert_int_equal(captures, 257);
    run_tall(&fixture, 1);
    run_tall(&fixture, 3);
    run_tall(&fixture, 256);
    assert_int_equal(captures, 257);
    run_tall(&fixture, 2); // 4 goes
    assert_int_equal(captures, 258);
    for (uint64_t m = 1; m <= 1000; m++) {
        run_tall(&fixture, m);
    }
    assert_int_equal(count_graphs(&fixture), 256);
    fixture_close(&fixture);
}

// After a failed capture the stream takes everything, another capture included, and nothing is
// left.
static void expect_usable(struct rank_fixture *fixture, const char *text, const char *place)
{
    fixture_expect(fixture, KERN_EXIT_DEVICE, text, place, NULL);
    fixture->device->cu = own;
    assert_int_equal(count_graphs(fixture), 0);
    run_tall(fixture, 3);
    check_step(fixture, 6, 9);
    assert_int_equal(count_graphs(fixture), 1);
}

static void a_launch_fails_in_a_capture(void **state)
{
    (void)state;
    static const char *const places[] = {
        "programs.step.calls[0] (add) launch 0 add",
        "programs.step.calls[1] (add) launch 0 add",
        "programs.step.calls[2] (late) launch 0 add",
        "programs.step.calls[2] (late) launch 1 add",
    };
    for (int breaking = 0; breaking < 2; breaking++) {
        for (unsigned nth = 1; nth <= 4; nth++) {
            for (int prepared = 0; prepared < 2; prepared++) {
                struct rank_fixture fixture;
                open_model(&fixture, KERN_GRAPHS_DECLARED);
                const int32_t x = 5;
                fixture_write(&fixture, "x", &x, sizeof(x));
                fixture_set_var(&fixture, "n", 6);
                failing = nth;
                fixture.device->cu.cuLaunchKernelEx = breaking ? breaking_launch : refused_launch;
                assert_false(prepared
                                 ? prepare(&fixture, "step")
                                 : kern_rank_issue(fixture.rank, fixture_program(&fixture, "step"),
                                                   fixture.vars, &fixture.diag));
                assert_int_equal(fixture.diag.count, 1);
                assert_true(
                    kern_rank_wait(fixture.rank, kern_deadline_in(20), NULL, &fixture.diag));
                expect_usable(&fixture,
                              breaking ? "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"
                                       : "CUDA_ERROR_INVALID_VALUE",
                              places[nth - 1]);
                fixture_close(&fixture);
            }
        }
    }
}

static void the_capture_itself_fails(void **state)
{
    (void)state;
    static const char *const functions[] = {"cuStreamBeginCapture", "cuStreamEndCapture",
                                            "cuGraphInstantiateWithFlags", "cuGraphDestroy"};
    for (size_t f = 0; f < sizeof(functions) / sizeof(*functions); f++) {
        struct rank_fixture fixture;
        open_model(&fixture, KERN_GRAPHS_DECLARED);
        const int32_t x = 5;
        fixture_write(&fixture, "x", &x, sizeof(x));
        failing = 1;
        struct kern_cuda *cu = &fixture.device->cu;
        switch (f) {
        case 0:
            cu->cuStreamBeginCapture = failing_begin;
            break;
        case 1:
            cu->cuStreamEndCapture = failing_end;
            break;
        case 2:
            cu->cuGraphInstantiateWithFlags = failing_instantiate;
            break;
        default:
            cu->cuGraphDestroy = failing_destroy;
            break;
        }
        assert_false(prepare(&fixture, "step"));
        assert_int_equal(fixture.diag.count, 1);
        expect_usable(&fixture, functions[f], "programs.step");
        fixture_close(&fixture);
    }
}

static void a_replay_fails(void **state)
{
    (void)state;
    struct rank_fixture fixture;
    open_model(&fixture, KERN_GRAPHS_DECLARED);
    assert_true(prepare(&fixture, "step"));
    failing = 1;
    fixture.device->cu.cuGraphLaunch = failing_graph_launch;
    assert_false(kern_rank_issue(fixture.rank, fixture_program(&fixture, "step"), fixture.vars,
                                 &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_DEVICE, "programs.step", "cuGraphLaunch", NULL);
    assert_true(kern_rank_wait(fixture.rank, kern_deadline_in(20), NULL, &fixture.diag));
    check_step(&fixture, 1, 9);
    assert_int_equal(count_graphs(&fixture), 1);
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_compute_what_launches_do),
        cmocka_unit_test(a_prepared_graph_is_only_replayed),
        cmocka_unit_test(vars_that_are_not_read_make_no_second_graph),
        cmocka_unit_test(bad_values_are_refused_before_a_capture),
        cmocka_unit_test(who_runs_as_a_graph),
        cmocka_unit_test(a_graph_may_be_empty),
        cmocka_unit_test(the_graph_used_least_recently_goes),
        cmocka_unit_test(a_launch_fails_in_a_capture),
        cmocka_unit_test(the_capture_itself_fails),
        cmocka_unit_test(a_replay_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
