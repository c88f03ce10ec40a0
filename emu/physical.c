// SPDX-License-Identifier: Apache-2.0
//
// Physical memory: cuMemCreate, cuMemRelease and what can be asked about it. The memory is a memfd
// that can neither shrink nor grow, and its name says all that a process which is handed only the
// file descriptor must know: see memfd.h.
#include "emu/memfd.h"
#include "emu/space.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

static void destroy_memory(void *object)
{
    struct emu_memory *memory = object;
    if (memory->fd >= 0) {
        close(memory->fd);
        emu_count_fd(-1);
    }
    if (!memory->imported) {
        emu_refund(memory->device, memory->bytes);
    }
    free(memory);
}

struct emu_memory *emu_memory_new(int fd, size_t bytes, bool imported,
                                  const CUmemAllocationProp *prop)
{
    struct emu_memory *memory = emu_handle_new(EMU_MEMORY, sizeof *memory, NULL, destroy_memory);
    if (memory == NULL) {
        return NULL;
    }
    memory->fd = fd;
    memory->bytes = bytes;
    memory->imported = imported;
    memory->device = prop->location.id;
    memory->prop = *prop;
    emu_count_fd(1);
    return memory;
}

static CUresult check_handle_types(unsigned types)
{
    const unsigned windows = CU_MEM_HANDLE_TYPE_WIN32 | CU_MEM_HANDLE_TYPE_WIN32_KMT;
    const unsigned known = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC;
    if (types & ~(known | windows)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (types & windows) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if ((types & CU_MEM_HANDLE_TYPE_FABRIC) && emu_config()->fabric == EMU_FABRIC_NONE) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

static CUresult check_location(const CUmemLocation *location)
{
    switch (location->type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return emu_device_ok(location->id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        return CUDA_ERROR_NOT_SUPPORTED;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult check_prop(const CUmemAllocationProp *prop)
{
    if (prop == NULL || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        prop->win32HandleMetaData != NULL || prop->allocFlags.usage != 0 ||
        prop->allocFlags.compressionType > CU_MEM_ALLOCATION_COMP_GENERIC ||
        prop->allocFlags.gpuDirectRDMACapable > 1) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < sizeof prop->allocFlags.reserved; i++) {
        if (prop->allocFlags.reserved[i] != 0) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    // The device says 0 to both attributes, GENERIC_COMPRESSION_SUPPORTED and
    // GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED.
    if (prop->allocFlags.compressionType != 0 || prop->allocFlags.gpuDirectRDMACapable != 0) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    CUresult result = check_location(&prop->location);
    return result == CUDA_SUCCESS ? check_handle_types(prop->requestedHandleTypes) : result;
}

CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option)
{
    EMU_ENTER(EMU_PLAIN);
    if (bytes == NULL || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
                          option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = check_prop(prop);
    if (result == CUDA_SUCCESS) {
        *bytes = EMU_GRANULARITY;
    }
    return result;
}

// Memory that [prop] describes; its device has been charged for it. NULL: [result] says why.
static struct emu_memory *make_memory(size_t bytes, const CUmemAllocationProp *prop,
                                      CUresult *result)
{
    struct emu_memfd_name name = {
        .node = emu_config()->node,
        .device = emu_config()->visible[prop->location.id],
        .types = prop->requestedHandleTypes,
    };
    if (getrandom(name.key, sizeof name.key, 0) != (ssize_t)sizeof name.key) {
        *result = CUDA_ERROR_OPERATING_SYSTEM;
        return NULL;
    }
    int fd = emu_memfd_create(&name, bytes);
    if (fd < 0) {
        *result = emu_os_error(errno);
        return NULL;
    }
    struct emu_memory *memory = emu_memory_new(fd, bytes, false, prop);
    if (memory == NULL) {
        close(fd);
        *result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return memory;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
                     const CUmemAllocationProp *prop, unsigned long long flags)
{
    EMU_ENTER(EMU_UNSAFE_IN_CAPTURE);
    if (handle == NULL || flags != 0 || bytes == 0 || bytes % EMU_GRANULARITY != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = check_prop(prop);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if ((prop->requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC) &&
        emu_config()->fabric == EMU_FABRIC_REFUSED) {
        return CUDA_ERROR_NOT_PERMITTED;
    }
    if (!emu_charge(prop->location.id, bytes)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct emu_memory *memory = make_memory(bytes, prop, &result);
    if (memory == NULL) {
        emu_refund(prop->location.id, bytes);
        return result;
    }
    *handle = memory->handle.value;
    return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    EMU_ENTER(EMU_UNSAFE_IN_CAPTURE);
    struct emu_memory *memory = emu_handle_get(handle, EMU_MEMORY);
    if (memory == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    bool ended = emu_handle_free(memory);
    emu_handle_put(memory);
    return ended ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                CUmemGenericAllocationHandle handle)
{
    EMU_ENTER(EMU_PLAIN);
    struct emu_memory *memory = prop == NULL ? NULL : emu_handle_get(handle, EMU_MEMORY);
    if (memory == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *prop = memory->prop;
    emu_handle_put(memory);
    return CUDA_SUCCESS;
}
