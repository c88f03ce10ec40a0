// SPDX-License-Identifier: Apache-2.0
#include "rank/internal.h"

#include <stdarg.h>
#include <stdio.h>

const char *rank_print(char text[RANK_WHAT], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, RANK_WHAT, format, arguments);
    va_end(arguments);
    return text;
}

bool rank_enter(const struct kern_rank *rank, struct kern_diag *diag)
{
    return KERN_CU(rank->device, diag, "entering the rank's context", cuCtxSetCurrent,
                   rank->context);
}

bool rank_synchronize(const struct kern_rank *rank, const char *what, struct kern_diag *diag)
{
    return KERN_CU(rank->device, diag, what, cuStreamSynchronize, rank->stream);
}

bool rank_context_open(struct kern_rank *rank, struct kern_diag *diag)
{
    const struct kern_device *device = rank->device;
    char what[RANK_WHAT];
    rank_print(what, "taking the context of device %d", rank->ordinal);
    if (!KERN_CU(device, diag, what, cuDeviceGet, &rank->cu_device, rank->ordinal)) {
        return false;
    }
    CUcontext context = NULL;
    if (!KERN_CU(device, diag, what, cuDevicePrimaryCtxRetain, &context, rank->cu_device)) {
        return false;
    }
    rank->context = context;
    // The legacy stream cannot be captured and waits for every other one, so it is never used.
    if (!rank_enter(rank, diag) ||
        !KERN_CU(device, diag, "making the compute stream", cuStreamCreate, &rank->stream,
                 CU_STREAM_NON_BLOCKING) ||
        !KERN_CU(device, diag, "making the events of a step", cuEventCreate, &rank->start,
                 CU_EVENT_DEFAULT) ||
        !KERN_CU(device, diag, "making the events of a step", cuEventCreate, &rank->end,
                 CU_EVENT_DEFAULT)) {
        rank_context_close(rank);
        return false;
    }
    return true;
}

void rank_context_close(struct kern_rank *rank)
{
    const struct kern_cuda *cu = &rank->device->cu;
    if (rank->end != NULL) {
        cu->cuEventDestroy(rank->end);
    }
    if (rank->start != NULL) {
        cu->cuEventDestroy(rank->start);
    }
    if (rank->stream != NULL) {
        cu->cuStreamDestroy(rank->stream);
    }
    if (rank->context != NULL) {
        cu->cuDevicePrimaryCtxRelease(rank->cu_device);
    }
    rank->end = rank->start = NULL;
    rank->stream = NULL;
    rank->context = NULL;
}
