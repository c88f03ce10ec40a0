// SPDX-License-Identifier: Apache-2.0
//
// The sizes of states: what a capacity in tokens and a number of sequences come to.
#ifndef KERN_MANIFEST_PROVISION_H
#define KERN_MANIFEST_PROVISION_H

#include "manifest/manifest.h"

// What is never given to a sequence: of the pages one for padding rows; of the slots number 0,
// which kernels may treat as a null line, and one for padding rows.
#define KERN_HELD_PAGES 1
#define KERN_HELD_SLOTS 2

struct kern_provision_plan {
    uint64_t page;   // tokens: the least common multiple of the strides into paged states
    uint64_t tokens; // the capacity, rounded up to pages, and the held page if some state is paged
    uint64_t slots;  // one per sequence and the held ones
};

bool kern_provision_plan(const struct kern_manifest *manifest, uint64_t capacity, uint64_t seqs,
                         struct kern_provision_plan *plan, struct kern_diag *diag);

// The bytes of [state], not rounded up. False for what has no tokens or exceeds 64 bits, and for a
// host state, of which kern_host_bytes tells.
bool kern_state_bytes(const struct kern_state *state, const struct kern_provision_plan *plan,
                      uint64_t *bytes, struct kern_diag *diag);

// The bytes from the first to the last element of [blocks] (1 or more) outermost entries of a host
// layout; false beyond 64 bits.
bool kern_host_bytes(const struct kern_host_layout *host, uint64_t blocks, uint64_t *bytes);

// Whether a peer buffer is of [state]; such a state is exported.
bool kern_state_is_exported(const struct kern_manifest *manifest, uint32_t state);

// Whether [state] is made of the chunks that pages and slots share: it is paged or per-sequence,
// and not exported.
bool kern_state_is_pooled(const struct kern_manifest *manifest, uint32_t state);

// The size of those chunks, a multiple of [granule]. Mapping costs the driver time per chunk, so
// they are large: 32 granules, or half the smallest page or slot where that is a granule or more,
// so that one of them gives up whole chunks. They are halved as long as rounding every state up to
// chunks takes an eighth more than rounding to granules. One granule if no state is pooled.
bool kern_pool_chunk(const struct kern_manifest *manifest, const struct kern_provision_plan *plan,
                     uint64_t granule, uint64_t *chunk, struct kern_diag *diag);

#endif
