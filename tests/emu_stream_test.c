// SPDX-License-Identifier: Apache-2.0
//
// Streams, events, copies and memsets of emu.
#include "tests/emu_kernel_fixture.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

static CUmodule module;
static CUfunction spin, append;

static int setup(void **state)
{
    (void)state;
    fixture_open();
    module = fixture_load();
    spin = fixture_function(module, "spin");
    append = fixture_function(module, "append");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_ok(cuModuleUnload(module));
    fixture_close();
    return 0;
}

static void stream_refusals(void **state)
{
    (void)state;
    CUstream stream = fixture_stream(), gone = fixture_stream();
    assert_ok(cuStreamDestroy(gone));
    const struct {
        CUresult got, want;
    } cases[] = {
        {cuStreamCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE},
        {cuStreamCreate(&stream, 2), CUDA_ERROR_INVALID_VALUE},
        {cuStreamDestroy(NULL), CUDA_ERROR_INVALID_HANDLE},
        {cuStreamDestroy(gone), CUDA_ERROR_INVALID_HANDLE},
        {cuStreamSynchronize(gone), CUDA_ERROR_INVALID_HANDLE},
        {cuStreamQuery((CUstream)(uintptr_t)0x1234567), CUDA_ERROR_INVALID_HANDLE},
        {cuStreamSynchronize(CU_STREAM_PER_THREAD), CUDA_ERROR_NOT_SUPPORTED},
        {cuStreamWaitEvent(stream, NULL, 0), CUDA_ERROR_INVALID_HANDLE},
        {cuStreamWaitEvent(stream, NULL, 2), CUDA_ERROR_INVALID_VALUE},
        {cuStreamQuery(stream), CUDA_SUCCESS},
        {cuStreamSynchronize(CU_STREAM_LEGACY), CUDA_SUCCESS},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(cases[i].got, cases[i].want);
    }
    assert_ok(cuStreamDestroy(stream));
}

static void host_goes_on_while_a_kernel_waits(void **state)
{
    (void)state;
    CUstream stream = fixture_stream();
    _Atomic uint32_t *flag = fixture_pinned(4);
    assert_ok(fixture_launch_pointer(spin, stream, flag));
    assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    atomic_store(flag, 1);
    assert_ok(cuStreamSynchronize(stream));
    assert_ok(cuStreamQuery(stream));
    assert_ok(cuStreamDestroy(stream));
    assert_ok(cuMemFreeHost((void *)flag));
}

static void work_runs_in_order_and_survives_the_stream(void **state)
{
    (void)state;
    enum { N = 5000 }; // several rings full
    CUstream stream = fixture_stream();
    uint32_t *log = fixture_pinned((N + 1) * sizeof *log);
    for (uint32_t i = 0; i < N; i++) {
        assert_ok(fixture_append(append, stream, log, i));
    }
    assert_ok(cuStreamDestroy(stream));
    assert_ok(cuCtxSynchronize());
    assert_int_equal(log[0], N);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(log[i + 1], i);
    }
    assert_ok(cuMemFreeHost(log));
}

// Two streams, one of which waits for an event of the other, which itself waits for the host.
static void streams_run_at_once_and_wait_by_events(void **state)
{
    (void)state;
    CUstream first = fixture_stream(), second = fixture_stream(), third = fixture_stream();
    CUevent event;
    assert_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    _Atomic uint32_t *flag = fixture_pinned(4);
    uint32_t *log = fixture_pinned(64);

    assert_ok(cuStreamWaitEvent(second, event, 0)); // never recorded: no wait
    assert_ok(fixture_launch_pointer(spin, first, flag));
    assert_ok(fixture_append(append, first, log, 1));
    assert_ok(cuEventRecord(event, first));
    assert_ok(cuStreamWaitEvent(second, event, 0));
    assert_ok(cuEventRecord(event, third)); // does not change what second waits for
    assert_ok(fixture_append(append, second, log, 2));
    assert_ok(cuEventSynchronize(event));
    assert_int_equal(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
    assert_int_equal(log[0], 0);
    atomic_store(flag, 1);
    assert_ok(cuStreamSynchronize(second));
    assert_int_equal(log[0], 2);
    assert_int_equal(log[1], 1);
    assert_int_equal(log[2], 2);

    assert_ok(cuEventDestroy(event));
    assert_ok(cuStreamDestroy(first));
    assert_ok(cuStreamDestroy(second));
    assert_ok(cuStreamDestroy(third));
    assert_ok(cuMemFreeHost((void *)flag));
    assert_ok(cuMemFreeHost(log));
}

static void default_stream_orders_blocking_streams(void **state)
{
    (void)state;
    CUstream blocking, free_running = fixture_stream();
    assert_ok(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    _Atomic uint32_t *flag = fixture_pinned(4);
    uint32_t *log = fixture_pinned(64);

    assert_ok(fixture_launch_pointer(spin, blocking, flag));
    assert_ok(fixture_append(append, blocking, log, 1));
    assert_ok(fixture_append(append, NULL, log, 2));
    assert_ok(fixture_append(append, blocking, log, 3));
    assert_int_equal(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    assert_ok(fixture_append(append, free_running, log + 8, 4));
    assert_ok(cuStreamSynchronize(free_running));
    atomic_store(flag, 1);
    assert_ok(cuStreamSynchronize(blocking));
    const uint32_t want[] = {3, 1, 2, 3};
    assert_memory_equal(log, want, sizeof want);
    assert_ok(cuStreamSynchronize(NULL));

    assert_ok(cuStreamDestroy(blocking));
    assert_ok(cuStreamDestroy(free_running));
    assert_ok(cuMemFreeHost((void *)flag));
    assert_ok(cuMemFreeHost(log));
}

static void events_tell_time(void **state)
{
    (void)state;
    CUstream stream = fixture_stream();
    CUevent start, stop, plain, unused;
    _Atomic uint32_t *flag = fixture_pinned(4);
    assert_ok(cuEventCreate(&start, CU_EVENT_BLOCKING_SYNC));
    assert_ok(cuEventCreate(&stop, CU_EVENT_DEFAULT));
    assert_ok(cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
    assert_ok(cuEventCreate(&unused, CU_EVENT_DEFAULT));
    assert_ok(cuEventRecord(start, stream));
    assert_ok(fixture_launch_pointer(spin, stream, flag));
    assert_ok(cuEventRecord(plain, stream));
    assert_ok(cuEventRecordWithFlags(stop, stream, CU_EVENT_RECORD_DEFAULT));

    float ms;
    const struct {
        CUresult got, want;
    } cases[] = {
        {cuEventCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE},
        {cuEventCreate(&unused, 8), CUDA_ERROR_INVALID_VALUE},
        {cuEventCreate(&unused, CU_EVENT_INTERPROCESS), CUDA_ERROR_NOT_SUPPORTED},
        {cuEventRecord(NULL, stream), CUDA_ERROR_INVALID_HANDLE},
        {cuEventRecordWithFlags(start, stream, 2), CUDA_ERROR_INVALID_VALUE},
        {cuEventRecordWithFlags(start, stream, CU_EVENT_RECORD_EXTERNAL), CUDA_ERROR_INVALID_VALUE},
        {cuStreamWaitEvent(stream, start, CU_EVENT_WAIT_EXTERNAL), CUDA_ERROR_INVALID_VALUE},
        {cuEventQuery(unused), CUDA_SUCCESS},
        {cuEventQuery(stop), CUDA_ERROR_NOT_READY},
        {cuEventElapsedTime(NULL, start, stop), CUDA_ERROR_INVALID_VALUE},
        {cuEventElapsedTime(&ms, start, stop), CUDA_ERROR_NOT_READY},
        {cuEventElapsedTime(&ms, start, plain), CUDA_ERROR_INVALID_HANDLE},
        {cuEventElapsedTime(&ms, unused, stop), CUDA_ERROR_INVALID_HANDLE},
        {cuEventElapsedTime(&ms, start, NULL), CUDA_ERROR_INVALID_HANDLE},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(cases[i].got, cases[i].want);
    }

    assert_ok(cuEventSynchronize(start));
    struct timespec pause = {0, 20000000};
    nanosleep(&pause, NULL);
    atomic_store(flag, 1);
    assert_ok(cuEventSynchronize(stop));
    assert_ok(cuEventElapsedTime(&ms, start, stop));
    assert_true(ms >= 19.0f && ms < 20000.0f);
    assert_ok(cuEventElapsedTime(&ms, stop, start));
    assert_true(ms <= -19.0f);

    CUevent events[] = {start, stop, plain, unused};
    for (size_t i = 0; i < COUNT(events); i++) {
        assert_ok(cuEventDestroy(events[i]));
        assert_int_equal(cuEventDestroy(events[i]), CUDA_ERROR_INVALID_HANDLE);
    }
    assert_ok(cuStreamDestroy(stream));
    assert_ok(cuMemFreeHost((void *)flag));
}

static void event_may_go_before_its_record_runs(void **state)
{
    (void)state;
    CUstream stream = fixture_stream(), other = fixture_stream();
    CUevent event;
    _Atomic uint32_t *flag = fixture_pinned(4);
    assert_ok(cuEventCreate(&event, 0));
    assert_ok(fixture_launch_pointer(spin, stream, flag));
    assert_ok(cuEventRecord(event, stream));
    assert_ok(cuStreamWaitEvent(other, event, 0));
    assert_ok(cuEventDestroy(event));
    assert_ok(cuStreamDestroy(stream));
    assert_int_equal(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
    atomic_store(flag, 1);
    assert_ok(cuStreamSynchronize(other));
    assert_ok(cuStreamDestroy(other));
    assert_ok(cuMemFreeHost((void *)flag));
}

// A pageable source may change once the call is back; a pinned one is read when the copy runs.
static void sources_are_read_when_the_driver_reads_them(void **state)
{
    (void)state;
    CUstream stream = fixture_stream();
    _Atomic uint32_t *flag = fixture_pinned(4);
    uint32_t *pinned = fixture_pinned(8), pageable[2] = {1, 1}, back[4];
    CUdeviceptr memory = fixture_alloc(16);
    pinned[0] = pinned[1] = 1;
    assert_ok(fixture_launch_pointer(spin, stream, flag));
    assert_ok(cuMemcpyHtoDAsync(memory, pageable, 8, stream));
    assert_ok(cuMemcpyHtoDAsync(memory + 8, pinned, 8, stream));
    pageable[0] = pageable[1] = 2;
    pinned[0] = pinned[1] = 2;
    atomic_store(flag, 1);
    assert_ok(cuMemcpyDtoHAsync(back, memory, 16, stream)); // pageable: done when it returns
    const uint32_t want[] = {1, 1, 2, 2};
    assert_memory_equal(back, want, 16);
    assert_ok(cuStreamDestroy(stream));
    assert_ok(cuMemFree(memory));
    assert_ok(cuMemFreeHost(pinned));
    assert_ok(cuMemFreeHost((void *)flag));
}

static void large_pageable_copies_arrive(void **state)
{
    (void)state;
    enum { BYTES = 300001 };
    CUstream stream = fixture_stream();
    unsigned char *from = malloc(BYTES), *to = calloc(1, BYTES);
    CUdeviceptr a = fixture_alloc(BYTES), b = fixture_alloc(BYTES);
    for (size_t i = 0; i < BYTES; i++) {
        from[i] = (unsigned char)(i * 7 + i / 251);
    }
    assert_ok(cuMemcpyHtoDAsync(a, from, BYTES, stream));
    assert_ok(cuMemcpyDtoDAsync(b, a, BYTES, stream));
    assert_ok(cuMemcpyDtoHAsync(to, b, BYTES, stream));
    assert_memory_equal(to, from, BYTES);
    assert_ok(cuStreamDestroy(stream));
    assert_ok(cuMemFree(a));
    assert_ok(cuMemFree(b));
    free(from);
    free(to);
}

static void copies_2d_have_pitches_and_offsets(void **state)
{
    (void)state;
    CUstream stream = fixture_stream();
    unsigned char from[5 * 7], back[6 * 8];
    for (size_t i = 0; i < sizeof from; i++) {
        from[i] = (unsigned char)i;
    }
    CUdeviceptr memory = fixture_alloc(256), other = fixture_alloc(256);
    assert_ok(cuMemsetD8Async(memory, 0xff, 256, stream));
    CUDA_MEMCPY2D in = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = from,
                        .srcPitch = 7,
                        .srcXInBytes = 1,
                        .srcY = 2,
                        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                        .dstDevice = memory,
                        .dstPitch = 16,
                        .dstXInBytes = 3,
                        .dstY = 1,
                        .WidthInBytes = 4,
                        .Height = 3};
    assert_ok(cuMemcpy2DAsync(&in, stream));
    CUDA_MEMCPY2D across = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                            .srcDevice = memory,
                            .srcPitch = 16,
                            .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                            .dstDevice = other,
                            .dstPitch = 8,
                            .WidthInBytes = 8,
                            .Height = 6};
    assert_ok(cuMemcpy2DAsync(&across, stream));
    assert_ok(cuMemcpyDtoHAsync(back, other, sizeof back, stream));
    for (size_t y = 0; y < 6; y++) {
        for (size_t x = 0; x < 8; x++) {
            bool inside = y >= 1 && y < 4 && x >= 3 && x < 7;
            size_t source = (y + 1) * 7 + (x - 3) + 1;
            assert_int_equal(back[y * 8 + x], inside ? from[source] : 0xff);
        }
    }

    const struct {
        CUmemorytype type;
        size_t pitch, x, y, height;
        CUresult want;
    } cases[] = {
        {CU_MEMORYTYPE_DEVICE, 16, 0, 0, 16, CUDA_SUCCESS},
        {CU_MEMORYTYPE_DEVICE, 16, 9, 0, 16, CUDA_ERROR_INVALID_VALUE}, // pitch < x + width
        {CU_MEMORYTYPE_DEVICE, 16, 0, 1, 16, CUDA_ERROR_INVALID_VALUE}, // past the end
        {CU_MEMORYTYPE_DEVICE, 16, 0, SIZE_MAX / 8, 1, CUDA_ERROR_INVALID_VALUE},
        {CU_MEMORYTYPE_DEVICE, (size_t)1 << 31, 0, 0, 1, CUDA_ERROR_INVALID_VALUE},
        {CU_MEMORYTYPE_DEVICE, 16, 0, 0, SIZE_MAX / 2, CUDA_ERROR_INVALID_VALUE},
        {CU_MEMORYTYPE_HOST, 16, 0, 0, 1, CUDA_ERROR_INVALID_VALUE}, // dstHost is device memory
        {CU_MEMORYTYPE_ARRAY, 16, 0, 0, 1, CUDA_ERROR_NOT_SUPPORTED},
        {(CUmemorytype)0, 16, 0, 0, 1, CUDA_ERROR_INVALID_VALUE},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                              .srcDevice = other,
                              .srcPitch = 8,
                              .dstMemoryType = cases[i].type,
                              .dstDevice = memory,
                              .dstHost = (void *)(uintptr_t)memory,
                              .dstPitch = cases[i].pitch,
                              .dstXInBytes = cases[i].x,
                              .dstY = cases[i].y,
                              .WidthInBytes = 8,
                              .Height = cases[i].height};
        assert_int_equal(cuMemcpy2DAsync(&copy, stream), cases[i].want);
    }
    assert_int_equal(cuMemcpy2DAsync(NULL, stream), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuStreamDestroy(stream));
    assert_ok(cuMemFree(memory));
    assert_ok(cuMemFree(other));
}

static void ranges_are_checked_at_the_call(void **state)
{
    (void)state;
    CUstream stream = fixture_stream();
    CUdeviceptr memory = fixture_alloc(256);
    unsigned char host[512] = {0};
    unsigned char *pinned = fixture_pinned(64);
    const struct {
        CUresult got, want;
    } cases[] = {
        {cuMemcpyHtoDAsync(memory, host, 257, stream), CUDA_ERROR_INVALID_VALUE},
        {cuMemcpyHtoDAsync(memory, NULL, 1, stream), CUDA_ERROR_INVALID_VALUE},
        {cuMemcpyHtoDAsync(memory, host, 0, stream), CUDA_SUCCESS},
        {cuMemcpyHtoDAsync(0, host, 1, stream), CUDA_ERROR_INVALID_VALUE},
        {cuMemcpyHtoDAsync(memory, (void *)(uintptr_t)memory, 8, stream), CUDA_ERROR_INVALID_VALUE},
        {cuMemcpyHtoDAsync((CUdeviceptr)(uintptr_t)host, host, 8, stream),
         CUDA_ERROR_INVALID_VALUE},
        {cuMemcpyHtoDAsync(memory, host, 8, (CUstream)(uintptr_t)0x77), CUDA_ERROR_INVALID_HANDLE},
        {cuMemcpyDtoHAsync(host, memory + 1, 256, stream), CUDA_ERROR_INVALID_VALUE},
        {cuMemcpyDtoDAsync(memory, memory + 128, 129, stream), CUDA_ERROR_INVALID_VALUE},
        {cuMemcpyDtoDAsync(memory, (CUdeviceptr)(uintptr_t)pinned, 64, stream), CUDA_SUCCESS},
        {cuMemcpyHtoDAsync(memory, pinned, 64 + 8192, stream), CUDA_ERROR_INVALID_VALUE},
        {cuMemsetD8Async(memory + 255, 1, 1, stream), CUDA_SUCCESS},
        {cuMemsetD8Async(memory + 255, 1, 2, stream), CUDA_ERROR_INVALID_VALUE},
        {cuMemsetD32Async(memory + 2, 1, 1, stream), CUDA_ERROR_INVALID_VALUE},
        {cuMemsetD32Async(memory, 1, SIZE_MAX / 2, stream), CUDA_ERROR_INVALID_VALUE},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(cases[i].got, cases[i].want);
    }
    assert_ok(cuMemsetD32Async(memory, 0x01020304, 63, stream));
    assert_ok(cuMemcpyDtoHAsync(host, memory, 256, stream));
    for (size_t i = 0; i < 252; i++) {
        assert_int_equal(host[i], 4 - i % 4);
    }
    assert_int_equal(host[255], 1);
    assert_ok(cuStreamDestroy(stream));
    assert_ok(cuMemFree(memory));
    assert_ok(cuMemFreeHost(pinned));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream_refusals),
        cmocka_unit_test(host_goes_on_while_a_kernel_waits),
        cmocka_unit_test(work_runs_in_order_and_survives_the_stream),
        cmocka_unit_test(streams_run_at_once_and_wait_by_events),
        cmocka_unit_test(default_stream_orders_blocking_streams),
        cmocka_unit_test(events_tell_time),
        cmocka_unit_test(event_may_go_before_its_record_runs),
        cmocka_unit_test(sources_are_read_when_the_driver_reads_them),
        cmocka_unit_test(large_pageable_copies_arrive),
        cmocka_unit_test(copies_2d_have_pitches_and_offsets),
        cmocka_unit_test(ranges_are_checked_at_the_call),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
