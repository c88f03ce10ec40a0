// SPDX-License-Identifier: Apache-2.0
//
// One copy per node and stage of the weights that are placed on the host: memory without a name
// that the lowest rank of both makes and loads and all map. It goes with the last process that has
// it.
#ifndef KERN_FABRIC_HOST_WEIGHTS_H
#define KERN_FABRIC_HOST_WEIGHTS_H

#include "rank/rank.h"
#include "topo/rounds.h"
#include "topo/stage.h"

// Gives the rank its host-placed weights, after it allocated and before it compiles. [ready]: this
// rank has come so far; false if one of the node has not, or if the memory is not to be had. All
// ranks enter it; it does nothing if the manifest has no such weight.
bool kern_host_weights_share(const struct kern_world *world, const struct kern_stage *stage,
                             struct kern_rank *rank, bool ready, struct kern_diag *diag);

// Waits, if there are such weights, until every rank of the node has loaded what it loads, as this
// one has if [loaded]; then they may be read. False if one of them has not. All ranks enter it.
bool kern_host_weights_await(struct kern_rounds *rounds, const struct kern_stage *stage,
                             const struct kern_rank *rank, bool loaded);

#endif
