// SPDX-License-Identifier: Apache-2.0
//
// Copies and memsets on a stream. Ranges are checked when the call is made. Page-locked host memory
// is read and written when the copy runs; pageable memory is staged before the call returns, or the
// call waits for the copy, as the driver does.
#include "emu/work.h"

#include <string.h>

#define MAX_STAGED ((size_t)64 << 10)
#define MAX_PITCH ((size_t)0x7fffffff) // CU_DEVICE_ATTRIBUTE_MAX_PITCH

_Static_assert(MAX_STAGED <= EMU_MAX_PAYLOAD, "a staged copy is one unit of work");

// One end of a copy: where its first byte is, and whether the caller called it host memory.
struct side {
    uintptr_t start;
    size_t pitch;
    bool host;
    bool write;
    bool pageable; // found by check_side
};

// Whether [side] may be used for [height] rows of [width] bytes, neither of them 0.
static bool check_side(int device, struct side *side, size_t width, size_t height)
{
    size_t span;
    if (side->pitch < width || __builtin_mul_overflow(height - 1, side->pitch, &span) ||
        __builtin_add_overflow(span, width, &span)) {
        return false;
    }
    enum emu_place place = emu_place((const void *)side->start);
    if (side->host && place == EMU_PLACE_PAGEABLE) {
        side->pageable = true;
        return side->start != 0;
    }
    if (side->host && place == EMU_PLACE_DEVICE) {
        return false;
    }
    return emu_memory_ok(device, side->start, span, side->write);
}

static CUresult submit_copy(struct emu_stream *stream, const struct side *to,
                            const struct side *from, size_t width, size_t height)
{
    if (to->pageable || from->pageable) {
        // A graph would read or write it at every launch, when it may long be gone.
        CUresult refused = emu_capture_refuse(stream);
        if (refused != CUDA_SUCCESS) {
            return refused;
        }
    }
    // The product cannot overflow: the span of either side is larger.
    bool staged = from->pageable && width * height <= MAX_STAGED;
    struct emu_submission submission;
    CUresult result =
        emu_submit_begin(&submission, stream, EMU_WORK_COPY, staged ? width * height : 0);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct emu_copy_work *copy = &submission.work->copy;
    *copy = (struct emu_copy_work){
        .to = (unsigned char *)to->start,
        .from = staged ? NULL : (const unsigned char *)from->start,
        .to_pitch = height == 1 ? width : to->pitch,
        .from_pitch = staged || height == 1 ? width : from->pitch,
        .width = width,
        .height = height,
    };
    if (staged) {
        unsigned char *payload = emu_work_payload(submission.work);
        for (size_t row = 0; row < height; row++) {
            memcpy(payload + row * width, (const unsigned char *)from->start + row * from->pitch,
                   width);
        }
    }
    emu_submit_commit(&submission);
    if (to->pageable || (from->pageable && !staged)) {
        emu_fence_wait((struct emu_fence){stream, submission.position + 1});
        result = (CUresult)atomic_load(&stream->handle.context->sticky);
    }
    return result;
}

static CUresult copy(CUstream handle, struct side to, struct side from, size_t width, size_t height)
{
    CUresult result;
    struct emu_stream *stream = emu_stream_get(handle, &result);
    if (stream == NULL) {
        return result;
    }
    int device = stream->handle.context->device;
    to.write = true;
    if (width == 0 || height == 0) {
        result = CUDA_SUCCESS;
    } else if (!check_side(device, &to, width, height) ||
               !check_side(device, &from, width, height)) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else {
        result = submit_copy(stream, &to, &from, width, height);
    }
    emu_handle_put(stream);
    return result;
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT);
    return copy(stream, (struct side){.start = to, .pitch = bytes},
                (struct side){.start = (uintptr_t)from, .pitch = bytes, .host = true}, bytes, 1);
}

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT);
    return copy(stream, (struct side){.start = (uintptr_t)to, .pitch = bytes, .host = true},
                (struct side){.start = from, .pitch = bytes}, bytes, 1);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT);
    return copy(stream, (struct side){.start = to, .pitch = bytes},
                (struct side){.start = from, .pitch = bytes}, bytes, 1);
}

// One end of a CUDA_MEMCPY2D.
static CUresult side_2d(CUmemorytype type, const void *host, CUdeviceptr device, size_t pitch,
                        size_t x, size_t y, size_t width, struct side *side)
{
    size_t row, offset;
    if (type == CU_MEMORYTYPE_ARRAY) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_DEVICE &&
        type != CU_MEMORYTYPE_UNIFIED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    uintptr_t base = type == CU_MEMORYTYPE_HOST ? (uintptr_t)host : (uintptr_t)device;
    if (__builtin_add_overflow(width, x, &row) || pitch > MAX_PITCH ||
        (pitch != 0 && pitch < row)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    side->pitch = pitch != 0 ? pitch : row;
    if (__builtin_mul_overflow(y, side->pitch, &offset) ||
        __builtin_add_overflow(offset, x, &offset) ||
        __builtin_add_overflow(base, offset, &side->start)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    side->host =
        type == CU_MEMORYTYPE_HOST || (type == CU_MEMORYTYPE_UNIFIED &&
                                       emu_place((const void *)side->start) == EMU_PLACE_PAGEABLE);
    return CUDA_SUCCESS;
}

CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *p, CUstream stream)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT);
    if (p == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct side to = {.start = 0}, from = {.start = 0};
    CUresult result = side_2d(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcPitch,
                              p->srcXInBytes, p->srcY, p->WidthInBytes, &from);
    if (result == CUDA_SUCCESS) {
        result = side_2d(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstPitch, p->dstXInBytes,
                         p->dstY, p->WidthInBytes, &to);
    }
    return result == CUDA_SUCCESS ? copy(stream, to, from, p->WidthInBytes, p->Height) : result;
}

static CUresult fill(CUdeviceptr address, uint32_t value, uint32_t width, size_t count,
                     CUstream handle)
{
    CUresult result;
    struct emu_stream *stream = emu_stream_get(handle, &result);
    if (stream == NULL) {
        return result;
    }
    size_t bytes;
    struct emu_submission submission;
    if (__builtin_mul_overflow(count, width, &bytes) || address % width != 0 ||
        !emu_memory_ok(stream->handle.context->device, address, bytes, true)) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else if (count == 0) {
        result = CUDA_SUCCESS;
    } else {
        result = emu_submit_begin(&submission, stream, EMU_WORK_FILL, 0);
        if (result == CUDA_SUCCESS) {
            submission.work->fill =
                (struct emu_fill_work){(unsigned char *)(uintptr_t)address, count, value, width};
            emu_submit_commit(&submission);
        }
    }
    emu_handle_put(stream);
    return result;
}

CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t count, CUstream stream)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT);
    return fill(address, value, 1, count, stream);
}

CUresult cuMemsetD32Async(CUdeviceptr address, unsigned int value, size_t count, CUstream stream)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT);
    return fill(address, value, 4, count, stream);
}
