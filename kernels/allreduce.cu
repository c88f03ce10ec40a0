// SPDX-License-Identifier: Apache-2.0
//
// One-shot all-reduce: every rank pushes its elements to every rank, and each adds them up by
// itself in rank order, so all ranks get the same bits. bf16 is added in f32 and rounded once.
//
//   x, y         [n]                       y may be x
//   slab         [2][ranks][capacity]      carry, exported; slab[p][r] is written by rank r alone
//   flags        [ranks][blocks]           carry, exported; flags[r] is written by rank r alone
//   state        [3]                       carry, this rank's own words, zero after load
//   error        [1]                       output, 0 or 1 + the highest rank that did not arrive in
//                                          time; y then holds nothing of use
//
// Block b of a rank pushes piece b, raises flag b at every rank, and waits for flag b of every
// rank. It waits for no block of its own grid, so blocks may run in any order and one after
// another; a GPU must hold the whole grid at once, and all ranks must launch the same grid, a
// constant of the manifest.
//
// Two slabs, taken in turn, replace a second barrier. A rank writes the slab of epoch e again in
// epoch e + 2. It gets there only after every rank raised its flags of epoch e + 1, which a rank
// does in a launch that follows the end of its launch of epoch e, when it had read that slab.
//
// n and capacity are multiples of 8, arrays 16-byte aligned.
#include "kernels/peer.h"

enum { EPOCH, ARRIVED, MISSING };

struct allreduce_shared {
    int32_t missing;
};

template <typename T>
KERN_DEVICE void allreduce(const T *x, T *y, const T *slab, const uint64_t *slab_peers,
                           const uint32_t *flags, const uint64_t *flags_peers, uint32_t *state,
                           int32_t *error, int32_t rank, int32_t ranks, int32_t n, int32_t capacity,
                           int64_t timeout_ns, struct allreduce_shared &shared)
{
    if (n % KERN_LANES != 0 || capacity % KERN_LANES != 0 || n > capacity) {
        kern_trap();
    }
    const uint32_t epoch = state[EPOCH] + 1;
    const int64_t packs = n / KERN_LANES;
    const int64_t piece = (packs + gridDim.x - 1) / gridDim.x;
    const int64_t begin = piece * blockIdx.x * KERN_LANES;
    const int64_t end = begin + piece * KERN_LANES < n ? begin + piece * KERN_LANES : n;
    const int64_t length = end > begin ? end - begin : 0;
    const int64_t side = (int64_t)(epoch & 1) * ranks * capacity;

    // Starting at the next rank spreads the ranks over the links.
    for (int32_t i = 1; i <= ranks; i++) {
        const int32_t peer = (rank + i) % ranks;
        T *to = kern_peer<T>(slab_peers, peer, side + (int64_t)rank * capacity + begin);
        kern_copy_block(to, x + begin, length * (int64_t)sizeof(T) / (int64_t)sizeof(kern_pack));
    }
    // Once one block of the launch has missed a rank there is no point in another wait.
    if (threadIdx.x == 0) {
        shared.missing = (int32_t)kern_load_acquire_system(&state[MISSING]);
    }
    __syncthreads();
    const bool failed = shared.missing != 0;
    __syncthreads();
    __threadfence_system();
    KERN_BLOCK_RANGE(peer, ranks)
    {
        const int64_t flag = (int64_t)rank * gridDim.x + blockIdx.x;
        kern_store_release_system(kern_peer<uint32_t>(flags_peers, (int32_t)peer, flag), epoch);
    }
    const uint64_t deadline = kern_deadline(timeout_ns);
    KERN_BLOCK_RANGE(peer, failed ? 0 : ranks)
    {
        if (!kern_wait_epoch(&flags[peer * gridDim.x + blockIdx.x], epoch, deadline)) {
            atomicMax(&shared.missing, (int32_t)peer + 1);
        }
    }
    __syncthreads();
    if (shared.missing == 0) {
        KERN_BLOCK_RANGE(pack, length / KERN_LANES)
        {
            const int64_t at = begin + pack * KERN_LANES;
            kern_f32x8 sum = kern_load8(slab + side + at);
            for (int32_t peer = 1; peer < ranks; peer++) {
                sum = sum + kern_load8(slab + side + (int64_t)peer * capacity + at);
            }
            kern_store8(y + at, sum);
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicMax(&state[MISSING], (uint32_t)shared.missing);
        if (kern_last_block(&state[ARRIVED])) {
            *error = (int32_t)atomicExch(&state[MISSING], 0u);
            state[EPOCH] = epoch;
        }
    }
}

KERN_KERNEL void allreduce_f32(const float *x, float *y, const float *slab,
                               const uint64_t *slab_peers, const uint32_t *flags,
                               const uint64_t *flags_peers, uint32_t *state, int32_t *error,
                               int32_t rank, int32_t ranks, int32_t n, int32_t capacity,
                               int64_t timeout_ns)
{
    KERN_SHARED(struct allreduce_shared, shared);
    allreduce(x, y, slab, slab_peers, flags, flags_peers, state, error, rank, ranks, n, capacity,
              timeout_ns, shared);
}

KERN_KERNEL void allreduce_bf16(const kern_bf16 *x, kern_bf16 *y, const kern_bf16 *slab,
                                const uint64_t *slab_peers, const uint32_t *flags,
                                const uint64_t *flags_peers, uint32_t *state, int32_t *error,
                                int32_t rank, int32_t ranks, int32_t n, int32_t capacity,
                                int64_t timeout_ns)
{
    KERN_SHARED(struct allreduce_shared, shared);
    allreduce(x, y, slab, slab_peers, flags, flags_peers, state, error, rank, ranks, n, capacity,
              timeout_ns, shared);
}

KERN_RANGE_KERNEL_SHARED(allreduce_f32, struct allreduce_shared)
KERN_RANGE_KERNEL_SHARED(allreduce_bf16, struct allreduce_shared)
KERN_MODULE(KERN_ENTRY(allreduce_f32), KERN_ENTRY(allreduce_bf16));
