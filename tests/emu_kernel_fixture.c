// SPDX-License-Identifier: Apache-2.0
//
// A small kernel artifact for the tests of emu: a host half, written by hand.
#include "tests/emu_kernel_fixture.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#define ARG(type, i) (*(type *)args[i])
#define UNUSED_LAUNCH (void)grid, (void)first, (void)count, (void)args
// For kernels whose fault is the point: a sanitizer shall not speak first.
#define FAULTS __attribute__((no_sanitize("undefined", "address")))
#define KERNEL(name)                                                                               \
    static int name(const struct kern_host_grid *grid, uint64_t first, uint64_t count,             \
                    void *const *args)

// to[i] += value, for i < n
KERNEL(add)
{
    UNUSED_LAUNCH;
    int32_t *to = ARG(int32_t *, 0);
    for (int32_t i = 0; i < ARG(int32_t, 1); i++) {
        to[i] += ARG(int32_t, 2);
    }
    return 0;
}

// Returns when *flag is not 0, or traps after ten seconds.
KERNEL(spin)
{
    UNUSED_LAUNCH;
    const _Atomic uint32_t *flag = ARG(const _Atomic uint32_t *, 0);
    for (int i = 0; i < 100000; i++) {
        if (atomic_load(flag) != 0) {
            return 0;
        }
        struct timespec pause = {0, 100000};
        nanosleep(&pause, NULL);
    }
    return 1;
}

// *flag = value
KERNEL(raise_flag)
{
    UNUSED_LAUNCH;
    atomic_store(ARG(_Atomic uint32_t *, 0), ARG(uint32_t, 1));
    return 0;
}

// log[++log[0]] = id
KERNEL(append)
{
    UNUSED_LAUNCH;
    uint32_t *log = ARG(uint32_t *, 0);
    log[++log[0]] = ARG(uint32_t, 1);
    return 0;
}

// Everything that a launch says, for the test to look at.
KERNEL(report)
{
    struct fixture_report *to = ARG(struct fixture_report *, 0);
    *to = (struct fixture_report){.grid = *grid,
                                  .first = first,
                                  .count = count,
                                  .byte = ARG(uint8_t, 1),
                                  .wide = ARG(uint64_t, 2),
                                  .pack_aligned = (uintptr_t)args[3] % 64 == 0};
    memcpy(to->pack, args[3], sizeof to->pack);
    return 0;
}

// How often this instance of the module was asked.
KERNEL(instance_count)
{
    UNUSED_LAUNCH;
    static uint32_t calls;
    *ARG(uint32_t *, 0) = ++calls;
    return 0;
}

KERNEL(trap)
{
    UNUSED_LAUNCH;
    return 1;
}

// Writes where it is told.
FAULTS KERNEL(poke)
{
    UNUSED_LAUNCH;
    *ARG(volatile uint32_t *, 0) = 1;
    return 0;
}

// *at /= *at, by an instruction: of a constant numerator the compiler would make comparisons.
FAULTS KERNEL(divide)
{
    UNUSED_LAUNCH;
    volatile int32_t *at = ARG(volatile int32_t *, 0);
    int32_t divisor = *at;
    *at = *at / divisor;
    return 0;
}

KERNEL(nothing)
{
    UNUSED_LAUNCH;
    return 0;
}

static const struct kern_host_param pointer[] = {{0, 8}};
static const struct kern_host_param pointer_and_word[] = {{0, 8}, {8, 4}};
static const struct kern_host_param of_add[] = {{0, 8}, {8, 4}, {12, 4}};
static const struct kern_host_param of_report[] = {{0, 8}, {8, 1}, {16, 8}, {64, 128}};

#define PARAMS(array) array, sizeof(array) / sizeof *(array)

static const struct kern_host_entry entries[] = {
    {"add", add, PARAMS(of_add), 0},
    {"spin", spin, PARAMS(pointer), 0},
    {"raise_flag", raise_flag, PARAMS(pointer_and_word), 0},
    {"append", append, PARAMS(pointer_and_word), 0},
    {"report", report, PARAMS(of_report), 1024},
    {"instance_count", instance_count, PARAMS(pointer), 0},
    {"trap", trap, NULL, 0, 0},
    {"poke", poke, PARAMS(pointer), 0},
    {"divide", divide, PARAMS(pointer), 0},
    {"nothing", nothing, NULL, 0, 0},
};

__attribute__((visibility("default"))) const struct kern_host_module kern_host_module = {
    KERN_HOST_MODULE_ABI, sizeof entries / sizeof *entries, entries};
