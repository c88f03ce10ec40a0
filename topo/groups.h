// SPDX-License-Identifier: Apache-2.0
//
// The groups of a run as one of its processes sees them.
#ifndef KERN_TOPO_GROUPS_H
#define KERN_TOPO_GROUPS_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/diag.h"
#include "manifest/manifest.h"
#include "topo/layout.h"
#include "topo/stage.h"

// A manifest's group as this process sees it.
struct kern_group_place {
    const char *name;
    uint32_t size;
    uint32_t number; // which of the world's groups of this name is ours
    uint32_t index;  // our index in it
    int *members;    // the world ranks of our group, in group order
    const int *number_of,
        *index_of; // by world rank, -1: of another stage; borrowed from the layout
    MPI_Comm comm; // our group, ranks in group order
    bool spans_nodes;
};

struct kern_groups {
    struct kern_group_place *places;   // in the manifest's order
    struct kern_group_layout *layouts; // as many
    uint32_t count;
    uint32_t *index; // places[i].index, as kern_rank_config wants them
};

// Lays out every group of the manifest among the ranks of [stage], whose manifest it is
// (topo/layout.h), and makes its communicator; warns of groups that cross nodes without need.
// Collective.
bool kern_groups_build(const struct kern_world *world, const struct kern_stage *stage,
                       const struct kern_manifest *manifest,
                       const struct kern_group_option *options, size_t n_options, const char *file,
                       struct kern_groups *groups, struct kern_diag *diag);

void kern_groups_free(struct kern_groups *groups);

#endif
