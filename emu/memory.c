// SPDX-License-Identifier: Apache-2.0
//
// Plain device memory. Each allocation is a mapping of its own that ends, up to the alignment, at
// an inaccessible page, so that a kernel which runs over its end faults.
#include "emu/space.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

// Memory of cuMemAlloc is not cleared, and on a GPU it seldom is zero. Small allocations get this
// pattern, so that a program that relies on zeros shows it; of large ones, touching every page
// would cost more than everything else that emu does.
enum { STALE_BYTE = 0xA5, STALE_LIMIT = 1 << 20 };

static CUresult allocate(CUdeviceptr *address, size_t bytes)
{
    struct emu_context *context = emu_context_current();
    size_t rounded;
    if (__builtin_add_overflow(bytes, EMU_ALIGNMENT - 1, &rounded)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    rounded &= ~(EMU_ALIGNMENT - 1);
    // The range is what the caller asked for: a copy that runs into the rounding is an error too.
    if (!emu_charge(context->device, bytes)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct emu_space *space =
        emu_space_new(EMU_SPACE_ALLOCATION, context->device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    if (space == NULL) {
        emu_refund(context->device, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    space->context = context;
    space->range.bytes = bytes;
    size_t usable = emu_space_map(space, rounded, MAP_NORESERVE);
    CUresult result = usable > 0 ? CUDA_SUCCESS : emu_os_error(errno);
    if (result == CUDA_SUCCESS) {
        // Its end is that of the last page, before the guard page.
        space->range.begin = (uintptr_t)space->area + (usable - rounded);
        if (bytes <= STALE_LIMIT) {
            memset((void *)space->range.begin, STALE_BYTE, bytes);
        }
        *address = (CUdeviceptr)space->range.begin;
        emu_lock();
        result = emu_space_insert(space) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
        emu_unlock();
    }
    if (result != CUDA_SUCCESS) {
        emu_space_free(space);
    }
    return result;
}

CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT | EMU_UNSAFE_IN_CAPTURE);
    if (address == NULL || bytes == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUdeviceptr made;
    CUresult result = allocate(&made, bytes);
    if (result == CUDA_SUCCESS) {
        *address = made;
    }
    return result;
}

CUresult cuMemFree(CUdeviceptr address)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT | EMU_UNSAFE_IN_CAPTURE);
    emu_wait_all();
    emu_lock();
    struct emu_space *space = emu_space_find((uintptr_t)address);
    bool found = space != NULL && space->kind == EMU_SPACE_ALLOCATION &&
                 space->range.begin == (uintptr_t)address;
    if (found) {
        emu_space_remove(space);
    }
    emu_unlock();
    if (!found) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    emu_space_free(space);
    return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT);
    if (free_bytes == NULL || total_bytes == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *total_bytes = emu_config()->memory;
    *free_bytes = *total_bytes - emu_charged(emu_context_current()->device);
    return CUDA_SUCCESS;
}
