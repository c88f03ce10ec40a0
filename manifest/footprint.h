// SPDX-License-Identifier: Apache-2.0
//
// The memory that a rank takes for a manifest, known before there is a device.
#ifndef KERN_MANIFEST_FOOTPRINT_H
#define KERN_MANIFEST_FOOTPRINT_H

#include "manifest/manifest.h"
#include "manifest/provision.h"

// What is mapped through the driver's virtual-memory API, which is all exported memory and all
// states, comes in units of this many bytes on every GPU so far (cuMemGetAllocationGranularity).
// Paged and per-sequence states come in chunks of several (manifest/provision.h).
#define KERN_GRANULE (2ull << 20)

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
    const char *op; // of an op's scratch, else NULL
    const char *name;
    uint64_t bytes; // asked for, with the vars at their max
    uint64_t taken; // of the device
    bool exported;
};

// While weights are loaded a rank has at most so many page-locked blocks of at most so many bytes:
// two for each of at most four threads that read. Larger ones are no faster: they no longer stay in
// a cache between the read and the copy, and take time to be page-locked.
#define KERN_UPLOAD_BLOCKS 8
#define KERN_UPLOAD_BLOCK ((uint64_t)1 << 20)

// The working memory that all matrix products of a rank share, since they run one after the other:
// what cuBLAS takes by itself on compute capability 9 (cuBLAS documentation, cublasSetWorkspace).
#define KERN_GEMM_WORKSPACE (32ull << 20)

struct kern_footprint {
    struct kern_provision_plan provision;
    uint64_t chunk; // bytes, of paged and per-sequence states that are not exported
    const struct kern_memory_item *items; // what lies on the device, largest first
    size_t n_items;
    uint64_t taken[KERN_MEMORY_KINDS];
    size_t count[KERN_MEMORY_KINDS];
    uint64_t total;
    uint64_t exported;
    uint64_t sources;      // of the device too, while weights are loaded
    uint64_t staging;      // page-locked host memory for inputs and outputs
    uint64_t host_weights; // page-locked host memory
    uint64_t upload;       // the most page-locked host memory while weights are loaded
    struct kern_arena arena;
};

// Fills [footprint] for a verified manifest whose paged states hold [capacity] tokens of [seqs]
// sequences; false, and it is empty, if no rank could be given this. What a rank allocates in
// rank/memory.c is exactly this; a test compares them. A host state is not in it: its memory is
// the embedding program's.
bool kern_footprint_plan(const struct kern_manifest *manifest, uint64_t capacity, uint64_t seqs,
                         struct kern_footprint *footprint, struct kern_diag *diag);

void kern_footprint_free(struct kern_footprint *footprint);

#endif
