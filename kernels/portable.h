// SPDX-License-Identifier: Apache-2.0
//
// The CUDA C++ subset in which the kernels of this tree are written: one source that nvcc compiles
// for a GPU and g++ compiles for the emulated one.
//
// Under nvcc the names below are thin wrappers. Under g++ they come from host_half.h, which runs a
// kernel on the calling CPU thread. CUDA's own names mean on both what they mean in CUDA:
// threadIdx, blockIdx, blockDim, gridDim, __syncthreads, __threadfence, __threadfence_system,
// atomicAdd, atomicMax, atomicCAS, atomicExch (32-bit words).
//
// A file of kernels ends with one line per kernel that says how the host runs it, and a listing:
//
//     KERN_RANGE_KERNEL(name)                 one host thread per block
//     KERN_LOOP_KERNEL(name)                  every thread, one after another
//     KERN_FIBER_KERNEL(name)                 every thread, each on a stack of its own
//     KERN_MODULE(KERN_ENTRY(name), ...);     what the artifact exports
//
// A range kernel is one that computes the same with any number of threads in its blocks, one
// included: it splits its work by the ranges below and by `threadIdx.x == 0`, and may use
// __syncthreads, which one thread passes at once. Prefer it: it costs the host nothing per thread
// and leaves it whole loops to vectorise. A loop kernel looks at its thread index but never waits
// for another thread. A fiber kernel may do anything, for 30 to 50 ns a thread and 10 to 20 ns a
// thread and barrier.
//
// Blocks of a grid run in order, one after another, on the host: a block may wait for other ranks
// or for blocks before it, never for a block after it.
#ifndef KERN_KERNELS_PORTABLE_H
#define KERN_KERNELS_PORTABLE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__

#define KERN_KERNEL extern "C" __global__
#define KERN_DEVICE static __device__ __forceinline__

// One object of static shared memory, uninitialised, per kernel: a struct where it needs several.
// It has no constructor. KERN_RANGE_KERNEL_SHARED and KERN_FIBER_KERNEL_SHARED name its type again.
#define KERN_SHARED(type, name) __shared__ type name

// The block's dynamic shared memory (shared_mem of the launch), 16-byte aligned, uninitialised.
#define KERN_DYNAMIC_SHARED(type, name)                                                            \
    extern __shared__ __align__(16) unsigned char kern_dynamic_shared[];                           \
    type *const name = reinterpret_cast<type *>(kern_dynamic_shared)

// Runs the body for i in [0, n), n at most 2^63-1, spread over all threads of a one-dimensional
// grid or over those of this one-dimensional block. Which thread gets which i, and in what order,
// is unspecified: strided on a GPU so that accesses coalesce, a contiguous piece per block on the
// host so that they vectorise.
#define KERN_GRID_RANGE(i, n)                                                                      \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, i##_end = (n),                \
                 i##_step = (int64_t)gridDim.x * blockDim.x;                                       \
         i < i##_end; i += i##_step)
#define KERN_BLOCK_RANGE(i, n)                                                                     \
    for (int64_t i = threadIdx.x, i##_end = (n); i < i##_end; i += blockDim.x)

// System scope: visible to, and ordered with, every rank that maps the word.
KERN_DEVICE uint32_t kern_load_acquire_system(const uint32_t *p)
{
    uint32_t v;
    asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

KERN_DEVICE uint64_t kern_load_acquire_system(const uint64_t *p)
{
    uint64_t v;
    asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}

KERN_DEVICE void kern_store_release_system(uint32_t *p, uint32_t v)
{
    asm volatile("st.release.sys.u32 [%0], %1;" : : "l"(p), "r"(v) : "memory");
}

KERN_DEVICE void kern_store_release_system(uint64_t *p, uint64_t v)
{
    asm volatile("st.release.sys.u64 [%0], %1;" : : "l"(p), "l"(v) : "memory");
}

// Nanoseconds of a clock that all threads of the device share. Its step can be a microsecond.
KERN_DEVICE uint64_t kern_clock_ns(void)
{
    uint64_t ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
}

// Says that a waiting loop begins, whose first looks are to be quick ones.
KERN_DEVICE void kern_spin_begin(void)
{
}

// Says inside a waiting loop that another thread or rank should get on.
KERN_DEVICE void kern_spin_hint(void)
{
    __nanosleep(40);
}

// Ends the launch as a fault.
KERN_DEVICE void kern_trap(void)
{
    __trap();
}

KERN_DEVICE uint32_t kern_f32_bits(float f)
{
    return __float_as_uint(f);
}

KERN_DEVICE float kern_f32_of_bits(uint32_t bits)
{
    return __uint_as_float(bits);
}

// The host half's business, which nvcc passes over.
#define KERN_RANGE_KERNEL(name)
#define KERN_LOOP_KERNEL(name)
#define KERN_FIBER_KERNEL(name)
#define KERN_RANGE_KERNEL_SHARED(name, type)
#define KERN_FIBER_KERNEL_SHARED(name, type)
#define KERN_MODULE(...)

#else
#include "kernels/host_half.h"
#endif

// 16 bytes, the widest access of one thread: rows are copied in these.
struct alignas(16) kern_pack {
    uint32_t word[4];
};

// Copies `packs` times 16 bytes, which do not overlap, by the threads of this block.
KERN_DEVICE void kern_copy_block(void *to, const void *from, int64_t packs)
{
#ifdef __CUDACC__
    KERN_BLOCK_RANGE(i, packs)
    {
        static_cast<kern_pack *>(to)[i] = static_cast<const kern_pack *>(from)[i];
    }
#else
    kern_host_copy_block(to, from, (size_t)packs * sizeof(kern_pack));
#endif
}

// A bfloat16: the upper half of an IEEE single.
struct kern_bf16 {
    uint16_t bits;
};

KERN_DEVICE float kern_to_f32(float f)
{
    return f;
}

KERN_DEVICE float kern_to_f32(kern_bf16 b)
{
    return kern_f32_of_bits((uint32_t)b.bits << 16);
}

// Rounds to nearest, ties to even. A NaN stays one: its lowest bit might be all that was set.
KERN_DEVICE void kern_from_f32(kern_bf16 *to, float f)
{
    const uint32_t bits = kern_f32_bits(f);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const uint32_t quiet = (bits >> 16) | 0x40u;
    to->bits = (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

KERN_DEVICE void kern_from_f32(float *to, float f)
{
    *to = f;
}

// Eight f32, with +, * and [] lane by lane: one or two registers on the host, eight on a GPU, whose
// loads and stores are 16 bytes wide. Addresses are 16-byte aligned.
enum { KERN_LANES = 8 };

#ifdef __CUDACC__

struct kern_f32x8 {
    float lane[KERN_LANES];

    __device__ __forceinline__ float &operator[](int i)
    {
        return lane[i];
    }
};

KERN_DEVICE kern_f32x8 operator+(kern_f32x8 a, kern_f32x8 b)
{
    for (int i = 0; i < KERN_LANES; i++) {
        a.lane[i] += b.lane[i];
    }
    return a;
}

KERN_DEVICE kern_f32x8 operator*(kern_f32x8 a, kern_f32x8 b)
{
    for (int i = 0; i < KERN_LANES; i++) {
        a.lane[i] *= b.lane[i];
    }
    return a;
}

KERN_DEVICE kern_f32x8 operator*(kern_f32x8 a, float b)
{
    for (int i = 0; i < KERN_LANES; i++) {
        a.lane[i] *= b;
    }
    return a;
}

KERN_DEVICE kern_f32x8 kern_load8(const float *from)
{
    const float4 low = *reinterpret_cast<const float4 *>(from);
    const float4 high = *reinterpret_cast<const float4 *>(from + 4);
    return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
}

KERN_DEVICE kern_f32x8 kern_load8(const kern_bf16 *from)
{
    const kern_pack pack = *reinterpret_cast<const kern_pack *>(from);
    kern_f32x8 v;
    for (int i = 0; i < 4; i++) {
        v.lane[2 * i] = kern_f32_of_bits(pack.word[i] << 16);
        v.lane[2 * i + 1] = kern_f32_of_bits(pack.word[i] & 0xffff0000u);
    }
    return v;
}

#else

typedef float kern_f32x8 __attribute__((vector_size(32)));

KERN_DEVICE kern_f32x8 kern_load8(const float *from)
{
    kern_f32x8 v;
    __builtin_memcpy(&v, from, sizeof(v));
    return v;
}

KERN_DEVICE kern_f32x8 kern_load8(const kern_bf16 *from)
{
    typedef uint16_t halves __attribute__((vector_size(16)));
    typedef uint32_t words __attribute__((vector_size(32)));
    halves upper;
    __builtin_memcpy(&upper, from, sizeof(upper));
    return (kern_f32x8)(__builtin_convertvector(upper, words) << 16);
}

#endif

template <typename T> KERN_DEVICE void kern_store8(T *to, kern_f32x8 v)
{
    for (int i = 0; i < KERN_LANES; i++) {
        kern_from_f32(&to[i], v[i]);
    }
}

#endif
