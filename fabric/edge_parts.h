// SPDX-License-Identifier: Apache-2.0
//
// What the files of the edge share: edge.c hands over, edge_exchange.c maps the memory to do it.
#ifndef KERN_FABRIC_EDGE_PARTS_H
#define KERN_FABRIC_EDGE_PARTS_H

#include "fabric/edge.h"

// A buffer that leaves, and where in a slot of the stage after it goes.
struct kern_leaving {
    uint32_t buffer; // of this stage
    uint64_t offset; // from the start of the first slot's arrivals
};

struct kern_edges {
    struct kern_edges_config config;
    int64_t timeout_ns;
    CUmodule module;
    CUfunction take, room, post;
    struct kern_edge_board *board;
    CUdeviceptr board_address;
    CUdeviceptr failed;        // the kernels' own copy of the board's word
    CUdeviceptr arrivals;      // 0: this is the first stage
    struct kern_mapping after; // the arrivals of the stage after; none: this is the last stage
    struct kern_leaving *leaving;
    size_t n_leaving;
    uint64_t slot_bytes;                // of the stage after
    const char *input_text, *room_text; // kern_edges_awaited
    struct kern_arena arena;
};

// Hands this stage's arrivals to the stage before and maps those of the stage after. A rank that is
// not [good] takes part so that nobody waits for it.
void kern_edges_exchange(struct kern_edges *edges, bool good, struct kern_diag *diag);

// Whether the stage before wrote its word into our arrivals; clears it.
bool kern_edges_find_cookie(struct kern_edges *edges, struct kern_diag *diag);

#endif
