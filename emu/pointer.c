// SPDX-License-Identifier: Apache-2.0
//
// cuPointerGetAttribute.
#include "emu/space.h"

static bool is_host(const struct emu_space *space)
{
    return space->kind == EMU_SPACE_HOST_ALLOCATION || space->kind == EMU_SPACE_HOST_REGISTERED;
}

// What only a mapped, allocated or registered address has.
static CUresult answer_space(void *value, CUpointer_attribute attribute,
                             const struct emu_space *space, uintptr_t p)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)value = space->context == NULL ? NULL : emu_context_handle(space->context);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)value = is_host(space) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)value = (CUdeviceptr)p;
        return emu_context_current() == NULL ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *(void **)value = is_host(space) ? (void *)p : NULL;
        return is_host(space) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)value = space->id;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        *(int *)value = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)value = space->device;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(uint64_t *)value =
            space->memory == NULL ? 0 : (uint64_t)space->memory->prop.requestedHandleTypes;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        if (emu_context_current() == NULL) {
            return CUDA_ERROR_INVALID_CONTEXT;
        }
        *(unsigned *)value = space->access[emu_context_current()->device];
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        *(CUdeviceptr *)value = (CUdeviceptr)space->range.begin;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        *(size_t *)value = space->range.bytes;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

// [range]: the reservation that holds the address, or else the entry's own range.
static CUresult answer(void *value, CUpointer_attribute attribute, const struct emu_range *range,
                       const struct emu_space *space, uintptr_t p)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)value = (CUdeviceptr)range->begin;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)value = range->bytes;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned char *)value = space != NULL;
        return CUDA_SUCCESS;
    default:
        return space == NULL ? CUDA_ERROR_INVALID_VALUE : answer_space(value, attribute, space, p);
    }
}

CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
    EMU_ENTER(EMU_PLAIN);
    if (value == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    uintptr_t p = (uintptr_t)address;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    emu_lock();
    const struct emu_space *space = emu_space_find(p);
    const struct emu_range *range = emu_ranges_find(emu_reservations(), p);
    if (range == NULL && space != NULL) {
        range = &space->range;
    }
    if (range != NULL) {
        result = answer(value, attribute, range, space, p);
    }
    emu_unlock();
    return result;
}
