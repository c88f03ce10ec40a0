// SPDX-License-Identifier: Apache-2.0
//
// y = a * x + b over n elements. y may be x. Any one-dimensional grid and block.
#include "kernels/portable.h"

KERN_KERNEL void toy_scale_f32(const float *x, float *y, float a, float b, int32_t n)
{
    KERN_GRID_RANGE(i, n)
    {
        y[i] = a * x[i] + b;
    }
}

// Computed in f32 and rounded once.
KERN_KERNEL void toy_scale_bf16(const kern_bf16 *x, kern_bf16 *y, float a, float b, int32_t n)
{
    KERN_GRID_RANGE(i, n)
    {
        kern_from_f32(&y[i], a * kern_to_f32(x[i]) + b);
    }
}

KERN_RANGE_KERNEL(toy_scale_f32)
KERN_RANGE_KERNEL(toy_scale_bf16)
KERN_MODULE(KERN_ENTRY(toy_scale_f32), KERN_ENTRY(toy_scale_bf16));
