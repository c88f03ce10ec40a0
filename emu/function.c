// SPDX-License-Identifier: Apache-2.0
//
// Functions of a module: their attributes, parameters and occupancy. Limits are those of compute
// capability 9.0, the ones that the device attributes give.
#include "emu/work.h"

#include <stdlib.h>

#define MAX_THREADS 1024
#define MAX_SHARED (48 << 10)          // of a block, without asking for more
#define MAX_SHARED_OPTIN 232448        // …_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
#define SHARED_PER_SM 233472           // …_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
#define RESERVED_SHARED_PER_BLOCK 1024 // …_RESERVED_SHARED_MEMORY_PER_BLOCK
#define THREADS_PER_SM 2048            // …_MAX_THREADS_PER_MULTIPROCESSOR
#define BLOCKS_PER_SM 32               // …_MAX_BLOCKS_PER_MULTIPROCESSOR
#define WARP 32
#define REGISTERS 32 // of a thread: as many as let an SM be full of threads
#define SM_VERSION 90

static void destroy(void *object)
{
    struct emu_function *function = object;
    emu_handle_put(function->module);
    free(function);
}

struct emu_function *emu_function_new(struct emu_module *module,
                                      const struct kern_host_entry *entry)
{
    struct emu_function *function =
        emu_handle_new(EMU_FUNCTION, sizeof *function, module->handle.context, destroy);
    if (function == NULL) {
        return NULL;
    }
    emu_handle_ref(module);
    function->module = module;
    function->entry = entry;
    if (entry->n_params != 0) {
        const struct kern_host_param *last = &entry->params[entry->n_params - 1];
        function->param_bytes = (size_t)last->offset + last->size;
    }
    atomic_store(&function->max_dynamic_shared, MAX_SHARED - (int)entry->static_shared);
    atomic_store(&function->carveout, -1);
    return function;
}

static CUresult get_attribute(struct emu_function *function, CUfunction_attribute attribute,
                              int *value)
{
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = MAX_THREADS;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = (int)function->entry->static_shared;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = REGISTERS;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = SM_VERSION;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        *value = 0;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = atomic_load(&function->max_dynamic_shared);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *value = atomic_load(&function->carveout);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        *value = atomic_load(&function->non_portable_cluster);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        *value = atomic_load(&function->cluster_policy);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction handle)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT);
    if (value == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct emu_function *function = emu_handle_get(EMU_VALUE(handle), EMU_FUNCTION);
    if (function == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    CUresult result = get_attribute(function, attribute, value);
    emu_handle_put(function);
    return result;
}

static CUresult store(atomic_int *where, int value, int min, int max)
{
    if (value < min || value > max) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    atomic_store(where, value);
    return CUDA_SUCCESS;
}

static CUresult set_attribute(struct emu_function *function, CUfunction_attribute attribute,
                              int value)
{
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        return store(&function->max_dynamic_shared, value, 0,
                     MAX_SHARED_OPTIN - (int)function->entry->static_shared);
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        return store(&function->carveout, value, -1, 100);
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        return store(&function->non_portable_cluster, value, 0, 1);
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        return store(&function->cluster_policy, value, CU_CLUSTER_SCHEDULING_POLICY_DEFAULT,
                     CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING);
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        return CUDA_ERROR_NOT_SUPPORTED;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT);
    struct emu_function *function = emu_handle_get(EMU_VALUE(handle), EMU_FUNCTION);
    if (function == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    CUresult result = set_attribute(function, attribute, value);
    emu_handle_put(function);
    return result;
}

CUresult cuFuncGetParamInfo(CUfunction handle, size_t index, size_t *offset, size_t *bytes)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT);
    if (offset == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct emu_function *function = emu_handle_get(EMU_VALUE(handle), EMU_FUNCTION);
    if (function == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    const struct kern_host_entry *entry = function->entry;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (index < entry->n_params) {
        *offset = entry->params[index].offset;
        if (bytes != NULL) {
            *bytes = entry->params[index].size;
        }
        result = CUDA_SUCCESS;
    }
    emu_handle_put(function);
    return result;
}

// A module of emu is loaded whole, so there is nothing left to be done.
CUresult cuFuncLoad(CUfunction handle)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT);
    return emu_handle_live(EMU_VALUE(handle), EMU_FUNCTION) != NULL ? CUDA_SUCCESS
                                                                    : CUDA_ERROR_INVALID_HANDLE;
}

static size_t min(size_t a, size_t b)
{
    return a < b ? a : b;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction handle, int block_size,
                                                     size_t dynamic_shared)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT);
    if (blocks == NULL || block_size <= 0 || block_size > MAX_THREADS) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct emu_function *function = emu_handle_get(EMU_VALUE(handle), EMU_FUNCTION);
    if (function == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    size_t fixed = function->entry->static_shared;
    size_t threads = ((size_t)block_size + WARP - 1) / WARP * WARP;
    size_t count = min(BLOCKS_PER_SM, THREADS_PER_SM / threads);
    if (dynamic_shared > MAX_SHARED_OPTIN - fixed) {
        count = 0;
    } else {
        count = min(count, SHARED_PER_SM / (fixed + dynamic_shared + RESERVED_SHARED_PER_BLOCK));
    }
    *blocks = (int)count;
    emu_handle_put(function);
    return CUDA_SUCCESS;
}
