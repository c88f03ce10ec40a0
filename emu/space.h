// SPDX-License-Identifier: Apache-2.0
//
// The address space as the devices see it: what memory.c, host.c and vmm.c put into it
// and pointer.c asks about.
#ifndef KERN_EMU_SPACE_H
#define KERN_EMU_SPACE_H

#include "emu/internal.h"
#include "emu/ranges.h"

// Physical memory: what a CUmemGenericAllocationHandle stands for. Its handle holds one reference,
// and so does each mapping; the memory goes with the last.
struct emu_memory {
    struct emu_handle handle;
    int fd; // a memfd of [bytes] bytes
    size_t bytes;
    bool imported;
    int device; // CUdevice where it lies; CU_DEVICE_INVALID if this process does not see that one
    CUmemAllocationProp prop;
};

#define CU_DEVICE_INVALID ((CUdevice)-2)

enum emu_space_kind {
    EMU_SPACE_ALLOCATION,      // cuMemAlloc
    EMU_SPACE_MAPPING,         // cuMemMap
    EMU_SPACE_HOST_ALLOCATION, // cuMemHostAlloc
    EMU_SPACE_HOST_REGISTERED, // cuMemHostRegister
    EMU_SPACE_KINDS
};

// One live piece of the address space that devices may reach.
struct emu_space {
    struct emu_range range;
    enum emu_space_kind kind;
    struct emu_context *context; // where it was made; NULL for a mapping
    int device;                  // CUdevice of the memory; of the context for host memory
    uint64_t id;                 // never used twice in the process
    unsigned flags;              // of cuMemHostAlloc, cuMemHostRegister
    void *area;                  // what munmap takes: allocations of both kinds
    size_t area_bytes;
    struct emu_memory *memory; // a mapping's, with a reference
    unsigned char access[];    // by CUdevice: a CUmemAccess_flags
};

// An entry without a place yet: the caller fills it in and inserts it. NULL: no memory.
struct emu_space *emu_space_new(enum emu_space_kind kind, int device, CUmemAccess_flags access);

// Maps [bytes] and what is missing to whole pages, and a guard page behind them, as the area of the
// entry. [flags] are more of mmap's. Returns the bytes before the guard page; 0: errno says why.
size_t emu_space_map(struct emu_space *space, size_t bytes, int flags);

// Gives back what the entry holds (its area, its reference to the memory) and frees it. It is not
// in the address space any more, and no lock is needed.
void emu_space_free(struct emu_space *space);

// Takes what was made in [context] out of the address space and frees it.
void emu_spaces_close(struct emu_context *context);

// The rest is called with emu_lock() held.

bool emu_space_insert(struct emu_space *space);
void emu_space_remove(struct emu_space *space);

// The entry that holds the byte at [p], or NULL.
struct emu_space *emu_space_find(uintptr_t p);

// The first entry that has a byte of [begin, begin + bytes), or NULL.
struct emu_space *emu_space_overlap(uintptr_t begin, size_t bytes);

// The mappings, whole ones, that make up [begin, begin + bytes) exactly: how many there are, the
// first of them being *[first]. 0 if the range is anything else.
size_t emu_space_mappings(uintptr_t begin, size_t bytes, size_t *first);
struct emu_space *emu_space_at(size_t index);

// cuMemAddressReserve's ranges.
struct emu_ranges *emu_reservations(void);

size_t emu_space_count(enum emu_space_kind kind);

// Accounting (stats.c), without a lock. False if [bytes] more would pass the device's memory.
bool emu_charge(int device, uint64_t bytes);
void emu_refund(int device, uint64_t bytes);
uint64_t emu_charged(int device);
void emu_count_fd(int change);

// The driver's code for a failed call of the operating system, by errno.
CUresult emu_os_error(int error);

// Memory over [fd], which it then owns, with a live handle (physical.c). NULL: no memory, and the
// caller keeps [fd]. A device that made it has been charged; imported memory is nobody's charge.
struct emu_memory *emu_memory_new(int fd, size_t bytes, bool imported,
                                  const CUmemAllocationProp *prop);

#endif
