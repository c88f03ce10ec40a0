// SPDX-License-Identifier: Apache-2.0
//
// The kernel artifact of the rank's tests: a host half, written by hand, whose kernels show what
// they were launched with.
#include "device/abi/host_module.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#define ARG(type, i) (*(type *)args[i])
#define KERNEL(name)                                                                               \
    static int name(const struct kern_host_grid *grid __attribute__((unused)),                     \
                    uint64_t first __attribute__((unused)),                                        \
                    uint64_t count __attribute__((unused)), void *const *args)

// y[i] = x[i] + a for i < n
KERNEL(add)
{
    const int32_t *x = ARG(const int32_t *, 0);
    int32_t *y = ARG(int32_t *, 1);
    for (int32_t i = 0; i < ARG(int32_t, 3); i++) {
        y[i] = x[i] + ARG(int32_t, 2);
    }
    return 0;
}

// *counter += step
KERNEL(count_up)
{
    *ARG(int32_t *, 0) += ARG(int32_t, 1);
    return 0;
}

// out = the image
KERNEL(dump)
{
    memcpy(ARG(void *, 1), args[0], 256);
    return 0;
}

// Parameters of every scalar type, as they arrive.
KERNEL(scalars)
{
    uint8_t *out = ARG(uint8_t *, 0);
    memcpy(out, args[1], 1);
    memcpy(out + 8, args[2], 8);
    memcpy(out + 16, args[3], 4);
    memcpy(out + 20, args[4], 4);
    return 0;
}

// The launch itself: grid, block, cluster, dynamic shared memory.
KERNEL(geometry)
{
    memcpy(ARG(void *, 0), grid, sizeof(*grid));
    return 0;
}

// Returns when *flag is not 0, or traps after twenty seconds.
KERNEL(wait_flag)
{
    const _Atomic int32_t *flag = ARG(const _Atomic int32_t *, 0);
    for (int i = 0; i < 200000; i++) {
        if (atomic_load(flag) != 0) {
            return 0;
        }
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    return 1;
}

KERNEL(trap)
{
    (void)args;
    return 1;
}

// out[i] = the first word at peers[i], for i < n; then out[me] is added to each peer's word 1.
KERNEL(greet)
{
    const uint64_t *peers = ARG(const uint64_t *, 0);
    int32_t *out = ARG(int32_t *, 1);
    int32_t n = ARG(int32_t, 2), me = ARG(int32_t, 3);
    for (int32_t i = 0; i < n; i++) {
        int32_t *word = (int32_t *)(uintptr_t)peers[i];
        out[i] = word[0];
        word[1] += 1 << me;
    }
    return 0;
}

static const struct kern_host_param of_add[] = {{0, 8}, {8, 8}, {16, 4}, {20, 4}};
static const struct kern_host_param of_count_up[] = {{0, 8}, {8, 4}};
static const struct kern_host_param of_dump[] = {{0, 256}, {256, 8}};
static const struct kern_host_param of_scalars[] = {{0, 8}, {8, 1}, {16, 8}, {24, 4}, {28, 4}};
static const struct kern_host_param of_pointer[] = {{0, 8}};
static const struct kern_host_param of_greet[] = {{0, 8}, {8, 8}, {16, 4}, {20, 4}};

#define PARAMS(array) array, sizeof(array) / sizeof *(array)

static const struct kern_host_entry entries[] = {
    {"add", add, PARAMS(of_add), 0},
    {"count_up", count_up, PARAMS(of_count_up), 0},
    {"dump", dump, PARAMS(of_dump), 0},
    {"scalars", scalars, PARAMS(of_scalars), 0},
    {"geometry", geometry, PARAMS(of_pointer), 1024},
    {"wait_flag", wait_flag, PARAMS(of_pointer), 0},
    {"trap", trap, PARAMS(of_pointer), 0},
    {"greet", greet, PARAMS(of_greet), 0},
};

__attribute__((visibility("default"))) const struct kern_host_module kern_host_module = {
    KERN_HOST_MODULE_ABI, sizeof entries / sizeof *entries, entries};
