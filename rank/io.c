// SPDX-License-Identifier: Apache-2.0
//
// Bytes between the caller and the rank's buffers. Buffers that are written or read every step have
// page-locked staging memory of their own, so that copies are asynchronous and take no allocation.
#include "rank/internal.h"

#include <string.h>

static bool check_length(const struct kern_buffer *buffer, const char *place, size_t length,
                         struct kern_diag *diag)
{
    if (length > buffer->bytes || length % kern_dtype_bytes(buffer->dtype) != 0) {
        return kern_fail(diag, KERN_EXIT_ARTIFACT, place,
                         "%zu bytes are no prefix of a buffer of %llu bytes in elements of %zu",
                         length, (unsigned long long)buffer->bytes,
                         kern_dtype_bytes(buffer->dtype));
    }
    return true;
}

bool kern_rank_write(struct kern_rank *rank, uint32_t buffer, const void *bytes, size_t length,
                     const uint64_t *vars, struct kern_diag *diag)
{
    const struct kern_buffer *declared = &rank->manifest->buffers[buffer];
    struct rank_buffer *memory = &rank->buffers[buffer];
    char what[RANK_WHAT];
    rank_print(what, "writing buffer %s", declared->name);
    if (declared->kind != KERN_INPUT && declared->kind != KERN_INOUT) {
        return kern_fail(diag, KERN_EXIT_USAGE, what,
                         "it is of kind %s: only input and inout buffers are written",
                         kern_buffer_kind_name(declared->kind));
    }
    if (!check_length(declared, what, length, diag) ||
        !kern_domain_check(rank->manifest, declared, bytes, length, vars, &rank->provision, diag)) {
        return false;
    }
    if (length == 0) {
        return true;
    }
    if (memory->arrives) {
        return kern_fail(diag, KERN_EXIT_USAGE, what, "the stage before writes it");
    }
    uint64_t block = memory->writes++ % rank->most_in_flight;
    uint8_t *staging = memory->staging + block * memory->block;
    // The copy before may still be reading the staging memory.
    if (!rank_enter(rank, diag) ||
        !KERN_CU(rank->device, diag, what, cuEventSynchronize, memory->staged[block])) {
        return false;
    }
    memcpy(staging, bytes, length);
    return KERN_CU(rank->device, diag, what, cuMemcpyHtoDAsync, memory->address, staging, length,
                   rank->stream) &&
           KERN_CU(rank->device, diag, what, cuEventRecord, memory->staged[block], rank->stream);
}

// Copies the first [length] bytes of the buffer to [to] and waits.
static bool copy_out(struct kern_rank *rank, uint32_t buffer, void *to, size_t length,
                     const char *what, struct kern_diag *diag)
{
    return rank_enter(rank, diag) &&
           KERN_CU(rank->device, diag, what, cuMemcpyDtoHAsync, to, rank->buffers[buffer].address,
                   length, rank->stream) &&
           rank_synchronize(rank, what, diag);
}

bool kern_rank_read(struct kern_rank *rank, uint32_t buffer, void *bytes, size_t length,
                    struct kern_diag *diag)
{
    const struct kern_buffer *declared = &rank->manifest->buffers[buffer];
    char what[RANK_WHAT];
    rank_print(what, "reading buffer %s", declared->name);
    switch (declared->kind) {
    case KERN_OUTPUT:
    case KERN_INOUT:
    case KERN_CARRY:
    case KERN_WORKSPACE:
        break;
    default:
        return kern_fail(diag, KERN_EXIT_USAGE, what,
                         "it is of kind %s: only output, inout, carry and workspace buffers are "
                         "read",
                         kern_buffer_kind_name(declared->kind));
    }
    if (!check_length(declared, what, length, diag)) {
        return false;
    }
    if (length == 0) {
        return true;
    }
    void *staging = rank->buffers[buffer].staging;
    if (!copy_out(rank, buffer, staging != NULL ? staging : bytes, length, what, diag)) {
        return false;
    }
    if (staging != NULL) {
        memcpy(bytes, staging, length);
    }
    return true;
}

bool rank_keeps(const struct kern_rank *rank, const struct kern_buffer *buffer)
{
    bool tokens = buffer->fill == KERN_FILL_TOKENS || buffer->fill == KERN_FILL_COUNT;
    return buffer->fill == KERN_FILL_ERROR || (rank->keep_tokens && tokens);
}

// Where output [buffer] is copied to for item [number].
static uint8_t *kept_bytes(const struct kern_rank *rank, uint32_t buffer, uint64_t number)
{
    const struct rank_buffer *memory = &rank->buffers[buffer];
    return memory->staging + number % rank->most_in_flight * memory->block;
}

bool rank_kept_fetch(const struct kern_rank *rank, const struct rank_program *program,
                     uint64_t number, struct kern_diag *diag)
{
    for (size_t k = 0; k < program->n_kept; k++) {
        uint32_t b = program->kept[k];
        if (!KERN_CU(rank->device, diag, program->place, cuMemcpyDtoHAsync,
                     kept_bytes(rank, b, number), rank->buffers[b].address,
                     rank->manifest->buffers[b].bytes, rank->stream)) {
            return false;
        }
    }
    return true;
}

const void *kern_rank_kept(const struct kern_rank *rank, uint32_t buffer)
{
    if (rank->waited == 0 || !rank_keeps(rank, &rank->manifest->buffers[buffer])) {
        return NULL;
    }
    return kept_bytes(rank, buffer, rank->waited - 1);
}

bool kern_rank_check_errors(struct kern_rank *rank, uint32_t program, struct kern_diag *diag)
{
    const struct rank_program *ran = &rank->programs[program];
    bool ok = true;
    for (size_t k = 0; k < ran->n_kept; k++) {
        const struct kern_buffer *buffer = &rank->manifest->buffers[ran->kept[k]];
        const int32_t *words = kern_rank_kept(rank, ran->kept[k]);
        if (buffer->fill != KERN_FILL_ERROR || words == NULL) {
            continue;
        }
        size_t i = 0, count = buffer->bytes / sizeof(*words);
        while (i < count && words[i] == 0) {
            i++;
        }
        if (i < count) {
            ok = kern_fail(diag, KERN_EXIT_PEER, ran->place,
                           "its kernels report error %d (word %zu of buffer %s)", words[i], i,
                           buffer->name);
        }
    }
    return ok;
}

bool kern_rank_poke_all(struct kern_rank *rank, const struct kern_span *spans, size_t count,
                        struct kern_diag *diag)
{
    char what[RANK_WHAT];
    bool ok = rank_enter(rank, diag);
    for (size_t i = 0; ok && i < count; i++) {
        rank_print(what, "writing %zu bytes at device address 0x%llx", spans[i].length,
                   spans[i].address);
        ok = spans[i].length == 0 ||
             KERN_CU(rank->device, diag, what, cuMemcpyHtoDAsync, spans[i].address, spans[i].bytes,
                     spans[i].length, rank->stream);
    }
    // After a failure too: what was queued reads the caller's memory.
    return rank_synchronize(rank, "writing device memory", diag) && ok;
}

// Copies the spans to [staging], end to end, and waits.
static bool peek_staged(struct kern_rank *rank, const struct kern_span *spans, size_t count,
                        unsigned char *staging, struct kern_diag *diag)
{
    char what[RANK_WHAT];
    bool ok = true;
    for (size_t i = 0; ok && i < count; i++) {
        rank_print(what, "reading %zu bytes at device address 0x%llx", spans[i].length,
                   spans[i].address);
        ok = spans[i].length == 0 || KERN_CU(rank->device, diag, what, cuMemcpyDtoHAsync, staging,
                                             spans[i].address, spans[i].length, rank->stream);
        staging += spans[i].length;
    }
    return rank_synchronize(rank, "reading device memory", diag) && ok;
}

bool kern_rank_peek_all(struct kern_rank *rank, const struct kern_span *spans, size_t count,
                        struct kern_diag *diag)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += spans[i].length;
    }
    // A driver makes the caller wait for each copy to memory that is not page-locked.
    void *staging = NULL;
    if (bytes == 0) {
        return true;
    }
    if (!rank_enter(rank, diag) ||
        !KERN_CU(rank->device, diag, "reading device memory", cuMemHostAlloc, &staging, bytes, 0)) {
        return false;
    }
    bool ok = peek_staged(rank, spans, count, staging, diag);
    const unsigned char *from = staging;
    for (size_t i = 0; ok && i < count; i++) {
        memcpy(spans[i].bytes, from, spans[i].length);
        from += spans[i].length;
    }
    rank->device->cu.cuMemFreeHost(staging);
    return ok;
}

bool kern_rank_poke(struct kern_rank *rank, CUdeviceptr address, const void *bytes, size_t length,
                    struct kern_diag *diag)
{
    struct kern_span span = {address, (void *)(uintptr_t)bytes, length};
    return kern_rank_poke_all(rank, &span, 1, diag);
}

bool kern_rank_peek(struct kern_rank *rank, CUdeviceptr address, void *bytes, size_t length,
                    struct kern_diag *diag)
{
    struct kern_span span = {address, bytes, length};
    return kern_rank_peek_all(rank, &span, 1, diag);
}
