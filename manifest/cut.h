// SPDX-License-Identifier: Apache-2.0
//
// Cutting a manifest into the stages of a pipeline. A point is an index of a call: stage s runs the
// calls from point s - 1 up to, not including, point s of every driven program, which is one that
// has a batch.
//
// What crosses a cut does so by name. In the text of a stage the buffers that arrive are exactly
// its exported ones: an `inout` where the stage rewrites it, else an `input`. What leaves is what
// arrives at the next stage under the same name: an `output`, or something that arrived before.
#ifndef KERN_MANIFEST_CUT_H
#define KERN_MANIFEST_CUT_H

#include "manifest/manifest.h"

// Cuts [manifest], which is verified, at [points] into n_points + 1 stages. Each is a verified
// manifest of its own but for the digest, which is the whole's, and shares no memory with it;
// kern_manifest_stages_destroy frees them. NULL with every reason in [diag] if the contract does
// not allow the cut (rule V-CUT), or if a stage breaks a rule by itself: its errors then begin
// their places with the stage.
//
// The stages' cut.id is the first half of a SHA-256, in hex, over the manifest's canonical text
// (manifest/write.h) and the points, each as 8 bytes, least significant first: the same for the
// same manifest and points wherever and however often it is cut.
struct kern_manifest **kern_manifest_cut(const struct kern_manifest *manifest,
                                         const uint64_t *points, size_t n_points,
                                         struct kern_diag *diag);

// Frees [count] stages and their array; [stages] may be NULL.
void kern_manifest_stages_destroy(struct kern_manifest **stages, size_t count);

// Whether [buffer] of the stage [manifest] came over the edge before it.
bool kern_manifest_arrives(const struct kern_manifest *manifest, const struct kern_buffer *buffer);

// The bytes of what [manifest], which is verified, loads once and then only reads: its weights and
// the carries that derive programs make of them. False if they exceed 64 bits.
bool kern_manifest_weight_bytes(const struct kern_manifest *manifest, uint64_t *bytes);

// Finds the [n_stages] - 1 [points] at which [manifest], which is verified, can be cut so that the
// stage whose driven calls read the most bytes of weights reads the fewest; among those the points
// that also balance the others (least squares), then those where fewest bytes cross. False with
// the reason in [diag] if there are none. Takes time in proportion to the square of the number of
// calls.
bool kern_manifest_balance(const struct kern_manifest *manifest, size_t n_stages, uint64_t *points,
                           struct kern_diag *diag);

#endif
