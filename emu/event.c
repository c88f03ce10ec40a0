// SPDX-License-Identifier: Apache-2.0
//
// Events: a point in a stream's work, and when the worker passed it.
#include "emu/work.h"

#include <stdlib.h>
#include <time.h>

static void destroy(void *object)
{
    struct emu_event *event = object;
    if (event->fence.stream != NULL) {
        emu_handle_put(event->fence.stream);
    }
    pthread_mutex_destroy(&event->lock);
    free(event->tails.node);
    free(event);
}

void emu_event_mark(struct emu_event *event, struct emu_stream *stream, uint64_t position)
{
    emu_handle_ref(stream);
    pthread_mutex_lock(&event->lock);
    struct emu_stream *before = event->fence.stream;
    event->fence = (struct emu_fence){stream, position};
    event->stamped = false;
    pthread_mutex_unlock(&event->lock);
    if (before != NULL) {
        emu_handle_put(before);
    }
}

void emu_event_stamp(struct emu_event *event, struct emu_stream *stream, uint64_t position)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    pthread_mutex_lock(&event->lock);
    if (event->fence.stream == stream && event->fence.position == position) {
        event->nanoseconds = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
        event->stamped = true;
    }
    pthread_mutex_unlock(&event->lock);
}

struct emu_fence emu_event_fence(struct emu_event *event)
{
    pthread_mutex_lock(&event->lock);
    struct emu_fence fence = event->fence;
    if (fence.stream != NULL) {
        emu_handle_ref(fence.stream);
    }
    pthread_mutex_unlock(&event->lock);
    return fence;
}

CUresult cuEventCreate(CUevent *handle, unsigned int flags)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT);
    const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING;
    if (handle == NULL || (flags & ~(known | CU_EVENT_INTERPROCESS)) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if ((flags & CU_EVENT_INTERPROCESS) != 0) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    struct emu_event *event =
        emu_handle_new(EMU_EVENT, sizeof *event, emu_context_current(), destroy);
    if (event == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    event->flags = flags;
    pthread_mutex_init(&event->lock, NULL);
    *handle = EMU_HANDLE(CUevent, event);
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent handle)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT | EMU_IGNORE_STICKY);
    struct emu_event *event = emu_handle_get(EMU_VALUE(handle), EMU_EVENT);
    if (event == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    bool freed = emu_handle_free(event);
    emu_handle_put(event);
    return freed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult submit_record(struct emu_event *event, struct emu_stream *stream)
{
    struct emu_submission submission;
    CUresult result = emu_submit_begin(&submission, stream, EMU_WORK_RECORD, 0);
    if (result == CUDA_SUCCESS) {
        emu_handle_ref(event);
        submission.work->event = event;
        if (submission.node == NULL) {
            emu_event_mark(event, stream, submission.position + 1);
        }
        emu_submit_commit(&submission);
    }
    return result;
}

static CUresult record(CUevent event_handle, CUstream stream_handle, unsigned flags)
{
    if ((flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    bool external = (flags & CU_EVENT_RECORD_EXTERNAL) != 0;
    CUresult result;
    struct emu_stream *stream = emu_stream_get(stream_handle, &result);
    if (stream == NULL) {
        return result;
    }
    struct emu_event *event = emu_handle_get(EMU_VALUE(event_handle), EMU_EVENT);
    if (event == NULL || event->handle.context != stream->handle.context) {
        result = CUDA_ERROR_INVALID_HANDLE;
    } else if (external && atomic_load(&stream->capture) == NULL) {
        result = CUDA_ERROR_INVALID_VALUE; // there is no graph that it could be external to
    } else {
        bool taken = false;
        result = emu_capture_record(stream, event, external, &taken);
        if (!taken) {
            result = submit_record(event, stream);
        }
    }
    if (event != NULL) {
        emu_handle_put(event);
    }
    emu_handle_put(stream);
    return result;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT);
    return record(event, stream, CU_EVENT_RECORD_DEFAULT);
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT);
    return record(event, stream, flags);
}

// The event and its fence, both referenced, if its work may be observed.
static CUresult observe(CUevent handle, struct emu_event **event, struct emu_fence *fence)
{
    *event = emu_handle_get(EMU_VALUE(handle), EMU_EVENT);
    if (*event == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    CUresult result = emu_capture_refuse_event(*event);
    if (result != CUDA_SUCCESS) {
        emu_handle_put(*event);
        return result;
    }
    *fence = emu_event_fence(*event);
    return CUDA_SUCCESS;
}

static void observed(struct emu_event *event, struct emu_fence fence)
{
    if (fence.stream != NULL) {
        emu_handle_put(fence.stream);
    }
    emu_handle_put(event);
}

CUresult cuEventQuery(CUevent handle)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT);
    struct emu_event *event;
    struct emu_fence fence;
    CUresult result = observe(handle, &event, &fence);
    if (result == CUDA_SUCCESS) {
        bool reached = emu_fence_reached(fence);
        result = (CUresult)atomic_load(&event->handle.context->sticky);
        if (result == CUDA_SUCCESS && !reached) {
            result = CUDA_ERROR_NOT_READY;
        }
        observed(event, fence);
    }
    return result;
}

CUresult cuEventSynchronize(CUevent handle)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT);
    struct emu_event *event;
    struct emu_fence fence;
    CUresult result = observe(handle, &event, &fence);
    if (result == CUDA_SUCCESS) {
        emu_fence_wait(fence);
        result = (CUresult)atomic_load(&event->handle.context->sticky);
        observed(event, fence);
    }
    return result;
}

// When the event's last record was passed.
static CUresult passed_at(CUevent handle, uint64_t *nanoseconds)
{
    struct emu_event *event;
    struct emu_fence fence;
    CUresult result = observe(handle, &event, &fence);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (fence.stream == NULL || (event->flags & CU_EVENT_DISABLE_TIMING) != 0) {
        result = CUDA_ERROR_INVALID_HANDLE;
    } else {
        pthread_mutex_lock(&event->lock);
        *nanoseconds = event->nanoseconds;
        result = event->stamped ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
        pthread_mutex_unlock(&event->lock);
    }
    observed(event, fence);
    return result;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT);
    if (milliseconds == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    uint64_t from, to;
    CUresult first = passed_at(start, &from);
    CUresult second = passed_at(end, &to);
    // An event that can have no time is the graver fault than one whose time has not come.
    CUresult result = first == CUDA_SUCCESS || first == CUDA_ERROR_NOT_READY ? second : first;
    if (result == CUDA_SUCCESS) {
        result = first;
    }
    if (result == CUDA_SUCCESS) {
        *milliseconds = (float)((double)(int64_t)(to - from) * 1e-6);
    }
    return result;
}
