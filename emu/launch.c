// SPDX-License-Identifier: Apache-2.0
//
// Kernel launches.
#include "emu/work.h"

#include <string.h>

#define MAX_GRID_X 0x7fffffffu
#define MAX_GRID_YZ 65535u
#define MAX_BLOCK_XY 1024u
#define MAX_BLOCK_Z 64u
#define MAX_THREADS 1024u
#define PORTABLE_CLUSTER 8u
#define MAX_CLUSTER 16u

static bool within(unsigned value, unsigned max)
{
    return value >= 1 && value <= max;
}

static bool good_extents(const CUlaunchConfig *config)
{
    return within(config->gridDimX, MAX_GRID_X) && within(config->gridDimY, MAX_GRID_YZ) &&
           within(config->gridDimZ, MAX_GRID_YZ) && within(config->blockDimX, MAX_BLOCK_XY) &&
           within(config->blockDimY, MAX_BLOCK_XY) && within(config->blockDimZ, MAX_BLOCK_Z) &&
           (uint64_t)config->blockDimX * config->blockDimY * config->blockDimZ <= MAX_THREADS;
}

static CUresult check_cluster(const struct emu_function *function,
                              const struct kern_host_grid *grid)
{
    uint64_t blocks = 1;
    for (int axis = 0; axis < 3; axis++) {
        uint32_t extent = grid->cluster[axis];
        if (!within(extent, MAX_CLUSTER) || grid->grid[axis] % extent != 0) {
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
        }
        blocks *= extent;
    }
    unsigned max =
        atomic_load(&function->non_portable_cluster) != 0 ? MAX_CLUSTER : PORTABLE_CLUSTER;
    return blocks <= max ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CLUSTER_SIZE;
}

// What the attributes say goes into [grid]. Programmatic serialisation lets a kernel begin before
// the one before it has ended; running them in order is allowed too. Priority is a hint.
static CUresult apply_attributes(const CUlaunchConfig *config, struct kern_host_grid *grid)
{
    if (config->numAttrs != 0 && config->attrs == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttributeValue *value = &config->attrs[i].value;
        switch (config->attrs[i].id) {
        case CU_LAUNCH_ATTRIBUTE_IGNORE:
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        case CU_LAUNCH_ATTRIBUTE_PRIORITY:
            break;
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
            grid->cluster[0] = value->clusterDim.x;
            grid->cluster[1] = value->clusterDim.y;
            grid->cluster[2] = value->clusterDim.z;
            break;
        default:
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return CUDA_SUCCESS;
}

static CUresult make_grid(const CUlaunchConfig *config, const struct emu_function *function,
                          struct kern_host_grid *grid)
{
    if (!good_extents(config)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *grid = (struct kern_host_grid){
        .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
        .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
        .cluster = {1, 1, 1},
        .dynamic_shared = config->sharedMemBytes,
    };
    if (config->sharedMemBytes > (unsigned)atomic_load(&function->max_dynamic_shared)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = apply_attributes(config, grid);
    return result == CUDA_SUCCESS ? check_cluster(function, grid) : result;
}

static CUresult check_params(const struct emu_function *function, void **params)
{
    if (function->entry->n_params != 0 && params == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (uint32_t i = 0; i < function->entry->n_params; i++) {
        if (params[i] == NULL) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return CUDA_SUCCESS;
}

static CUresult submit_kernel(struct emu_stream *stream, struct emu_function *function,
                              const struct kern_host_grid *grid, void **params)
{
    const struct kern_host_entry *entry = function->entry;
    size_t block = (function->param_bytes + 7) / 8 * 8;
    struct emu_submission submission;
    CUresult result = emu_submit_begin(&submission, stream, EMU_WORK_KERNEL,
                                       block + entry->n_params * sizeof(void *));
    if (result != CUDA_SUCCESS) {
        return result;
    }
    emu_handle_ref(function);
    submission.work->kernel = (struct emu_kernel_work){function, *grid};
    unsigned char *payload = emu_work_payload(submission.work);
    for (uint32_t i = 0; i < entry->n_params; i++) {
        memcpy(payload + entry->params[i].offset, params[i], entry->params[i].size);
    }
    emu_submit_commit(&submission);
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction handle, void **params,
                          void **extra)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT);
    if (config == NULL || (params != NULL && extra != NULL)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (extra != NULL) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    struct emu_function *function = emu_handle_get(EMU_VALUE(handle), EMU_FUNCTION);
    if (function == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    struct emu_stream *stream = NULL;
    struct kern_host_grid grid;
    CUresult result = make_grid(config, function, &grid);
    if (result == CUDA_SUCCESS) {
        result = check_params(function, params);
    }
    if (result == CUDA_SUCCESS) {
        stream = emu_stream_get(config->hStream, &result);
    }
    if (stream != NULL) {
        result = stream->handle.context == function->handle.context
                     ? submit_kernel(stream, function, &grid, params)
                     : CUDA_ERROR_INVALID_HANDLE;
        emu_handle_put(stream);
    }
    emu_handle_put(function);
    return result;
}
