// SPDX-License-Identifier: Apache-2.0
#include "emu/bf16.h"
#include "emu/nccl.h"

enum { BLOCK = 512 }; // elements whose sums stay in the nearest cache

size_t emu_nccl_type_bytes(ncclDataType_t type)
{
    switch (type) {
    case ncclUint8:
        return 1;
    case ncclBfloat16:
        return 2;
    case ncclInt32:
    case ncclFloat32:
        return 4;
    default:
        return 0;
    }
}

static void sum_f32(float *restrict to, const void *const *from, int n, size_t first, size_t count)
{
    memcpy(to, (const float *)from[0] + first, count * sizeof *to);
    for (int i = 1; i < n; i++) {
        const float *restrict x = (const float *)from[i] + first;
        for (size_t j = 0; j < count; j++) {
            to[j] += x[j];
        }
    }
}

static void sum_bf16(uint16_t *restrict to, const void *const *from, int n, size_t first,
                     size_t count)
{
    float sums[BLOCK];
    const uint16_t *restrict own = (const uint16_t *)from[0] + first;
    for (size_t j = 0; j < count; j++) {
        sums[j] = emu_float_of_bf16(own[j]);
    }
    for (int i = 1; i < n; i++) {
        const uint16_t *restrict x = (const uint16_t *)from[i] + first;
        for (size_t j = 0; j < count; j++) {
            sums[j] += emu_float_of_bf16(x[j]);
        }
    }
    for (size_t j = 0; j < count; j++) {
        to[j] = emu_bf16_of_float(sums[j]);
    }
}

// Integers wrap around.
static void sum_i32(uint32_t *restrict to, const void *const *from, int n, size_t first,
                    size_t count)
{
    memcpy(to, (const uint32_t *)from[0] + first, count * sizeof *to);
    for (int i = 1; i < n; i++) {
        const uint32_t *restrict x = (const uint32_t *)from[i] + first;
        for (size_t j = 0; j < count; j++) {
            to[j] += x[j];
        }
    }
}

static void sum_u8(uint8_t *restrict to, const void *const *from, int n, size_t first, size_t count)
{
    memcpy(to, (const uint8_t *)from[0] + first, count);
    for (int i = 1; i < n; i++) {
        const uint8_t *restrict x = (const uint8_t *)from[i] + first;
        for (size_t j = 0; j < count; j++) {
            to[j] = (uint8_t)(to[j] + x[j]);
        }
    }
}

void emu_nccl_sum(ncclDataType_t type, void *to, const void *const *from, int n, size_t count)
{
    for (size_t first = 0; first < count; first += BLOCK) {
        size_t some = count - first < BLOCK ? count - first : BLOCK;
        switch (type) {
        case ncclFloat32:
            sum_f32((float *)to + first, from, n, first, some);
            break;
        case ncclBfloat16:
            sum_bf16((uint16_t *)to + first, from, n, first, some);
            break;
        case ncclInt32:
            sum_i32((uint32_t *)to + first, from, n, first, some);
            break;
        default:
            sum_u8((uint8_t *)to + first, from, n, first, some);
            break;
        }
    }
}
