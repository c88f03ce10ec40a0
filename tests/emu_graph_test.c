// SPDX-License-Identifier: Apache-2.0
//
// Graphs of emu: what was captured runs as it would have run at once.
#include "tests/emu_kernel_fixture.h"

#include <malloc.h>
#include <stdatomic.h>
#include <string.h>

static CUmodule module;
static CUfunction add, append, spin;

static int setup(void **state)
{
    (void)state;
    fixture_open();
    module = fixture_load();
    add = fixture_function(module, "add");
    append = fixture_function(module, "append");
    spin = fixture_function(module, "spin");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_ok(cuModuleUnload(module));
    fixture_close_empty();
    return 0;
}

#define WORDS ((size_t)64)

// A little of everything, in an order that matters.
static void issue(CUstream stream, CUdeviceptr memory, const uint32_t *pinned, uint32_t *back)
{
    int32_t n = (int32_t)WORDS, value = 3;
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = memory,
                          .srcPitch = 16,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = memory,
                          .dstXInBytes = 8,
                          .dstPitch = 16,
                          .WidthInBytes = 8,
                          .Height = 8};
    assert_ok(cuMemsetD32Async(memory, 10, WORDS, stream));
    assert_ok(cuMemcpyHtoDAsync(memory, pinned, WORDS, stream));
    assert_ok(fixture_launch(add, stream, (void *[]){&memory, &n, &value}));
    assert_ok(cuMemcpy2DAsync(&copy, stream));
    assert_ok(fixture_launch(add, stream, (void *[]){&memory, &n, &value}));
    assert_ok(cuMemsetD8Async(memory + 4, 0xee, 3, stream));
    assert_ok(cuMemcpyDtoHAsync(back, memory, WORDS * 4, stream));
}

static void a_graph_does_what_the_calls_do(void **state)
{
    (void)state;
    CUstream stream = fixture_stream();
    CUdeviceptr memory = fixture_alloc(WORDS * 4);
    uint32_t *pinned = fixture_pinned(WORDS), *eager = fixture_pinned(WORDS * 4);
    uint32_t *graphed = fixture_pinned(WORDS * 4);
    for (uint32_t i = 0; i < WORDS / 4; i++) {
        pinned[i] = i * 1000;
    }
    issue(stream, memory, pinned, eager);
    assert_ok(cuStreamSynchronize(stream));

    CUgraph graph;
    CUgraphNode nodes[9];
    size_t count = 0;
    fixture_begin(stream);
    issue(stream, memory, pinned, graphed);
    assert_ok(cuStreamEndCapture(stream, &graph));
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(graphed[0], 0); // nothing ran yet
    assert_ok(cuGraphGetNodes(graph, NULL, &count));
    assert_int_equal(count, 7);
    count = 9;
    assert_ok(cuGraphGetNodes(graph, nodes, &count));
    assert_int_equal(count, 7);
    assert_non_null(nodes[6]);
    assert_null(nodes[7]);

    CUgraphExec exec = fixture_instantiate(graph);
    for (int launch = 0; launch < 3; launch++) {
        memset(graphed, 0, WORDS * 4);
        assert_ok(cuGraphLaunch(exec, stream));
        assert_ok(cuStreamSynchronize(stream));
        assert_memory_equal(graphed, eager, WORDS * 4);
    }
    // A pinned source is read at each launch.
    pinned[0] = 7;
    assert_ok(cuGraphLaunch(exec, stream));
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(graphed[0], 7 + 3 + 3);

    assert_ok(cuGraphExecDestroy(exec));
    assert_int_equal(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuGraphExecDestroy(exec), CUDA_ERROR_INVALID_HANDLE);
    assert_ok(cuStreamDestroy(stream));
    assert_ok(cuMemFree(memory));
    assert_ok(cuMemFreeHost(pinned));
    assert_ok(cuMemFreeHost(eager));
    assert_ok(cuMemFreeHost(graphed));
}

// The graph records an event half way, then waits for one that the host's other stream records
// after the first: neither comes at the end of the graph.
static void external_events_act_inside_the_graph(void **state)
{
    (void)state;
    CUstream stream = fixture_stream(), other = fixture_stream();
    CUevent half_way, go_on, finished;
    uint32_t *log = fixture_pinned(64);
    _Atomic uint32_t *flag = fixture_pinned(4);
    CUgraph graph;
    float ms;
    assert_ok(cuEventCreate(&half_way, 0));
    assert_ok(cuEventCreate(&go_on, CU_EVENT_DISABLE_TIMING));
    assert_ok(cuEventCreate(&finished, 0));
    fixture_begin(stream);
    assert_ok(fixture_append(append, stream, log, 1));
    assert_ok(cuEventRecordWithFlags(half_way, stream, CU_EVENT_RECORD_EXTERNAL));
    assert_ok(cuStreamWaitEvent(stream, go_on, CU_EVENT_WAIT_EXTERNAL));
    assert_ok(fixture_append(append, stream, log, 2));
    assert_ok(cuEventRecordWithFlags(finished, stream, CU_EVENT_RECORD_EXTERNAL));
    assert_ok(cuStreamEndCapture(stream, &graph));
    CUgraphExec exec = fixture_instantiate(graph);
    for (uint32_t launch = 0; launch < 3; launch++) {
        log[0] = 0;
        atomic_store(flag, 0);
        assert_ok(fixture_launch_pointer(spin, other, flag));
        assert_ok(cuEventRecord(go_on, other));
        assert_ok(cuGraphLaunch(exec, stream));
        assert_ok(cuEventSynchronize(half_way));
        assert_int_equal(log[0], 1);
        assert_int_equal(cuEventQuery(finished), CUDA_ERROR_NOT_READY);
        atomic_store(flag, 1);
        assert_ok(cuEventSynchronize(finished));
        assert_int_equal(log[0], 2);
        assert_ok(cuEventElapsedTime(&ms, half_way, finished));
        assert_true(ms >= 0.0f);
    }
    assert_ok(cuGraphExecDestroy(exec));
    assert_ok(cuEventDestroy(half_way));
    assert_ok(cuEventDestroy(go_on));
    assert_ok(cuEventDestroy(finished));
    assert_ok(cuStreamDestroy(stream));
    assert_ok(cuStreamDestroy(other));
    assert_ok(cuMemFreeHost(log));
    assert_ok(cuMemFreeHost((void *)flag));
}

static CUgraphExec capture_append(CUstream stream, CUfunction kernel, uint32_t *log)
{
    CUgraph graph;
    fixture_begin(stream);
    assert_ok(fixture_append(kernel, stream, log, 9));
    assert_ok(cuStreamEndCapture(stream, &graph));
    return fixture_instantiate(graph);
}

// Launches of one executable graph do not overlap, and it may be destroyed while they are pending.
static void launches_of_a_graph_follow_each_other(void **state)
{
    (void)state;
    CUstream stream = fixture_stream(), other = fixture_stream();
    uint32_t *log = fixture_pinned(64);
    _Atomic uint32_t *flag = fixture_pinned(4);
    CUgraphExec exec = capture_append(stream, append, log);
    assert_ok(fixture_launch_pointer(spin, stream, flag));
    assert_ok(cuGraphLaunch(exec, stream));
    assert_ok(cuGraphLaunch(exec, other));
    assert_int_equal(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
    assert_ok(cuGraphExecDestroy(exec));
    assert_int_equal(log[0], 0);
    atomic_store(flag, 1);
    assert_ok(cuStreamSynchronize(other));
    assert_int_equal(log[0], 2);
    assert_ok(cuStreamDestroy(stream));
    assert_ok(cuStreamDestroy(other));
    assert_ok(cuMemFreeHost(log));
    assert_ok(cuMemFreeHost((void *)flag));
}

static void a_graph_of_an_unloaded_module_is_refused(void **state)
{
    (void)state;
    CUstream stream = fixture_stream();
    CUmodule own = fixture_load();
    uint32_t *log = fixture_pinned(64);
    CUgraphExec exec = capture_append(stream, fixture_function(own, "append"), log);
    assert_ok(cuGraphLaunch(exec, stream));
    assert_ok(cuModuleUnload(own));
    assert_int_equal(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_HANDLE);
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(log[0], 1);
    assert_ok(cuGraphExecDestroy(exec));
    assert_ok(cuStreamDestroy(stream));
    assert_ok(cuMemFreeHost(log));
}

static void graph_launches_take_no_memory(void **state)
{
    (void)state;
    CUstream stream = fixture_stream();
    CUdeviceptr memory = fixture_alloc(4);
    int32_t n = 1, value = 1, sum;
    CUgraph graph;
    fixture_begin(stream);
    for (int i = 0; i < 10; i++) {
        assert_ok(fixture_launch(add, stream, (void *[]){&memory, &n, &value}));
    }
    assert_ok(cuStreamEndCapture(stream, &graph));
    CUgraphExec exec = fixture_instantiate(graph);
    assert_ok(cuMemsetD32Async(memory, 0, 1, stream));
    assert_ok(cuGraphLaunch(exec, stream));
    assert_ok(cuStreamSynchronize(stream));
    struct mallinfo2 before = mallinfo2();
    for (int i = 0; i < 20000; i++) {
        assert_ok(cuGraphLaunch(exec, stream));
    }
    assert_ok(cuStreamSynchronize(stream));
    struct mallinfo2 after = mallinfo2();
    assert_true(after.uordblks <= before.uordblks);
    assert_true(after.hblkhd <= before.hblkhd);
    assert_ok(cuMemcpyDtoHAsync(&sum, memory, 4, stream));
    assert_int_equal(sum, 200010);
    assert_ok(cuGraphExecDestroy(exec));
    assert_ok(cuStreamDestroy(stream));
    assert_ok(cuMemFree(memory));
}

// Everything that a context held goes with it, a capture in progress and pending work included.
static void a_context_goes_with_all_it_has(void **state)
{
    (void)state;
    CUcontext context;
    CUstream stream = fixture_stream(), capturing = fixture_stream();
    CUevent event;
    uint32_t *log = fixture_pinned(64);
    CUgraphExec exec = capture_append(stream, append, log);
    assert_ok(cuEventCreate(&event, 0));
    fixture_begin(capturing);
    assert_ok(fixture_append(append, capturing, log, 1));
    for (int i = 0; i < 10; i++) {
        assert_ok(cuGraphLaunch(exec, stream));
    }
    assert_ok(cuEventRecord(event, stream));
    assert_ok(cuDevicePrimaryCtxRelease(0));
    assert_int_equal(cuStreamSynchronize(stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    struct kern_emu_stats stats;
    assert_int_equal(kern_emu_stats(0, &stats), 0);
    assert_int_equal(stats.streams + stats.events + stats.modules + stats.functions, 0);
    assert_int_equal(stats.graphs + stats.graph_execs, 0);

    assert_ok(cuDevicePrimaryCtxRetain(&context, 0));
    assert_ok(cuCtxSetCurrent(context));
    assert_int_equal(cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
    module = fixture_load();
    add = fixture_function(module, "add");
    append = fixture_function(module, "append");
    spin = fixture_function(module, "spin");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_graph_does_what_the_calls_do),
        cmocka_unit_test(external_events_act_inside_the_graph),
        cmocka_unit_test(launches_of_a_graph_follow_each_other),
        cmocka_unit_test(a_graph_of_an_unloaded_module_is_refused),
        cmocka_unit_test(graph_launches_take_no_memory),
        cmocka_unit_test(a_context_goes_with_all_it_has),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
