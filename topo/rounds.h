// SPDX-License-Identifier: Apache-2.0
//
// Waiting for ranks that work long and unequally, and are not late while they get on. The ranks
// meet in rounds, each a small collective: one who works takes part now and then as he gets on, one
// who has nothing left to do waits in it. A round that ends proves that everybody got on, and the
// deadline of the wait starts again; who stands still keeps the round from ending.
//
// From kern_rounds_open to the end of kern_rounds_finish nothing else goes over the world's
// communicator.
#ifndef KERN_TOPO_ROUNDS_H
#define KERN_TOPO_ROUNDS_H

#include "topo/world.h"

struct kern_rounds {
    const struct kern_world *world;
    MPI_Request request; // of the round that this rank is in; MPI_REQUEST_NULL: none
    int mine, all;       // 1: this rank, or every rank, has finished
    uint64_t interval;   // nanoseconds between two rounds of a rank that works
    uint64_t last;       // base/clock.h, when a round ended last
};

void kern_rounds_open(struct kern_rounds *rounds, const struct kern_world *world);

// This rank gets on. To be called as often as that is so.
void kern_rounds_beat(struct kern_rounds *rounds);

// Waits for [request], which other ranks complete when they get that far; [what] names the wait and
// must live as long.
void kern_rounds_await(struct kern_rounds *rounds, MPI_Request *request, const char *what);

// Waits until every rank has come to this call.
void kern_rounds_finish(struct kern_rounds *rounds, const char *what);

#endif
