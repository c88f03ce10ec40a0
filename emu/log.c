// SPDX-License-Identifier: Apache-2.0
//
// What the driver's error codes cannot say goes to stderr: with the rank, since many processes of a
// job write there, and once where they would all write the same.
#include "emu/internal.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

long emu_own_rank(void)
{
    static const char *const variables[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *text = getenv(variables[i]);
        if (text != NULL && isdigit((unsigned char)text[0])) {
            return strtol(text, NULL, 10);
        }
    }
    return -1;
}

// One write for the line, so that those of several processes do not mix.
static void print(long rank, const char *format, va_list arguments)
{
    char text[512], prefix[32] = "";
    vsnprintf(text, sizeof text, format, arguments);
    if (rank >= 0) {
        snprintf(prefix, sizeof prefix, "rank %ld: ", rank);
    }
    fprintf(stderr, "kern-emu: %s%s\n", prefix, text);
}

void emu_log(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print(emu_own_rank(), format, arguments);
    va_end(arguments);
}

void emu_log_once(const char *format, ...)
{
    va_list arguments;
    if (emu_own_rank() > 0) {
        return;
    }
    va_start(arguments, format);
    print(-1, format, arguments);
    va_end(arguments);
}
