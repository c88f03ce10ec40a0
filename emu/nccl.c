// SPDX-License-Identifier: Apache-2.0
//
// NCCL's functions that concern no communicator: version, errors and groups.
#include "emu/nccl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static _Thread_local char last_error[256];

ncclResult_t emu_nccl_fail(ncclResult_t result, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    return result;
}

const char *emu_nccl_last_error(void)
{
    return last_error;
}

ncclResult_t emu_nccl_enter(const char *function, unsigned flags)
{
    CUresult ready = emu_ready(flags);
    if (ready != CUDA_SUCCESS) {
        return emu_nccl_fail(ncclUnhandledCudaError, "%s: CUDA error %d", function, (int)ready);
    }
    ncclResult_t fault = (ncclResult_t)emu_fault_next(function);
    return fault == ncclSuccess ? ncclSuccess
                                : emu_nccl_fail(fault, "%s: as KERN_EMU_FAIL asks", function);
}

ncclResult_t ncclGetVersion(int *version)
{
    if (version == NULL) {
        return emu_nccl_fail(ncclInvalidArgument, "ncclGetVersion: the argument is NULL");
    }
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    switch (result) {
    case ncclSuccess:
        return "no error";
    case ncclUnhandledCudaError:
        return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
        return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
        return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
        return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
        return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
        return "remote process exited or there was a network error";
    case ncclInProgress:
        return "NCCL operation in progress";
    default:
        return "unknown result code";
    }
}

// ---------------------------------------------------------------------------------------------
// Groups. Communicators of a group start side by side, and its collectives are issued, in their
// order, when it ends.

struct pending {
    struct emu_nccl_comm *comm;
    bool starts; // else [op] is to be submitted to [stream]
    struct emu_nccl_op op;
    CUstream stream;
};

static _Thread_local struct group {
    int depth;
    ncclResult_t error; // the first in the group
    struct pending *pending;
    size_t n, room;
} group;

bool emu_nccl_in_group(void)
{
    return group.depth > 0;
}

ncclResult_t emu_nccl_group_error(ncclResult_t result)
{
    if (group.depth > 0 && group.error == ncclSuccess) {
        group.error = result;
    }
    return result;
}

static ncclResult_t append(struct pending pending)
{
    if (group.n == group.room) {
        size_t room = group.room == 0 ? 16 : group.room * 2;
        struct pending *more = realloc(group.pending, room * sizeof *more);
        if (more == NULL) {
            return emu_nccl_fail(ncclSystemError, "no memory for a group of %zu calls", room);
        }
        group.pending = more;
        group.room = room;
    }
    group.pending[group.n++] = pending;
    return ncclSuccess;
}

ncclResult_t emu_nccl_group_start(struct emu_nccl_comm *comm)
{
    return append((struct pending){.comm = comm, .starts = true});
}

ncclResult_t emu_nccl_group_submit(struct emu_nccl_comm *comm, const struct emu_nccl_op *op,
                                   CUstream stream)
{
    return append((struct pending){.comm = comm, .op = *op, .stream = stream});
}

ncclResult_t ncclGroupStart(void)
{
    EMU_NCCL_ENTER(EMU_PLAIN);
    group.depth++;
    return ncclSuccess;
}

// A start without blocking is in progress when the group ends.
static ncclResult_t finish(const struct pending *pending)
{
    if (!pending->starts) {
        return emu_nccl_submit(pending->comm, &pending->op, pending->stream);
    }
    return pending->comm->blocking ? emu_nccl_started(pending->comm) : ncclInProgress;
}

ncclResult_t ncclGroupEnd(void)
{
    EMU_NCCL_ENTER(EMU_PLAIN);
    if (group.depth == 0) {
        return emu_nccl_fail(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
    }
    if (--group.depth > 0) {
        return ncclSuccess;
    }
    struct group ended = group;
    group = (struct group){0};
    ncclResult_t result = ended.error;
    for (size_t i = 0; i < ended.n; i++) {
        // After an error no collective is issued; starts are waited for all the same.
        bool sound = result == ncclSuccess || result == ncclInProgress;
        ncclResult_t one =
            sound || ended.pending[i].starts ? finish(&ended.pending[i]) : ncclSuccess;
        if (sound && one != ncclSuccess) {
            result = one;
        }
    }
    free(ended.pending);
    return result;
}
