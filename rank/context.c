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

bool rank_items_open(struct kern_rank *rank, struct kern_diag *diag)
{
    const char *what = "making the events of a step";
    for (uint32_t i = 0; i < rank->most_in_flight; i++) {
        struct rank_item *item = &rank->items[i];
        if (!KERN_CU(rank->device, diag, what, cuEventCreate, &item->start, CU_EVENT_DEFAULT) ||
            !KERN_CU(rank->device, diag, what, cuEventCreate, &item->end, CU_EVENT_DEFAULT) ||
            !KERN_CU(rank->device, diag, what, cuEventCreate, &item->done,
                     CU_EVENT_DISABLE_TIMING)) {
            return false;
        }
    }
    return true;
}

void rank_items_close(struct kern_rank *rank)
{
    for (uint32_t i = 0; i < rank->most_in_flight; i++) {
        struct rank_item *item = &rank->items[i];
        CUevent events[] = {item->start, item->end, item->done};
        for (size_t e = 0; e < sizeof(events) / sizeof(*events); e++) {
            if (events[e] != NULL) {
                rank->device->cu.cuEventDestroy(events[e]);
            }
        }
        *item = (struct rank_item){0};
    }
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
        !rank_items_open(rank, diag)) {
        rank_context_close(rank);
        return false;
    }
    return true;
}

void rank_context_close(struct kern_rank *rank)
{
    const struct kern_cuda *cu = &rank->device->cu;
    rank_items_close(rank);
    if (rank->stream != NULL) {
        cu->cuStreamDestroy(rank->stream);
    }
    if (rank->context != NULL) {
        cu->cuDevicePrimaryCtxRelease(rank->cu_device);
    }
    rank->stream = NULL;
    rank->context = NULL;
}
