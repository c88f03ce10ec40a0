// SPDX-License-Identifier: Apache-2.0
//
// The one door for work: it goes to the stream's worker, or, while the stream is being captured,
// into the graph.
#include "emu/work.h"

#include <string.h>

static CUresult begin(struct emu_submission *submission, struct emu_stream *stream,
                      enum emu_work_kind kind, size_t payload)
{
    submission->stream = stream;
    submission->node = NULL;
    CUresult result = CUDA_SUCCESS;
    if (atomic_load(&stream->capture) != NULL) {
        result = kind == EMU_WORK_GRAPH ? emu_capture_refuse(stream) // no graphs in graphs
                                        : emu_capture_begin_node(submission, payload);
    }
    if (result == CUDA_SUCCESS && submission->node == NULL) {
        result = kind == EMU_WORK_AWAIT ? CUDA_ERROR_INVALID_VALUE
                                        : emu_queue_begin(submission, payload);
    }
    if (result == CUDA_SUCCESS) {
        submission->work->kind = (uint16_t)kind;
        submission->work->ticks = 1;
    }
    return result;
}

CUresult emu_submit_begin(struct emu_submission *submission, struct emu_stream *stream,
                          enum emu_work_kind kind, size_t payload)
{
    if (payload > EMU_MAX_PAYLOAD) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = (CUresult)atomic_load(&stream->handle.context->sticky);
    if (result == CUDA_SUCCESS && atomic_load(&stream->capture) == NULL) {
        result = emu_stream_order_legacy(stream);
    }
    return result == CUDA_SUCCESS ? begin(submission, stream, kind, payload) : result;
}

void emu_submit_commit(struct emu_submission *submission)
{
    if (submission->node != NULL) {
        emu_capture_commit_node(submission);
    } else {
        emu_queue_commit(submission);
    }
}

CUresult emu_submit_wait(struct emu_stream *stream, struct emu_fence fence)
{
    if (fence.stream == stream || emu_fence_reached(fence)) {
        return CUDA_SUCCESS;
    }
    struct emu_submission submission = {.stream = stream};
    CUresult result = emu_queue_begin(&submission, 0);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    emu_handle_ref(fence.stream);
    submission.work->kind = EMU_WORK_WAIT;
    submission.work->ticks = 1;
    submission.work->wait = fence;
    emu_queue_commit(&submission);
    return CUDA_SUCCESS;
}

CUresult emu_submit_call(CUstream handle, const char *name, emu_call *run, const void *arguments,
                         size_t bytes)
{
    CUresult result;
    struct emu_stream *stream = emu_stream_get(handle, &result);
    if (stream == NULL) {
        return result;
    }
    struct emu_submission submission;
    result = emu_submit_begin(&submission, stream, EMU_WORK_CALL, bytes);
    if (result == CUDA_SUCCESS) {
        submission.work->call = (struct emu_call_work){name, run};
        memcpy(emu_work_payload(submission.work), arguments, bytes);
        emu_submit_commit(&submission);
    }
    emu_handle_put(stream);
    return result;
}
