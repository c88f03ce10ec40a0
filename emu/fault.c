// SPDX-License-Identifier: Apache-2.0
//
// Faults on demand, for tests of what a program does when the device fails:
//
//     KERN_EMU_FAIL=cuMemCreate:3                          the third call fails
//     KERN_EMU_FAIL=cuMemCreate:3:CUDA_ERROR_NOT_PERMITTED with this error, by name or number
//     KERN_EMU_FAIL=cuMemCreate:*                          every call fails
//     KERN_EMU_FAIL=cuMemCreate:3@2                        only in the process of rank 2
//     KERN_EMU_FAIL=cuMemCreate:3:kill@2                   the process is killed by SIGKILL in it
//     KERN_EMU_DELAY=cuLaunchKernelEx:500us                every call first waits
//
// Both take a list with commas between. A function may have its plain or its exported name, and may
// be one of cuBLAS, cuBLASLt or NCCL; its errors are those of its library. The default error is
// CUDA_ERROR_UNKNOWN, CUBLAS_STATUS_INTERNAL_ERROR or ncclInternalError. In its place may stand
// what becomes of the process: kill (SIGKILL), stop (SIGSTOP), abort, or exit with code 70. Calls
// are counted per process, over all threads, and only those that nothing else refuses at their
// entry.
#include "device/abi/cublas_functions.h"
#include "device/abi/cublaslt_functions.h"
#include "device/abi/nccl_functions.h"
#include "emu/internal.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

enum { MAX_FAULTS = 64 };

static const char FAIL_SYNTAX[] = "FUNCTION:COUNT[:ERROR][@RANK], COUNT a number from 1 or *, "
                                  "ERROR also kill, stop, abort or exit";
static const char DELAY_SYNTAX[] = "FUNCTION:TIME[@RANK], TIME as in 500us, 20ms or 1s";

struct fault {
    const char *function;
    bool is_delay;
    struct timespec delay;
    uint64_t nth; // which call fails; 0: every one
    int error;
    void (*end)(void); // what becomes of the process, rather than an error; NULL: nothing
    atomic_ullong calls;
};

static struct fault faults[MAX_FAULTS];
static size_t n_faults;

enum library { LIBRARY_CUDA, LIBRARY_CUBLAS, LIBRARY_NCCL };

struct function {
    const char *name;
    const char *symbol;
    enum library library;
};

#define CUDA_ROW(name, symbol, params) {#name, symbol, LIBRARY_CUDA},
#define CUBLAS_ROW(returned, name, symbol, params) {#name, symbol, LIBRARY_CUBLAS},
#define NCCL_ROW(returned, name, symbol, params) {#name, symbol, LIBRARY_NCCL},
static const struct function functions[] = {KERN_CUDA_FUNCTIONS(CUDA_ROW) KERN_CUBLAS_FUNCTIONS(
    CUBLAS_ROW) KERN_CUBLASLT_FUNCTIONS(CUBLAS_ROW) KERN_NCCL_FUNCTIONS(NCCL_ROW)};

struct status {
    const char *name;
    int value;
};

#define STATUS_ROW(name, value) {#name, value},
static const struct status cublas_statuses[] = {KERN_CUBLAS_STATUSES(STATUS_ROW){NULL, 0}};
static const struct status nccl_results[] = {KERN_NCCL_RESULTS(STATUS_ROW){NULL, 0}};

// The function of that plain or exported name, or NULL.
static const struct function *find_function(const char *given)
{
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (strcmp(given, functions[i].name) == 0 || strcmp(given, functions[i].symbol) == 0) {
            return &functions[i];
        }
    }
    return NULL;
}

// The error called [text], by name or number, other than success. False if there is none.
static bool find_status(const struct status *statuses, const char *text, int *error)
{
    char *end;
    long number = strtol(text, &end, 10);
    bool numeric = end != text && *end == '\0';
    for (; statuses->name != NULL; statuses++) {
        if (numeric ? statuses->value == number : strcmp(statuses->name, text) == 0) {
            *error = statuses->value;
            return *error != 0;
        }
    }
    return false;
}

static void end_by_kill(void)
{
    raise(SIGKILL);
}

static void end_by_stop(void)
{
    raise(SIGSTOP);
}

static void end_by_exit(void)
{
    exit(EX_SOFTWARE);
}

// What becomes of the process by the word [text], or NULL if it is none of these.
static void (*find_end(const char *text))(void)
{
    static const struct {
        const char *word;
        void (*end)(void);
    } ends[] = {
        {"kill", end_by_kill}, {"stop", end_by_stop}, {"abort", abort}, {"exit", end_by_exit}};
    for (size_t i = 0; text != NULL && i < sizeof ends / sizeof ends[0]; i++) {
        if (strcmp(ends[i].word, text) == 0) {
            return ends[i].end;
        }
    }
    return NULL;
}

// Sets [*error] to what [text] says, or to the library's default if it is NULL.
static bool parse_error(enum library library, const char *text, int *error)
{
    CUresult result = CUDA_ERROR_UNKNOWN;
    switch (library) {
    case LIBRARY_CUBLAS:
        *error = CUBLAS_STATUS_INTERNAL_ERROR;
        return text == NULL || find_status(cublas_statuses, text, error);
    case LIBRARY_NCCL:
        *error = ncclInternalError;
        return text == NULL || find_status(nccl_results, text, error);
    default:
        if (text != NULL && !emu_error_parse(text, &result)) {
            return false;
        }
        *error = (int)result;
        return true;
    }
}

// Cuts "@RANK" off the end of [item]. False if it is malformed.
static bool cut_rank(char *item, bool *applies)
{
    char *at = strrchr(item, '@');
    *applies = true;
    if (at == NULL) {
        return true;
    }
    *at = '\0';
    char *end;
    long rank = strtol(at + 1, &end, 10);
    *applies = rank == emu_own_rank();
    return isdigit((unsigned char)at[1]) && *end == '\0';
}

static bool parse_count(const char *text, uint64_t *nth)
{
    if (text != NULL && strcmp(text, "*") == 0) {
        *nth = 0;
        return true;
    }
    if (text == NULL || !isdigit((unsigned char)text[0])) {
        return false;
    }
    errno = 0;
    char *end;
    *nth = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0' && *nth > 0;
}

static bool parse_time(const char *text, struct timespec *delay)
{
    static const struct {
        const char *unit;
        uint64_t ns;
    } units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};

    if (text == NULL || !isdigit((unsigned char)text[0])) {
        return false;
    }
    errno = 0;
    char *end;
    uint64_t ns = strtoull(text, &end, 10);
    for (size_t i = 0; errno == 0 && i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(end, units[i].unit) == 0) {
            if (__builtin_mul_overflow(ns, units[i].ns, &ns)) {
                return false;
            }
            delay->tv_sec = (time_t)(ns / 1000000000);
            delay->tv_nsec = (long)(ns % 1000000000);
            return true;
        }
    }
    return false;
}

// One item of a list. [fault] is filled; [applies] says whether it is meant for this process.
static bool parse_item(char *item, bool is_delay, struct fault *fault, bool *applies)
{
    if (!cut_rank(item, applies)) {
        return false;
    }
    char *rest = item;
    const struct function *function = find_function(strsep(&rest, ":"));
    const char *what = strsep(&rest, ":");
    if (function == NULL) {
        return false;
    }
    fault->function = function->name;
    fault->is_delay = is_delay;
    if (is_delay) {
        return parse_time(what, &fault->delay) && rest == NULL;
    }
    fault->end = find_end(rest);
    return parse_count(what, &fault->nth) &&
           (fault->end != NULL || parse_error(function->library, rest, &fault->error));
}

static bool read_list(const char *variable, bool is_delay, const char *syntax)
{
    const char *value = getenv(variable);
    if (value == NULL || value[0] == '\0') {
        return true;
    }
    char *list = strdup(value);
    bool ok = list != NULL;
    char *rest = list;
    for (char *item; ok && (item = strsep(&rest, ",")) != NULL;) {
        struct fault *fault = &faults[n_faults];
        bool applies;
        if (n_faults == MAX_FAULTS) {
            ok = false;
            break;
        }
        memset(fault, 0, sizeof *fault);
        ok = parse_item(item, is_delay, fault, &applies);
        n_faults += ok && applies;
    }
    free(list);
    return ok || emu_config_refuse(variable, value, syntax);
}

bool emu_fault_read(void)
{
    n_faults = 0;
    return read_list("KERN_EMU_FAIL", false, FAIL_SYNTAX) &&
           read_list("KERN_EMU_DELAY", true, DELAY_SYNTAX);
}

int emu_fault_next(const char *function)
{
    int result = 0;
    emu_calls_count(function);
    for (size_t i = 0; i < n_faults; i++) {
        struct fault *fault = &faults[i];
        if (strcmp(fault->function, function) != 0) {
            continue;
        }
        uint64_t call = atomic_fetch_add(&fault->calls, 1) + 1;
        if (fault->is_delay) {
            nanosleep(&fault->delay, NULL);
        } else if ((fault->nth == 0 || fault->nth == call) && fault->end != NULL) {
            fault->end();
        } else if (fault->nth == 0 || fault->nth == call) {
            result = fault->error;
        }
    }
    return result;
}
