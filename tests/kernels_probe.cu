// SPDX-License-Identifier: Apache-2.0
//
// Kernels that show what kernels/portable.h promises, for kernels_host_test.
#include "kernels/portable.h"

struct alignas(16) probe_pack {
    double wide;
    int32_t narrow;
};

// One parameter of every kind, so that every gap of the parameter block shows.
KERN_KERNEL void probe_params(uint8_t byte, int64_t wide, float real, struct probe_pack pack,
                              int32_t narrow, double *out)
{
    if (threadIdx.x == 0 && blockIdx.x == 0) {
        out[0] = byte;
        out[1] = (double)wide;
        out[2] = (double)real;
        out[3] = pack.wide;
        out[4] = pack.narrow;
        out[5] = narrow;
    }
}

KERN_KERNEL void probe_nothing(void)
{
}

// Counts each thread of a three-dimensional grid of three-dimensional blocks at its place.
KERN_KERNEL void probe_index(uint32_t *out)
{
    const uint32_t block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const uint32_t thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    out[block * (blockDim.x * blockDim.y * blockDim.z) + thread]++;
}

// Counts each index of a range over the grid, and adds a thousand for one over the block.
KERN_KERNEL void probe_ranges(uint32_t *out, int32_t n)
{
    KERN_GRID_RANGE(i, n)
    {
        out[i]++;
    }
    __syncthreads();
    if (blockIdx.x == 0) {
        KERN_BLOCK_RANGE(i, n)
        {
            out[i] += 1000;
        }
    }
}

// `rounds` times each thread takes over its right neighbour's number plus one, between two
// barriers.
KERN_KERNEL void probe_barrier(uint32_t *out, int32_t rounds)
{
    KERN_DYNAMIC_SHARED(uint32_t, number);
    const uint32_t threads = blockDim.x * blockDim.y * blockDim.z;
    const uint32_t me = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    number[me] = me;
    for (int32_t round = 0; round < rounds; round++) {
        __syncthreads();
        const uint32_t right = number[(me + 1) % threads];
        __syncthreads();
        number[me] = right + 1;
    }
    out[blockIdx.x * threads + me] = number[me];
}

struct probe_shared {
    uint32_t arrived;
    uint32_t left_early;
};

// Odd threads end before the barrier, which the even ones then pass without them.
KERN_KERNEL void probe_early_end(uint32_t *out)
{
    KERN_SHARED(struct probe_shared, shared);
    if (threadIdx.x == 0) {
        shared.arrived = 0;
        shared.left_early = 0;
    }
    __syncthreads();
    if (threadIdx.x % 2 == 1) {
        atomicAdd(&shared.left_early, 1u);
        return;
    }
    atomicAdd(&shared.arrived, 1u);
    __syncthreads();
    out[threadIdx.x] = shared.arrived * 10000 + shared.left_early;
}

// The first thread waits for a word that the last one writes after the second waited for the third.
KERN_KERNEL void probe_wait(uint32_t *flags)
{
    const uint32_t last = blockDim.x - 1;
    if (threadIdx.x < last) {
        while (kern_load_acquire_system(&flags[threadIdx.x + 1]) == 0) {
            kern_spin_hint();
        }
    }
    kern_store_release_system(&flags[threadIdx.x], threadIdx.x + 1);
}

KERN_KERNEL void probe_atomics(uint32_t *sum, int32_t *most, uint32_t *swapped, uint32_t *lock)
{
    const uint32_t me = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(sum, me);
    atomicMax(most, (int32_t)me - 5);
    atomicExch(swapped, me);
    if (atomicCAS(lock, 0u, me + 1) == 0) {
        lock[1] = me + 1;
    }
}

// The thread `who` of each block traps; who comes before it has counted itself.
KERN_KERNEL void probe_trap(uint32_t *out, int32_t who)
{
    if ((int32_t)threadIdx.x == who) {
        kern_trap();
    }
    atomicAdd(&out[blockIdx.x], 1u);
}

KERN_KERNEL void probe_trap_fiber(uint32_t *out, int32_t who)
{
    __syncthreads();
    if ((int32_t)threadIdx.x == who) {
        kern_trap();
    }
    __syncthreads();
    atomicAdd(&out[blockIdx.x], 1u);
}

// Declared below as what it is not: a kernel without a barrier.
KERN_KERNEL void probe_wrong_loop(uint32_t *out)
{
    __syncthreads();
    *out = 1;
}

KERN_KERNEL void probe_bf16(const float *x, kern_bf16 *y, float *back, int32_t n)
{
    KERN_GRID_RANGE(i, n)
    {
        kern_from_f32(&y[i], x[i]);
        back[i] = kern_to_f32(y[i]);
    }
}

KERN_KERNEL void probe_clock(uint64_t *out)
{
    out[0] = kern_clock_ns();
    while (kern_clock_ns() - out[0] < 2000000) {
        kern_spin_hint();
    }
    out[1] = kern_clock_ns();
}

KERN_LOOP_KERNEL(probe_params)
KERN_LOOP_KERNEL(probe_nothing)
KERN_LOOP_KERNEL(probe_index)
KERN_RANGE_KERNEL(probe_ranges)
KERN_FIBER_KERNEL(probe_barrier)
KERN_FIBER_KERNEL_SHARED(probe_early_end, struct probe_shared)
KERN_FIBER_KERNEL(probe_wait)
KERN_LOOP_KERNEL(probe_atomics)
KERN_LOOP_KERNEL(probe_trap)
KERN_FIBER_KERNEL(probe_trap_fiber)
KERN_LOOP_KERNEL(probe_wrong_loop)
KERN_LOOP_KERNEL(probe_bf16)
KERN_RANGE_KERNEL(probe_clock)
KERN_MODULE(KERN_ENTRY(probe_params), KERN_ENTRY(probe_nothing), KERN_ENTRY(probe_index),
            KERN_ENTRY(probe_ranges), KERN_ENTRY(probe_barrier), KERN_ENTRY(probe_early_end),
            KERN_ENTRY(probe_wait), KERN_ENTRY(probe_atomics), KERN_ENTRY(probe_trap),
            KERN_ENTRY(probe_trap_fiber), KERN_ENTRY(probe_wrong_loop), KERN_ENTRY(probe_bf16),
            KERN_ENTRY(probe_clock));
