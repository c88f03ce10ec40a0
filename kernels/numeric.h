// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic that kernels of models share. Every function is a fixed sequence of f32 operations,
// so it gives the same bits on a GPU and on emu.
#ifndef KERN_KERNELS_NUMERIC_H
#define KERN_KERNELS_NUMERIC_H

#include "kernels/portable.h"

// exp(x) within 2 units in the last place, 0 below and infinity above what f32 holds. Not expf,
// whose bits differ from library to library.
KERN_DEVICE float kern_exp(float x)
{
    if (x < -87.0f) {
        return 0.0f;
    }
    if (x > 88.0f) {
        return kern_f32_of_bits(0x7f800000u);
    }
    // x = n * ln 2 + r with |r| <= ln 2 / 2, where ln 2 is split so that n * its upper part is
    // exact.
    const int32_t n = (int32_t)(x * 1.44269504f + (x < 0.0f ? -0.5f : 0.5f));
    const float r = (x - (float)n * 0.693359375f) + (float)n * 2.12194440e-4f;
    float p = 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return p * kern_f32_of_bits((uint32_t)(n + 127) << 23);
}

KERN_DEVICE float kern_silu(float x)
{
    return x / (1.0f + kern_exp(-x));
}

KERN_DEVICE float kern_sum8(kern_f32x8 v)
{
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

#endif
