// SPDX-License-Identifier: Apache-2.0
//
// The gate of a gated MLP: y = silu(gate) * up.
//
//   gate_up   bf16 [rows][2][inner]    a row's gate, then its up
//   y         bf16 [rows][inner]
//
// Computed in f32 and rounded once. One block per row, any number of threads.
#include "kernels/numeric.h"

KERN_KERNEL void silu_mul(const kern_bf16 *gate_up, kern_bf16 *y, int32_t inner)
{
    const kern_bf16 *gate = gate_up + (int64_t)blockIdx.x * 2 * inner;
    const kern_bf16 *up = gate + inner;
    kern_bf16 *to = y + (int64_t)blockIdx.x * inner;
    KERN_BLOCK_RANGE(i, inner)
    {
        kern_from_f32(&to[i], kern_silu(kern_to_f32(gate[i])) * kern_to_f32(up[i]));
    }
}

KERN_RANGE_KERNEL(silu_mul)
KERN_MODULE(KERN_ENTRY(silu_mul));
