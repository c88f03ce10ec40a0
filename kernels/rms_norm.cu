// SPDX-License-Identifier: Apache-2.0
//
// Root mean square normalisation of rows of the residual stream, y = x / rms(x) * weight, and the
// same after another term has been added to the stream.
//
//   x        f32  [rows][width]    the residual stream
//   delta    bf16 [rows][width]    what add_rms_norm adds to x first
//   weight   bf16 [width]
//   y        bf16 [blocks][width]
//
// One block per row of y, any number of threads. Block b takes row (b + 1) * step - 1 of x: all of
// them with step 1, the last of each run of `step` rows otherwise; add_rms_norm leaves the others
// as they were. width is a multiple of 8, arrays 16-byte aligned. A row's sum of squares is taken
// in an order that does not depend on the number of threads.
#include "kernels/numeric.h"

// How many partial sums a row has.
enum { PARTS = 64 };

struct rms_norm_shared {
    float part[PARTS];
};

// Correctly rounded by both compilers.
KERN_DEVICE float square_root(float x)
{
#ifdef __CUDACC__
    return __fsqrt_rn(x);
#else
    return __builtin_sqrtf(x);
#endif
}

KERN_DEVICE void normalise(const float *row, const kern_bf16 *weight, kern_bf16 *y, int32_t width,
                           float epsilon, struct rms_norm_shared &shared)
{
    KERN_BLOCK_RANGE(part, PARTS)
    {
        kern_f32x8 sum = {};
        for (int64_t i = part * KERN_LANES; i < width; i += PARTS * KERN_LANES) {
            const kern_f32x8 x = kern_load8(row + i);
            sum = sum + x * x;
        }
        shared.part[part] = kern_sum8(sum);
    }
    __syncthreads();
    float sum = 0.0f;
    for (int part = 0; part < PARTS; part++) {
        sum += shared.part[part];
    }
    const float scale = 1.0f / square_root(sum / (float)width + epsilon);
    KERN_BLOCK_RANGE(pack, width / KERN_LANES)
    {
        const int64_t at = pack * KERN_LANES;
        kern_store8(y + at, kern_load8(row + at) * scale * kern_load8(weight + at));
    }
}

KERN_KERNEL void rms_norm(const float *x, const kern_bf16 *weight, kern_bf16 *y, int32_t width,
                          int32_t step, float epsilon)
{
    KERN_SHARED(struct rms_norm_shared, shared);
    if (width % KERN_LANES != 0) {
        kern_trap();
    }
    const float *row = x + (((int64_t)blockIdx.x + 1) * step - 1) * width;
    normalise(row, weight, y + (int64_t)blockIdx.x * width, width, epsilon, shared);
}

KERN_KERNEL void add_rms_norm(float *x, const kern_bf16 *delta, const kern_bf16 *weight,
                              kern_bf16 *y, int32_t width, int32_t step, float epsilon)
{
    KERN_SHARED(struct rms_norm_shared, shared);
    if (width % KERN_LANES != 0) {
        kern_trap();
    }
    const int64_t first = (((int64_t)blockIdx.x + 1) * step - 1) * width;
    KERN_BLOCK_RANGE(pack, width / KERN_LANES)
    {
        const int64_t at = first + pack * KERN_LANES;
        kern_store8(x + at, kern_load8(x + at) + kern_load8(delta + at));
    }
    __syncthreads();
    normalise(x + first, weight, y + (int64_t)blockIdx.x * width, width, epsilon, shared);
}

KERN_RANGE_KERNEL_SHARED(rms_norm, struct rms_norm_shared)
KERN_RANGE_KERNEL_SHARED(add_rms_norm, struct rms_norm_shared)
KERN_MODULE(KERN_ENTRY(rms_norm), KERN_ENTRY(add_rms_norm));
