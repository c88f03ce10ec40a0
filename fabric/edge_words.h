// SPDX-License-Identifier: Apache-2.0
//
// The words through which the two ends of an edge, their kernels and their hosts talk. C and CUDA
// C++ alike.
#ifndef KERN_FABRIC_EDGE_WORDS_H
#define KERN_FABRIC_EDGE_WORDS_H

#include <stdint.h>

// Bytes from the start of a stage's arrivals (manifest/arrivals.h) to the words of the edge, each
// in a line of its own. Items count from 0, and counts are of items: nothing is ever reset.
enum {
    KERN_EDGE_FULL = 0,    // u64, written by the stage before: items that have arrived
    KERN_EDGE_TAKEN = 128, // u64, written by the owner: items whose bytes it needs no more
    KERN_EDGE_COOKIE = 256 // u64, for the self-test
};

// What a rank's stream is at: the low bits of kern_edge_board.at; the item is above them.
enum kern_edge_phase {
    KERN_EDGE_POSTED,  // nothing: the item is done
    KERN_EDGE_TAKING,  // waiting for the item to arrive
    KERN_EDGE_RUNNING, // the calls of the program
    KERN_EDGE_ROOM,    // waiting for the stage after to have room
    KERN_EDGE_COPYING,
};
#define KERN_EDGE_PHASE_BITS 3

// When an item passed, in nanoseconds of the device's clock. Without a stage before or after, the
// two ends of that wait are equal but for the clock's step.
struct kern_edge_stamp {
    uint64_t count; // the item + 1; 0 while the rest is being written
    uint64_t take_began, take_ended;
    uint64_t room_began, room_ended;
    uint64_t posted;
};

// Items whose stamps are kept; older ones are written over.
#define KERN_EDGE_STAMPS 1024

// One per rank, in page-locked memory that its kernels write and its host reads without a call of
// the driver.
struct kern_edge_board {
    uint64_t at;          // item << KERN_EDGE_PHASE_BITS | phase
    uint64_t failed;      // 0, or the phase whose wait reached its deadline; it stays
    uint64_t failed_item; // valid once `failed` is set
    struct kern_edge_stamp stamps[KERN_EDGE_STAMPS];
};

#endif
