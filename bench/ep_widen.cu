// SPDX-License-Identifier: Apache-2.0
//
// Experts that cost next to nothing, for bench/ep.sh: expert e (of all ranks' experts) multiplies a
// row by e + 1.
//
//   rows         bf16 [slots][hidden]            selection s reads row s / top_k
//   counts       i32  [experts]                  length of each expert's list
//   selections   i32  [experts][slots * top_k]   the lists
//   out          f32  [slots * top_k][hidden]    row s of selection s; other rows are left alone
//
// Grid: any number of blocks by `experts`, which are those of rank `rank`.
#include "kernels/portable.h"

KERN_KERNEL void ep_widen(const kern_bf16 *rows, const int32_t *counts, const int32_t *selections,
                          float *out, int32_t rank, int32_t experts, int32_t slots, int32_t top_k,
                          int32_t hidden)
{
    const int32_t expert = (int32_t)blockIdx.y;
    if (expert >= experts) {
        return;
    }
    const float factor = (float)(rank * experts + expert + 1);
    const int32_t *list = selections + (int64_t)expert * slots * top_k;
    for (int32_t i = (int32_t)blockIdx.x; i < counts[expert]; i += (int32_t)gridDim.x) {
        const kern_bf16 *from = rows + (int64_t)(list[i] / top_k) * hidden;
        float *to = out + (int64_t)list[i] * hidden;
        KERN_BLOCK_RANGE(pack, hidden / KERN_LANES)
        {
            kern_store8(to + pack * KERN_LANES, kern_load8(from + pack * KERN_LANES) * factor);
        }
    }
}

KERN_RANGE_KERNEL(ep_widen)
KERN_MODULE(KERN_ENTRY(ep_widen));
