// SPDX-License-Identifier: Apache-2.0
//
// bf16 is the upper half of a float.
#ifndef KERN_EMU_BF16_H
#define KERN_EMU_BF16_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline float emu_float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t emu_bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float emu_float_of_bf16(uint16_t value)
{
    return emu_float_of_bits((uint32_t)value << 16);
}

// To the nearest, ties to even; a NaN stays one.
static inline uint16_t emu_bf16_of_float(float value)
{
    uint32_t bits = emu_bits_of_float(value);
    uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
    bool nan = (bits & 0x7fffffff) > 0x7f800000;
    return (uint16_t)((nan ? bits | 0x400000 : rounded) >> 16);
}

#endif
