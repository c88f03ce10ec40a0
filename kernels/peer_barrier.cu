// SPDX-License-Identifier: Apache-2.0
//
// A barrier over the ranks of a group.
//
// Each rank has one flag per rank in its own exported memory. In epoch e a rank stores e into its
// flag at every rank, then waits until all flags in its own memory have reached e. Nothing needs to
// be reset: a rank that is already in epoch e + 1 has overwritten e by more, which satisfies the
// wait.
//
//   flags        [ranks] carry, exported   flags[r] is written by rank r alone
//   flags_peers  [ranks] peer of flags
//   epoch        [1]     carry             this rank's own count, zero after load
//   error        [1]     output            0, or 1 + the highest rank that did not arrive in time
//
// Launch one block, any number of threads. What earlier kernels of a rank's stream wrote to memory
// that the ranks share is visible to every rank after the barrier.
#include "kernels/peer.h"

struct peer_barrier_shared {
    int32_t missing;
};

KERN_KERNEL void peer_barrier(uint32_t *flags, const uint64_t *flags_peers, uint32_t *epoch,
                              int32_t *error, int32_t rank, int32_t ranks, int64_t timeout_ns)
{
    KERN_SHARED(struct peer_barrier_shared, shared);
    const uint32_t now = *epoch + 1;
    if (threadIdx.x == 0) {
        shared.missing = 0;
    }
    __syncthreads();
    __threadfence_system();
    for (int32_t peer = threadIdx.x; peer < ranks; peer += blockDim.x) {
        kern_store_release_system(kern_peer<uint32_t>(flags_peers, peer, rank), now);
    }
    const uint64_t deadline = kern_deadline(timeout_ns);
    for (int32_t peer = threadIdx.x; peer < ranks; peer += blockDim.x) {
        if (!kern_wait_epoch(&flags[peer], now, deadline)) {
            atomicMax(&shared.missing, peer + 1);
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        *error = shared.missing;
        *epoch = now;
    }
}

KERN_FIBER_KERNEL_SHARED(peer_barrier, struct peer_barrier_shared)
KERN_MODULE(KERN_ENTRY(peer_barrier));
