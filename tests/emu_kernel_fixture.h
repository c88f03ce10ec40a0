// SPDX-License-Identifier: Apache-2.0
//
// What the tests of emu's streams, modules, launches and graphs share: the device, the artifact
// emu_kernel_fixture.so, and launching its kernels.
#ifndef KERN_TESTS_EMU_KERNEL_FIXTURE_H
#define KERN_TESTS_EMU_KERNEL_FIXTURE_H

#include "device/abi/host_module.h"

#include <stdbool.h>
#include <stdint.h>

// What the kernel "report" writes.
struct fixture_report {
    struct kern_host_grid grid;
    uint64_t first, count;
    uint8_t byte;
    bool pack_aligned;
    uint64_t wide;
    unsigned char pack[128];
};

#ifdef KERN_BUILD_DIR // in the tests, not in the artifact

#include "emu/api.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define FIXTURE_PATH KERN_BUILD_DIR "/lib/emu_kernel_fixture.so"
#define assert_ok(call) assert_int_equal((call), CUDA_SUCCESS)
#define COUNT(array) (sizeof(array) / sizeof *(array))

// The bytes of the artifact, to be freed.
static inline unsigned char *fixture_read(size_t *bytes)
{
    FILE *file = fopen(FIXTURE_PATH, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *bytes = (size_t)ftell(file);
    rewind(file);
    unsigned char *image = malloc(*bytes);
    assert_non_null(image);
    assert_int_equal(fread(image, 1, *bytes, file), *bytes);
    fclose(file);
    return image;
}

static inline void fixture_open(void)
{
    CUcontext context;
    assert_ok(cuInit(0));
    assert_ok(cuDevicePrimaryCtxRetain(&context, 0));
    assert_ok(cuCtxSetCurrent(context));
}

static inline void fixture_close(void)
{
    assert_ok(cuDevicePrimaryCtxRelease(0));
}

// The same, of a device on which the tests have left nothing that runs.
static inline void fixture_close_empty(void)
{
    struct kern_emu_stats stats;
    assert_int_equal(kern_emu_stats(0, &stats), 0);
    assert_int_equal(stats.streams + stats.events + stats.graphs + stats.graph_execs, 0);
    fixture_close();
}

static inline CUmodule fixture_load(void)
{
    size_t bytes;
    unsigned char *image = fixture_read(&bytes);
    CUmodule module;
    assert_ok(cuModuleLoadData(&module, image));
    free(image);
    return module;
}

static inline CUfunction fixture_function(CUmodule module, const char *name)
{
    CUfunction function;
    assert_ok(cuModuleGetFunction(&function, module, name));
    return function;
}

static inline CUstream fixture_stream(void)
{
    CUstream stream;
    assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

// Page-locked memory of zeros, which host and kernels see at the same address.
static inline void *fixture_pinned(size_t bytes)
{
    void *memory;
    assert_ok(cuMemHostAlloc(&memory, bytes, 0));
    for (size_t i = 0; i < bytes; i++) {
        ((volatile unsigned char *)memory)[i] = 0;
    }
    return memory;
}

static inline CUdeviceptr fixture_alloc(size_t bytes)
{
    CUdeviceptr memory;
    assert_ok(cuMemAlloc(&memory, bytes));
    return memory;
}

static inline CUresult fixture_launch(CUfunction function, CUstream stream, void **params)
{
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 1,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = stream};
    return cuLaunchKernelEx(&config, function, params, NULL);
}

static inline CUresult fixture_launch_pointer(CUfunction function, CUstream stream,
                                              const volatile void *pointer)
{
    return fixture_launch(function, stream, (void *[]){&pointer});
}

static inline CUresult fixture_append(CUfunction append, CUstream stream, uint32_t *log,
                                      uint32_t id)
{
    return fixture_launch(append, stream, (void *[]){&log, &id});
}

static inline void fixture_begin(CUstream stream)
{
    assert_ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
}

// Takes the graph.
static inline CUgraphExec fixture_instantiate(CUgraph graph)
{
    CUgraphExec exec;
    assert_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
    assert_ok(cuGraphDestroy(graph));
    return exec;
}

#endif
#endif
