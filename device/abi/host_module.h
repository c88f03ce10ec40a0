// SPDX-License-Identifier: Apache-2.0
//
// How a kernel artifact offers its host half to the emulated device.
//
// A kernel file is compiled twice into one shared object: by nvcc into the fatbin of its
// `.nv_fatbin` section, which a GPU loads, and by g++ into plain functions, which emu calls. The
// shared object exports one symbol, KERN_HOST_MODULE_SYMBOL, a struct kern_host_module that lists
// its entries with the layout of their parameters, so that cuFuncGetParamInfo answers the same for
// both halves.
#ifndef KERN_DEVICE_ABI_HOST_MODULE_H
#define KERN_DEVICE_ABI_HOST_MODULE_H

#include <stdint.h>

#define KERN_HOST_MODULE_ABI 1u
#define KERN_HOST_MODULE_SYMBOL "kern_host_module"

#ifdef __cplusplus
extern "C" {
#endif

// One launch: extents in blocks (grid), threads (block) and blocks (cluster, 1 1 1 without one),
// and the bytes of dynamic shared memory that each block gets.
struct kern_host_grid {
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t cluster[3];
    uint32_t dynamic_shared;
};

// One kernel parameter in the parameter block: bytes from its start, and its own bytes.
struct kern_host_param {
    uint32_t offset;
    uint32_t size;
};

// Runs blocks [first, first + count) of the grid, in x-fastest order, one after another, on the
// calling thread. args[i] points at the bytes of parameter i, as in cuLaunchKernel; they stay valid
// and unchanged for the whole call. Returns 0, or 1 if a thread of the kernel trapped.
typedef int kern_host_run(const struct kern_host_grid *grid, uint64_t first, uint64_t count,
                          void *const *args);

struct kern_host_entry {
    const char *name; // the symbol that cuModuleGetFunction looks up
    kern_host_run *run;
    const struct kern_host_param *params; // n_params of them, offsets ascending
    uint32_t n_params;
    uint32_t static_shared; // bytes of static shared memory of a block
};

struct kern_host_module {
    uint32_t abi; // KERN_HOST_MODULE_ABI
    uint32_t n_entries;
    const struct kern_host_entry *entries;
};

#ifdef __cplusplus
}
#endif
#endif
