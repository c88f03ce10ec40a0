// SPDX-License-Identifier: Apache-2.0
#ifndef KERN_FABRIC_INTERNAL_H
#define KERN_FABRIC_INTERNAL_H

#include "fabric/fabric.h"

// Whose memory a mapping shows.
struct kern_origin {
    int peer; // world rank
    size_t export;
};

struct kern_fabric {
    const struct kern_world *world;
    const struct kern_manifest *manifest;
    const struct kern_groups *groups;
    const struct kern_device *device;
    struct kern_rank *rank;
    int ordinal;
    enum kern_handle_kind kind;
    const struct kern_export *exports; // borrowed from the rank
    size_t n_exports;
    size_t *shared;                // by group: exports that its members map of each other
    CUdeviceptr *addresses;        // [world rank][export], 0: not mapped here
    struct kern_mapping *mappings; // facts.mappings of them
    struct kern_origin *origins;   // of the mappings
    size_t *of_buffer, *of_state;  // by the manifest's index: which export it is
    uint64_t *saved;               // [export][world rank]: what the cookies lie on
    struct kern_fabric_facts facts;
};

// The self-test (fabric/cookie.c): every member writes a word of its own into every peer's memory,
// through the mapping, and reads it back; the owner then finds it where its own address leads. What
// the words lie on is saved before the exchange and put back after it.
void kern_cookies_prepare(struct kern_fabric *fabric, struct kern_diag *diag);
bool kern_cookies_leave(struct kern_fabric *fabric, struct kern_diag *diag);
bool kern_cookies_check(struct kern_fabric *fabric, const struct kern_group_place *place,
                        const size_t *targets, size_t count, struct kern_diag *diag);
bool kern_cookies_restore(struct kern_fabric *fabric, struct kern_diag *diag);
void kern_cookies_free(struct kern_fabric *fabric);

#endif
