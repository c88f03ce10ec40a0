// SPDX-License-Identifier: Apache-2.0
//
// The address space as the devices see it.
#include "emu/space.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct emu_ranges spaces;
static struct emu_ranges reservations;
static size_t counts[EMU_SPACE_KINDS];

void emu_lock(void)
{
    pthread_mutex_lock(&lock);
}

void emu_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

CUresult emu_os_error(int error)
{
    return error == ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_OPERATING_SYSTEM;
}

struct emu_space *emu_space_new(enum emu_space_kind kind, int device, CUmemAccess_flags access)
{
    static atomic_ullong ids;
    unsigned n_devices = emu_config()->n_visible;
    struct emu_space *space = calloc(1, sizeof *space + n_devices);
    if (space == NULL) {
        return NULL;
    }
    space->kind = kind;
    space->device = device;
    space->id = atomic_fetch_add(&ids, 1) + 1;
    if (kind == EMU_SPACE_HOST_ALLOCATION || kind == EMU_SPACE_HOST_REGISTERED) {
        memset(space->access, (int)access, n_devices);
    } else if (access != CU_MEM_ACCESS_FLAGS_PROT_NONE) {
        space->access[device] = (unsigned char)access;
    }
    return space;
}

size_t emu_space_map(struct emu_space *space, size_t bytes, int flags)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t usable;
    size_t area_bytes;
    if (__builtin_add_overflow(bytes, page - 1, &usable) ||
        __builtin_add_overflow(usable & ~(page - 1), page, &area_bytes)) {
        errno = ENOMEM;
        return 0;
    }
    usable &= ~(page - 1);
    char *area =
        mmap(NULL, area_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (area == MAP_FAILED) {
        return 0;
    }
    space->area = area;
    space->area_bytes = area_bytes;
    return mprotect(area + usable, page, PROT_NONE) == 0 ? usable : 0;
}

void emu_space_free(struct emu_space *space)
{
    if (space->area != NULL) {
        munmap(space->area, space->area_bytes);
    }
    if (space->kind == EMU_SPACE_ALLOCATION) {
        emu_refund(space->device, space->range.bytes);
    }
    if (space->memory != NULL) {
        emu_handle_put(space->memory);
    }
    free(space);
}

bool emu_space_insert(struct emu_space *space)
{
    bool inserted = emu_ranges_insert(&spaces, &space->range);
    counts[space->kind] += inserted;
    return inserted;
}

void emu_space_remove(struct emu_space *space)
{
    emu_ranges_remove(&spaces, &space->range);
    counts[space->kind]--;
}

struct emu_space *emu_space_at(size_t index)
{
    return index < spaces.n ? (struct emu_space *)spaces.at[index] : NULL;
}

struct emu_space *emu_space_find(uintptr_t p)
{
    return (struct emu_space *)emu_ranges_find(&spaces, p);
}

struct emu_space *emu_space_overlap(uintptr_t begin, size_t bytes)
{
    if (!emu_ranges_overlap(&spaces, begin, bytes)) {
        return NULL;
    }
    return emu_space_at(emu_ranges_lower(&spaces, begin));
}

size_t emu_space_mappings(uintptr_t begin, size_t bytes, size_t *first)
{
    uintptr_t end;
    if (bytes == 0 || __builtin_add_overflow(begin, bytes, &end)) {
        return 0;
    }
    *first = emu_ranges_lower(&spaces, begin);
    size_t n = 0;
    for (uintptr_t p = begin; p < end; n++) {
        const struct emu_space *space = emu_space_at(*first + n);
        if (space == NULL || space->kind != EMU_SPACE_MAPPING || space->range.begin != p ||
            space->range.bytes > end - p) {
            return 0;
        }
        p += space->range.bytes;
    }
    return n;
}

struct emu_ranges *emu_reservations(void)
{
    return &reservations;
}

size_t emu_space_count(enum emu_space_kind kind)
{
    return counts[kind];
}

void emu_spaces_close(struct emu_context *context)
{
    for (size_t i = 0;;) {
        emu_lock();
        struct emu_space *space = emu_space_at(i);
        bool goes = space != NULL && space->context == context;
        if (goes) {
            emu_space_remove(space);
        }
        emu_unlock();
        if (space == NULL) {
            return;
        }
        if (goes) {
            emu_space_free(space);
        } else {
            i++;
        }
    }
}

// Whether the ranges from [begin] to [end] join up and [device] has [wanted] on each; locked.
static bool granted(int device, uintptr_t begin, uintptr_t end, unsigned wanted)
{
    size_t i = emu_ranges_lower(&spaces, begin);
    for (uintptr_t p = begin; p < end; i++) {
        const struct emu_space *space = emu_space_at(i);
        if (space == NULL || space->range.begin > p || (space->access[device] & wanted) != wanted) {
            return false;
        }
        p = space->range.begin + space->range.bytes;
    }
    return true;
}

bool emu_memory_ok(int device, CUdeviceptr p, size_t bytes, bool write)
{
    unsigned wanted = write ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ;
    uintptr_t end;
    if (bytes == 0) {
        return true;
    }
    if (!emu_device_ok(device) || __builtin_add_overflow((uintptr_t)p, bytes, &end)) {
        return false;
    }
    emu_lock();
    bool ok = granted(device, (uintptr_t)p, end, wanted);
    emu_unlock();
    return ok;
}

enum emu_place emu_place(const void *p)
{
    enum emu_place place = EMU_PLACE_PAGEABLE;
    emu_lock();
    const struct emu_space *space = emu_space_find((uintptr_t)p);
    if (space != NULL &&
        (space->kind == EMU_SPACE_HOST_ALLOCATION || space->kind == EMU_SPACE_HOST_REGISTERED)) {
        place = EMU_PLACE_PINNED;
    } else if (space != NULL || emu_ranges_find(&reservations, (uintptr_t)p) != NULL) {
        place = EMU_PLACE_DEVICE;
    }
    emu_unlock();
    return place;
}

bool emu_memory_bounds(CUdeviceptr p, CUdeviceptr *begin, size_t *bytes)
{
    emu_lock();
    const struct emu_space *space = emu_space_find((uintptr_t)p);
    if (space != NULL) {
        *begin = (CUdeviceptr)space->range.begin;
        *bytes = space->range.bytes;
    }
    emu_unlock();
    return space != NULL;
}
