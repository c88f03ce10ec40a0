// SPDX-License-Identifier: Apache-2.0
#include "rank/vmm.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rank/internal.h"

static const struct {
    const char *name;
    CUmemAllocationHandleType type;
} kinds[] = {
    [KERN_HANDLE_NONE] = {"none", CU_MEM_HANDLE_TYPE_NONE},
    [KERN_HANDLE_FABRIC] = {"fabric", CU_MEM_HANDLE_TYPE_FABRIC},
    [KERN_HANDLE_POSIX_FD] = {"posix-fd", CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR},
};

const char *kern_handle_kind_name(enum kern_handle_kind kind)
{
    return kinds[kind].name;
}

static CUmemAllocationProp properties(int ordinal, enum kern_handle_kind kind)
{
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = kinds[kind].type,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal},
    };
}

bool kern_vmm_granularity(const struct kern_device *device, int ordinal, enum kern_handle_kind kind,
                          const char *what, size_t *granularity, struct kern_diag *diag)
{
    CUmemAllocationProp prop = properties(ordinal, kind);
    return KERN_CU(device, diag, what, cuMemGetAllocationGranularity, granularity, &prop,
                   CU_MEM_ALLOC_GRANULARITY_MINIMUM);
}

bool kern_vmm_create_unmapped(const struct kern_device *device, int ordinal, uint64_t bytes,
                              const char *what, CUmemGenericAllocationHandle *handle,
                              struct kern_diag *diag)
{
    CUmemAllocationProp prop = properties(ordinal, KERN_HANDLE_NONE);
    return KERN_CU(device, diag, what, cuMemCreate, handle, bytes, &prop, 0);
}

// Maps all [bytes] of [handle] at a new address, read-write for device [ordinal].
static bool map_handle(const struct kern_device *device, int ordinal,
                       CUmemGenericAllocationHandle handle, uint64_t bytes, const char *what,
                       CUdeviceptr *mapped, struct kern_diag *diag)
{
    CUmemAccessDesc access = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    CUdeviceptr address = 0;
    if (!KERN_CU(device, diag, what, cuMemAddressReserve, &address, bytes, 0, 0, 0)) {
        return false;
    }
    if (!KERN_CU(device, diag, what, cuMemMap, address, bytes, 0, handle, 0)) {
        goto unreserve;
    }
    if (!KERN_CU(device, diag, what, cuMemSetAccess, address, bytes, &access, 1)) {
        goto unmap;
    }
    *mapped = address;
    return true;

unmap:
    device->cu.cuMemUnmap(address, bytes);
unreserve:
    device->cu.cuMemAddressFree(address, bytes);
    return false;
}

bool kern_vmm_create(const struct kern_device *device, int ordinal, enum kern_handle_kind kind,
                     uint64_t bytes, const char *what, struct kern_mapping *mapping,
                     struct kern_diag *diag)
{
    char text[RANK_WHAT];
    rank_print(text, "allocating %llu bytes of shareable memory (handle kind %s) for %s",
               (unsigned long long)bytes, kern_handle_kind_name(kind), what);
    CUmemAllocationProp prop = properties(ordinal, kind);
    size_t granularity = 0;
    if (!kern_vmm_granularity(device, ordinal, kind, text, &granularity, diag)) {
        return false;
    }
    uint64_t rounded = 0;
    if (bytes == 0 || granularity == 0 ||
        __builtin_add_overflow(bytes, granularity - 1, &rounded)) {
        return kern_fail(diag, KERN_EXIT_DEVICE, text, "%llu bytes in units of %zu cannot be had",
                         (unsigned long long)bytes, granularity);
    }
    rounded -= rounded % granularity;

    CUmemGenericAllocationHandle handle = 0;
    if (!KERN_CU(device, diag, text, cuMemCreate, &handle, rounded, &prop, 0)) {
        return false;
    }
    CUdeviceptr address = 0;
    if (!map_handle(device, ordinal, handle, rounded, text, &address, diag)) {
        device->cu.cuMemRelease(handle);
        return false;
    }
    *mapping = (struct kern_mapping){.address = address, .mapped = rounded, .handle = handle};
    return true;
}

bool kern_vmm_export(const struct kern_device *device, const struct kern_mapping *mapping,
                     enum kern_handle_kind kind, const char *what, struct kern_shareable *shareable,
                     struct kern_diag *diag)
{
    char text[RANK_WHAT];
    rank_print(text, "exporting %s as a %s handle", what, kern_handle_kind_name(kind));
    struct kern_shareable result = {.kind = kind, .fd = -1};
    void *to = kind == KERN_HANDLE_FABRIC ? (void *)result.fabric : (void *)&result.fd;
    if (kind == KERN_HANDLE_NONE) {
        return kern_fail(diag, KERN_EXIT_DEVICE, text, "memory of this kind cannot be shared");
    }
    if (!KERN_CU(device, diag, text, cuMemExportToShareableHandle, to, mapping->handle,
                 kinds[kind].type, 0)) {
        return false;
    }
    // The driver does not promise that a child process does not inherit the descriptor.
    if (kind == KERN_HANDLE_POSIX_FD && fcntl(result.fd, F_SETFD, FD_CLOEXEC) != 0) {
        close(result.fd);
        return kern_fail(diag, KERN_EXIT_DEVICE, text, "file descriptor %d is not valid",
                         result.fd);
    }
    *shareable = result;
    return true;
}

bool kern_vmm_import(const struct kern_device *device, int ordinal,
                     const struct kern_shareable *shareable, uint64_t mapped, const char *what,
                     struct kern_mapping *mapping, struct kern_diag *diag)
{
    char text[RANK_WHAT];
    rank_print(text, "importing %s, %llu bytes, from a %s handle", what, (unsigned long long)mapped,
               kern_handle_kind_name(shareable->kind));
    if (shareable->kind == KERN_HANDLE_NONE || mapped == 0) {
        return kern_fail(diag, KERN_EXIT_DEVICE, text, "there is nothing to map");
    }
    unsigned char fabric[sizeof(shareable->fabric)];
    memcpy(fabric, shareable->fabric, sizeof(fabric));
    void *from =
        shareable->kind == KERN_HANDLE_FABRIC ? (void *)fabric : (void *)(uintptr_t)shareable->fd;
    CUmemGenericAllocationHandle handle = 0;
    if (!KERN_CU(device, diag, text, cuMemImportFromShareableHandle, &handle, from,
                 kinds[shareable->kind].type)) {
        return false;
    }
    CUdeviceptr address = 0;
    bool ok = map_handle(device, ordinal, handle, mapped, text, &address, diag);
    // A mapping keeps the memory alive by itself.
    device->cu.cuMemRelease(handle);
    if (ok) {
        *mapping = (struct kern_mapping){.address = address, .mapped = mapped};
    }
    return ok;
}

void kern_vmm_destroy(const struct kern_device *device, struct kern_mapping *mapping)
{
    if (mapping->mapped != 0) {
        device->cu.cuMemUnmap(mapping->address, mapping->mapped);
        device->cu.cuMemAddressFree(mapping->address, mapping->mapped);
        if (mapping->handle != 0) {
            device->cu.cuMemRelease(mapping->handle);
        }
    }
    *mapping = (struct kern_mapping){0};
}
