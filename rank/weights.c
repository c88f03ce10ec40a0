// SPDX-License-Identifier: Apache-2.0
#include "rank/weights.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "manifest/suggest.h"

// A near name is looked for while there are few errors: a checkpoint of another model lacks them
// all.
enum { SUGGESTIONS = 4 };

// One segment for one member, found to be right: rows [row, row + rows) and columns
// [col, col + cols) of a matrix of [width] columns.
struct plan {
    const struct kern_tensor *tensor;
    const struct kern_tensor *other; // NULL: not interleaved
    uint64_t row, rows, col, cols, width;
    uint64_t block; // rows at a time of an interleaved pair
    uint64_t bytes; // of the segment
};

// What every step of a plan reads and where it complains.
struct planner {
    const struct kern_buffer *buffer;
    const uint32_t *group_index;
    const struct kern_safetensors *checkpoint;
    const char *place; // "buffers.w.bind[2]"
    struct kern_diag *diag;
};

static const struct kern_tensor *find_tensor(const struct planner *planner,
                                             const struct kern_tensor_source *source)
{
    const char *name = source->name;
    if (!name) {
        uint32_t member = planner->group_index[source->group.index];
        if (member >= source->count) {
            kern_fail(planner->diag, KERN_EXIT_ARTIFACT, planner->place,
                      "names %zu tensors for group %s; this is member %" PRIu32, source->count,
                      source->group.name, member);
            return NULL;
        }
        name = source->names[member];
    }
    const struct kern_safetensors *checkpoint = planner->checkpoint;
    const struct kern_tensor *tensor = kern_safetensors_find(checkpoint, name);
    size_t count = kern_safetensors_count(checkpoint);
    if (!tensor)
        kern_fail(planner->diag, KERN_EXIT_ARTIFACT, planner->place,
                  "tensor %s is not in the checkpoint, which has %zu tensors%s", name, count,
                  count && planner->diag->errors < SUGGESTIONS
                      ? kern_did_you_mean(&planner->diag->arena, name,
                                          kern_safetensors_at(checkpoint, 0), count, sizeof *tensor)
                      : "");
    return tensor;
}

static bool check_dtype(const struct planner *planner, const struct kern_tensor *tensor)
{
    if (tensor->dtype_known && tensor->dtype == planner->buffer->dtype)
        return true;
    return kern_fail(planner->diag, KERN_EXIT_ARTIFACT, planner->place,
                     "tensor %s of %s is %s, and the buffer %s: loading converts nothing",
                     tensor->name, kern_safetensors_path(planner->checkpoint, tensor),
                     tensor->dtype_text, kern_dtype_name(planner->buffer->dtype));
}

// A tensor as a matrix: the first axis by the product of the rest; a vector is one row.
static void matrix_of(const struct kern_tensor *tensor, uint64_t *rows, uint64_t *cols)
{
    uint64_t elements = tensor->bytes / kern_dtype_bytes(tensor->dtype);
    *rows = tensor->rank < 2 ? 1 : tensor->shape[0];
    *cols = *rows ? elements / *rows : 0;
}

// Narrows [0, *count), the [axis] of [tensor], to the member's range.
static bool take_range(const struct planner *planner, const struct kern_ranges *ranges,
                       const char *axis, const struct kern_tensor *tensor, uint64_t *from,
                       uint64_t *count)
{
    if (!ranges)
        return true;
    uint32_t member = ranges->group.name ? planner->group_index[ranges->group.index] : 0;
    if (member >= ranges->count)
        return kern_fail(planner->diag, KERN_EXIT_ARTIFACT, planner->place,
                         "has %zu ranges of %s for group %s; this is member %" PRIu32,
                         ranges->count, axis, ranges->group.name, member);
    const uint64_t *range = ranges->ranges[member];
    if (range[0] >= range[1] || range[1] > *count)
        return kern_fail(planner->diag, KERN_EXIT_ARTIFACT, planner->place,
                         "%s [%" PRIu64 ", %" PRIu64 ") are not a range of tensor %s of %s, which "
                         "has %" PRIu64 " %s",
                         axis, range[0], range[1], tensor->name,
                         kern_safetensors_path(planner->checkpoint, tensor), *count, axis);
    *from = range[0];
    *count = range[1] - range[0];
    return true;
}

static bool have_equal_shapes(const struct kern_tensor *a, const struct kern_tensor *b)
{
    return a->rank == b->rank &&
           (a->rank == 0 || memcmp(a->shape, b->shape, a->rank * sizeof *a->shape) == 0);
}

static bool plan_interleave(const struct planner *planner, const struct kern_segment *segment,
                            struct plan *plan)
{
    plan->other = find_tensor(planner, segment->interleave);
    if (!plan->other || !check_dtype(planner, plan->other))
        return false;
    if (!have_equal_shapes(plan->tensor, plan->other))
        return kern_fail(planner->diag, KERN_EXIT_ARTIFACT, planner->place,
                         "tensors %s and %s have different shapes; interleaved ones are alike",
                         plan->tensor->name, plan->other->name);
    plan->block = segment->interleave_rows;
    if (plan->block == 0 || plan->rows % plan->block != 0)
        return kern_fail(planner->diag, KERN_EXIT_ARTIFACT, planner->place,
                         "interleaves %" PRIu64 " rows at a time; tensor %s has %" PRIu64
                         ", which is no multiple",
                         plan->block, plan->tensor->name, plan->rows);
    plan->bytes *= 2; // a tensor lies in a file, whose size has 63 bits
    return true;
}

static bool plan_segment(const struct planner *planner, const struct kern_segment *segment,
                         struct plan *plan)
{
    *plan = (struct plan){.tensor = find_tensor(planner, &segment->tensor)};
    if (!plan->tensor || !check_dtype(planner, plan->tensor))
        return false;
    matrix_of(plan->tensor, &plan->rows, &plan->width);
    plan->cols = plan->width;
    bool right = take_range(planner, segment->rows, "rows", plan->tensor, &plan->row, &plan->rows);
    right &= take_range(planner, segment->cols, "columns", plan->tensor, &plan->col, &plan->cols);
    plan->bytes = plan->rows * plan->cols * kern_dtype_bytes(plan->tensor->dtype);
    return right && (!segment->interleave || plan_interleave(planner, segment, plan));
}

// Adds the pieces of the segment that begins at byte [to] of buffer [buffer].
static void cut_segment(const struct plan *plan, uint32_t buffer, uint64_t to,
                        struct kern_pieces *pieces)
{
    uint64_t element = kern_dtype_bytes(plan->tensor->dtype);
    struct kern_piece piece = {
        .tensor = plan->tensor,
        .offset = (plan->row * plan->width + plan->col) * element,
        .pitch = plan->width * element,
        .width = plan->cols * element,
        .count = plan->rows,
        .buffer = buffer,
        .to = to,
        .to_pitch = plan->cols * element,
    };
    if (plan->other) {
        piece.width = piece.pitch = plan->block * plan->width * element;
        piece.count = plan->rows / plan->block;
        piece.to_pitch = 2 * piece.width;
    }
    kern_pieces_cut(pieces, &piece);
    if (plan->other) {
        piece.tensor = plan->other;
        piece.to += piece.width;
        kern_pieces_cut(pieces, &piece);
    }
}

// Adds the pieces of every segment of the planner's buffer, number [index]; false with every
// problem in its diag.
static bool plan_buffer(struct planner *planner, uint32_t index, struct kern_pieces *pieces)
{
    const struct kern_buffer *buffer = planner->buffer;
    struct kern_arena places = {0};
    bool right = true;
    uint64_t bytes = 0;
    for (size_t i = 0; i < buffer->n_bind; i++) {
        struct plan plan;
        uint64_t to = bytes;
        planner->place = kern_arena_print(&places, "buffers.%s.bind[%zu]", buffer->name, i);
        if (!plan_segment(planner, &buffer->bind[i], &plan))
            right = false;
        else if (__builtin_add_overflow(bytes, plan.bytes, &bytes))
            right = kern_fail(planner->diag, KERN_EXIT_ARTIFACT, planner->place,
                              "the segments up to this one have more than 2^64 bytes");
        else if (bytes <= buffer->bytes)
            cut_segment(&plan, index, to, pieces);
    }
    if (right && bytes != buffer->bytes)
        right = kern_fail(planner->diag, KERN_EXIT_ARTIFACT,
                          kern_arena_print(&places, "buffers.%s", buffer->name),
                          "its segments have %" PRIu64 " bytes in this checkpoint, and the buffer "
                          "%" PRIu64 ": they must add up to it",
                          bytes, buffer->bytes);
    kern_arena_free(&places);
    return right;
}

bool kern_weights_plan(const struct kern_manifest *manifest, const uint32_t *group_index,
                       const struct kern_safetensors *checkpoint, struct kern_weights *weights,
                       struct kern_diag *diag)
{
    bool right = true;
    *weights = (struct kern_weights){
        .first = kern_calloc((size_t)manifest->n_buffers + 1, sizeof *weights->first)};
    for (uint32_t i = 0; i < manifest->n_buffers; i++) {
        struct planner planner = {&manifest->buffers[i], group_index, checkpoint, NULL, diag};
        if (manifest->buffers[i].kind == KERN_WEIGHT || manifest->buffers[i].kind == KERN_SOURCE)
            right &= plan_buffer(&planner, i, &weights->pieces);
        weights->first[i + 1] = weights->pieces.count;
    }
    if (!right)
        kern_weights_free(weights);
    return right;
}

void kern_weights_free(struct kern_weights *weights)
{
    free(weights->pieces.items);
    free(weights->first);
    *weights = (struct kern_weights){0};
}
