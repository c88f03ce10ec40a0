// SPDX-License-Identifier: Apache-2.0
//
// Kernel launches of emu: what is refused, what a kernel gets, and what becomes of one that fails.
#include "tests/emu_kernel_fixture.h"

#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static CUmodule module;

static int setup(void **state)
{
    (void)state;
    fixture_open();
    module = fixture_load();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_ok(cuModuleUnload(module));
    fixture_close();
    return 0;
}

#define ONES                                                                                       \
    .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1
#define CLUSTER(a, b, c)                                                                           \
    {                                                                                              \
        .id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = { a, b, c }               \
    }

static void extents_are_limited(void **state)
{
    (void)state;
    CUfunction nothing = fixture_function(module, "nothing");
    CUstream stream = fixture_stream();
    const struct {
        unsigned grid[3], block[3], shared;
        CUresult want;
    } cases[] = {
        {{1, 1, 1}, {1024, 1, 1}, 0, CUDA_SUCCESS},
        {{0x7fffffff, 1, 1}, {1, 1, 1}, 0, CUDA_SUCCESS},
        {{1, 65535, 65535}, {1, 1, 64}, 0, CUDA_SUCCESS},
        {{1, 1, 1}, {1, 1, 1}, 49152, CUDA_SUCCESS},
        {{0, 1, 1}, {1, 1, 1}, 0, CUDA_ERROR_INVALID_VALUE},
        {{1, 0, 1}, {1, 1, 1}, 0, CUDA_ERROR_INVALID_VALUE},
        {{1, 1, 0}, {1, 1, 1}, 0, CUDA_ERROR_INVALID_VALUE},
        {{0x80000000, 1, 1}, {1, 1, 1}, 0, CUDA_ERROR_INVALID_VALUE},
        {{1, 65536, 1}, {1, 1, 1}, 0, CUDA_ERROR_INVALID_VALUE},
        {{1, 1, 65536}, {1, 1, 1}, 0, CUDA_ERROR_INVALID_VALUE},
        {{1, 1, 1}, {0, 1, 1}, 0, CUDA_ERROR_INVALID_VALUE},
        {{1, 1, 1}, {1025, 1, 1}, 0, CUDA_ERROR_INVALID_VALUE},
        {{1, 1, 1}, {32, 33, 1}, 0, CUDA_ERROR_INVALID_VALUE},
        {{1, 1, 1}, {1, 1, 65}, 0, CUDA_ERROR_INVALID_VALUE},
        {{1, 1, 1}, {1, 1, 1}, 49153, CUDA_ERROR_INVALID_VALUE},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        CUlaunchConfig config = {.gridDimX = cases[i].grid[0],
                                 .gridDimY = cases[i].grid[1],
                                 .gridDimZ = cases[i].grid[2],
                                 .blockDimX = cases[i].block[0],
                                 .blockDimY = cases[i].block[1],
                                 .blockDimZ = cases[i].block[2],
                                 .sharedMemBytes = cases[i].shared,
                                 .hStream = stream};
        assert_int_equal(cuLaunchKernelEx(&config, nothing, NULL, NULL), cases[i].want);
    }
    CUlaunchConfig large = {ONES, .sharedMemBytes = 232448, .hStream = stream};
    assert_ok(cuFuncSetAttribute(nothing, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448));
    assert_ok(cuLaunchKernelEx(&large, nothing, NULL, NULL));
    assert_ok(cuStreamSynchronize(stream));
    assert_ok(cuStreamDestroy(stream));
}

static void attributes_are_checked(void **state)
{
    (void)state;
    CUfunction nothing = fixture_function(module, "nothing");
    CUstream stream = fixture_stream();
    const struct {
        CUlaunchAttribute attribute;
        int non_portable;
        CUresult want;
    } cases[] = {
        {CLUSTER(2, 2, 2), 0, CUDA_SUCCESS},
        {CLUSTER(8, 1, 1), 0, CUDA_SUCCESS},
        {CLUSTER(16, 1, 1), 0, CUDA_ERROR_INVALID_CLUSTER_SIZE},
        {CLUSTER(16, 1, 1), 1, CUDA_SUCCESS},
        {CLUSTER(16, 2, 1), 1, CUDA_ERROR_INVALID_CLUSTER_SIZE},
        {CLUSTER(3, 1, 1), 0, CUDA_ERROR_INVALID_CLUSTER_SIZE},
        {CLUSTER(0, 1, 1), 0, CUDA_ERROR_INVALID_CLUSTER_SIZE},
        {CLUSTER(0x80000000, 2, 1), 0, CUDA_ERROR_INVALID_CLUSTER_SIZE},
        {{.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
          .value.programmaticStreamSerializationAllowed = 1},
         0,
         CUDA_SUCCESS},
        {{.id = CU_LAUNCH_ATTRIBUTE_PRIORITY, .value.priority = -1}, 0, CUDA_SUCCESS},
        {{.id = CU_LAUNCH_ATTRIBUTE_IGNORE}, 0, CUDA_SUCCESS},
        {{.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1},
         0,
         CUDA_ERROR_INVALID_VALUE},
        {{.id = (CUlaunchAttributeID)1000}, 0, CUDA_ERROR_INVALID_VALUE},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        CUlaunchAttribute attribute = cases[i].attribute;
        CUlaunchConfig config = {.gridDimX = 16,
                                 .gridDimY = 4,
                                 .gridDimZ = 2,
                                 .blockDimX = 1,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .hStream = stream,
                                 .attrs = &attribute,
                                 .numAttrs = 1};
        assert_ok(cuFuncSetAttribute(nothing, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
                                     cases[i].non_portable));
        assert_int_equal(cuLaunchKernelEx(&config, nothing, NULL, NULL), cases[i].want);
    }
    CUlaunchConfig none = {ONES, .hStream = stream, .attrs = NULL, .numAttrs = 1};
    assert_int_equal(cuLaunchKernelEx(&none, nothing, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuStreamDestroy(stream));
}

static void handles_and_params_are_checked(void **state)
{
    (void)state;
    CUfunction add = fixture_function(module, "add");
    CUstream stream = fixture_stream(), gone = fixture_stream();
    assert_ok(cuStreamDestroy(gone));
    CUlaunchConfig config = {ONES, .hStream = stream}, on_gone = {ONES, .hStream = gone};
    void *pointer = NULL, *some[] = {&pointer, NULL, &pointer}, *extra[] = {CU_LAUNCH_PARAM_END};
    const struct {
        CUresult got, want;
    } cases[] = {
        {cuLaunchKernelEx(NULL, add, some, NULL), CUDA_ERROR_INVALID_VALUE},
        {cuLaunchKernelEx(&config, add, NULL, NULL), CUDA_ERROR_INVALID_VALUE},
        {cuLaunchKernelEx(&config, add, some, NULL), CUDA_ERROR_INVALID_VALUE},
        {cuLaunchKernelEx(&config, add, some, extra), CUDA_ERROR_INVALID_VALUE},
        {cuLaunchKernelEx(&config, add, NULL, extra), CUDA_ERROR_NOT_SUPPORTED},
        {cuLaunchKernelEx(&config, NULL, NULL, NULL), CUDA_ERROR_INVALID_HANDLE},
        {cuLaunchKernelEx(&config, (CUfunction)module, NULL, NULL), CUDA_ERROR_INVALID_HANDLE},
        {cuLaunchKernelEx(&on_gone, fixture_function(module, "nothing"), NULL, NULL),
         CUDA_ERROR_INVALID_HANDLE},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(cases[i].got, cases[i].want);
    }
    assert_ok(cuStreamDestroy(stream));
}

// A launch and a record stay within a context; a wait for an event may cross from one to another.
static void another_context_is_refused(void **state)
{
    (void)state;
    CUcontext own, other;
    CUstream stream = fixture_stream(), foreign;
    CUevent event, foreign_event;
    CUfunction nothing = fixture_function(module, "nothing");
    assert_ok(cuEventCreate(&event, 0));
    assert_ok(cuCtxGetCurrent(&own));
    assert_ok(cuDevicePrimaryCtxRetain(&other, 1));
    assert_ok(cuCtxSetCurrent(other));
    foreign = fixture_stream();
    assert_ok(cuEventCreate(&foreign_event, 0));
    assert_int_equal(fixture_launch(nothing, stream, NULL), CUDA_SUCCESS);
    assert_int_equal(fixture_launch(nothing, NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(fixture_launch(nothing, foreign, NULL), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuEventRecord(event, foreign), CUDA_ERROR_INVALID_HANDLE);
    assert_ok(cuEventRecord(foreign_event, foreign));
    assert_ok(cuStreamWaitEvent(stream, foreign_event, 0));
    assert_ok(cuStreamSynchronize(stream));
    assert_ok(cuDevicePrimaryCtxRelease(1));
    assert_ok(cuCtxSetCurrent(own));
    assert_int_equal(fixture_launch(nothing, foreign, NULL), CUDA_ERROR_INVALID_HANDLE);
    assert_ok(cuEventDestroy(event));
    assert_ok(cuStreamDestroy(stream));
}

// The arguments are the caller's again as soon as the launch returns.
static void a_kernel_gets_what_the_launch_says(void **state)
{
    (void)state;
    CUstream stream = fixture_stream();
    _Atomic uint32_t *flag = fixture_pinned(4);
    struct fixture_report *report = fixture_pinned(sizeof *report);
    unsigned char pack[128], want[128];
    uint8_t byte = 0xa5;
    uint64_t wide = 0x0123456789abcdef;
    void *to = report;
    for (size_t i = 0; i < sizeof pack; i++) {
        want[i] = pack[i] = (unsigned char)(200 - i);
    }
    CUlaunchAttribute cluster = CLUSTER(2, 1, 3);
    CUlaunchConfig config = {.gridDimX = 4,
                             .gridDimY = 5,
                             .gridDimZ = 6,
                             .blockDimX = 7,
                             .blockDimY = 8,
                             .blockDimZ = 9,
                             .sharedMemBytes = 1000,
                             .hStream = stream,
                             .attrs = &cluster,
                             .numAttrs = 1};
    assert_ok(fixture_launch_pointer(fixture_function(module, "spin"), stream, flag));
    assert_ok(cuLaunchKernelEx(&config, fixture_function(module, "report"),
                               (void *[]){&to, &byte, &wide, pack}, NULL));
    memset(pack, 0, sizeof pack);
    byte = 0;
    wide = 0;
    to = NULL;
    atomic_store(flag, 1);
    assert_ok(cuStreamSynchronize(stream));
    const struct kern_host_grid grid = {{4, 5, 6}, {7, 8, 9}, {2, 1, 3}, 1000};
    assert_memory_equal(&report->grid, &grid, sizeof grid);
    assert_int_equal(report->first, 0);
    assert_int_equal(report->count, 4 * 5 * 6);
    assert_int_equal(report->byte, 0xa5);
    assert_true(report->wide == 0x0123456789abcdef);
    assert_true(report->pack_aligned);
    assert_memory_equal(report->pack, want, sizeof want);
    assert_ok(cuStreamDestroy(stream));
    assert_ok(cuMemFreeHost(report));
    assert_ok(cuMemFreeHost((void *)flag));
}

// Each of two kernels waits for the other's flag.
static void kernels_of_two_streams_run_at_once(void **state)
{
    (void)state;
    CUstream a = fixture_stream(), b = fixture_stream();
    CUfunction spin = fixture_function(module, "spin");
    CUfunction raise_flag = fixture_function(module, "raise_flag");
    _Atomic uint32_t *flags = fixture_pinned(8);
    volatile void *first = &flags[0], *second = &flags[1];
    uint32_t one = 1;
    assert_ok(fixture_launch_pointer(spin, a, second));
    assert_ok(fixture_launch(raise_flag, a, (void *[]){&first, &one}));
    assert_ok(fixture_launch(raise_flag, b, (void *[]){&second, &one}));
    assert_ok(fixture_launch_pointer(spin, b, first));
    assert_ok(cuCtxSynchronize());
    assert_ok(cuStreamDestroy(a));
    assert_ok(cuStreamDestroy(b));
    assert_ok(cuMemFreeHost((void *)flags));
}

static void many_launches_take_no_memory(void **state)
{
    (void)state;
    CUstream stream = fixture_stream();
    CUfunction add = fixture_function(module, "add");
    int32_t *sum = fixture_pinned(4), n = 1, value = 1;
    void *params[] = {&sum, &n, &value};
    for (int i = 0; i < 5000; i++) {
        assert_ok(fixture_launch(add, stream, params));
    }
    assert_ok(cuStreamSynchronize(stream));
    struct mallinfo2 before = mallinfo2();
    for (int i = 0; i < 100000; i++) {
        assert_ok(fixture_launch(add, stream, params));
    }
    assert_ok(cuStreamSynchronize(stream));
    struct mallinfo2 after = mallinfo2();
    assert_int_equal(*sum, 105000);
    // Less is possible: the rings of earlier tests' streams go when their workers leave.
    assert_true(after.uordblks <= before.uordblks);
    assert_true(after.hblkhd <= before.hblkhd);
    assert_ok(cuStreamDestroy(stream));
    assert_ok(cuMemFreeHost(sum));
}

static void a_paused_device_drops_kernels(void **state)
{
    (void)state;
    CUstream stream = fixture_stream();
    uint32_t *log = fixture_pinned(64);
    CUfunction append = fixture_function(module, "append");
    kern_emu_pause(1);
    assert_ok(fixture_append(append, stream, log, 1));
    assert_ok(cuMemsetD32Async((CUdeviceptr)(uintptr_t)(log + 8), 5, 1, stream));
    assert_ok(cuStreamSynchronize(stream));
    kern_emu_pause(0);
    assert_int_equal(log[0], 0);
    assert_int_equal(log[8], 5);
    assert_ok(fixture_append(append, stream, log, 1));
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(log[0], 1);
    assert_ok(cuStreamDestroy(stream));
    assert_ok(cuMemFreeHost(log));
}

// ---------------------------------------------------------------------------------------------
// What ends a context or a process happens in a child, whose stderr comes back.

// Runs body() in a fresh process; [text] receives what it wrote on stderr. Returns its wait status.
static int in_child(int (*body)(void), char *text, size_t bytes)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        _exit(body());
    }
    close(ends[1]);
    size_t length = 0;
    ssize_t n;
    while (length < bytes - 1 && (n = read(ends[0], text + length, bytes - 1 - length)) > 0) {
        length += (size_t)n;
    }
    text[length] = '\0';
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

// The child's device. There is no assertion in it: it says by its exit status what went wrong.
struct child {
    CUmodule module;
    CUstream stream;
};

static bool child_open(struct child *child)
{
    CUcontext context;
    size_t bytes;
    unsigned char *image = fixture_read(&bytes);
    bool done = cuInit(0) == CUDA_SUCCESS &&
                cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
                cuCtxSetCurrent(context) == CUDA_SUCCESS &&
                cuModuleLoadData(&child->module, image) == CUDA_SUCCESS &&
                cuStreamCreate(&child->stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS;
    free(image);
    return done;
}

static CUresult child_launch(const struct child *child, const char *name, void *argument)
{
    CUfunction function;
    CUresult result = cuModuleGetFunction(&function, child->module, name);
    return result == CUDA_SUCCESS ? fixture_launch_pointer(function, child->stream, argument)
                                  : result;
}

// After the failing kernel: every call says so, later work is not run, and all can be taken down.
static int child_expect(const struct child *child, CUresult error)
{
    CUdeviceptr memory;
    if (cuStreamSynchronize(child->stream) != error || cuStreamQuery(child->stream) != error ||
        cuMemAlloc(&memory, 64) != error || child_launch(child, "nothing", NULL) != error ||
        cuCtxSynchronize() != error) {
        return 2;
    }
    if (cuStreamDestroy(child->stream) != CUDA_SUCCESS ||
        cuModuleUnload(child->module) != CUDA_SUCCESS ||
        cuDevicePrimaryCtxRelease(0) != CUDA_SUCCESS) {
        return 3;
    }
    return 0;
}

static int trapping(void)
{
    struct child child;
    uint32_t *log;
    if (!child_open(&child) || cuMemHostAlloc((void **)&log, 64, 0) != CUDA_SUCCESS) {
        return 1;
    }
    // An event and a wait behind the failure must still be passed.
    CUevent event;
    if (cuEventCreate(&event, 0) != CUDA_SUCCESS || child_launch(&child, "trap", NULL) != 0) {
        return 1;
    }
    cuEventRecord(event, child.stream);
    int status = child_expect(&child, CUDA_ERROR_LAUNCH_FAILED);
    return status != 0 ? status : cuEventDestroy(event) == CUDA_SUCCESS ? 4 : 0;
}

static void a_trap_poisons_the_context(void **state)
{
    (void)state;
    char text[512];
    assert_int_equal(in_child(trapping, text, sizeof text), 0);
    assert_string_equal(text, "kern-emu: kernel trap trapped\n");
}

static int poking_beyond(void)
{
    struct child child;
    CUdeviceptr memory;
    if (!child_open(&child) || cuMemAlloc(&memory, 2 << 20) != CUDA_SUCCESS) {
        return 1;
    }
    if (child_launch(&child, "poke", (void *)(uintptr_t)(memory + (2 << 20))) != CUDA_SUCCESS) {
        return 1;
    }
    return child_expect(&child, CUDA_ERROR_ILLEGAL_ADDRESS);
}

static int poking_null(void)
{
    struct child child;
    if (!child_open(&child) || child_launch(&child, "poke", NULL) != CUDA_SUCCESS) {
        return 1;
    }
    return child_expect(&child, CUDA_ERROR_ILLEGAL_ADDRESS);
}

static int dividing_by_zero(void)
{
    struct child child;
    void *zero;
    if (!child_open(&child) || cuMemHostAlloc(&zero, 4, 0) != CUDA_SUCCESS) {
        return 1;
    }
    *(volatile uint32_t *)zero = 0;
    if (child_launch(&child, "divide", zero) != CUDA_SUCCESS) {
        return 1;
    }
    return child_expect(&child, CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void a_fault_poisons_the_context_and_is_described(void **state)
{
    (void)state;
    char text[512];
    assert_int_equal(in_child(poking_beyond, text, sizeof text), 0);
    assert_non_null(strstr(text, "kern-emu: kernel poke: Segmentation fault at 0x"));
    assert_non_null(strstr(text, "0 bytes behind the end of the 2097152 at 0x"));
    assert_int_equal(in_child(poking_null, text, sizeof text), 0);
    assert_string_equal(text, "kern-emu: kernel poke: Segmentation fault at 0x0, where no memory "
                              "of the device is near\n");
    assert_int_equal(in_child(dividing_by_zero, text, sizeof text), 0);
    assert_non_null(strstr(text, "kern-emu: kernel divide: Floating point exception at 0x"));
}

// Unknown to the compiler, which would warn of a constant one.
static volatile uint32_t *volatile nowhere = NULL;

// The fault is the point: a sanitizer shall not speak first.
__attribute__((no_sanitize("undefined", "address"))) static void fault(void)
{
    *nowhere = 1;
}

static void leave(int number)
{
    (void)number;
    _exit(42);
}

// The program's own handler gets the program's own faults, emu's threads notwithstanding.
static int faulting_on_the_host(void)
{
    struct child child;
    signal(SIGSEGV, leave);
    if (!child_open(&child) || child_launch(&child, "nothing", NULL) == 99) {
        return 1;
    }
    cuStreamSynchronize(child.stream);
    fault();
    return 2;
}

static int faulting_on_the_host_by_default(void)
{
    signal(SIGSEGV, SIG_DFL);
    struct child child;
    if (!child_open(&child)) {
        return 1;
    }
    CUfunction nothing;
    cuModuleGetFunction(&nothing, child.module, "nothing");
    fixture_launch(nothing, child.stream, NULL);
    cuStreamSynchronize(child.stream);
    fault();
    return 2;
}

static void faults_of_the_host_stay_its_own(void **state)
{
    (void)state;
    char text[512];
    int status = in_child(faulting_on_the_host, text, sizeof text);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 42);
    status = in_child(faulting_on_the_host_by_default, text, sizeof text);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
}

// The children come first: a process that has used the device cannot be forked.
int main(void)
{
    const struct CMUnitTest children[] = {
        cmocka_unit_test(a_trap_poisons_the_context),
        cmocka_unit_test(a_fault_poisons_the_context_and_is_described),
        cmocka_unit_test(faults_of_the_host_stay_its_own),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(extents_are_limited),
        cmocka_unit_test(attributes_are_checked),
        cmocka_unit_test(handles_and_params_are_checked),
        cmocka_unit_test(another_context_is_refused),
        cmocka_unit_test(a_kernel_gets_what_the_launch_says),
        cmocka_unit_test(kernels_of_two_streams_run_at_once),
        cmocka_unit_test(many_launches_take_no_memory),
        cmocka_unit_test(a_paused_device_drops_kernels),
    };
    setenv("KERN_EMU_DEVICES", "2", 1);
    int failed = cmocka_run_group_tests(children, NULL, NULL);
    return failed + cmocka_run_group_tests(tests, setup, teardown);
}
