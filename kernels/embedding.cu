// SPDX-License-Identifier: Apache-2.0
//
// Rows of an embedding table, widened to f32: y[r] = table[tokens[r]].
//
//   tokens   i32  [rows]
//   table    bf16 [vocabulary][width]
//   y        f32  [rows][width]
//
// One block per row, any number of threads. width is a multiple of 8, arrays 16-byte aligned.
#include "kernels/portable.h"

KERN_KERNEL void embedding(const int32_t *tokens, const kern_bf16 *table, float *y,
                           int32_t vocabulary, int32_t width)
{
    const int32_t token = tokens[blockIdx.x];
    if (width % KERN_LANES != 0 || token < 0 || token >= vocabulary) {
        kern_trap();
    }
    const kern_bf16 *from = table + (int64_t)token * width;
    float *to = y + (int64_t)blockIdx.x * width;
    KERN_BLOCK_RANGE(pack, width / KERN_LANES)
    {
        kern_store8(to + pack * KERN_LANES, kern_load8(from + pack * KERN_LANES));
    }
}

KERN_RANGE_KERNEL(embedding)
KERN_MODULE(KERN_ENTRY(embedding));
