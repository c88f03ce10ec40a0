// SPDX-License-Identifier: Apache-2.0
//
// What kernels that talk to other ranks share: epochs, deadlines, the last block of a grid.
//
// A flag is a word in the memory of the rank that waits for it, written by one rank only. Its
// writer first stores data into that rank's memory, then the flag with release at system scope; who
// waits acquires the flag and then reads the data. Flags hold epochs: a counter of the steps of a
// collective, zero after load, that every rank raises by one per step, so no flag is ever reset.
// Counters may wrap, because they are compared by their distance.
//
// A wait ends at its deadline, says through an error word which rank it missed, and returns: the
// error word is 1 + the rank, the highest one where several are missing.
#ifndef KERN_KERNELS_PEER_H
#define KERN_KERNELS_PEER_H

#include "kernels/portable.h"

// More ranks than any group of today's machines, so that shared memory can be sized by it.
#define KERN_MAX_RANKS 256

// The clock value at which a wait that starts now and may take timeout_ns is over.
KERN_DEVICE uint64_t kern_deadline(int64_t timeout_ns)
{
    return kern_clock_ns() + (timeout_ns > 0 ? (uint64_t)timeout_ns : 0);
}

KERN_DEVICE bool kern_reached(uint32_t seen, uint32_t epoch)
{
    return (int32_t)(seen - epoch) >= 0;
}

// Waits until the flag has reached the epoch. False: the deadline came first.
KERN_DEVICE bool kern_wait_epoch(const uint32_t *flag, uint32_t epoch, uint64_t deadline)
{
    kern_spin_begin();
    while (!kern_reached(kern_load_acquire_system(flag), epoch)) {
        if (kern_clock_ns() >= deadline) {
            return false;
        }
        kern_spin_hint();
    }
    return true;
}

// The same for a flag that carries a number along: the epoch in the upper half, the number, which
// goes to *number, in the lower.
KERN_DEVICE uint64_t kern_flag(uint32_t epoch, uint32_t number)
{
    return (uint64_t)epoch << 32 | number;
}

KERN_DEVICE bool kern_wait_flag(const uint64_t *flag, uint32_t epoch, uint64_t deadline,
                                uint32_t *number)
{
    kern_spin_begin();
    for (;;) {
        const uint64_t seen = kern_load_acquire_system(flag);
        if (kern_reached((uint32_t)(seen >> 32), epoch)) {
            *number = (uint32_t)seen;
            return true;
        }
        if (kern_clock_ns() >= deadline) {
            return false;
        }
        kern_spin_hint();
    }
}

// True for one block of the grid: the last to come here. By one thread of each block, after a
// __syncthreads behind what the block did; the last one then sees what all blocks did, and what it
// releases carries all of it. `arrived` is zero before and after.
KERN_DEVICE bool kern_last_block(uint32_t *arrived)
{
    __threadfence_system();
    if (atomicAdd(arrived, 1u) + 1 != gridDim.x * gridDim.y * gridDim.z) {
        return false;
    }
    *arrived = 0;
    __threadfence_system();
    return true;
}

// Element `index` of the array of T that starts at the address peers[rank].
template <typename T> KERN_DEVICE T *kern_peer(const uint64_t *peers, int32_t rank, int64_t index)
{
    return reinterpret_cast<T *>(peers[rank]) + index;
}

#endif
