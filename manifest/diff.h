// SPDX-License-Identifier: Apache-2.0
//
// What differs between two manifests, by what they mean: not by the order of maps, constants or
// members at their default.
#ifndef KERN_MANIFEST_DIFF_H
#define KERN_MANIFEST_DIFF_H

#include "manifest/manifest.h"

enum kern_change { KERN_CHANGE_ADDED, KERN_CHANGE_REMOVED, KERN_CHANGE_CHANGED };

struct kern_difference {
    enum kern_change change;
    const char *section; // the root's member that it is in: "buffers"
    // Where it is, as in messages: "programs.decode.calls[3] (l0.attn) arg 1.offset". Elements are
    // numbered as in the second manifest if they are added, else as in the first.
    const char *place;
    const char *before; // the value as JSON text without white space; NULL: added
    const char *after;  // NULL: removed
};

// All zero is valid and empty. Texts live in its arena.
struct kern_differences {
    struct kern_difference *items;
    size_t count, capacity;
    struct kern_arena arena;
};

// Adds to [found] what differs between [a] and [b], which need not be verified, by section and
// name. What stands in only one of them is one difference, as is each member of something that
// stands in both. Calls, launches, segments and fields are aligned so that one that was put between
// others is one difference; where very many differ they are only compared in order.
void kern_manifest_diff(const struct kern_manifest *a, const struct kern_manifest *b,
                        struct kern_differences *found);

void kern_differences_clear(struct kern_differences *found);

#endif
