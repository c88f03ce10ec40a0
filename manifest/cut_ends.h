// SPDX-License-Identifier: Apache-2.0
//
// The calls at which stages of a manifest may begin and end, for those who look for the best.
#ifndef KERN_MANIFEST_CUT_ENDS_H
#define KERN_MANIFEST_CUT_ENDS_H

#include "manifest/cut_parts.h"

struct kern_cut_ends {
    const struct kern_manifest *manifest;
    struct kern_cut_flow flow; // its spans are sorted by buffer
    bool *closed;              // [point]: the contract refuses it
    uint64_t *crossing;        // [point]: bytes that cross there, UINT64_MAX if they are more
    uint64_t *reach; // [call]: a stage that begins there must hold the calls up to this one
    // 0, then the points that are not closed, then the number of calls of the longest program.
    uint64_t *calls;
    size_t count;
    struct kern_arena arena;
};

// [manifest] passes kern_cut_check_manifest and is borrowed.
void kern_cut_ends_open(struct kern_cut_ends *ends, const struct kern_manifest *manifest);
void kern_cut_ends_close(struct kern_cut_ends *ends);

// A call that touches a buffer, and the next one that touches the same; UINT64_MAX: there is none.
struct kern_cut_touch {
    uint32_t buffer;
    uint64_t call;
    uint64_t next;
};

// Fills [touches], which has room for every access, with those of the flagged buffers, by buffer
// and call, each call once for a buffer; returns how many there are.
size_t kern_cut_touches(const struct kern_cut_flow *flow, const bool *flags,
                        struct kern_cut_touch *touches);

#endif
