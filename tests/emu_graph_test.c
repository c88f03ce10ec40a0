// SPDX-License-Identifier: Apache-2.0
//
// Stream capture and graphs of emu.
#include "tests/emu_kernel_fixture.h"

#include <malloc.h>
#include <pthread.h>
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
    struct kern_emu_stats stats;
    assert_int_equal(kern_emu_stats(0, &stats), 0);
    assert_int_equal(stats.streams + stats.events + stats.graphs + stats.graph_execs, 0);
    fixture_close();
    return 0;
}

static CUgraphExec instantiate(CUgraph graph)
{
    CUgraphExec exec;
    assert_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    assert_ok(cuGraphDestroy(graph));
    return exec;
}

static void begin(CUstream stream)
{
    assert_ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
}

// After it the stream is as good as new, whatever the capture ended with.
static void end(CUstream stream, CUresult want)
{
    CUgraph graph = NULL;
    assert_int_equal(cuStreamEndCapture(stream, &graph), want);
    if (want == CUDA_SUCCESS) {
        assert_ok(cuGraphDestroy(graph));
    } else {
        assert_null(graph);
    }
    CUstreamCaptureStatus status;
    assert_ok(cuStreamIsCapturing(stream, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
    assert_ok(cuStreamSynchronize(stream));
}

#define WORDS 64

// A little of everything, in an order that matters.
static void issue(CUstream stream, CUdeviceptr memory, const uint32_t *pinned, uint32_t *back)
{
    int32_t n = WORDS, value = 3;
    CUDA_MEMCPY2D copy = {
        .srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = memory, .srcPitch = 16,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = memory, .dstXInBytes = 8,
        .dstPitch = 16, .WidthInBytes = 8, .Height = 8};
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
    begin(stream);
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

    CUgraphExec exec = instantiate(graph);
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

static void calls_are_refused(void **state)
{
    (void)state;
    CUstream stream = fixture_stream(), idle = fixture_stream();
    CUgraph graph;
    CUgraphExec exec;
    size_t count;
    CUstreamCaptureStatus status;
    const struct {
        CUresult got, want;
    } cases[] = {
        {cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_RELAXED),
         CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
        {cuStreamBeginCapture(stream, (CUstreamCaptureMode)3), CUDA_ERROR_INVALID_VALUE},
        {cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE},
        {cuStreamEndCapture(stream, NULL), CUDA_ERROR_INVALID_VALUE},
        {cuStreamIsCapturing(stream, NULL), CUDA_ERROR_INVALID_VALUE},
        {cuStreamIsCapturing((CUstream)(uintptr_t)3, &status), CUDA_ERROR_INVALID_HANDLE},
        {cuGraphInstantiateWithFlags(&exec, NULL, 0), CUDA_ERROR_INVALID_HANDLE},
        {cuGraphLaunch(NULL, stream), CUDA_ERROR_INVALID_HANDLE},
        {cuGraphDestroy(NULL), CUDA_ERROR_INVALID_HANDLE},
        {cuGraphExecDestroy(NULL), CUDA_ERROR_INVALID_HANDLE},
        {cuGraphGetNodes(NULL, NULL, &count), CUDA_ERROR_INVALID_HANDLE},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(cases[i].got, cases[i].want);
    }
    begin(stream);
    assert_int_equal(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED),
                     CUDA_ERROR_ILLEGAL_STATE);
    assert_ok(cuStreamIsCapturing(stream, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_ok(cuStreamEndCapture(stream, &graph)); // an empty graph
    assert_int_equal(cuGraphInstantiateWithFlags(&exec, graph, 16), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphInstantiateWithFlags(
                         &exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH),
                     CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cuGraphInstantiateWithFlags(NULL, graph, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphGetNodes(graph, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    exec = instantiate(graph);
    assert_ok(cuGraphLaunch(exec, stream));
    assert_ok(cuStreamSynchronize(stream));
    assert_ok(cuGraphExecDestroy(exec));
    assert_ok(cuStreamDestroy(stream));
    assert_ok(cuStreamDestroy(idle));
}

// Each of these calls is refused while the stream captures, and ends the capture.

struct scene {
    CUstream stream, other;
    CUevent captured; // recorded in the capture
    CUevent recorded; // recorded before it, on the other stream
    CUdeviceptr memory;
    CUgraphExec exec;
    uint32_t pageable[4];
};

static CUresult synchronize(struct scene *s)
{
    return cuStreamSynchronize(s->stream);
}

static CUresult query(struct scene *s)
{
    return cuStreamQuery(s->stream);
}

static CUresult synchronize_context(struct scene *s)
{
    (void)s;
    return cuCtxSynchronize();
}

static CUresult destroy_stream(struct scene *s)
{
    return cuStreamDestroy(s->stream);
}

static CUresult synchronize_event(struct scene *s)
{
    return cuEventSynchronize(s->captured);
}

static CUresult query_event(struct scene *s)
{
    return cuEventQuery(s->captured);
}

static CUresult wait_for_outside(struct scene *s)
{
    return cuStreamWaitEvent(s->stream, s->recorded, 0);
}

static CUresult allocate(struct scene *s)
{
    (void)s;
    CUdeviceptr memory;
    return cuMemAlloc(&memory, 64);
}

static CUresult load_module(struct scene *s)
{
    (void)s;
    CUmodule loaded;
    return cuModuleLoadData(&loaded, "");
}

static CUresult copy_pageable(struct scene *s)
{
    return cuMemcpyHtoDAsync(s->memory, s->pageable, 16, s->stream);
}

static CUresult launch_graph(struct scene *s)
{
    return cuGraphLaunch(s->exec, s->stream);
}

static void a_bad_call_invalidates_the_capture(void **state)
{
    (void)state;
    const struct {
        CUresult (*call)(struct scene *scene);
        CUresult want;
    } cases[] = {
        {synchronize, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
        {query, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
        {synchronize_context, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
        {destroy_stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
        {synchronize_event, CUDA_ERROR_CAPTURED_EVENT},
        {query_event, CUDA_ERROR_CAPTURED_EVENT},
        {wait_for_outside, CUDA_ERROR_STREAM_CAPTURE_ISOLATION},
        {allocate, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
        {load_module, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
        {copy_pageable, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
        {launch_graph, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
    };
    struct scene scene = {.stream = fixture_stream(), .other = fixture_stream(),
                          .memory = fixture_alloc(64)};
    uint32_t *log = fixture_pinned(64);
    CUgraph graph;
    assert_ok(cuEventCreate(&scene.captured, 0));
    assert_ok(cuEventCreate(&scene.recorded, 0));
    assert_ok(cuEventRecord(scene.recorded, scene.other));
    begin(scene.stream);
    assert_ok(cuStreamEndCapture(scene.stream, &graph));
    scene.exec = instantiate(graph);
    for (size_t i = 0; i < COUNT(cases); i++) {
        CUstreamCaptureStatus status;
        begin(scene.stream);
        assert_ok(fixture_append(append, scene.stream, log, 1));
        assert_ok(cuEventRecord(scene.captured, scene.stream));
        assert_int_equal(cases[i].call(&scene), cases[i].want);
        assert_ok(cuStreamIsCapturing(scene.stream, &status));
        assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
        assert_int_equal(fixture_append(append, scene.stream, log, 1),
                         CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        end(scene.stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    assert_int_equal(log[0], 0);
    // Recorded outside again, the event is as before.
    assert_int_equal(cuEventQuery(scene.captured), CUDA_ERROR_CAPTURED_EVENT);
    assert_int_equal(cuStreamWaitEvent(scene.stream, scene.captured, 0),
                     CUDA_ERROR_CAPTURED_EVENT);
    assert_ok(cuEventRecord(scene.captured, scene.stream));
    assert_ok(cuEventSynchronize(scene.captured));
    assert_ok(cuGraphExecDestroy(scene.exec));
    assert_ok(cuEventDestroy(scene.captured));
    assert_ok(cuEventDestroy(scene.recorded));
    assert_ok(cuStreamDestroy(scene.stream));
    assert_ok(cuStreamDestroy(scene.other));
    assert_ok(cuMemFree(scene.memory));
    assert_ok(cuMemFreeHost(log));
}

static void *allocate_elsewhere(void *argument)
{
    CUcontext *context = argument;
    CUdeviceptr memory;
    CUresult result = cuCtxSetCurrent(*context);
    if (result == CUDA_SUCCESS) {
        result = cuMemAlloc(&memory, 64);
    }
    if (result == CUDA_SUCCESS) {
        result = cuMemFree(memory);
    }
    return (void *)(uintptr_t)result;
}

static void *end_elsewhere(void *argument)
{
    CUgraph graph;
    CUcontext context;
    cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxSetCurrent(context);
    CUresult result = cuStreamEndCapture((CUstream)argument, &graph);
    if (result == CUDA_SUCCESS) {
        cuGraphDestroy(graph);
    }
    cuDevicePrimaryCtxRelease(0);
    return (void *)(uintptr_t)result;
}

static CUresult in_thread(void *(*body)(void *), void *argument)
{
    pthread_t thread;
    void *result;
    assert_int_equal(pthread_create(&thread, NULL, body, argument), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    return (CUresult)(uintptr_t)result;
}

static void modes_decide_for_threads(void **state)
{
    (void)state;
    const struct {
        CUstreamCaptureMode mode;
        CUresult here, elsewhere, end_elsewhere;
    } cases[] = {
        {CU_STREAM_CAPTURE_MODE_GLOBAL, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
         CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD},
        {CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUDA_SUCCESS,
         CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD},
        {CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_SUCCESS, CUDA_SUCCESS, CUDA_SUCCESS},
    };
    CUcontext context;
    assert_ok(cuCtxGetCurrent(&context));
    for (size_t i = 0; i < COUNT(cases); i++) {
        CUstream stream = fixture_stream();
        CUdeviceptr memory;
        bool relaxed = cases[i].mode == CU_STREAM_CAPTURE_MODE_RELAXED;
        assert_ok(cuStreamBeginCapture(stream, cases[i].mode));
        assert_int_equal(in_thread(allocate_elsewhere, &context), cases[i].elsewhere);
        assert_int_equal(cuMemAlloc(&memory, 64), cases[i].here);
        if (cases[i].here == CUDA_SUCCESS) {
            assert_ok(cuMemFree(memory));
        }
        assert_int_equal(in_thread(end_elsewhere, stream), cases[i].end_elsewhere);
        if (!relaxed) {
            end(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        }
        assert_ok(cuStreamDestroy(stream));
    }
}

static void streams_fork_and_join(void **state)
{
    (void)state;
    CUstream stream = fixture_stream(), side = fixture_stream();
    CUevent fork_event, join_event;
    uint32_t *log = fixture_pinned(64);
    CUgraph graph;
    CUstreamCaptureStatus status;
    assert_ok(cuEventCreate(&fork_event, CU_EVENT_DISABLE_TIMING));
    assert_ok(cuEventCreate(&join_event, CU_EVENT_DISABLE_TIMING));

    begin(stream);
    assert_ok(fixture_append(append, stream, log, 1));
    assert_ok(cuEventRecord(fork_event, stream));
    assert_ok(cuStreamWaitEvent(side, fork_event, 0));
    assert_ok(cuStreamIsCapturing(side, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_ok(fixture_append(append, side, log, 2));
    assert_int_equal(cuStreamEndCapture(side, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    assert_ok(cuEventRecord(join_event, side));
    assert_ok(cuStreamWaitEvent(stream, join_event, 0));
    assert_ok(fixture_append(append, stream, log, 3));
    assert_ok(cuStreamEndCapture(stream, &graph));
    assert_ok(cuStreamIsCapturing(side, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
    CUgraphExec exec = instantiate(graph);
    assert_ok(cuGraphLaunch(exec, side));
    assert_ok(cuStreamSynchronize(side));
    const uint32_t want[] = {3, 1, 2, 3};
    assert_memory_equal(log, want, sizeof want);

    begin(stream); // forked and never joined
    assert_ok(cuEventRecord(fork_event, stream));
    assert_ok(cuStreamWaitEvent(side, fork_event, 0));
    assert_ok(fixture_append(append, side, log, 2));
    end(stream, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    assert_ok(cuStreamSynchronize(side));

    begin(stream); // two captures that meet
    begin(side);
    assert_ok(cuEventRecord(fork_event, stream));
    assert_int_equal(cuStreamWaitEvent(side, fork_event, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    end(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    end(side, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    assert_int_equal(log[0], 3);
    assert_ok(cuGraphExecDestroy(exec));
    assert_ok(cuEventDestroy(fork_event));
    assert_ok(cuEventDestroy(join_event));
    assert_ok(cuStreamDestroy(stream));
    assert_ok(cuStreamDestroy(side));
    assert_ok(cuMemFreeHost(log));
}

static void default_stream_is_unusable_beside_a_blocking_capture(void **state)
{
    (void)state;
    CUstream blocking, free_running = fixture_stream();
    CUstreamCaptureStatus status;
    uint32_t *log = fixture_pinned(64);
    assert_ok(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    assert_ok(fixture_append(append, NULL, log, 1));
    begin(free_running);
    assert_ok(fixture_append(append, NULL, log, 2));
    end(free_running, CUDA_SUCCESS);
    begin(blocking);
    assert_int_equal(cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    assert_ok(cuStreamIsCapturing(blocking, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_int_equal(fixture_append(append, NULL, log, 3), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    end(blocking, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_ok(cuStreamSynchronize(NULL));
    assert_int_equal(log[0], 2);
    assert_ok(cuStreamDestroy(blocking));
    assert_ok(cuStreamDestroy(free_running));
    assert_ok(cuMemFreeHost(log));
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
    begin(stream);
    assert_ok(fixture_append(append, stream, log, 1));
    assert_ok(cuEventRecordWithFlags(half_way, stream, CU_EVENT_RECORD_EXTERNAL));
    assert_ok(cuStreamWaitEvent(stream, go_on, CU_EVENT_WAIT_EXTERNAL));
    assert_ok(fixture_append(append, stream, log, 2));
    assert_ok(cuEventRecordWithFlags(finished, stream, CU_EVENT_RECORD_EXTERNAL));
    assert_ok(cuStreamEndCapture(stream, &graph));
    CUgraphExec exec = instantiate(graph);
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
    begin(stream);
    assert_ok(fixture_append(kernel, stream, log, 9));
    assert_ok(cuStreamEndCapture(stream, &graph));
    return instantiate(graph);
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
    begin(stream);
    for (int i = 0; i < 10; i++) {
        assert_ok(fixture_launch(add, stream, (void *[]){&memory, &n, &value}));
    }
    assert_ok(cuStreamEndCapture(stream, &graph));
    CUgraphExec exec = instantiate(graph);
    assert_ok(cuMemsetD32Async(memory, 0, 1, stream));
    assert_ok(cuGraphLaunch(exec, stream));
    assert_ok(cuStreamSynchronize(stream));
    struct mallinfo2 before = mallinfo2();
    for (int i = 0; i < 20000; i++) {
        assert_ok(cuGraphLaunch(exec, stream));
    }
    assert_ok(cuStreamSynchronize(stream));
    struct mallinfo2 after = mallinfo2();
    assert_int_equal(after.uordblks, before.uordblks);
    assert_int_equal(after.hblkhd, before.hblkhd);
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
    begin(capturing);
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
        cmocka_unit_test(calls_are_refused),
        cmocka_unit_test(a_bad_call_invalidates_the_capture),
        cmocka_unit_test(modes_decide_for_threads),
        cmocka_unit_test(streams_fork_and_join),
        cmocka_unit_test(default_stream_is_unusable_beside_a_blocking_capture),
        cmocka_unit_test(external_events_act_inside_the_graph),
        cmocka_unit_test(launches_of_a_graph_follow_each_other),
        cmocka_unit_test(a_graph_of_an_unloaded_module_is_refused),
        cmocka_unit_test(graph_launches_take_no_memory),
        cmocka_unit_test(a_context_goes_with_all_it_has),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
