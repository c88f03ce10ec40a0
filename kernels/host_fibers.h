// SPDX-License-Identifier: Apache-2.0
//
// The threads of one block as fibers of the calling CPU thread, for kernels whose threads wait for
// each other. A fiber gives way only where it says so: at a barrier, at a spin hint, at its end.
#ifndef KERN_KERNELS_HOST_FIBERS_H
#define KERN_KERNELS_HOST_FIBERS_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

struct kern_host_fibers;

// Fibers for blocks of these extents, 1 to KERN_HOST_MAX_THREADS in all. They come from a pool that
// lives as long as the artifact is loaded, because fresh stacks cost a page fault each. Returns
// NULL without memory. Belongs to the caller until it is given back.
struct kern_host_fibers *kern_host_fibers_take(const uint32_t block[3]);
void kern_host_fibers_give(struct kern_host_fibers *fibers);

// Runs `thread` once for each thread of a block, kern_lane naming it. Returns false if one trapped;
// the others then stop where they are.
bool kern_host_fibers_run(struct kern_host_fibers *fibers, void (*thread)(void *const *args),
                          void *const *args);

// Called on a fiber. The barrier holds until every thread of the block that has not ended is there.
// Yield lets the next fiber that can run do so, and returns false when there is none.
void kern_host_fibers_barrier(struct kern_host_fibers *fibers);
bool kern_host_fibers_yield(struct kern_host_fibers *fibers);
void kern_host_fibers_trap(struct kern_host_fibers *fibers) __attribute__((noreturn));

#pragma GCC visibility pop
#endif
