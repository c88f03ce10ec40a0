// SPDX-License-Identifier: Apache-2.0
//
// Expert parallelism over peers: tokens go to the ranks that own their experts and the experts'
// rows come back, with no host in between. Four kernels, in this order in every step and on every
// rank:
//
//   ep_dispatch_send   pushes each token's row once to every rank that owns one of its experts
//   ep_dispatch_recv   waits for every rank, then lists what arrived for each expert of this rank
//   (the experts, over those lists)
//   ep_combine_send    pushes each selection's result row back to the rank of its token
//   ep_combine_recv    waits for every rank, then adds up each token's rows with its weights; those
//                      of its own experts it takes from where they are
//
// A selection is one (token, k): the k-th expert of the token. Rank r owns experts [r * experts /
// ranks, (r + 1) * experts / ranks). An expert id outside [0, experts) selects nothing. Rows travel
// out once per (token, rank), in bf16, and back once per selection, in f32, because a sum made by
// the owner would depend on how many experts it owns: combine adds in the order of k, so that a
// token's result is the same bits on any number of ranks.
//
// Every place is known beforehand, in slabs for the worst case, so nobody asks for room:
//
//   recv_rows    bf16 [ranks * max_tokens][hidden]  slot = source rank * max_tokens + token
//   recv_routes  i32  [ranks * max_tokens][top_k]   index among this rank's experts, or -1
//   returned     f32  [max_tokens * top_k][hidden]  row of selection token * top_k + k
//   flags        u64  [2][ranks]                    epoch and number; [0] sent tokens, [1] returned
//
// are carries, exported, and each has a peer array. recv_*[slot] is written by the slot's source,
// flags[.][r] by rank r, a row of `returned` by the owner of its expert if that is another rank.
//
//   state        u32  [3]                           carry, this rank's own words, zero after load
//   error        i32  [1]                           0, or 1 + the highest rank that was missed
//   counts       i32  [experts / ranks]             selections that arrived for an expert
//   selections   i32  [experts / ranks][S]          slot * top_k + k, ascending
//   expert_out   f32  [S][hidden]                   row of selection slot * top_k + k
//
// with S = ranks * max_tokens * top_k are the rank's own.
//
// One slab of each is enough. Every rank raises both flags at every rank in every step, rows or
// not, and both waits are for all ranks. So when rank s starts to send in epoch e + 1 it has seen,
// in its combine_recv of epoch e, that every rank had finished its experts of epoch e and needs
// what it received no more. And when rank d sends results back in epoch e + 1 it has seen, in its
// dispatch_recv, that every rank had started epoch e + 1, after the end of its combine of epoch e,
// and needs the rows that it got back no more.
//
// A rank that missed another sends no results in that step, so whoever counts on them misses it in
// turn; nobody waits twice in a step. After that the ranks are out of step, and a flag of epoch e +
// 1 passes for one of epoch e: what the group computes is void from then on, also on a rank whose
// own error word is 0.
//
// hidden is a multiple of 8, rows are 16-byte aligned. Blocks wait for other ranks only.
#include "kernels/peer.h"

enum { EPOCH, SENT, RETURNED };
enum { MAX_THREADS = 256 };

struct ep_wait_shared {
    int32_t missing;
    uint32_t number[KERN_MAX_RANKS];
};

struct ep_dispatch_recv_shared {
    struct ep_wait_shared wait;
    int32_t count[MAX_THREADS];
};

// Waits for the flags of all ranks by the threads of this block; the numbers that they carry go to
// shared.number. False: a rank is missing, now or earlier in the step, and `error` says it.
KERN_DEVICE bool ep_wait(const uint64_t *flags, uint32_t epoch, int32_t ranks, int64_t timeout_ns,
                         int32_t *error, struct ep_wait_shared &shared)
{
    if (ranks > KERN_MAX_RANKS) {
        kern_trap();
    }
    if (threadIdx.x == 0) {
        shared.missing = atomicAdd(error, 0);
    }
    __syncthreads();
    const bool failed = shared.missing != 0;
    __syncthreads();
    if (failed) {
        return false;
    }
    const uint64_t deadline = kern_deadline(timeout_ns);
    KERN_BLOCK_RANGE(peer, ranks)
    {
        if (!kern_wait_flag(&flags[peer], epoch, deadline, &shared.number[peer])) {
            atomicMax(&shared.missing, (int32_t)peer + 1);
        }
    }
    __syncthreads();
    if (shared.missing != 0) {
        if (threadIdx.x == 0) {
            atomicMax(error, shared.missing);
        }
        return false;
    }
    return true;
}

// One block per token, or fewer: blocks take tokens in turn.
KERN_KERNEL void ep_dispatch_send(const kern_bf16 *x, const int32_t *expert_ids,
                                  const uint64_t *recv_rows_peers,
                                  const uint64_t *recv_routes_peers, const uint64_t *flags_peers,
                                  uint32_t *state, int32_t *error, int32_t rank, int32_t ranks,
                                  int32_t experts, int32_t top_k, int32_t hidden, int32_t tokens,
                                  int32_t max_tokens)
{
    if (hidden % KERN_LANES != 0 || experts % ranks != 0 || tokens > max_tokens) {
        kern_trap();
    }
    const uint32_t epoch = state[EPOCH] + 1;
    const int32_t owned = experts / ranks;
    for (int32_t token = (int32_t)blockIdx.x; token < tokens; token += (int32_t)gridDim.x) {
        const int64_t slot = (int64_t)rank * max_tokens + token;
        const int32_t *ids = expert_ids + (int64_t)token * top_k;
        // Starting at the next rank spreads the ranks over the links.
        for (int32_t i = 1; i <= ranks; i++) {
            const int32_t peer = (rank + i) % ranks;
            const int32_t first = peer * owned;
            bool wanted = false;
            for (int32_t k = 0; k < top_k; k++) {
                wanted |= ids[k] >= first && ids[k] < first + owned;
            }
            int32_t *routes = kern_peer<int32_t>(recv_routes_peers, peer, slot * top_k);
            KERN_BLOCK_RANGE(k, top_k)
            {
                const bool here = ids[k] >= first && ids[k] < first + owned;
                routes[k] = here ? ids[k] - first : -1;
            }
            if (wanted) {
                kern_copy_block(kern_peer<kern_bf16>(recv_rows_peers, peer, slot * hidden),
                                x + (int64_t)token * hidden, hidden / KERN_LANES);
            }
        }
    }
    __syncthreads();
    if (threadIdx.x == 0 && kern_last_block(&state[SENT])) {
        for (int32_t peer = 0; peer < ranks; peer++) {
            kern_store_release_system(kern_peer<uint64_t>(flags_peers, peer, rank),
                                      kern_flag(epoch, (uint32_t)tokens));
        }
        *error = 0;
        state[EPOCH] = epoch;
    }
}

// One block per expert of this rank, at most MAX_THREADS threads. Each thread looks through a piece
// of the slots, so the order of the lists depends on nothing but what was sent.
KERN_KERNEL void ep_dispatch_recv(const int32_t *recv_routes, const uint64_t *flags,
                                  const uint32_t *state, int32_t *error, int32_t *counts,
                                  int32_t *selections, int32_t ranks, int32_t top_k,
                                  int32_t max_tokens, int64_t timeout_ns)
{
    KERN_SHARED(struct ep_dispatch_recv_shared, shared);
    const int32_t expert = (int32_t)blockIdx.x;
    const int32_t threads = (int32_t)blockDim.x;
    const int32_t thread = (int32_t)threadIdx.x;
    if (threads > MAX_THREADS) {
        kern_trap();
    }
    if (!ep_wait(flags, state[EPOCH], ranks, timeout_ns, error, shared.wait)) {
        if (thread == 0) {
            counts[expert] = 0;
        }
        return;
    }
    const int32_t slots = ranks * max_tokens;
    const int32_t piece = (slots + threads - 1) / threads;
    const int32_t begin = piece * thread < slots ? piece * thread : slots;
    const int32_t end = begin + piece < slots ? begin + piece : slots;
    int32_t found = 0;
    for (int32_t slot = begin; slot < end; slot++) {
        if ((uint32_t)(slot % max_tokens) < shared.wait.number[slot / max_tokens]) {
            for (int32_t k = 0; k < top_k; k++) {
                found += recv_routes[(int64_t)slot * top_k + k] == expert;
            }
        }
    }
    shared.count[thread] = found;
    __syncthreads();
    int32_t *next = selections + (int64_t)expert * slots * top_k;
    for (int32_t before = 0; before < thread; before++) {
        next += shared.count[before];
    }
    if (thread == threads - 1) {
        counts[expert] = (int32_t)(next - selections - (int64_t)expert * slots * top_k) + found;
    }
    for (int32_t slot = begin; slot < end; slot++) {
        if ((uint32_t)(slot % max_tokens) < shared.wait.number[slot / max_tokens]) {
            for (int32_t k = 0; k < top_k; k++) {
                if (recv_routes[(int64_t)slot * top_k + k] == expert) {
                    *next++ = slot * top_k + k;
                }
            }
        }
    }
}

// Grid: any number of blocks by the experts of this rank.
KERN_KERNEL void ep_combine_send(const float *expert_out, const int32_t *counts,
                                 const int32_t *selections, const uint64_t *returned_peers,
                                 const uint64_t *flags_peers, uint32_t *state, const int32_t *error,
                                 int32_t rank, int32_t ranks, int32_t top_k, int32_t hidden,
                                 int32_t max_tokens)
{
    const int32_t expert = (int32_t)blockIdx.y;
    const int32_t per_rank = max_tokens * top_k;
    const int32_t *list = selections + (int64_t)expert * ranks * per_rank;
    for (int32_t i = (int32_t)blockIdx.x; i < counts[expert]; i += (int32_t)gridDim.x) {
        const int32_t selection = list[i];
        const int32_t source = selection / per_rank;
        const int64_t row = selection % per_rank;
        if (source != rank) {
            kern_copy_block(kern_peer<float>(returned_peers, source, row * hidden),
                            expert_out + (int64_t)selection * hidden, hidden / 4);
        }
    }
    __syncthreads();
    if (threadIdx.x == 0 && kern_last_block(&state[RETURNED]) && *error == 0) {
        for (int32_t peer = 0; peer < ranks; peer++) {
            kern_store_release_system(kern_peer<uint64_t>(flags_peers, peer, ranks + rank),
                                      kern_flag(state[EPOCH], 0));
        }
    }
}

// One block per token, or fewer: blocks take tokens in turn.
KERN_KERNEL void ep_combine_recv(const float *expert_out, const float *returned,
                                 const int32_t *expert_ids, const float *weights,
                                 const uint64_t *flags, const uint32_t *state, int32_t *error,
                                 float *y, int32_t rank, int32_t ranks, int32_t experts,
                                 int32_t top_k, int32_t hidden, int32_t tokens, int32_t max_tokens,
                                 int64_t timeout_ns)
{
    KERN_SHARED(struct ep_wait_shared, shared);
    const int32_t owned = experts / ranks;
    const float *own = expert_out + (int64_t)rank * max_tokens * top_k * hidden;
    if (!ep_wait(flags + ranks, state[EPOCH], ranks, timeout_ns, error, shared)) {
        return;
    }
    for (int32_t token = (int32_t)blockIdx.x; token < tokens; token += (int32_t)gridDim.x) {
        const int64_t first = (int64_t)token * top_k;
        KERN_BLOCK_RANGE(pack, hidden / KERN_LANES)
        {
            kern_f32x8 sum = {};
            for (int32_t k = 0; k < top_k; k++) {
                const int32_t id = expert_ids[first + k];
                if (id >= 0 && id < experts) {
                    const bool here = id >= rank * owned && id < (rank + 1) * owned;
                    const float *row = (here ? own : returned) + (first + k) * hidden;
                    sum = sum + kern_load8(row + pack * KERN_LANES) * weights[first + k];
                }
            }
            kern_store8(y + (int64_t)token * hidden + pack * KERN_LANES, sum);
        }
    }
}

KERN_RANGE_KERNEL(ep_dispatch_send)
KERN_RANGE_KERNEL_SHARED(ep_dispatch_recv, struct ep_dispatch_recv_shared)
KERN_RANGE_KERNEL(ep_combine_send)
KERN_RANGE_KERNEL_SHARED(ep_combine_recv, struct ep_wait_shared)
KERN_MODULE(KERN_ENTRY(ep_dispatch_send), KERN_ENTRY(ep_dispatch_recv), KERN_ENTRY(ep_combine_send),
            KERN_ENTRY(ep_combine_recv));
