// SPDX-License-Identifier: Apache-2.0
//
// portable.h under g++: CUDA's names on top of host_run.h, and the templates that turn a kernel
// function into an entry of kern_host_module. Include portable.h, not this.
#ifndef KERN_KERNELS_HOST_HALF_H
#define KERN_KERNELS_HOST_HALF_H

#include <stddef.h>
#include <stdint.h>

#include <type_traits>
#include <utility>

#include "kernels/host_run.h"

#define KERN_INLINE inline __attribute__((always_inline))
#define KERN_KERNEL static KERN_INLINE
#define KERN_DEVICE static KERN_INLINE

// A second copy of a kernel's loops for CPUs with AVX2, chosen when the artifact is loaded: the
// bytes of the artifact are the same for every x86-64 CPU. Not with the sanitizers, whose runtime
// is not up yet when the choice is made.
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) &&                        \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define KERN_CLONES __attribute__((noinline, target_clones("default", "arch=x86-64-v3")))
#else
#define KERN_CLONES __attribute__((noinline))
#endif

#define threadIdx (kern_lane.thread)
#define blockIdx (kern_lane.block)
#define blockDim (kern_lane.block_dim)
#define gridDim (kern_lane.grid_dim)

#define KERN_SHARED(type, name) type &name = *static_cast<type *>(kern_lane.static_shared)
#define KERN_DYNAMIC_SHARED(type, name)                                                            \
    type *const name = static_cast<type *>(kern_lane.dynamic_shared)

#define KERN_GRID_RANGE(i, n)                                                                      \
    for (int64_t i = kern_host_range_first(n), i##_end = kern_host_range_end(n); i < i##_end; i++)
#define KERN_BLOCK_RANGE(i, n)                                                                     \
    for (int64_t i = 0, i##_end = threadIdx.x == 0 ? (int64_t)(n) : 0; i < i##_end; i++)

// The first thread of a block takes the block's whole piece of a grid range.
KERN_DEVICE int64_t kern_host_range_end(int64_t n)
{
    const int64_t piece = (n + gridDim.x - 1) / gridDim.x;
    const int64_t end = piece * ((int64_t)blockIdx.x + 1);
    return threadIdx.x != 0 ? 0 : end < n ? end : n;
}

KERN_DEVICE int64_t kern_host_range_first(int64_t n)
{
    return (n + gridDim.x - 1) / gridDim.x * blockIdx.x;
}

KERN_DEVICE void __syncthreads(void)
{
    kern_host_barrier();
}

// TSan follows no fences. The words that carry order between threads are acquired and released as
// well, which it does follow.
KERN_DEVICE void __threadfence(void)
{
#ifndef __SANITIZE_THREAD__
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

KERN_DEVICE void __threadfence_system(void)
{
    __threadfence();
}

template <typename T> KERN_DEVICE T atomicAdd(T *p, std::common_type_t<T> v)
{
    static_assert(sizeof(T) == 4 && std::is_integral_v<T>, "32-bit integers only");
    return __atomic_fetch_add(p, v, __ATOMIC_ACQ_REL);
}

template <typename T> KERN_DEVICE T atomicExch(T *p, std::common_type_t<T> v)
{
    static_assert(sizeof(T) == 4 && std::is_integral_v<T>, "32-bit integers only");
    return __atomic_exchange_n(p, v, __ATOMIC_ACQ_REL);
}

template <typename T>
KERN_DEVICE T atomicCAS(T *p, std::common_type_t<T> expected, std::common_type_t<T> v)
{
    static_assert(sizeof(T) == 4 && std::is_integral_v<T>, "32-bit integers only");
    __atomic_compare_exchange_n(p, &expected, v, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    return expected;
}

template <typename T> KERN_DEVICE T atomicMax(T *p, std::common_type_t<T> v)
{
    static_assert(sizeof(T) == 4 && std::is_integral_v<T>, "32-bit integers only");
    T seen = __atomic_load_n(p, __ATOMIC_ACQUIRE);
    while (seen < v &&
           !__atomic_compare_exchange_n(p, &seen, v, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {}
    return seen;
}

KERN_DEVICE uint32_t kern_load_acquire_system(const uint32_t *p)
{
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

KERN_DEVICE uint64_t kern_load_acquire_system(const uint64_t *p)
{
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

KERN_DEVICE void kern_store_release_system(uint32_t *p, uint32_t v)
{
    __atomic_store_n(p, v, __ATOMIC_RELEASE);
}

KERN_DEVICE void kern_store_release_system(uint64_t *p, uint64_t v)
{
    __atomic_store_n(p, v, __ATOMIC_RELEASE);
}

// The first thread of a block copies all of it; the C library's copy is wider than a loop of packs.
KERN_DEVICE void kern_host_copy_block(void *to, const void *from, size_t bytes)
{
    if (threadIdx.x == 0) {
        __builtin_memcpy(to, from, bytes);
    }
}

KERN_DEVICE uint64_t kern_clock_ns(void)
{
    return kern_host_clock_ns();
}

KERN_DEVICE void kern_spin_begin(void)
{
    kern_host_spin_begin();
}

KERN_DEVICE void kern_spin_hint(void)
{
    kern_host_spin();
}

[[noreturn]] KERN_DEVICE void kern_trap(void)
{
    kern_host_trap();
}

KERN_DEVICE uint32_t kern_f32_bits(float f)
{
    uint32_t bits;
    __builtin_memcpy(&bits, &f, sizeof(bits));
    return bits;
}

KERN_DEVICE float kern_f32_of_bits(uint32_t bits)
{
    float f;
    __builtin_memcpy(&f, &bits, sizeof(f));
    return f;
}

// The parameter block of a kernel as CUDA lays it out: each parameter at its natural alignment.
template <typename... P> struct kern_host_layout {
    static constexpr uint32_t count = sizeof...(P);
    struct kern_host_param param[count ? count : 1] = {};

    constexpr kern_host_layout()
    {
        const uint32_t size[] = {(uint32_t)sizeof(P)..., 0};
        const uint32_t align[] = {(uint32_t)alignof(P)..., 1};
        uint32_t at = 0;
        for (uint32_t i = 0; i < count; i++) {
            at = (at + align[i] - 1) / align[i] * align[i];
            param[i] = {at, size[i]};
            at += size[i];
        }
    }
};

template <typename T> KERN_DEVICE T kern_host_arg(const void *bytes)
{
    static_assert(std::is_trivially_copyable_v<T>, "a kernel parameter is plain bytes");
    T value;
    __builtin_memcpy(&value, bytes, sizeof(value));
    return value;
}

template <auto Kernel> struct kern_host_kernel;

template <typename... P, void (*Kernel)(P...)> struct kern_host_kernel<Kernel> {
    static constexpr kern_host_layout<P...> layout{};

    static KERN_INLINE void thread(void *const *args)
    {
        thread_with(args, std::index_sequence_for<P...>());
    }

    static KERN_INLINE void blocks(const struct kern_host_grid *grid, uint64_t first,
                                   uint64_t count, void *const *args, bool one_thread)
    {
        blocks_with(grid, first, count, args, one_thread, std::index_sequence_for<P...>());
    }

  private:
    template <size_t... I>
    static KERN_INLINE void thread_with(void *const *args, std::index_sequence<I...>)
    {
        (void)args;
        Kernel(kern_host_arg<P>(args[I])...);
    }

    // The arguments are taken out once, so that loops over threads and elements can be one loop.
    template <size_t... I>
    static KERN_INLINE void blocks_with(const struct kern_host_grid *grid, uint64_t first,
                                        uint64_t count, void *const *args, bool one_thread,
                                        std::index_sequence<I...>)
    {
        (void)args;
        if (one_thread) {
            run_single(grid, first, count, kern_host_arg<P>(args[I])...);
        } else {
            run_each(grid, first, count, kern_host_arg<P>(args[I])...);
        }
    }

    static KERN_INLINE void run_single(const struct kern_host_grid *grid, uint64_t first,
                                       uint64_t count, P... p)
    {
        blockDim = {1, 1, 1};
        for (uint64_t block = first; block < first + count; block++) {
            kern_host_enter_block(grid, block);
            Kernel(p...);
        }
    }

    static KERN_INLINE void run_each(const struct kern_host_grid *grid, uint64_t first,
                                     uint64_t count, P... p)
    {
        const uint32_t xs = grid->block[0], ys = grid->block[1], zs = grid->block[2];
        for (uint64_t block = first; block < first + count; block++) {
            kern_host_enter_block(grid, block);
            for (uint32_t z = 0; z < zs; z++) {
                for (uint32_t y = 0; y < ys; y++) {
                    for (uint32_t x = 0; x < xs; x++) {
                        threadIdx = {x, y, z};
                        Kernel(p...);
                    }
                }
            }
        }
    }
};

#define KERN_HOST_BLOCKS(name, one_thread, static_bytes)                                           \
    KERN_CLONES static void name##_blocks(const struct kern_host_grid *grid, uint64_t first,       \
                                          uint64_t count, void *const *args)                       \
    {                                                                                              \
        kern_host_kernel<name>::blocks(grid, first, count, args, one_thread);                      \
    }                                                                                              \
    KERN_HOST_ENTRY(name, name##_blocks, nullptr, static_bytes)

#define KERN_HOST_FIBERS(name, static_bytes)                                                       \
    KERN_CLONES static void name##_thread(void *const *args)                                       \
    {                                                                                              \
        kern_host_kernel<name>::thread(args);                                                      \
    }                                                                                              \
    KERN_HOST_ENTRY(name, nullptr, name##_thread, static_bytes)

#define KERN_HOST_ENTRY(name, blocks, thread, static_bytes)                                        \
    static int name##_run(const struct kern_host_grid *grid, uint64_t first, uint64_t count,       \
                          void *const *args)                                                       \
    {                                                                                              \
        const struct kern_host_body body = {blocks, thread, static_bytes};                         \
        return kern_host_launch(&body, grid, first, count, args);                                  \
    }                                                                                              \
    static constexpr struct kern_host_entry name##_entry = {                                       \
        #name, name##_run, kern_host_kernel<name>::layout.param,                                   \
        kern_host_kernel<name>::layout.count, static_bytes};

#define KERN_RANGE_KERNEL(name) KERN_HOST_BLOCKS(name, true, 0)
#define KERN_RANGE_KERNEL_SHARED(name, type) KERN_HOST_BLOCKS(name, true, sizeof(type))
#define KERN_LOOP_KERNEL(name) KERN_HOST_BLOCKS(name, false, 0)
#define KERN_FIBER_KERNEL(name) KERN_HOST_FIBERS(name, 0)
#define KERN_FIBER_KERNEL_SHARED(name, type) KERN_HOST_FIBERS(name, sizeof(type))

#define KERN_ENTRY(name) name##_entry
#define KERN_MODULE(...)                                                                           \
    static constexpr struct kern_host_entry kern_host_entries[] = {__VA_ARGS__};                   \
    extern "C" __attribute__((visibility("default")))                                              \
    const struct kern_host_module kern_host_module;                                                \
    const struct kern_host_module kern_host_module = {                                             \
        KERN_HOST_MODULE_ABI, sizeof(kern_host_entries) / sizeof(kern_host_entries[0]),            \
        kern_host_entries};

#endif
