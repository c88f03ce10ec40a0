// SPDX-License-Identifier: Apache-2.0
//
// What the host half of every kernel artifact links: one launch on the calling thread, and what a
// kernel asks of its surroundings while it runs. Plain C, so that an artifact needs libc alone.
// Nothing here is exported from the artifact.
#ifndef KERN_KERNELS_HOST_RUN_H
#define KERN_KERNELS_HOST_RUN_H

#include <stdint.h>

#include "device/abi/host_module.h"

// A block has at most this many threads, as on every GPU.
#define KERN_HOST_MAX_THREADS 1024u

#pragma GCC visibility push(hidden)
#ifdef __cplusplus
extern "C" {
#endif

struct kern_host_dim {
    uint32_t x, y, z;
};

// Where the thread that runs now stands, under the names that CUDA's built-in variables have.
struct kern_host_lane {
    struct kern_host_dim thread, block, block_dim, grid_dim;
    void *static_shared;
    void *dynamic_shared;
};

extern __thread struct kern_host_lane kern_lane;

// How to run a kernel. Exactly one of the two is set: `blocks` runs whole blocks by itself,
// `thread` runs the one thread that kern_lane names and is called on a fiber for each thread of a
// block.
struct kern_host_body {
    void (*blocks)(const struct kern_host_grid *grid, uint64_t first, uint64_t count,
                   void *const *args);
    void (*thread)(void *const *args);
    uint32_t static_shared;
};

// kern_host_run of any kernel. Returns 1 also for a block of no or too many threads and when there
// is no memory for its shared memory or stacks; stderr then says which.
int kern_host_launch(const struct kern_host_body *body, const struct kern_host_grid *grid,
                     uint64_t first, uint64_t count, void *const *args);

// Points kern_lane at block number `index` of the grid, x fastest.
void kern_host_enter_block(const struct kern_host_grid *grid, uint64_t index);

// __syncthreads. A block of one thread passes; a thread that is no fiber of a larger block traps,
// because the kernel was declared in a way that promised no barrier.
void kern_host_barrier(void);

// Lets another fiber of the block run, every so often another process, and sleeps for a moment
// where the wait has lasted since _begin, or since the launch, which counts as one wait without.
void kern_host_spin(void);
void kern_host_spin_begin(void);

uint64_t kern_host_clock_ns(void);

void kern_host_trap(void) __attribute__((noreturn));

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
