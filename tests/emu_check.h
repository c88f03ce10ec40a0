// SPDX-License-Identifier: Apache-2.0
//
// Tests of the emulated GPU. The environment is read by the first cuInit of a process, and a
// process whose device failed stays so: so each test body runs in a child of its own, which ends
// at its first failed check; cmocka's assertions stay in the parent.
#ifndef KERN_TESTS_EMU_CHECK_H
#define KERN_TESTS_EMU_CHECK_H

#include "emu/api.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// After the headers that it needs and does not include itself.
#include <cmocka.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

// The call must answer CUDA_##wanted: EXPECT(ERROR_INVALID_VALUE, cuMemFree(0)).
#define EXPECT(wanted, call) emu_expect((call), CUDA_##wanted, #call, __FILE__, __LINE__)
#define OK(call) EXPECT(SUCCESS, call)

static inline const char *emu_error_name(CUresult result)
{
    const char *name;
    return cuGetErrorName(result, &name) == CUDA_SUCCESS ? name : "no error code";
}

static inline void emu_expect(CUresult got, CUresult wanted, const char *call, const char *file,
                              int line)
{
    if (got != wanted) {
        fprintf(stderr, "%s:%d: %s: %s instead of %s\n", file, line, call, emu_error_name(got),
                emu_error_name(wanted));
        _exit(1);
    }
}

// Runs [body] in a child with [environment] ("NAME=value", ended by NULL, or NULL for none) added.
// Returns the child's wait status.
static inline int emu_child_status(void (*body)(void), char *const *environment)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        for (; environment != NULL && *environment != NULL; environment++) {
            if (putenv(*environment) != 0) {
                _exit(2);
            }
        }
        body();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

#define EMU_CHILD(body, ...)                                                                       \
    assert_int_equal(emu_child_status((body), (char *[]){__VA_ARGS__ __VA_OPT__(, ) NULL}), 0)

// A cmocka test NAME whose body runs in a child with the default environment.
#define EMU_TEST(name)                                                                             \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        EMU_CHILD(in_##name);                                                                      \
    }

// cuInit, and the primary context of device 0 current.
static inline CUcontext emu_begin(void)
{
    CUcontext context;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    return context;
}

static inline struct kern_emu_stats emu_stats(void)
{
    struct kern_emu_stats stats;
    CHECK(kern_emu_stats(0, &stats) == 0);
    return stats;
}

#endif
