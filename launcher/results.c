// SPDX-License-Identifier: Apache-2.0
//
// What outputs held after the last step.
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "launcher/run.h"
#include "topo/watchdog.h"

static struct kern_result *result_of(struct kern_run *run, const struct kern_buffer *buffer)
{
    for (size_t i = 0; i < run->n_results; i++)
        if (run->results[i].buffer == buffer)
            return &run->results[i];
    return &run->results[run->n_results++];
}

// Room for all outputs, also for those that the stages before bring.
static void make_room(struct kern_run *run)
{
    size_t most = 0;
    for (size_t i = 0; i < run->n_stages; i++)
        most += run->stages[i]->n_buffers;
    run->results = kern_calloc(most, sizeof *run->results);
}

bool kern_run_read_results(struct kern_run *run, const struct kern_driven *driven)
{
    if (!run->results)
        make_room(run);
    for (uint32_t b = 0; b < run->manifest->n_buffers; b++) {
        const struct kern_buffer *buffer = &run->manifest->buffers[b];
        if (!driven->facts.touches_buffer[b] || !kern_run_is_result(run, buffer))
            continue;
        uint64_t length;
        if (!kern_shape_bytes(buffer->dtype, buffer->shape, buffer->rank, driven->vars, &length))
            return kern_fail(&run->diag, KERN_EXIT_MANIFEST, buffer->name,
                             "has too many bytes to count");
        struct kern_result result = {.buffer = buffer,
                                     .length = length,
                                     .shape = kern_calloc(buffer->rank, sizeof(uint64_t)),
                                     .bytes = kern_calloc(length, 1)};
        kern_run_shape(buffer, driven->vars, result.shape);
        struct kern_result *kept = result_of(run, buffer);
        free(kept->shape);
        free(kept->bytes);
        *kept = result;
        if (!kern_rank_read(run->rank, b, result.bytes, length, &run->diag))
            return false;
    }
    return true;
}

// Messages of this size at most, whose count is an int.
#define MESSAGE_BYTES ((size_t)1 << 30)

enum { TAG = 7002 };

static void pass(const struct kern_run *run, void *bytes, size_t length, int rank, bool sends)
{
    for (size_t at = 0; at < length; at += MESSAGE_BYTES) {
        int count = (int)(length - at < MESSAGE_BYTES ? length - at : MESSAGE_BYTES);
        if (sends)
            KERN_WITH_OTHERS(
                &run->world, "bringing outputs to the last stage",
                MPI_Send((char *)bytes + at, count, MPI_BYTE, rank, TAG, run->world.comm));
        else
            KERN_WITH_OTHERS(&run->world, "bringing outputs to the last stage",
                             MPI_Recv((char *)bytes + at, count, MPI_BYTE, rank, TAG,
                                      run->world.comm, MPI_STATUS_IGNORE));
    }
}

// One output on its way: where it stands in the manifest of its stage, and its bytes.
static void pass_result(struct kern_run *run, size_t stage, struct kern_result *result, int rank,
                        bool sends)
{
    const struct kern_manifest *manifest = run->stages[stage];
    uint64_t head[2] = {0, result->length};
    if (sends)
        head[0] = (uint64_t)(result->buffer - manifest->buffers);
    pass(run, head, sizeof head, rank, sends);
    if (!sends) {
        result->buffer = &manifest->buffers[head[0]];
        result->length = head[1];
        result->shape = kern_calloc(result->buffer->rank, sizeof *result->shape);
        result->bytes = kern_calloc(result->length, 1);
    }
    pass(run, result->shape, result->buffer->rank * sizeof *result->shape, rank, sends);
    pass(run, result->bytes, result->length, rank, sends);
}

void kern_run_gather_results(struct kern_run *run)
{
    const struct kern_stage *stage = &run->stage;
    if (run->n_stages == 1)
        return;
    if (!kern_run_has_results(run)) {
        int last = kern_stage_neighbour(stage, stage->count - 1 - stage->index);
        uint64_t count = run->n_results;
        pass(run, &count, sizeof count, last, true);
        for (uint64_t i = 0; i < count; i++)
            pass_result(run, (size_t)stage->index, &run->results[i], last, true);
        return;
    }
    for (size_t s = 0; s + 1 < run->n_stages; s++) {
        int from = kern_stage_neighbour(stage, (int)s - stage->index);
        uint64_t count;
        pass(run, &count, sizeof count, from, false);
        for (uint64_t i = 0; i < count; i++)
            pass_result(run, s, &run->results[run->n_results++], from, false);
    }
}

void kern_run_free_results(struct kern_run *run)
{
    for (size_t i = 0; i < run->n_results; i++) {
        free(run->results[i].shape);
        free(run->results[i].bytes);
    }
    free(run->results);
}
