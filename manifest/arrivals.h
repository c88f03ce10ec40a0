// SPDX-License-Identifier: Apache-2.0
//
// The memory into which the stage before hands what arrives: the words of the edge, then slots,
// each of which holds every arriving buffer of one item. Both stages compute the layout from the
// manifest of the stage that receives, so nothing of it has to be sent.
#ifndef KERN_MANIFEST_ARRIVALS_H
#define KERN_MANIFEST_ARRIVALS_H

#include "manifest/manifest.h"

// Bytes at the start for the words of the edge (fabric/edge_words.h), which are zero at first.
#define KERN_ARRIVALS_HEAD 1024

// Fills [offsets], one per buffer of [stage], which is verified, with the bytes from the start of a
// slot to each arriving buffer, and *[slot_bytes] with what lies between two slots: 0 if nothing
// arrives. Buffers are aligned as cuMemAlloc would. False if they exceed 64 bits.
bool kern_arrivals_layout(const struct kern_manifest *stage, uint64_t *offsets,
                          uint64_t *slot_bytes);

#endif
