// SPDX-License-Identifier: Apache-2.0
#include "manifest/arrivals.h"

#include "manifest/cut.h"

bool kern_arrivals_layout(const struct kern_manifest *stage, uint64_t *offsets,
                          uint64_t *slot_bytes)
{
    enum { ALIGNMENT = 256 };
    uint64_t end = 0;
    for (uint32_t b = 0; b < stage->n_buffers; b++) {
        const struct kern_buffer *buffer = &stage->buffers[b];
        if (!kern_manifest_arrives(stage, buffer))
            continue;
        offsets[b] = end;
        if (__builtin_add_overflow(end, buffer->bytes, &end) ||
            __builtin_add_overflow(end, ALIGNMENT - 1, &end))
            return false;
        end -= end % ALIGNMENT;
    }
    *slot_bytes = end;
    return true;
}
