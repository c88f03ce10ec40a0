// SPDX-License-Identifier: Apache-2.0
//
// The place of the largest element of each row of x [rows][n]; of equal ones the lowest place wins.
// A NaN is never the largest; a row of nothing else gives 0. One block per row, a power of two
// threads, at most MAX_THREADS.
#include "kernels/portable.h"

enum { MAX_THREADS = 1024 };

struct argmax_shared {
    float value[MAX_THREADS];
    int32_t place[MAX_THREADS];
};

// No place yet is the largest number, which every real place beats.
#define NOWHERE INT32_MAX

KERN_DEVICE bool better(float value, int32_t place, float than, int32_t than_place)
{
    return value > than || (value == than && place < than_place);
}

template <typename T>
KERN_DEVICE void argmax(const T *x, int32_t *places, int32_t n, struct argmax_shared &shared)
{
    const int32_t thread = (int32_t)threadIdx.x;
    const int32_t threads = (int32_t)blockDim.x;
    if (threads > MAX_THREADS || (threads & (threads - 1)) != 0) {
        kern_trap();
    }
    const T *row = x + (int64_t)blockIdx.x * n;
    float best = kern_f32_of_bits(0xff800000u);
    int32_t place = NOWHERE;
    KERN_BLOCK_RANGE(i, n)
    {
        const float value = kern_to_f32(row[i]);
        if (better(value, (int32_t)i, best, place)) {
            best = value;
            place = (int32_t)i;
        }
    }
    shared.value[thread] = best;
    shared.place[thread] = place;
    __syncthreads();
    for (int32_t half = threads / 2; half > 0; half /= 2) {
        if (thread < half && better(shared.value[thread + half], shared.place[thread + half],
                                    shared.value[thread], shared.place[thread])) {
            shared.value[thread] = shared.value[thread + half];
            shared.place[thread] = shared.place[thread + half];
        }
        __syncthreads();
    }
    if (thread == 0) {
        places[blockIdx.x] = shared.place[0] == NOWHERE ? 0 : shared.place[0];
    }
}

KERN_KERNEL void argmax_f32(const float *x, int32_t *places, int32_t n)
{
    KERN_SHARED(struct argmax_shared, shared);
    argmax(x, places, n, shared);
}

KERN_KERNEL void argmax_bf16(const kern_bf16 *x, int32_t *places, int32_t n)
{
    KERN_SHARED(struct argmax_shared, shared);
    argmax(x, places, n, shared);
}

KERN_RANGE_KERNEL_SHARED(argmax_f32, struct argmax_shared)
KERN_RANGE_KERNEL_SHARED(argmax_bf16, struct argmax_shared)
KERN_MODULE(KERN_ENTRY(argmax_f32), KERN_ENTRY(argmax_bf16));
