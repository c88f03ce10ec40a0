// SPDX-License-Identifier: Apache-2.0
//
// What the mappings of peers' memory carry: for every pair of ranks the bandwidth of writes and of
// reads and the latency of a flag, measured by the kernels themselves.
//
// A step is one turn: one pair, of which one rank measures and the other answers, or several pairs
// that have no rank in common (see p2p_pair). Everybody else waits, so that nothing disturbs them.
// Kernels, in this order in every step and on every rank:
//
//   p2p_turn    waits for the ranks of the turn before, and finds out who is whose peer now
//   p2p_write   copies the outbox into the peer's inbox      } the rank that measures; the best of
//   p2p_read    copies the peer's outbox into the scratch    } several launches counts
//   p2p_flags   stores flags in each other's memory in turns; half a round trip is the latency, the
//               mean of a batch of them, of the best batch
//   p2p_check   looks at every word that was written and read, and clears it
//   p2p_end     tells all ranks that this one's part of the turn is over
//
// and p2p_fill once before them, with a barrier behind it.
//
//   outbox       u32 [words]        carry, exported   its rank's pattern
//   inbox        u32 [words]        carry, exported   written by the one rank that measures with us
//   flags        u32 [3][ranks]     carry, exported   [.][r] is written by rank r alone
//   scratch      u32 [words]        workspace         what was read
//   state        u32 [4]            carry             zero after load
//   stamps       u64 [2][blocks]    workspace         when a block began and ended
//   results      f32 [3][ranks]     carry             GB/s written, GB/s read, µs of a flag; no
//   flag
//                                                     passes between a rank and itself
//   counts       i32 [2][ranks]     carry             wrong words, times measured
//   write_gb_s … [ranks]            output            the rows of results and counts
//   error        i32 [1]            output            0, or 1 + the rank that was missed
//
// A word of the inbox or the scratch that is not the sender's is counted as wrong; since they are
// cleared after each look, a copy that does not arrive is wrong as well. An inbox is free for the
// next rank when the pair has told everybody that it is done. After a rank was missed the ranks are
// out of step and nothing counts any more.
#include "kernels/peer.h"

enum { TURN, ROLE, PEER, ARRIVED }; // state
enum { DONE, PING, PONG };          // flags
enum { WRITTEN, READ, LATENCY };    // results
enum { WRONG, MEASURED };           // counts
enum { IDLE, MEASURES, ANSWERS, MEASURES_ITSELF };
enum { BATCHES = 5, QUICK_LOOKS = 1000 };

KERN_DEVICE uint32_t p2p_word(int32_t rank, int64_t index)
{
    return ((uint32_t)rank + 1) * 0x9e3779b9u ^ ((uint32_t)index + 1) * 0x85ebca6bu;
}

// Turns until every rank has measured with every rank.
KERN_DEVICE uint32_t p2p_turns(int32_t ranks, bool concurrent)
{
    const uint32_t even = (uint32_t)(ranks + ranks % 2);
    return concurrent ? 1 + 2 * (even - 1) : (uint32_t)ranks * (uint32_t)ranks;
}

// What a rank does in a turn, and with whom. One pair after another: pair (t / ranks, t % ranks).
// Concurrent: each rank with itself, then the rounds of a tournament in which all play (the circle
// method), each twice, so that either one measures.
KERN_DEVICE int32_t p2p_pair(uint32_t turn, bool concurrent, int32_t rank, int32_t ranks,
                             int32_t *peer)
{
    const int32_t t = (int32_t)(turn % p2p_turns(ranks, concurrent));
    if (!concurrent) {
        const int32_t first = t / ranks;
        const int32_t second = t % ranks;
        *peer = rank == first ? second : first;
        return rank == first ? (first == second ? MEASURES_ITSELF : MEASURES)
                             : (rank == second ? ANSWERS : IDLE);
    }
    *peer = rank;
    if (t == 0) {
        return MEASURES_ITSELF;
    }
    const int32_t last = ranks + ranks % 2 - 1; // stays, the others go round; odd: it is nobody
    const int32_t round = (t - 1) / 2;
    int32_t other;
    if (rank == last) {
        other = (int32_t)((int64_t)round * ((last + 1) / 2) % last);
    } else {
        other = (round - rank + last) % last;
        other = other == rank ? last : other;
    }
    if (other >= ranks) {
        return IDLE;
    }
    *peer = other;
    return ((t - 1) % 2 == 0) == (rank < other) ? MEASURES : ANSWERS;
}

KERN_DEVICE bool p2p_measures(const uint32_t *state)
{
    return state[ROLE] == MEASURES || state[ROLE] == MEASURES_ITSELF;
}

// Like kern_wait_epoch, but a flag that comes soon is seen at once.
KERN_DEVICE bool p2p_wait(const uint32_t *flag, uint32_t epoch, int64_t timeout_ns)
{
    for (int32_t look = 0; look < QUICK_LOOKS; look++) {
        if (kern_reached(kern_load_acquire_system(flag), epoch)) {
            return true;
        }
    }
    return kern_wait_epoch(flag, epoch, kern_deadline(timeout_ns));
}

KERN_KERNEL void p2p_fill(uint32_t *outbox, int32_t rank, int32_t packs)
{
    KERN_GRID_RANGE(i, (int64_t)packs * 4)
    {
        outbox[i] = p2p_word(rank, i);
    }
}

// One block.
KERN_KERNEL void p2p_turn(const uint32_t *flags, uint32_t *state, float *results, int32_t *error,
                          int32_t rank, int32_t ranks, int32_t concurrent, int64_t timeout_ns)
{
    if (threadIdx.x != 0) {
        return;
    }
    const uint32_t turn = state[TURN];
    int32_t missing = 0;
    int32_t peer;
    for (int32_t r = 0; turn > 0 && r < ranks; r++) {
        if (p2p_pair(turn - 1, concurrent != 0, r, ranks, &peer) != IDLE &&
            !kern_wait_epoch(&flags[DONE * ranks + r], turn, kern_deadline(timeout_ns))) {
            missing = r + 1;
            break;
        }
    }
    const int32_t role = p2p_pair(turn, concurrent != 0, rank, ranks, &peer);
    state[TURN] = turn + 1;
    state[ROLE] = (uint32_t)(missing == 0 ? role : IDLE);
    state[PEER] = (uint32_t)peer;
    *error = missing;
    if (p2p_measures(state)) {
        results[WRITTEN * ranks + peer] = 0;
        results[READ * ranks + peer] = 0;
    }
}

// Copies by all blocks. The speed is bytes by the nanoseconds from the first block's begin to the
// end of the last one, when all has arrived; *best is that of the best copy of the turn.
KERN_DEVICE void p2p_copy(void *to, const void *from, int32_t packs, uint32_t *state,
                          uint64_t *stamps, float *best)
{
    if (threadIdx.x == 0) {
        stamps[blockIdx.x] = kern_clock_ns();
    }
    __syncthreads();
    kern_pack *target = static_cast<kern_pack *>(to);
    const kern_pack *source = static_cast<const kern_pack *>(from);
    KERN_GRID_RANGE(i, packs)
    {
        target[i] = source[i];
    }
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x != 0) {
        return;
    }
    stamps[gridDim.x + blockIdx.x] = kern_clock_ns();
    if (kern_last_block(&state[ARRIVED])) {
        uint64_t began = stamps[0];
        uint64_t ended = stamps[gridDim.x];
        for (uint32_t block = 1; block < gridDim.x; block++) {
            began = stamps[block] < began ? stamps[block] : began;
            const uint64_t end = stamps[gridDim.x + block];
            ended = end > ended ? end : ended;
        }
        const float ns = (float)(ended > began ? ended - began : 1);
        const float speed = (float)packs * (float)sizeof(kern_pack) / ns;
        *best = speed > *best ? speed : *best;
    }
}

KERN_KERNEL void p2p_write(const uint32_t *outbox, const uint64_t *inbox_peers, uint32_t *state,
                           uint64_t *stamps, float *results, int32_t ranks, int32_t packs)
{
    if (p2p_measures(state)) {
        const int32_t peer = (int32_t)state[PEER];
        p2p_copy(kern_peer<uint32_t>(inbox_peers, peer, 0), outbox, packs, state, stamps,
                 &results[WRITTEN * ranks + peer]);
    }
}

KERN_KERNEL void p2p_read(const uint64_t *outbox_peers, uint32_t *scratch, uint32_t *state,
                          uint64_t *stamps, float *results, int32_t ranks, int32_t packs)
{
    if (p2p_measures(state)) {
        const int32_t peer = (int32_t)state[PEER];
        p2p_copy(scratch, kern_peer<uint32_t>(outbox_peers, peer, 0), packs, state, stamps,
                 &results[READ * ranks + peer]);
    }
}

// One block. What the rank that measures wrote before reaches the other one with the first flag.
KERN_KERNEL void p2p_flags(const uint32_t *flags, const uint64_t *flags_peers,
                           const uint32_t *state, float *results, int32_t *error, int32_t rank,
                           int32_t ranks, int32_t rounds, int64_t timeout_ns)
{
    const bool measures = state[ROLE] == MEASURES;
    if (threadIdx.x != 0 || !(measures || state[ROLE] == ANSWERS)) {
        return;
    }
    const int32_t peer = (int32_t)state[PEER];
    const int32_t mine = measures ? PING : PONG;
    uint32_t *there = kern_peer<uint32_t>(flags_peers, peer, mine * ranks + rank);
    const uint32_t *here = &flags[(measures ? PONG : PING) * ranks + peer];
    uint32_t epoch = (state[TURN] - 1) * (uint32_t)(BATCHES * rounds);
    float best = 0;
    for (int32_t batch = 0; batch < BATCHES; batch++) {
        const uint64_t began = kern_clock_ns();
        for (int32_t round = 0; round < rounds; round++) {
            epoch++;
            if (measures) {
                kern_store_release_system(there, epoch);
            }
            if (!p2p_wait(here, epoch, timeout_ns)) {
                *error = peer + 1;
                return;
            }
            if (!measures) {
                kern_store_release_system(there, epoch);
            }
        }
        const float us = (float)(kern_clock_ns() - began) / (2000 * (float)rounds);
        best = batch == 0 || us < best ? us : best;
    }
    if (measures) {
        results[LATENCY * ranks + peer] = best;
    }
}

KERN_DEVICE void p2p_look(uint32_t *words, int32_t sender, int32_t packs, int32_t *wrong)
{
    int32_t found = 0;
    KERN_GRID_RANGE(i, (int64_t)packs * 4)
    {
        found += words[i] != p2p_word(sender, i);
        words[i] = 0;
    }
    if (found > 0) {
        atomicAdd(wrong, found);
    }
}

KERN_KERNEL void p2p_check(uint32_t *inbox, uint32_t *scratch, const uint32_t *state,
                           const int32_t *error, int32_t *counts, int32_t ranks, int32_t packs)
{
    if (state[ROLE] == IDLE || *error != 0) {
        return;
    }
    const int32_t peer = (int32_t)state[PEER];
    if (state[ROLE] != MEASURES) {
        p2p_look(inbox, peer, packs, &counts[WRONG * ranks + peer]);
    }
    if (p2p_measures(state)) {
        p2p_look(scratch, peer, packs, &counts[WRONG * ranks + peer]);
    }
}

// One block.
KERN_KERNEL void p2p_end(const uint64_t *flags_peers, const uint32_t *state, const int32_t *error,
                         const float *results, int32_t *counts, float *write_gb_s, float *read_gb_s,
                         float *flag_us, int32_t *wrong_words, int32_t *measured, int32_t rank,
                         int32_t ranks)
{
    if (threadIdx.x == 0 && state[ROLE] != IDLE && *error == 0) {
        if (p2p_measures(state)) {
            counts[MEASURED * ranks + (int32_t)state[PEER]]++;
        }
        for (int32_t r = 0; r < ranks; r++) {
            kern_store_release_system(kern_peer<uint32_t>(flags_peers, r, DONE * ranks + rank),
                                      state[TURN]);
        }
    }
    __syncthreads();
    KERN_BLOCK_RANGE(r, ranks)
    {
        write_gb_s[r] = results[WRITTEN * ranks + r];
        read_gb_s[r] = results[READ * ranks + r];
        flag_us[r] = results[LATENCY * ranks + r];
        wrong_words[r] = counts[WRONG * ranks + r];
        measured[r] = counts[MEASURED * ranks + r];
    }
}

KERN_RANGE_KERNEL(p2p_fill)
KERN_RANGE_KERNEL(p2p_turn)
KERN_RANGE_KERNEL(p2p_write)
KERN_RANGE_KERNEL(p2p_read)
KERN_RANGE_KERNEL(p2p_flags)
KERN_RANGE_KERNEL(p2p_check)
KERN_RANGE_KERNEL(p2p_end)
KERN_MODULE(KERN_ENTRY(p2p_fill), KERN_ENTRY(p2p_turn), KERN_ENTRY(p2p_write), KERN_ENTRY(p2p_read),
            KERN_ENTRY(p2p_flags), KERN_ENTRY(p2p_check), KERN_ENTRY(p2p_end));
