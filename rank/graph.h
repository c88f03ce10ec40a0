// SPDX-License-Identifier: Apache-2.0
//
// Programs as CUDA graphs. A graph holds one program's launches at one assignment of the vars that
// the program reads; whatever else the vars are, it is the same graph. What is in the buffers is
// read at each replay, so copies of inputs and outputs stay outside.
#ifndef KERN_RANK_GRAPH_H
#define KERN_RANK_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "rank/launch_list.h"
#include "rank/rank.h"

// The most graphs that a rank keeps, a power of two. Their nodes take memory on the device, so when
// one more is captured the one that was used least recently goes. It is captured again if it is
// asked for again.
#define RANK_GRAPHS_MAX 256

struct rank_graph {
    CUgraphExec exec;
    const struct rank_program *program;
    uint64_t *vars;          // dense; 1 for those that the program does not read
    uint64_t hash;           // of program and vars
    struct rank_graph *next; // with the same bucket
    uint64_t last_use;       // by the count of uses
    size_t launches;         // that became nodes, and the last of them
    const struct rank_launch *last_launch;
};

struct rank_graphs {
    struct rank_graph items[RANK_GRAPHS_MAX];
    size_t count;
    struct rank_graph *buckets[RANK_GRAPHS_MAX]; // by hash
    uint64_t *key;                               // the vars that are looked for
    uint64_t uses;
};

// Whether [program] runs as a graph on this rank.
bool rank_graph_wanted(const struct kern_rank *rank, const struct rank_program *program);

// The graph of [program] at [vars], captured now if there is none; NULL on failure, after which the
// stream is not capturing. [vars] are valid for the program.
const struct rank_graph *rank_graph_get(struct kern_rank *rank, struct rank_program *program,
                                        const uint64_t *vars, struct kern_diag *diag);

void rank_graphs_destroy(struct kern_rank *rank);

// Frees the host's part, after rank_graphs_destroy or instead of it.
void rank_graphs_free(struct rank_graphs *graphs);

#endif
