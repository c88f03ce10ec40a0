// SPDX-License-Identifier: Apache-2.0
//
// Who is in which group. The manifest names groups and their sizes; which processes form one is the
// launcher's choice: consecutive ranks (block), ranks apart (stride), or lists in a file. Known
// without MPI, for the ranks of a run that is still to come.
#ifndef KERN_TOPO_LAYOUT_H
#define KERN_TOPO_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "manifest/manifest.h"
#include "topo/member.h"

enum kern_layout { KERN_LAYOUT_BLOCK, KERN_LAYOUT_STRIDE };

// "tp=block" on the command line.
struct kern_group_option {
    const char *name;
    enum kern_layout layout;
};

// The ranks that run a manifest: all of the world, or in a pipeline those of its stage.
struct kern_ranks {
    int first, size;
    int world; // how many there are, of all stages
};

// All groups of one name.
struct kern_group_layout {
    const char *name; // the manifest's
    uint32_t size;
    int *number_of; // by world rank: which of the groups of this name the rank is in; -1: in none
    int *index_of;  // by world rank: its index in that group, or -1
};

// Reads "NAME=block" or "NAME=stride" into [option], the name in [arena].
bool kern_layout_option(const char *text, struct kern_group_option *option,
                        struct kern_arena *arena, struct kern_diag *diag);

// Group number and index of [rank] among [ranks] ranks in groups of [size].
void kern_layout_locate(enum kern_layout layout, uint32_t ranks, uint32_t size, uint32_t rank,
                        uint32_t *number, uint32_t *index);

// The layout of every group of the manifest over [ranks], in the manifest's order, to be freed by
// the caller. Ranks of other stages are in none. [file] (or NULL) has a line "NAME RANK RANK …" for
// each group, in group order, and "#" comments; it wins over [options] for the names in it. NULL on
// failure.
struct kern_group_layout *kern_layout_make(const struct kern_manifest *manifest,
                                           const struct kern_ranks *ranks,
                                           const struct kern_group_option *options,
                                           size_t n_options, const char *file,
                                           struct kern_diag *diag);

// Warns if some group of the name lies on several nodes although all of them could lie inside one,
// with the option that does it. [members] are the ranks' places, by rank.
void kern_layout_warn(const struct kern_group_layout *layout, const struct kern_member *members,
                      const struct kern_ranks *ranks, struct kern_diag *diag);

// Whether some group of the name has members on several nodes.
bool kern_layout_spans_nodes(const struct kern_group_layout *layout,
                             const struct kern_member *members, int ranks);

void kern_layout_free(struct kern_group_layout *layouts, uint32_t count);

#endif
