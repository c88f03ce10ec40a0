// SPDX-License-Identifier: Apache-2.0
//
// Device memory through the driver's virtual-memory API: physical memory that can be shared with
// other processes, mapped at an address of this one.
#ifndef KERN_RANK_VMM_H
#define KERN_RANK_VMM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/diag.h"
#include "device/device.h"

// How memory is shared: nothing, a 64-byte handle that any node of the fabric can import, or a file
// descriptor that processes of one node pass to each other.
enum kern_handle_kind { KERN_HANDLE_NONE, KERN_HANDLE_FABRIC, KERN_HANDLE_POSIX_FD };

const char *kern_handle_kind_name(enum kern_handle_kind kind);

// Memory mapped read-write for one device. All zero: nothing mapped.
struct kern_mapping {
    CUdeviceptr address;
    uint64_t mapped;                     // bytes, a multiple of the granularity
    CUmemGenericAllocationHandle handle; // 0 for an imported mapping, whose handle is released
};

// Creates at least [bytes] (at least 1) of physical memory on device [ordinal] that can be exported
// as [kind], and maps it. [what] names it in messages. The bytes are not initialised.
bool kern_vmm_create(const struct kern_device *device, int ordinal, enum kern_handle_kind kind,
                     uint64_t bytes, const char *what, struct kern_mapping *mapping,
                     struct kern_diag *diag);

// The size that mapped memory comes in units of, of memory that can be exported as [kind].
bool kern_vmm_granularity(const struct kern_device *device, int ordinal, enum kern_handle_kind kind,
                          const char *what, size_t *granularity, struct kern_diag *diag);

// Creates [bytes] of physical memory, a multiple of the granularity, that cannot be exported and is
// mapped nowhere; the caller releases *[handle].
bool kern_vmm_create_unmapped(const struct kern_device *device, int ordinal, uint64_t bytes,
                              const char *what, CUmemGenericAllocationHandle *handle,
                              struct kern_diag *diag);

// A handle as it travels between processes: 64 bytes for a fabric handle; a file descriptor (which
// the caller owns and closes) for the other kind.
struct kern_shareable {
    enum kern_handle_kind kind;
    uint8_t fabric[64];
    int fd;
};

bool kern_vmm_export(const struct kern_device *device, const struct kern_mapping *mapping,
                     enum kern_handle_kind kind, const char *what, struct kern_shareable *shareable,
                     struct kern_diag *diag);

// Maps the memory behind [shareable], whose exporter mapped [mapped] bytes, for device [ordinal].
bool kern_vmm_import(const struct kern_device *device, int ordinal,
                     const struct kern_shareable *shareable, uint64_t mapped, const char *what,
                     struct kern_mapping *mapping, struct kern_diag *diag);

// Unmaps and frees; nothing is done for an all-zero mapping.
void kern_vmm_destroy(const struct kern_device *device, struct kern_mapping *mapping);

#endif
