// SPDX-License-Identifier: Apache-2.0
//
// Virtual memory: addresses are reserved, physical memory is mapped where they were reserved, and
// access is granted per device. A reservation and a mapping without access are PROT_NONE.
#include "emu/space.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

// Closes the range to every access, and forgets what was mapped there.
static bool map_nothing(uintptr_t begin, size_t bytes)
{
    return mmap((void *)begin, bytes, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

// [bytes] bytes of address space at a multiple of [alignment]; 0 with errno set on failure.
static uintptr_t reserve_aligned(size_t bytes, size_t alignment, uintptr_t hint)
{
    size_t padded;
    if (__builtin_add_overflow(bytes, alignment, &padded)) {
        errno = ENOMEM;
        return 0;
    }
    void *area =
        mmap((void *)hint, padded, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (area == MAP_FAILED) {
        return 0;
    }
    uintptr_t from = (uintptr_t)area;
    uintptr_t begin = (from + alignment - 1) & ~(alignment - 1);
    if (begin > from) {
        munmap(area, begin - from);
    }
    munmap((void *)(begin + bytes), from + padded - (begin + bytes));
    return begin;
}

CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr hint,
                             unsigned long long flags)
{
    EMU_ENTER(EMU_UNSAFE_IN_CAPTURE);
    if (address == NULL || flags != 0 || bytes == 0 || bytes % EMU_GRANULARITY != 0 ||
        (alignment & (alignment - 1)) != 0 || hint % EMU_GRANULARITY != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct emu_range *range = malloc(sizeof *range);
    if (range == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    size_t least = alignment < EMU_GRANULARITY ? EMU_GRANULARITY : alignment;
    *range = (struct emu_range){reserve_aligned(bytes, least, (uintptr_t)hint), bytes};
    if (range->begin == 0) {
        CUresult result = emu_os_error(errno);
        free(range);
        return result;
    }
    CUdeviceptr reserved = (CUdeviceptr)range->begin;
    emu_lock();
    bool inserted = emu_ranges_insert(emu_reservations(), range);
    emu_unlock();
    if (!inserted) {
        munmap((void *)range->begin, bytes);
        free(range);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *address = reserved;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes)
{
    EMU_ENTER(EMU_UNSAFE_IN_CAPTURE);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    emu_lock();
    struct emu_range *range = emu_ranges_find(emu_reservations(), (uintptr_t)address);
    if (range != NULL && range->begin == (uintptr_t)address && range->bytes == bytes &&
        emu_space_overlap(range->begin, bytes) == NULL) {
        emu_ranges_remove(emu_reservations(), range);
        // Still locked: once the addresses are given back, another thread may be given them.
        result = munmap((void *)range->begin, bytes) == 0 ? CUDA_SUCCESS : emu_os_error(errno);
        free(range);
    }
    emu_unlock();
    return result;
}

// Whether [begin, begin + bytes) lies in one reservation and nothing is mapped there; locked.
static bool is_free_reserved(uintptr_t begin, size_t bytes)
{
    const struct emu_range *range = emu_ranges_find(emu_reservations(), begin);
    return range != NULL && bytes <= range->bytes - (begin - range->begin) &&
           emu_space_overlap(begin, bytes) == NULL;
}

// Maps the filled entry; locked.
static CUresult map_space(struct emu_space *space)
{
    const struct emu_range *range = &space->range;
    if (!is_free_reserved(range->begin, range->bytes)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!emu_space_insert(space)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (mmap((void *)range->begin, range->bytes, PROT_NONE, MAP_SHARED | MAP_FIXED,
             space->memory->fd, 0) == MAP_FAILED) {
        CUresult result = emu_os_error(errno);
        emu_space_remove(space);
        return result;
    }
    return CUDA_SUCCESS;
}

// Maps [memory], of which the new entry keeps a reference of its own.
static CUresult map_memory(struct emu_memory *memory, uintptr_t begin, size_t bytes)
{
    // Another process's memory is mapped whole; of its own memory a process may map the beginning.
    if (bytes > memory->bytes || (memory->imported && bytes != memory->bytes)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct emu_space *space =
        emu_space_new(EMU_SPACE_MAPPING, memory->device, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    if (space == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    emu_handle_ref(memory);
    space->memory = memory;
    space->range = (struct emu_range){begin, bytes};
    emu_lock();
    CUresult result = map_space(space);
    emu_unlock();
    if (result != CUDA_SUCCESS) {
        emu_space_free(space);
    }
    return result;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    EMU_ENTER(EMU_UNSAFE_IN_CAPTURE);
    if (flags != 0 || offset != 0 || bytes == 0 || bytes % EMU_GRANULARITY != 0 ||
        address % EMU_GRANULARITY != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct emu_memory *memory = emu_handle_get(handle, EMU_MEMORY);
    if (memory == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = map_memory(memory, (uintptr_t)address, bytes);
    emu_handle_put(memory);
    return result;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
    EMU_ENTER(EMU_UNSAFE_IN_CAPTURE);
    emu_wait_all();
    CUresult result = CUDA_SUCCESS;
    size_t first;
    emu_lock();
    size_t n = emu_space_mappings((uintptr_t)address, bytes, &first);
    if (n == 0) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else if (!map_nothing((uintptr_t)address, bytes)) {
        result = emu_os_error(errno);
        n = 0;
    }
    for (size_t i = 0; i < n; i++) {
        struct emu_space *space = emu_space_at(first);
        emu_space_remove(space);
        emu_space_free(space);
    }
    emu_unlock();
    return result;
}

static int protection(const struct emu_space *space)
{
    unsigned any = 0;
    for (unsigned i = 0; i < emu_config()->n_visible; i++) {
        any |= space->access[i];
    }
    return (any & CU_MEM_ACCESS_FLAGS_PROT_READ ? PROT_READ : 0) |
           (any == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_WRITE : 0);
}

static CUresult check_desc(const CUmemAccessDesc *desc)
{
    if (desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        (desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
         desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
         desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return emu_device_ok(desc->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

// Sets one device's access to [n] mappings from index [first] on; locked.
static CUresult set_access(size_t first, size_t n, const CUmemAccessDesc *desc)
{
    for (size_t i = 0; i < n; i++) {
        struct emu_space *space = emu_space_at(first + i);
        unsigned char before = space->access[desc->location.id];
        space->access[desc->location.id] = (unsigned char)desc->flags;
        if (mprotect((void *)space->range.begin, space->range.bytes, protection(space)) != 0) {
            space->access[desc->location.id] = before;
            return emu_os_error(errno);
        }
    }
    return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *descs,
                        size_t count)
{
    EMU_ENTER(EMU_UNSAFE_IN_CAPTURE);
    if (descs == NULL || count == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < count; i++) {
        CUresult result = check_desc(&descs[i]);
        if (result != CUDA_SUCCESS) {
            return result;
        }
    }
    emu_lock();
    size_t first;
    size_t n = emu_space_mappings((uintptr_t)address, bytes, &first);
    CUresult result = n == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
        result = set_access(first, n, &descs[i]);
    }
    emu_unlock();
    return result;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                        CUdeviceptr address)
{
    EMU_ENTER(EMU_PLAIN);
    if (flags == NULL || location == NULL || location->type != CU_MEM_LOCATION_TYPE_DEVICE) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!emu_device_ok(location->id)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    emu_lock();
    const struct emu_space *space = emu_space_find((uintptr_t)address);
    if (space != NULL && space->kind == EMU_SPACE_MAPPING) {
        *flags = space->access[location->id];
        result = CUDA_SUCCESS;
    }
    emu_unlock();
    return result;
}
