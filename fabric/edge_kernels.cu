// SPDX-License-Identifier: Apache-2.0
//
// The device's side of an edge between two stages: three launches of one thread around the calls of
// an item and the copies that follow them.
//
//     take   waits until the item has arrived
//            … the calls …
//     room   waits until the stage after has a free slot
//            … the copies to it …
//     post   tells the stage after that the item has arrived, and the one before that it is taken
//
// The flags are in the memory of the stage that receives (edge_words.h). A pointer of 0 means that
// there is no stage on that side. A wait that reaches its deadline says so on the board and in
// *failed, which is in this device's memory; from then on nothing waits and nothing is posted, so
// that a neighbour never takes bytes that were computed from none.
#include "fabric/edge_words.h"
#include "kernels/portable.h"

KERN_DEVICE void set_phase(struct kern_edge_board *board, uint64_t item, uint64_t phase)
{
    kern_store_release_system(&board->at, item << KERN_EDGE_PHASE_BITS | phase);
}

// Waits until *flag is [count] or more.
KERN_DEVICE void wait_for(const uint64_t *flag, uint64_t count, int64_t timeout_ns, uint64_t item,
                          uint64_t phase, struct kern_edge_board *board, uint64_t *failed)
{
    const uint64_t deadline = kern_clock_ns() + (uint64_t)timeout_ns;
    kern_spin_begin();
    while (kern_load_acquire_system(flag) < count) {
        if (kern_clock_ns() >= deadline) {
            *failed = phase;
            board->failed_item = item;
            kern_store_release_system(&board->failed, phase);
            return;
        }
        kern_spin_hint();
    }
    // What the flag's writer wrote before it is read by other threads, in the launches that follow.
    __threadfence_system();
}

KERN_KERNEL void kern_edge_take(const uint64_t *full, uint64_t item, int64_t timeout_ns,
                                struct kern_edge_board *board, uint64_t *failed)
{
    struct kern_edge_stamp *stamp = &board->stamps[item % KERN_EDGE_STAMPS];
    kern_store_release_system(&stamp->count, (uint64_t)0);
    stamp->take_began = kern_clock_ns();
    set_phase(board, item, KERN_EDGE_TAKING);
    if (full && !*failed) {
        wait_for(full, item + 1, timeout_ns, item, KERN_EDGE_TAKING, board, failed);
    }
    stamp->take_ended = kern_clock_ns();
    set_phase(board, item, KERN_EDGE_RUNNING);
}

// `depth` items fit into the slots of the stage after.
KERN_KERNEL void kern_edge_room(const uint64_t *taken, uint64_t item, uint64_t depth,
                                int64_t timeout_ns, struct kern_edge_board *board, uint64_t *failed)
{
    struct kern_edge_stamp *stamp = &board->stamps[item % KERN_EDGE_STAMPS];
    stamp->room_began = kern_clock_ns();
    set_phase(board, item, KERN_EDGE_ROOM);
    if (taken && item >= depth && !*failed) {
        wait_for(taken, item + 1 - depth, timeout_ns, item, KERN_EDGE_ROOM, board, failed);
    }
    stamp->room_ended = kern_clock_ns();
    set_phase(board, item, KERN_EDGE_COPYING);
}

// `full` is the flag of the stage after, `taken` our own, which the stage before looks at.
KERN_KERNEL void kern_edge_post(uint64_t *full, uint64_t *taken, uint64_t item,
                                struct kern_edge_board *board, const uint64_t *failed)
{
    struct kern_edge_stamp *stamp = &board->stamps[item % KERN_EDGE_STAMPS];
    if (!*failed) {
        __threadfence_system();
        if (full) {
            kern_store_release_system(full, item + 1);
        }
        if (taken) {
            kern_store_release_system(taken, item + 1);
        }
    }
    stamp->posted = kern_clock_ns();
    kern_store_release_system(&stamp->count, item + 1);
    set_phase(board, item, KERN_EDGE_POSTED);
}

KERN_RANGE_KERNEL(kern_edge_take)
KERN_RANGE_KERNEL(kern_edge_room)
KERN_RANGE_KERNEL(kern_edge_post)
KERN_MODULE(KERN_ENTRY(kern_edge_take), KERN_ENTRY(kern_edge_room), KERN_ENTRY(kern_edge_post));
