// SPDX-License-Identifier: Apache-2.0
//
// Rotary positions, half-split: element i of a head turns with element i + head_dim / 2 by the
// angle position * frequency[i].
//
//   cos, sin    f32  [positions][head_dim / 2]    rope_column fills one column of both
//   qkv         bf16 [rows][(q_heads + 2 * kv_heads) * head_dim]
//   position    i32  [rows]
//   slot        i32  [rows]                       the row's token slot in the cache
//   cache       bf16 [slots][2][kv_heads][head_dim]
//
// rope_append turns a row's queries where they stand and its keys on their way to the cache, where
// the values go as well; the keys and values in qkv are not read again by anyone.
#include "kernels/portable.h"

struct turn {
    float cos, sin;
};

// Within 1e-9 before the rounding to f32, for angles from 0 to 2^20. Not the library's functions,
// whose bits differ from library to library.
KERN_DEVICE struct turn turn_by(double angle)
{
    // angle = n * pi / 2 + r with |r| <= pi / 4, where pi / 2 is split so that n * its upper part
    // is exact.
    const int32_t n = (int32_t)(angle * 0.63661977236758134 + 0.5);
    const double r = (angle - n * 1.57079632673412561417) - n * 6.07710050650619224932e-11;
    const double square = r * r;
    double sin = -1.0 / 39916800.0;
    sin = sin * square + 1.0 / 362880.0;
    sin = sin * square - 1.0 / 5040.0;
    sin = sin * square + 1.0 / 120.0;
    sin = sin * square - 1.0 / 6.0;
    sin = sin * square * r + r;
    double cos = 1.0 / 479001600.0;
    cos = cos * square - 1.0 / 3628800.0;
    cos = cos * square + 1.0 / 40320.0;
    cos = cos * square - 1.0 / 720.0;
    cos = cos * square + 1.0 / 24.0;
    cos = cos * square - 0.5;
    cos = cos * square + 1.0;
    switch (n % 4) {
    case 0:
        return {(float)cos, (float)sin};
    case 1:
        return {(float)-sin, (float)cos};
    case 2:
        return {(float)-cos, (float)-sin};
    default:
        return {(float)sin, (float)-cos};
    }
}

// Any one-dimensional grid and block.
KERN_KERNEL void rope_column(float *cos, float *sin, int32_t positions, int32_t columns,
                             int32_t column, float frequency)
{
    KERN_GRID_RANGE(position, positions)
    {
        const struct turn turn = turn_by((double)position * (double)frequency);
        cos[position * columns + column] = turn.cos;
        sin[position * columns + column] = turn.sin;
    }
}

// One block per row, any number of threads.
KERN_KERNEL void rope_append(kern_bf16 *qkv, const float *cos, const float *sin,
                             const int32_t *position, const int32_t *slot, kern_bf16 *cache,
                             int32_t q_heads, int32_t kv_heads, int32_t head_dim)
{
    const int64_t row = blockIdx.x;
    const int32_t half = head_dim / 2;
    const int64_t kv_width = (int64_t)kv_heads * head_dim;
    kern_bf16 *queries = qkv + row * (q_heads + 2 * kv_heads) * head_dim;
    kern_bf16 *keys = cache + slot[row] * 2 * kv_width;
    const kern_bf16 *values = queries + (int64_t)(q_heads + kv_heads) * head_dim;
    const float *row_cos = cos + (int64_t)position[row] * half;
    const float *row_sin = sin + (int64_t)position[row] * half;
    KERN_BLOCK_RANGE(pair, (int64_t)(q_heads + kv_heads) * half)
    {
        const int64_t head = pair / half;
        const int64_t i = pair % half;
        const kern_bf16 *from = queries + head * head_dim + i;
        kern_bf16 *to =
            head < q_heads ? queries + head * head_dim + i : keys + (head - q_heads) * head_dim + i;
        const float low = kern_to_f32(from[0]);
        const float high = kern_to_f32(from[half]);
        kern_from_f32(&to[0], low * row_cos[i] - high * row_sin[i]);
        kern_from_f32(&to[half], high * row_cos[i] + low * row_sin[i]);
    }
    KERN_BLOCK_RANGE(i, kv_width)
    {
        keys[kv_width + i] = values[i];
    }
}

KERN_RANGE_KERNEL(rope_column)
KERN_RANGE_KERNEL(rope_append)
KERN_MODULE(KERN_ENTRY(rope_column), KERN_ENTRY(rope_append));
