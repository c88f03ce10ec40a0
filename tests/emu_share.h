// SPDX-License-Identifier: Apache-2.0
//
// What the tests of shared memory of the emulated GPU have in common.
#ifndef KERN_TESTS_EMU_SHARE_H
#define KERN_TESTS_EMU_SHARE_H

#include "tests/emu_check.h"

#define G ((size_t)2 << 20)

#define FABRIC CU_MEM_HANDLE_TYPE_FABRIC
#define POSIX CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static inline CUmemGenericAllocationHandle create_on(int device, unsigned types, size_t bytes)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = (CUmemAllocationHandleType)types,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
    OK(cuMemCreate(&handle, bytes, &prop, 0));
    return handle;
}

static inline CUmemGenericAllocationHandle create(unsigned types, size_t bytes)
{
    return create_on(0, types, bytes);
}

static inline volatile int *map_on(int device, CUmemGenericAllocationHandle handle, size_t bytes)
{
    CUdeviceptr p;
    CUmemAccessDesc desc = {{CU_MEM_LOCATION_TYPE_DEVICE, device},
                            CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    OK(cuMemAddressReserve(&p, bytes, 0, 0, 0));
    OK(cuMemMap(p, bytes, 0, handle, 0));
    OK(cuMemSetAccess(p, bytes, &desc, 1));
    return (volatile int *)(uintptr_t)p;
}

static inline volatile int *map(CUmemGenericAllocationHandle handle, size_t bytes)
{
    return map_on(0, handle, bytes);
}

static inline void unmap(volatile int *p, size_t bytes)
{
    OK(cuMemUnmap((uintptr_t)p, bytes));
    OK(cuMemAddressFree((uintptr_t)p, bytes));
}

static inline CUmemFabricHandle export_fabric(CUmemGenericAllocationHandle handle)
{
    CUmemFabricHandle fabric;
    OK(cuMemExportToShareableHandle(&fabric, handle, FABRIC, 0));
    return fabric;
}

static inline int export_fd(CUmemGenericAllocationHandle handle)
{
    int fd = -1;
    OK(cuMemExportToShareableHandle(&fd, handle, POSIX, 0));
    return fd;
}

static inline CUresult import_fabric(CUmemGenericAllocationHandle *handle,
                                     const CUmemFabricHandle *from)
{
    CUmemFabricHandle copy = *from;
    return cuMemImportFromShareableHandle(handle, &copy, FABRIC);
}

static inline CUresult import_fd(CUmemGenericAllocationHandle *handle, int fd)
{
    return cuMemImportFromShareableHandle(handle, (void *)(intptr_t)fd, POSIX);
}

#endif
