// SPDX-License-Identifier: Apache-2.0
//
// A driver in the test's own process, for tests of what a rank does with memory: its granule is a
// few bytes, so that thousands of remaps are quick, its addresses are numbers that mean nothing to
// the processor, and every rule that a caller breaks is counted. Work is done at once, but is
// "running" until the stream is waited for.
#ifndef KERN_TESTS_TINY_DRIVER_H
#define KERN_TESTS_TINY_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/device.h"

enum tiny_function {
    TINY_CREATE,
    TINY_RESERVE,
    TINY_MAP,
    TINY_SET_ACCESS,
    TINY_UNMAP,
    TINY_MEMSET,
    TINY_COPY,
    TINY_SYNCHRONIZE,
    TINY_SET_CURRENT,
    TINY_FUNCTIONS,
};

struct tiny_counts {
    size_t handles, reservations, mappings, others; // live; others: allocations, streams, events
    size_t broken;                                  // rules
};

// A device over the tiny driver, with granule [granule]; forgets everything of an earlier one.
struct kern_device tiny_device(size_t granule);

struct tiny_counts tiny_counts(void);

// The [nth] call (from 1) of [function] from now on fails, and only that one; nth 0: none does.
// Returns whether the failure asked for before was met.
bool tiny_fail(enum tiny_function function, unsigned nth);
const char *tiny_function_name(enum tiny_function function);

// Reads or writes mapped memory as a kernel would: work on the stream, never refused. False if not
// all of it can be accessed.
bool tiny_read(CUdeviceptr address, void *bytes, size_t length);
bool tiny_write(CUdeviceptr address, const void *bytes, size_t length);

#endif
