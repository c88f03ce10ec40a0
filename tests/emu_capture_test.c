// SPDX-License-Identifier: Apache-2.0
//
// Stream capture of emu: what it refuses, what ends it, and how streams take part in it.
#include "tests/emu_kernel_fixture.h"

#include <pthread.h>
#include <string.h>

static CUmodule module;
static CUfunction append;

static int setup(void **state)
{
    (void)state;
    fixture_open();
    module = fixture_load();
    append = fixture_function(module, "append");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_ok(cuModuleUnload(module));
    fixture_close_empty();
    return 0;
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
    fixture_begin(stream);
    assert_int_equal(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED),
                     CUDA_ERROR_ILLEGAL_STATE);
    assert_ok(cuStreamIsCapturing(stream, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_ok(cuStreamEndCapture(stream, &graph)); // an empty graph
    assert_int_equal(cuGraphInstantiateWithFlags(&exec, graph, 16), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(
        cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH),
        CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cuGraphInstantiateWithFlags(NULL, graph, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphGetNodes(graph, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    exec = fixture_instantiate(graph);
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
    struct scene scene = {
        .stream = fixture_stream(), .other = fixture_stream(), .memory = fixture_alloc(64)};
    uint32_t *log = fixture_pinned(64);
    CUgraph graph;
    assert_ok(cuEventCreate(&scene.captured, 0));
    assert_ok(cuEventCreate(&scene.recorded, 0));
    assert_ok(cuEventRecord(scene.recorded, scene.other));
    fixture_begin(scene.stream);
    assert_ok(cuStreamEndCapture(scene.stream, &graph));
    scene.exec = fixture_instantiate(graph);
    for (size_t i = 0; i < COUNT(cases); i++) {
        CUstreamCaptureStatus status;
        fixture_begin(scene.stream);
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
    assert_int_equal(cuStreamWaitEvent(scene.stream, scene.captured, 0), CUDA_ERROR_CAPTURED_EVENT);
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

    fixture_begin(stream);
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
    CUgraphExec exec = fixture_instantiate(graph);
    assert_ok(cuGraphLaunch(exec, side));
    assert_ok(cuStreamSynchronize(side));
    const uint32_t want[] = {3, 1, 2, 3};
    assert_memory_equal(log, want, sizeof want);

    fixture_begin(stream); // forked and never joined
    assert_ok(cuEventRecord(fork_event, stream));
    assert_ok(cuStreamWaitEvent(side, fork_event, 0));
    assert_ok(fixture_append(append, side, log, 2));
    end(stream, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    assert_ok(cuStreamSynchronize(side));

    fixture_begin(stream); // two captures that meet
    fixture_begin(side);
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
    fixture_begin(free_running);
    assert_ok(fixture_append(append, NULL, log, 2));
    end(free_running, CUDA_SUCCESS);
    fixture_begin(blocking);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_refused),
        cmocka_unit_test(a_bad_call_invalidates_the_capture),
        cmocka_unit_test(modes_decide_for_threads),
        cmocka_unit_test(streams_fork_and_join),
        cmocka_unit_test(default_stream_is_unusable_beside_a_blocking_capture),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
