// SPDX-License-Identifier: Apache-2.0
//
// Page-locked host memory, allocated or registered. Its device address is its host address.
#include "emu/space.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>

// Inserts a filled entry; on failure frees it.
static CUresult insert(struct emu_space *space)
{
    emu_lock();
    bool inserted = emu_space_insert(space);
    emu_unlock();
    if (!inserted) {
        emu_space_free(space);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **host, size_t bytes, unsigned int flags)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT | EMU_UNSAFE_IN_CAPTURE);
    const unsigned known =
        CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    if (host == NULL || bytes == 0 || (flags & ~known) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct emu_context *context = emu_context_current();
    struct emu_space *space = emu_space_new(EMU_SPACE_HOST_ALLOCATION, context->device,
                                            CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    if (space == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (emu_space_map(space, bytes, 0) == 0) {
        CUresult result = emu_os_error(errno);
        emu_space_free(space);
        return result;
    }
    space->context = context;
    space->flags = flags;
    space->range = (struct emu_range){(uintptr_t)space->area, bytes};
    CUresult result = insert(space);
    if (result == CUDA_SUCCESS) {
        *host = space->area;
    }
    return result;
}

// Takes the entry that begins at [host] and is of [kind] out of the address space; NULL: none.
static struct emu_space *take(const void *host, enum emu_space_kind kind)
{
    emu_lock();
    struct emu_space *space = emu_space_find((uintptr_t)host);
    if (space != NULL && (space->kind != kind || space->range.begin != (uintptr_t)host)) {
        space = NULL;
    }
    if (space != NULL) {
        emu_space_remove(space);
    }
    emu_unlock();
    return space;
}

CUresult cuMemFreeHost(void *host)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT | EMU_UNSAFE_IN_CAPTURE);
    emu_wait_all();
    struct emu_space *space = take(host, EMU_SPACE_HOST_ALLOCATION);
    if (space == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    emu_space_free(space);
    return CUDA_SUCCESS;
}

// Whether the process has memory at every byte of [begin, end), readable, and writable too if
// [write]. The kernel lists mappings in ascending order.
static bool is_mapped(uintptr_t begin, uintptr_t end, bool write)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    if (maps == NULL) {
        return false;
    }
    char line[512];
    while (begin < end && fgets(line, sizeof line, maps) != NULL) {
        uintptr_t from;
        uintptr_t to;
        char mode[5];
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &from, &to, mode) != 3 || to <= begin) {
            continue;
        }
        if (from > begin || mode[0] != 'r' || (write && mode[1] != 'w')) {
            break;
        }
        begin = to;
    }
    fclose(maps);
    return begin >= end;
}

// The reason to refuse the range, or CUDA_SUCCESS.
static CUresult check_range(uintptr_t begin, size_t bytes, bool write)
{
    uintptr_t end;
    if (bytes == 0 || __builtin_add_overflow(begin, bytes, &end)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    emu_lock();
    bool reserved = emu_ranges_overlap(emu_reservations(), begin, bytes);
    const struct emu_space *space = emu_space_overlap(begin, bytes);
    bool device = reserved || (space != NULL && space->kind == EMU_SPACE_ALLOCATION);
    emu_unlock();
    if (device) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (space != NULL) {
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    }
    return is_mapped(begin, end, write) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostRegister(void *host, size_t bytes, unsigned int flags)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT | EMU_UNSAFE_IN_CAPTURE);
    const unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                           CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
    if (host == NULL || (flags & ~known) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (flags & CU_MEMHOSTREGISTER_IOMEMORY) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    bool read_only = (flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0;
    CUresult result = check_range((uintptr_t)host, bytes, !read_only);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct emu_context *context = emu_context_current();
    struct emu_space *space = emu_space_new(EMU_SPACE_HOST_REGISTERED, context->device,
                                            read_only ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                                      : CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    if (space == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    space->context = context;
    space->flags = flags;
    space->range = (struct emu_range){(uintptr_t)host, bytes};
    return insert(space);
}

CUresult cuMemHostUnregister(void *host)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT | EMU_UNSAFE_IN_CAPTURE);
    emu_wait_all();
    struct emu_space *space = take(host, EMU_SPACE_HOST_REGISTERED);
    if (space == NULL) {
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    }
    emu_space_free(space);
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *address, void *host, unsigned int flags)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT);
    if (address == NULL || flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    emu_lock();
    const struct emu_space *space = emu_space_find((uintptr_t)host);
    bool mapped =
        space != NULL &&
        ((space->kind == EMU_SPACE_HOST_ALLOCATION && (space->flags & CU_MEMHOSTALLOC_DEVICEMAP)) ||
         (space->kind == EMU_SPACE_HOST_REGISTERED &&
          (space->flags & CU_MEMHOSTREGISTER_DEVICEMAP)));
    emu_unlock();
    if (!mapped) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *address = (CUdeviceptr)(uintptr_t)host;
    return CUDA_SUCCESS;
}
