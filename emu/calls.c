// SPDX-License-Identifier: Apache-2.0
//
// What a process asked of the device, for those who want to know what a driver must be able to do,
// or what a test has to let fail:
//
//     KERN_EMU_CALLS=FILE     when the process ends, lines "RANK FUNCTION CALLS" are added to FILE
//
// one for each function that was called, in the order of the headers. Calls that are refused at
// their entry are not counted, nor is a process that is killed or leaves by _exit.
#include "device/abi/cublas_functions.h"
#include "device/abi/cublaslt_functions.h"
#include "device/abi/nccl_functions.h"
#include "emu/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct count {
    const char *function;
    atomic_ullong calls;
};

#define CUDA_ROW(name, symbol, params) {.function = #name},
#define LIBRARY_ROW(returned, name, symbol, params) {.function = #name},
static struct count counts[] = {KERN_CUDA_FUNCTIONS(CUDA_ROW) KERN_CUBLAS_FUNCTIONS(
    LIBRARY_ROW) KERN_CUBLASLT_FUNCTIONS(LIBRARY_ROW) KERN_NCCL_FUNCTIONS(LIBRARY_ROW)};
enum { N_COUNTS = sizeof counts / sizeof counts[0] };

static char *file;

void emu_calls_read(void)
{
    const char *value = getenv("KERN_EMU_CALLS");
    if (value != NULL && value[0] != '\0' && file == NULL) {
        file = strdup(value);
    }
}

void emu_calls_count(const char *function)
{
    for (size_t i = 0; file != NULL && i < N_COUNTS; i++) {
        if (strcmp(counts[i].function, function) == 0) {
            atomic_fetch_add(&counts[i].calls, 1);
            return;
        }
    }
}

// All lines in one write, so that those of other processes do not come between.
__attribute__((destructor)) static void write_counts(void)
{
    char *text = NULL;
    size_t length = 0;
    FILE *lines = file != NULL ? open_memstream(&text, &length) : NULL;
    if (lines == NULL) {
        return;
    }
    for (size_t i = 0; i < N_COUNTS; i++) {
        if (counts[i].calls > 0) {
            fprintf(lines, "%ld %s %llu\n", emu_own_rank(), counts[i].function, counts[i].calls);
        }
    }
    fclose(lines);
    int fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0 || write(fd, text, length) != (ssize_t)length) {
        emu_log("KERN_EMU_CALLS=%s: %s", file, strerror(errno));
    }
    if (fd >= 0) {
        close(fd);
    }
    free(text);
    free(file);
}
