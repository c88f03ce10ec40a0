// SPDX-License-Identifier: Apache-2.0
//
// Who is in which group. The manifest names groups and their sizes; which processes form one is the
// launcher's choice: consecutive ranks (block), ranks apart (stride), or lists in a file.
#ifndef KERN_TOPO_GROUPS_H
#define KERN_TOPO_GROUPS_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/diag.h"
#include "manifest/manifest.h"
#include "topo/stage.h"

enum kern_layout { KERN_LAYOUT_BLOCK, KERN_LAYOUT_STRIDE };

// "tp=block" on the command line.
struct kern_group_option {
    const char *name;
    enum kern_layout layout;
};

// A manifest's group as this process sees it.
struct kern_group_place {
    const char *name;
    uint32_t size;
    uint32_t number; // which of the world's groups of this name is ours
    uint32_t index;  // our index in it
    int *members;    // the world ranks of our group, in group order
    int *number_of;  // by world rank; -1: of another stage
    int *index_of;   // by world rank; -1: of another stage
    MPI_Comm comm;   // our group, ranks in group order
    bool spans_nodes;
};

struct kern_groups {
    struct kern_group_place *places; // in the manifest's order
    uint32_t count;
    uint32_t *index; // places[i].index, as kern_rank_config wants them
};

// Group number and index of [rank] among [ranks] ranks in groups of [size].
void kern_group_locate(enum kern_layout layout, uint32_t ranks, uint32_t size, uint32_t rank,
                       uint32_t *number, uint32_t *index);

// Builds every group of the manifest among the ranks of [stage], whose manifest it is. [file] (or
// NULL) has a line "NAME RANK RANK …" for each group, in group order, and "#" comments; it wins
// over [options] for the names in it. Every rank reads it.
bool kern_groups_build(const struct kern_world *world, const struct kern_stage *stage,
                       const struct kern_manifest *manifest,
                       const struct kern_group_option *options, size_t n_options, const char *file,
                       struct kern_groups *groups, struct kern_diag *diag);

void kern_groups_free(struct kern_groups *groups);

#endif
