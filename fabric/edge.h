// SPDX-License-Identifier: Apache-2.0
//
// The edges of a pipeline's stage: what it takes from the stage before and gives to the one after,
// from device to device. Data and flags are in the memory of the stage that receives: the one
// before copies what leaves into a free slot through its mapping of that memory and raises a count
// there; the one after raises another when it needs the bytes no more. The host only issues.
#ifndef KERN_FABRIC_EDGE_H
#define KERN_FABRIC_EDGE_H

#include "fabric/edge_words.h"
#include "fabric/fabric.h"
#include "topo/stage.h"

struct kern_edges;

struct kern_edges_config {
    const struct kern_world *world;
    const struct kern_stage *stage;
    struct kern_manifest *const *stages; // of the pipeline, in order (manifest/chain.h)
    const struct kern_device *device;
    int ordinal;
    const struct kern_road *road;
    struct kern_rank
        *rank; // compiled, with [depth] slots for arrivals unless it is the first stage
    uint32_t depth;
};

// Exchanges the handles of both edges, maps the memory of the stage after and leaves a word there.
// Every rank of a pipeline must call it; on failure too, the others are not left waiting. The
// result is never NULL; whether it went well is in [diag]. [config] is copied, what it points to
// outlives the edges.
struct kern_edges *kern_edges_open(const struct kern_edges_config *config, struct kern_diag *diag);

// After an agreement (all words are written): finds the word that the stage before left, and lends
// the rank the hand-over, so that every item issued from now on is taken and given.
bool kern_edges_verify(struct kern_edges *edges, struct kern_diag *diag);

// The item that this rank's stream is at and what it does for it; costs no call of the driver.
enum kern_edge_phase kern_edges_at(const struct kern_edges *edges, uint64_t *item);

// False if a wait of this rank for a neighbour has reached its deadline, which the world's timeout
// sets, with both stages and the item in [diag] (KERN_EXIT_PEER); *[phase] is that wait.
bool kern_edges_sound(const struct kern_edges *edges, enum kern_edge_phase *phase,
                      struct kern_diag *diag);

// The stamps of [item], if they are still there.
bool kern_edges_stamp(const struct kern_edges *edges, uint64_t item, struct kern_edge_stamp *stamp);

// "input from stage 0 (rank 1, node3)", or "room in stage 2 (…)", for the wait that [phase] is. The
// text lives as long as the edges.
const char *kern_edges_awaited(const struct kern_edges *edges, enum kern_edge_phase phase);

// Adds the edges' exports and mappings to what the exchange took. NULL, no pipeline, adds nothing.
void kern_edges_facts(const struct kern_edges *edges, struct kern_fabric_facts *facts);

// Unmaps the memory of the stage after. Nothing of the rank is running. NULL is allowed.
void kern_edges_close(struct kern_edges *edges);

#endif
