// SPDX-License-Identifier: Apache-2.0
//
// What weight and source buffers are assembled from: which bytes of which tensors go where.
#ifndef KERN_RANK_WEIGHTS_H
#define KERN_RANK_WEIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/diag.h"
#include "manifest/manifest.h"
#include "rank/piece.h"
#include "rank/safetensors.h"

struct kern_weights {
    struct kern_pieces pieces; // in the order of the manifest's buffers
    size_t *first;             // per buffer and one more: where its pieces begin
};

// Plans every weight and source of the manifest for the member whose index in each group is
// [group_index], without reading any data. Missing tensors, other dtypes, ranges outside a tensor
// and segments that do not add up to the buffer are KERN_EXIT_ARTIFACT errors that name buffer,
// segment and tensor, all of them at once; [weights] is empty then. It borrows the checkpoint's
// tensors.
bool kern_weights_plan(const struct kern_manifest *manifest, const uint32_t *group_index,
                       const struct kern_safetensors *checkpoint, struct kern_weights *weights,
                       struct kern_diag *diag);

void kern_weights_free(struct kern_weights *weights);

#endif
