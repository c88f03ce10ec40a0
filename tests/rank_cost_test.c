// SPDX-License-Identifier: Apache-2.0
//
// A step, eager or as a graph, takes no memory and makes no system call but what the driver does.
//
// malloc and its kin are wrapped by the linker for everything in this program; libkern-emu.so keeps
// its own. System calls of this thread are caught by the kernel (syscall user dispatch: a byte in
// memory says whether a call raises SIGSYS), except inside the driver's functions, each of which is
// wrapped for that.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/rank_fixture.h"

// linux/prctl.h and asm/siginfo, since Linux 5.11.
#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_OFF 0
#define PR_SYS_DISPATCH_ON 1
#endif
#define CALLS_PASS 0
#define CALLS_RAISE 1

// Two launches, the second with a grid and a parameter that depend on n.
// clang-format off
#define MODEL                                                                                      \
    FIXTURE_HEAD                                                                                   \
    "'vars': {'n': {'max': 8}},"                                                                   \
    "'buffers': {'x': {'dtype': 'i32', 'shape': ['n'], 'kind': 'input'},"                          \
    " 'y': {'dtype': 'i32', 'shape': ['n'], 'kind': 'output'}},"                                   \
    "'ops': {'add': {'params': ['in buffer<i32>', 'out buffer<i32>', 'i32', 'i32'],"               \
    "  'impl': {'launches': [" FIXTURE_LAUNCH("add") "}]}},"                                       \
    " 'more': {'params': ['inout buffer<i32>', 'i32'], 'impl': {'launches': ["                     \
    "  {'module': 'k', 'entry': 'add', 'block': [1,1,1], 'grid': [{'ceil_div': ['n', 8]},1,1],"    \
    "   'params': ['in buffer<i32>', 'inout buffer<i32>', 'i32', 'i32'],"                          \
    "   'args': [{'param': 0}, {'param': 0}, {'param': 1}, {'param': 1}]}]}}},"                    \
    "'programs': {'step': {'calls': ["                                                             \
    "  {'op': 'add', 'args': [{'buf': 'x'}, {'buf': 'y'}, {'i32': 1}, {'i32': 1}]},"               \
    "  {'op': 'more', 'args': [{'buf': 'y'}, {'var': 'n'}]}]}}}"
// clang-format on

static unsigned allocations;
static volatile sig_atomic_t system_calls;
static volatile unsigned char selector = CALLS_PASS;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void __real_free(void *memory);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void __wrap_free(void *memory);

void *__wrap_malloc(size_t bytes)
{
    allocations++;
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    allocations++;
    return __real_calloc(count, bytes);
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    allocations++;
    return __real_realloc(memory, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    allocations++;
    return __real_aligned_alloc(alignment, bytes);
}

void __wrap_free(void *memory)
{
    allocations++;
    __real_free(memory);
}

// The call is not made; whoever made it sees that it failed. What comes after it passes, the return
// from here included.
static void count_call(int signal_number)
{
    (void)signal_number;
    selector = CALLS_PASS;
    system_calls++;
}

// Whether the kernel can do it. Its pages of code have no exceptions: offset and length are 0.
static bool catch_calls(void)
{
    struct sigaction action = {.sa_handler = count_call};
    sigaction(SIGSYS, &action, NULL);
    return prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &selector) == 0;
}

static struct kern_cuda own;
static unsigned driver_calls;

// Around each function of the driver that a step calls: what is in it is the driver's.
#define DRIVER(name, parameters, arguments)                                                        \
    static CUresult wrapped_##name parameters                                                      \
    {                                                                                              \
        unsigned char before = selector;                                                           \
        selector = CALLS_PASS;                                                                     \
        driver_calls++;                                                                            \
        CUresult result = own.name arguments;                                                      \
        selector = before;                                                                         \
        return result;                                                                             \
    }

DRIVER(cuCtxSetCurrent, (CUcontext context), (context))
DRIVER(cuEventRecord, (CUevent event, CUstream stream), (event, stream))
DRIVER(cuEventQuery, (CUevent event), (event))
DRIVER(cuGraphLaunch, (CUgraphExec exec, CUstream stream), (exec, stream))
DRIVER(cuLaunchKernelEx,
       (const CUlaunchConfig *config, CUfunction function, void **params, void **extra),
       (config, function, params, extra))

static void open_model(struct rank_fixture *fixture, enum kern_graphs graphs)
{
    *fixture = (struct rank_fixture){.graphs = graphs};
    fixture_open(fixture, MODEL);
    own = fixture->device->cu;
    struct kern_cuda *cu = &fixture->device->cu;
    cu->cuCtxSetCurrent = wrapped_cuCtxSetCurrent;
    cu->cuEventRecord = wrapped_cuEventRecord;
    cu->cuEventQuery = wrapped_cuEventQuery;
    cu->cuGraphLaunch = wrapped_cuGraphLaunch;
    cu->cuLaunchKernelEx = wrapped_cuLaunchKernelEx;
}

static void measure_step(enum kern_graphs graphs, unsigned expected_driver_calls)
{
    struct rank_fixture fixture;
    open_model(&fixture, graphs);
    const int32_t x[8] = {5};
    for (uint64_t n = 1; n <= 8; n++) {
        fixture_set_var(&fixture, "n", n);
        fixture_write(&fixture, "x", x, n * sizeof(*x));
        assert_true(kern_rank_prepare(fixture.rank, 0, fixture.vars, &fixture.diag));
    }
    bool catching = catch_calls();
    for (uint64_t n = 1; n <= 8; n++) {
        fixture_set_var(&fixture, "n", n);
        allocations = driver_calls = 0;
        system_calls = 0;

        selector = catching ? CALLS_RAISE : CALLS_PASS;
        bool issued = kern_rank_issue(fixture.rank, 0, fixture.vars, &fixture.diag);
        selector = CALLS_PASS;
        // How often a wait has to look, and whether it gives the processor away in between, is the
        // device's doing; here it has ended before.
        assert_int_equal(own.cuCtxSynchronize(), CUDA_SUCCESS);
        selector = catching ? CALLS_RAISE : CALLS_PASS;
        bool waited = kern_rank_wait(fixture.rank, KERN_NO_DEADLINE, NULL, &fixture.diag);
        selector = CALLS_PASS;

        assert_true(issued && waited);
        assert_int_equal(allocations, 0);
        assert_int_equal(system_calls, 0);
        assert_int_equal(driver_calls, expected_driver_calls);
        int32_t y = 0;
        fixture_read(&fixture, "y", &y, sizeof(y));
        assert_int_equal(y, 6 + (int32_t)n);
    }
    // That what is counted would be counted.
    free(malloc(1));
    assert_int_equal(allocations, 2);
    if (catching) {
        selector = CALLS_RAISE;
        syscall(SYS_getppid);
        assert_int_equal(system_calls, 1);
        prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0);
    } else {
        print_message(
            "this kernel does not dispatch system calls: only allocations were counted\n");
    }
    fixture_close(&fixture);
}

// Context, event, the launches, event; context and one look at the event.
static void an_eager_step_takes_nothing(void **state)
{
    (void)state;
    measure_step(KERN_GRAPHS_OFF, 1 + 1 + 2 + 1 + 1 + 1);
}

static void a_graph_step_takes_nothing(void **state)
{
    (void)state;
    measure_step(KERN_GRAPHS_ON, 1 + 1 + 1 + 1 + 1 + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_eager_step_takes_nothing),
        cmocka_unit_test(a_graph_step_takes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
