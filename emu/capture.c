// SPDX-License-Identifier: Apache-2.0
//
// Stream capture: work of a capturing stream becomes nodes of a graph. A capture begins on one
// stream; another stream joins it by waiting for an event that was recorded in it, and must be
// waited for before the end. Whatever a capture cannot take makes it invalid, and it ends with
// that.
//
// One lock guards all captures: capturing is rare, and its functions cross streams and threads.
#include "emu/work.h"

#include <stdlib.h>
#include <string.h>

struct emu_capture {
    struct emu_capture *next; // of all captures
    uint64_t id;
    CUstreamCaptureMode mode;
    pthread_t thread; // that began it
    struct emu_stream *origin;
    struct emu_stream *members; // origin included, each referenced
    struct emu_graph *graph;    // becomes the caller's at the end
    CUresult error;             // CUDA_SUCCESS, or it is invalid
};

static pthread_mutex_t capture_lock = PTHREAD_MUTEX_INITIALIZER;
static struct emu_capture *captures;
static atomic_uint n_captures; // so that who captures nothing pays nothing
static uint64_t last_id;

static bool idle(void)
{
    return atomic_load(&n_captures) == 0;
}

static void invalidate(struct emu_capture *capture)
{
    capture->error = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

static struct emu_capture *find_capture(uint64_t id)
{
    struct emu_capture *capture = captures;
    while (capture != NULL && capture->id != id) {
        capture = capture->next;
    }
    return capture;
}

// ---------------------------------------------------------------------------------------------
// Beginning, joining, ending

static void join(struct emu_capture *capture, struct emu_stream *stream)
{
    emu_handle_ref(stream);
    stream->next_member = capture->members;
    capture->members = stream;
    stream->tails.count = 0;
    atomic_store(&stream->capture, capture);
}

// Releases the streams and forgets the capture; its graph is left to the caller.
static struct emu_graph *end(struct emu_capture *capture)
{
    while (capture->members != NULL) {
        struct emu_stream *stream = capture->members;
        capture->members = stream->next_member;
        stream->next_member = NULL;
        stream->tails.count = 0;
        atomic_store(&stream->capture, NULL);
        emu_handle_put(stream);
    }
    struct emu_capture **link = &captures;
    while (*link != capture) {
        link = &(*link)->next;
    }
    *link = capture->next;
    atomic_fetch_sub(&n_captures, 1);
    struct emu_graph *graph = capture->graph;
    free(capture);
    return graph;
}

static CUresult begin(struct emu_stream *stream, CUstreamCaptureMode mode)
{
    if (emu_stream_is_legacy(stream)) {
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (atomic_load(&stream->capture) != NULL) {
        return CUDA_ERROR_ILLEGAL_STATE;
    }
    struct emu_capture *capture = calloc(1, sizeof *capture);
    struct emu_graph *graph = emu_graph_new(stream->handle.context);
    // Room for the node that each submission leaves as the only tail, so that commit cannot fail.
    if (capture == NULL || graph == NULL || !emu_tails_room(&stream->tails, 1)) {
        free(capture);
        if (graph != NULL) {
            emu_handle_free(graph);
        }
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *capture = (struct emu_capture){
        .next = captures,
        .id = ++last_id,
        .mode = mode,
        .thread = pthread_self(),
        .origin = stream,
        .graph = graph,
        .error = CUDA_SUCCESS,
    };
    captures = capture;
    atomic_fetch_add(&n_captures, 1);
    join(capture, stream);
    return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT);
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result;
    struct emu_stream *stream = emu_stream_get(handle, &result);
    if (stream == NULL) {
        return result;
    }
    pthread_mutex_lock(&capture_lock);
    result = begin(stream, mode);
    pthread_mutex_unlock(&capture_lock);
    emu_handle_put(stream);
    return result;
}

static bool of_this_thread(const struct emu_capture *capture)
{
    return pthread_equal(capture->thread, pthread_self()) != 0;
}

// Ends the capture of [stream] unless it is not this caller's to end.
static CUresult end_on(struct emu_stream *stream, struct emu_graph **graph)
{
    struct emu_capture *capture = atomic_load(&stream->capture);
    *graph = NULL;
    if (capture == NULL) {
        return CUDA_ERROR_ILLEGAL_STATE;
    }
    if (capture->origin != stream) {
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !of_this_thread(capture)) {
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    }
    CUresult result = capture->error;
    if (result == CUDA_SUCCESS && !emu_graph_joined(capture->graph, &stream->tails)) {
        result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    }
    *graph = end(capture);
    return result;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph_handle)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT | EMU_IGNORE_STICKY);
    if (graph_handle == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *graph_handle = NULL;
    CUresult result;
    struct emu_stream *stream = emu_stream_get(handle, &result);
    if (stream == NULL) {
        return result;
    }
    struct emu_graph *graph;
    pthread_mutex_lock(&capture_lock);
    result = end_on(stream, &graph);
    pthread_mutex_unlock(&capture_lock);
    if (result == CUDA_SUCCESS) {
        *graph_handle = EMU_HANDLE(CUgraph, graph);
    } else if (graph != NULL) {
        emu_handle_free(graph);
    }
    emu_handle_put(stream);
    return result;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT);
    if (status == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result;
    struct emu_stream *stream = emu_stream_get(handle, &result);
    if (stream == NULL) {
        return result;
    }
    result = CUDA_SUCCESS;
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    pthread_mutex_lock(&capture_lock);
    const struct emu_capture *capture = atomic_load(&stream->capture);
    if (capture != NULL) {
        *status = capture->error == CUDA_SUCCESS ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                                 : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    }
    for (capture = captures; emu_stream_is_legacy(stream) && capture != NULL;
         capture = capture->next) {
        if (capture->origin->handle.context == stream->handle.context &&
            (capture->origin->flags & CU_STREAM_NON_BLOCKING) == 0) {
            result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    }
    pthread_mutex_unlock(&capture_lock);
    emu_handle_put(stream);
    return result;
}

void emu_capture_abandon(struct emu_context *context)
{
    pthread_mutex_lock(&capture_lock);
    struct emu_capture *capture = captures;
    while (capture != NULL) {
        struct emu_capture *next = capture->next;
        if (capture->origin->handle.context == context) {
            emu_handle_free(end(capture));
        }
        capture = next;
    }
    pthread_mutex_unlock(&capture_lock);
}

// ---------------------------------------------------------------------------------------------
// Nodes

// Leaves submission->node NULL, without an error, if the capture ended in the meantime.
CUresult emu_capture_begin_node(struct emu_submission *submission, size_t payload)
{
    struct emu_stream *stream = submission->stream;
    pthread_mutex_lock(&capture_lock);
    struct emu_capture *capture = atomic_load(&stream->capture);
    CUresult result = capture != NULL ? capture->error : CUDA_SUCCESS;
    if (capture != NULL && result == CUDA_SUCCESS) {
        submission->node = emu_graph_add(capture->graph, payload, &stream->tails);
        if (submission->node != NULL) {
            submission->work = submission->node->work;
            return CUDA_SUCCESS; // locked until the commit
        }
        invalidate(capture);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&capture_lock);
    return result;
}

void emu_capture_commit_node(struct emu_submission *submission)
{
    struct emu_stream *stream = submission->stream;
    const struct emu_capture *capture = atomic_load(&stream->capture);
    stream->tails.node[0] = (uint32_t)(capture->graph->count - 1);
    stream->tails.count = 1;
    pthread_mutex_unlock(&capture_lock);
}

// ---------------------------------------------------------------------------------------------
// Events

static CUresult record_locked(struct emu_stream *stream, struct emu_event *event, bool external,
                              bool *taken)
{
    struct emu_capture *capture = atomic_load(&stream->capture);
    event->capture = 0;
    event->tails.count = 0;
    if (capture == NULL || external) {
        return CUDA_SUCCESS;
    }
    *taken = true;
    if (capture->error != CUDA_SUCCESS) {
        return capture->error;
    }
    if (!emu_tails_add(&event->tails, &stream->tails)) {
        invalidate(capture);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    event->capture = capture->id;
    return CUDA_SUCCESS;
}

CUresult emu_capture_record(struct emu_stream *stream, struct emu_event *event, bool external,
                            bool *taken)
{
    pthread_mutex_lock(&capture_lock);
    CUresult result = record_locked(stream, event, external, taken);
    pthread_mutex_unlock(&capture_lock);
    return result;
}

// [stream] waits for an event of the capture [of], which may have ended.
static CUresult wait_for_captured(struct emu_stream *stream, const struct emu_event *event,
                                  struct emu_capture *of)
{
    struct emu_capture *capture = atomic_load(&stream->capture);
    if (of == NULL) {
        if (capture == NULL) {
            return CUDA_ERROR_CAPTURED_EVENT;
        }
        invalidate(capture);
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (capture != NULL && capture != of) {
        invalidate(capture);
        invalidate(of);
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (of->error != CUDA_SUCCESS) {
        return of->error;
    }
    if (emu_stream_is_legacy(stream)) {
        invalidate(of);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    // One more, for the tail that commit leaves in a stream without any.
    if (!emu_tails_room(&stream->tails, event->tails.count + 1)) {
        invalidate(of);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (capture == NULL) {
        join(of, stream);
    }
    emu_tails_add(&stream->tails, &event->tails);
    return CUDA_SUCCESS;
}

// [stream], which is capturing, waits for an event that was recorded outside of any capture.
static CUresult wait_for_outside(struct emu_stream *stream, struct emu_event *event)
{
    struct emu_fence fence = emu_event_fence(event);
    if (fence.stream == NULL) {
        return CUDA_SUCCESS; // never recorded: no work at all
    }
    emu_handle_put(fence.stream);
    struct emu_capture *capture = atomic_load(&stream->capture);
    if (capture->error != CUDA_SUCCESS) {
        return capture->error;
    }
    invalidate(capture);
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
}

static CUresult submit_await(struct emu_stream *stream, struct emu_event *event)
{
    struct emu_submission submission;
    CUresult result = emu_submit_begin(&submission, stream, EMU_WORK_AWAIT, 0);
    if (result == CUDA_SUCCESS) {
        emu_handle_ref(event);
        submission.work->event = event;
        emu_submit_commit(&submission);
    }
    return result;
}

CUresult emu_capture_wait(struct emu_stream *stream, struct emu_event *event, bool external,
                          bool *taken)
{
    *taken = true;
    if (external && atomic_load(&stream->capture) != NULL) {
        return submit_await(stream, event);
    }
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&capture_lock);
    if (event->capture != 0) {
        result = wait_for_captured(stream, event, find_capture(event->capture));
    } else if (atomic_load(&stream->capture) != NULL) {
        result = wait_for_outside(stream, event);
    } else {
        *taken = false;
    }
    pthread_mutex_unlock(&capture_lock);
    return result;
}

// ---------------------------------------------------------------------------------------------
// Refusals

CUresult emu_capture_refuse(struct emu_stream *stream)
{
    if (atomic_load(&stream->capture) == NULL) {
        return CUDA_SUCCESS;
    }
    pthread_mutex_lock(&capture_lock);
    struct emu_capture *capture = atomic_load(&stream->capture);
    CUresult result = CUDA_SUCCESS;
    if (capture != NULL) {
        invalidate(capture);
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    pthread_mutex_unlock(&capture_lock);
    return result;
}

static CUresult refuse_all(struct emu_context *context, unsigned exempt, CUresult error)
{
    if (idle()) {
        return CUDA_SUCCESS;
    }
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&capture_lock);
    for (struct emu_capture *capture = captures; capture != NULL; capture = capture->next) {
        for (struct emu_stream *stream = capture->members; stream != NULL;
             stream = stream->next_member) {
            if (stream->handle.context == context && (stream->flags & exempt) == 0) {
                invalidate(capture);
                result = error;
            }
        }
    }
    pthread_mutex_unlock(&capture_lock);
    return result;
}

CUresult emu_capture_refuse_context(struct emu_context *context)
{
    return refuse_all(context, 0, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

CUresult emu_capture_refuse_legacy(struct emu_context *context)
{
    return refuse_all(context, CU_STREAM_NON_BLOCKING, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
}

CUresult emu_capture_refuse_event(struct emu_event *event)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&capture_lock);
    if (event->capture != 0) {
        struct emu_capture *capture = find_capture(event->capture);
        if (capture != NULL) {
            invalidate(capture);
        }
        result = CUDA_ERROR_CAPTURED_EVENT;
    }
    pthread_mutex_unlock(&capture_lock);
    return result;
}

bool emu_capture_forbids(void)
{
    if (idle()) {
        return false;
    }
    bool forbidden = false;
    pthread_mutex_lock(&capture_lock);
    for (struct emu_capture *capture = captures; capture != NULL; capture = capture->next) {
        bool forbids = of_this_thread(capture) ? capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED
                                               : capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (forbids) {
            invalidate(capture);
            forbidden = true;
        }
    }
    pthread_mutex_unlock(&capture_lock);
    return forbidden;
}
