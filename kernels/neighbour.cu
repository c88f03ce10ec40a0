// SPDX-License-Identifier: Apache-2.0
//
// A ring: every rank sends its elements to the next rank of its group and adds those that come from
// the one before it to its own.
//
//   x, y    f32 [n]       y = x + the x of the rank before
//   inbox   f32 [n]       carry, exported   written by the rank before alone
//   flags   u32 [2]       carry, exported   [SENT] raised by the rank before, [TAKEN] by the next
//   epoch   u32 [1]       carry             this rank's own count of steps, zero after load
//   error   i32 [1]       output            0, or 1 + the rank that was late; y then holds nothing
//
// One inbox lasts, because nobody writes into it before its owner has raised TAKEN for what lay
// there. Without that flag a rank of a longer ring could be several steps ahead of the next one: it
// waits for the rank before it, and that says nothing about the one behind.
//
// Launch one block, any number of threads.
#include "kernels/peer.h"

enum { SENT, TAKEN };

struct neighbour_shared {
    bool in_time;
};

// Waits by one thread for all threads of the block. A rank that is late is named in the error word.
KERN_DEVICE bool neighbour_wait(const uint32_t *flag, uint32_t epoch, uint64_t deadline,
                                int32_t rank, int32_t *error, struct neighbour_shared &shared)
{
    if (threadIdx.x == 0) {
        shared.in_time = kern_wait_epoch(flag, epoch, deadline);
        if (!shared.in_time) {
            *error = 1 + rank;
        }
    }
    __syncthreads();
    const bool in_time = shared.in_time;
    __syncthreads();
    return in_time;
}

KERN_KERNEL void neighbour_add(const float *x, float *y, const float *inbox,
                               const uint64_t *inbox_peers, const uint32_t *flags,
                               const uint64_t *flags_peers, uint32_t *epoch, int32_t *error,
                               int32_t rank, int32_t ranks, int32_t n, int64_t timeout_ns)
{
    KERN_SHARED(struct neighbour_shared, shared);
    const int32_t next = (rank + 1) % ranks;
    const int32_t before = (rank + ranks - 1) % ranks;
    const uint64_t deadline = kern_deadline(timeout_ns);
    const uint32_t now = *epoch + 1;
    __syncthreads();
    if (threadIdx.x == 0) {
        *epoch = now;
        *error = 0;
    }
    if (!neighbour_wait(&flags[TAKEN], now - 1, deadline, next, error, shared)) {
        return;
    }
    float *there = kern_peer<float>(inbox_peers, next, 0);
    KERN_BLOCK_RANGE(i, n)
    {
        there[i] = x[i];
    }
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0) {
        kern_store_release_system(kern_peer<uint32_t>(flags_peers, next, SENT), now);
    }
    if (!neighbour_wait(&flags[SENT], now, deadline, before, error, shared)) {
        return;
    }
    KERN_BLOCK_RANGE(i, n)
    {
        y[i] = x[i] + inbox[i];
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        kern_store_release_system(kern_peer<uint32_t>(flags_peers, before, TAKEN), now);
    }
}

KERN_RANGE_KERNEL_SHARED(neighbour_add, struct neighbour_shared)
KERN_MODULE(KERN_ENTRY(neighbour_add));
