// SPDX-License-Identifier: Apache-2.0
//
// Streams: their functions, and the list of streams that each context keeps.
#include "emu/work.h"

#include <stdlib.h>

// A context's streams that have work to do or may get some, in order of their serial numbers.
struct emu_streams {
    struct emu_stream *first;
    struct emu_stream *legacy; // the default stream, referenced; NULL until it is first used
};

// One lock for the lists of all contexts, and for the creation of a context's list.
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t list_shrank = PTHREAD_COND_INITIALIZER;
static uint64_t last_serial;

// Whether any context ever used its default stream. While not, blocking streams have nothing to be
// ordered with.
static atomic_bool legacy_in_use;

bool emu_stream_is_legacy(const struct emu_stream *stream)
{
    return stream->handle.value == 0;
}

static void enlist(struct emu_stream *stream)
{
    struct emu_stream **end = &stream->handle.context->streams->first;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = stream;
}

void emu_stream_unlist(struct emu_stream *stream)
{
    pthread_mutex_lock(&list_lock);
    struct emu_stream **link = &stream->handle.context->streams->first;
    while (*link != stream) {
        link = &(*link)->next;
    }
    *link = stream->next;
    pthread_cond_broadcast(&list_shrank);
    pthread_mutex_unlock(&list_lock);
}

static void destroy(void *object)
{
    struct emu_stream *stream = object;
    emu_queue_free(stream);
    free(stream->tails.node);
    free(stream);
}

// Makes [stream] one of its context's, with list_lock held.
static bool init(struct emu_stream *stream)
{
    struct emu_context *context = stream->handle.context;
    if (context->streams == NULL) {
        context->streams = calloc(1, sizeof *context->streams);
    }
    stream->serial = ++last_serial;
    if (context->streams == NULL || !emu_queue_init(stream)) {
        return false;
    }
    enlist(stream);
    return true;
}

static struct emu_stream *create(struct emu_context *context, unsigned flags)
{
    struct emu_stream *stream = emu_handle_new(EMU_STREAM, sizeof *stream, context, destroy);
    if (stream == NULL) {
        return NULL;
    }
    stream->flags = flags;
    pthread_mutex_lock(&list_lock);
    bool done = init(stream);
    pthread_mutex_unlock(&list_lock);
    if (!done) {
        stream->handle.destroy = free; // there is nothing in it yet
        emu_handle_free(stream);
        return NULL;
    }
    return stream;
}

// The context's default stream, with a reference. It has no handle, so it is made by hand.
static struct emu_stream *get_legacy(struct emu_context *context)
{
    pthread_mutex_lock(&list_lock);
    struct emu_stream *stream = context->streams != NULL ? context->streams->legacy : NULL;
    if (stream == NULL && (stream = calloc(1, sizeof *stream)) != NULL) {
        stream->handle.context = context;
        stream->handle.destroy = destroy;
        atomic_store(&stream->handle.references, 1);
        if (init(stream)) {
            context->streams->legacy = stream;
            atomic_store(&legacy_in_use, true);
        } else {
            free(stream);
            stream = NULL;
        }
    }
    if (stream != NULL) {
        emu_handle_ref(stream);
    }
    pthread_mutex_unlock(&list_lock);
    return stream;
}

struct emu_stream *emu_stream_get(CUstream handle, CUresult *error)
{
    if (handle == NULL || handle == CU_STREAM_LEGACY) {
        struct emu_context *context = emu_context_current();
        *error = context == NULL ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_OUT_OF_MEMORY;
        return context == NULL ? NULL : get_legacy(context);
    }
    if (handle == CU_STREAM_PER_THREAD) {
        *error = CUDA_ERROR_NOT_SUPPORTED;
        return NULL;
    }
    *error = CUDA_ERROR_INVALID_HANDLE;
    return emu_handle_get(EMU_VALUE(handle), EMU_STREAM);
}

// ---------------------------------------------------------------------------------------------
// Whole contexts

// The first stream of the context with a serial number in (after, until], with a reference.
static struct emu_stream *next_stream(struct emu_context *context, uint64_t after, uint64_t until)
{
    pthread_mutex_lock(&list_lock);
    struct emu_stream *stream = context->streams != NULL ? context->streams->first : NULL;
    while (stream != NULL && stream->serial <= after) {
        stream = stream->next;
    }
    if (stream != NULL && stream->serial > until) {
        stream = NULL;
    }
    if (stream != NULL) {
        emu_handle_ref(stream);
    }
    pthread_mutex_unlock(&list_lock);
    return stream;
}

static uint64_t newest_serial(void)
{
    pthread_mutex_lock(&list_lock);
    uint64_t serial = last_serial;
    pthread_mutex_unlock(&list_lock);
    return serial;
}

CUresult emu_streams_wait(struct emu_context *context)
{
    uint64_t until = newest_serial();
    struct emu_stream *stream;
    for (uint64_t at = 0; (stream = next_stream(context, at, until)) != NULL;) {
        emu_fence_wait(emu_stream_end(stream));
        at = stream->serial;
        emu_handle_put(stream);
    }
    return (CUresult)atomic_load(&context->sticky);
}

void emu_streams_close(struct emu_context *context)
{
    emu_capture_abandon(context);
    emu_streams_wait(context);
    uint64_t until = newest_serial();
    struct emu_stream *stream;
    for (uint64_t at = 0; (stream = next_stream(context, at, until)) != NULL;) {
        emu_queue_close(stream);
        at = stream->serial;
        emu_handle_put(stream);
    }
    pthread_mutex_lock(&list_lock);
    struct emu_streams *streams = context->streams;
    while (streams != NULL && streams->first != NULL) {
        pthread_cond_wait(&list_shrank, &list_lock);
    }
    context->streams = NULL;
    pthread_mutex_unlock(&list_lock);
    if (streams != NULL && streams->legacy != NULL) {
        emu_handle_put(streams->legacy);
    }
    free(streams);
}

// Work of the default stream comes after all earlier work of the context's blocking streams, and
// their work after its own.
CUresult emu_stream_order_legacy(struct emu_stream *stream)
{
    if (!atomic_load(&legacy_in_use) || (stream->flags & CU_STREAM_NON_BLOCKING) != 0) {
        return CUDA_SUCCESS;
    }
    struct emu_context *context = stream->handle.context;
    bool legacy = emu_stream_is_legacy(stream);
    CUresult result = legacy ? emu_capture_refuse_legacy(context) : CUDA_SUCCESS;
    uint64_t until = newest_serial();
    struct emu_stream *other;
    for (uint64_t at = 0;
         result == CUDA_SUCCESS && (other = next_stream(context, at, until)) != NULL;) {
        bool ordered =
            legacy ? (other->flags & CU_STREAM_NON_BLOCKING) == 0 : emu_stream_is_legacy(other);
        if (ordered) {
            result = emu_submit_wait(stream, emu_stream_end(other));
        }
        at = other->serial;
        emu_handle_put(other);
    }
    return result;
}

// ---------------------------------------------------------------------------------------------
// The driver's functions

CUresult cuStreamCreate(CUstream *handle, unsigned int flags)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT);
    if (handle == NULL || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct emu_stream *stream = create(emu_context_current(), flags);
    if (stream == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *handle = EMU_HANDLE(CUstream, stream);
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream handle)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT | EMU_IGNORE_STICKY);
    struct emu_stream *stream = emu_handle_get(EMU_VALUE(handle), EMU_STREAM);
    if (stream == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    CUresult result = emu_capture_refuse(stream);
    if (result == CUDA_SUCCESS) {
        if (emu_handle_free(stream)) {
            emu_queue_close(stream);
        } else {
            result = CUDA_ERROR_INVALID_HANDLE;
        }
    }
    emu_handle_put(stream);
    return result;
}

// What cuStreamSynchronize and cuStreamQuery refuse alike. On success the stream is referenced.
static CUresult get_observable(CUstream handle, struct emu_stream **stream)
{
    CUresult result;
    *stream = emu_stream_get(handle, &result);
    if (*stream == NULL) {
        return result;
    }
    result = emu_stream_is_legacy(*stream) ? emu_stream_order_legacy(*stream)
                                           : emu_capture_refuse(*stream);
    if (result != CUDA_SUCCESS) {
        emu_handle_put(*stream);
    }
    return result;
}

CUresult cuStreamSynchronize(CUstream handle)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT);
    struct emu_stream *stream;
    CUresult result = get_observable(handle, &stream);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    emu_fence_wait(emu_stream_end(stream));
    result = (CUresult)atomic_load(&stream->handle.context->sticky);
    emu_handle_put(stream);
    return result;
}

CUresult cuStreamQuery(CUstream handle)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT);
    struct emu_stream *stream;
    CUresult result = get_observable(handle, &stream);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    bool reached = emu_fence_reached(emu_stream_end(stream));
    result = (CUresult)atomic_load(&stream->handle.context->sticky);
    if (result == CUDA_SUCCESS && !reached) {
        result = CUDA_ERROR_NOT_READY;
    }
    emu_handle_put(stream);
    return result;
}

CUresult cuCtxSynchronize(void)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT);
    struct emu_context *context = emu_context_current();
    CUresult result = emu_capture_refuse_context(context);
    return result == CUDA_SUCCESS ? emu_streams_wait(context) : result;
}

CUresult cuStreamWaitEvent(CUstream stream_handle, CUevent event_handle, unsigned int flags)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT);
    if ((flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result;
    struct emu_stream *stream = emu_stream_get(stream_handle, &result);
    if (stream == NULL) {
        return result;
    }
    struct emu_event *event = emu_handle_get(EMU_VALUE(event_handle), EMU_EVENT);
    if (event == NULL) {
        emu_handle_put(stream);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    bool external = (flags & CU_EVENT_WAIT_EXTERNAL) != 0;
    bool taken = false;
    result = emu_capture_wait(stream, event, external, &taken);
    if (!taken && external) {
        result = CUDA_ERROR_INVALID_VALUE; // there is no graph that it could be external to
    } else if (!taken) {
        struct emu_fence fence = emu_event_fence(event);
        result = emu_stream_order_legacy(stream);
        if (result == CUDA_SUCCESS) {
            result = emu_submit_wait(stream, fence);
        }
        if (fence.stream != NULL) {
            emu_handle_put(fence.stream);
        }
    }
    emu_handle_put(event);
    emu_handle_put(stream);
    return result;
}
