// SPDX-License-Identifier: Apache-2.0
//
// The memory that a rank takes for a manifest, known before there is a device.
#ifndef KERN_MANIFEST_FOOTPRINT_H
#define KERN_MANIFEST_FOOTPRINT_H

#include "manifest/manifest.h"

// What is mapped through the driver's virtual-memory API, which is all exported memory and all
// states, comes in units of this many bytes on every GPU so far (cuMemGetAllocationGranularity).
#define KERN_GRANULE (2ull << 20)

// What a capacity in tokens and a number of sequences come to.
struct kern_provision_plan {
    uint64_t page;   // tokens: the least common multiple of the strides of what indexes paged states
    uint64_t tokens; // the capacity, rounded up to pages
    uint64_t slots;  // two more than the sequences: slot 0 is never given away, one is for padding
};

bool kern_provision_plan(const struct kern_manifest *manifest, uint64_t capacity, uint64_t seqs,
                         struct kern_provision_plan *plan, struct kern_diag *diag);

// The bytes of [state], not rounded to granules. False for a host state, which no rank can have,
// and for what has no tokens or exceeds 64 bits.
bool kern_state_bytes(const struct kern_state *state, const struct kern_provision_plan *plan,
                      uint64_t *bytes, struct kern_diag *diag);

// Whether a peer buffer is of [state]; such a state is exported.
bool kern_state_is_exported(const struct kern_manifest *manifest, uint32_t state);

enum kern_memory_kind {
    KERN_MEMORY_WEIGHTS,
    KERN_MEMORY_WORKSPACE,
    KERN_MEMORY_CARRY,
    KERN_MEMORY_IO,
    KERN_MEMORY_PEER,
    KERN_MEMORY_SCRATCH,
    KERN_MEMORY_STATES,
    KERN_MEMORY_KINDS,
};

const char *kern_memory_kind_name(enum kern_memory_kind kind);

struct kern_memory_item {
    enum kern_memory_kind kind;
    const char *op; // of a scratch, else NULL
    const char *name;
    uint64_t bytes; // asked for, with the vars at their max
    uint64_t taken; // of the device
    bool exported;
};

struct kern_footprint {
    struct kern_provision_plan provision;
    const struct kern_memory_item *items; // what lies on the device, largest first
    size_t n_items;
    uint64_t taken[KERN_MEMORY_KINDS];
    size_t count[KERN_MEMORY_KINDS];
    uint64_t total;
    uint64_t exported;
    uint64_t sources;      // of the device too, while weights are loaded
    uint64_t staging;      // page-locked host memory for inputs and outputs
    uint64_t host_weights; // page-locked host memory
    uint64_t upload;       // page-locked host memory while weights are loaded
    struct kern_arena arena;
};

// Fills [footprint] for a verified manifest whose paged states hold [capacity] tokens of [seqs]
// sequences; false, and it is empty, if no rank could be given this. What a rank allocates in
// rank/memory.c is exactly this; a test compares them.
bool kern_footprint_plan(const struct kern_manifest *manifest, uint64_t capacity, uint64_t seqs,
                         struct kern_footprint *footprint, struct kern_diag *diag);

void kern_footprint_free(struct kern_footprint *footprint);

#endif
