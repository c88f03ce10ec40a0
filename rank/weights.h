// SPDX-License-Identifier: Apache-2.0
//
// What a weight or source buffer is assembled from: which bytes of which tensor go where.
#ifndef KERN_RANK_WEIGHTS_H
#define KERN_RANK_WEIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/diag.h"
#include "manifest/manifest.h"
#include "rank/safetensors.h"

// Assembles the whole of [buffer] into [bytes] (buffer->bytes of them) for the member whose index in
// each group is [group_index]. Missing tensors, other dtypes, ranges outside a tensor and segments
// that do not add up to the buffer are KERN_EXIT_ARTIFACT errors that name buffer, segment and tensor.
bool kern_weights_assemble(const struct kern_manifest *manifest, const struct kern_buffer *buffer,
                           const uint32_t *group_index, const struct kern_safetensors *checkpoint,
                           void *bytes, struct kern_diag *diag);

// The checks of kern_weights_assemble for every weight and source of the manifest, without reading
// any data.
bool kern_weights_check(const struct kern_manifest *manifest, const uint32_t *group_index,
                        const struct kern_safetensors *checkpoint, struct kern_diag *diag);

#endif
