// SPDX-License-Identifier: Apache-2.0
//
// One call of a program that steps sequences: its vars, its inputs, its run and the tokens that it
// hands back.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "launcher/generate.h"
#include "rank/element.h"
#include "topo/watchdog.h"

// The figures of [forward]'s program: those of its largest call stand for the program.
static struct kern_driven *figures_of(struct kern_run *run, const struct kern_forward *forward)
{
    for (size_t i = 0; i < run->n_driven; i++)
        if (run->driven[i].program == forward->program)
            return &run->driven[i];
    struct kern_driven *driven = &run->driven[run->n_driven++];
    driven->program = forward->program;
    driven->vars = kern_calloc(run->manifest->n_vars, sizeof *driven->vars);
    return driven;
}

static void set_axis(const struct kern_generation *generation, struct kern_serving_call *call,
                     enum kern_axis axis, uint64_t value)
{
    uint32_t var = generation->serving.axes[axis].var;
    if (var != KERN_NONE)
        call->vars[var] = value;
}

static void set_vars(const struct kern_generation *generation, struct kern_serving_call *call,
                     const struct kern_call_shape *shape)
{
    set_axis(generation, call, KERN_AXIS_ROWS, shape->rows);
    set_axis(generation, call, KERN_AXIS_GROUPS, shape->sequences);
    set_axis(generation, call, KERN_AXIS_RANKS, shape->rows * generation->members);
    if (generation->serving.context != KERN_NONE)
        call->vars[generation->serving.context] = shape->context;
}

static struct kern_call_shape shape_of(const struct kern_serving_call *call)
{
    struct kern_call_shape shape = {call->padded * call->rows, call->padded, call->rows};
    for (size_t i = 0; i < call->count; i++)
        if (call->sequences[i]->fed + call->rows > shape.context)
            shape.context = call->sequences[i]->fed + call->rows;
    return shape;
}

// Whether the program is about to run for the first time with these values of what it reads. If so
// it is remembered.
static bool is_new(struct kern_driven *driven, unsigned reads, struct kern_call_shape shape)
{
    shape.rows = reads & KERN_READS_ROWS ? shape.rows : 0;
    shape.sequences = reads & KERN_READS_SEQUENCES ? shape.sequences : 0;
    shape.context = reads & KERN_READS_CONTEXT ? shape.context : 0;
    for (size_t i = 0; i < driven->n_seen; i++)
        if (memcmp(&driven->seen[i], &shape, sizeof shape) == 0)
            return false;
    kern_reserve(&driven->seen, &driven->seen_capacity, driven->n_seen + 1, sizeof *driven->seen);
    driven->seen[driven->n_seen++] = shape;
    return true;
}

// Room for what comes back, and for the messages that bring it.
static void make_tokens(const struct kern_run *run, struct kern_serving_call *call)
{
    call->width = call->last->tokens_width > 1 ? call->last->tokens_width : 1;
    call->tokens = kern_calloc(call->count * (call->width + 1), sizeof *call->tokens);
    call->taken = call->tokens + call->count * call->width;
    call->sends = kern_calloc(run->n_stages, sizeof *call->sends);
}

bool kern_generate_call_make(struct kern_run *run, const struct kern_forward *forward,
                             struct kern_sequence *const *sequences, size_t count, uint64_t rows,
                             struct kern_serving_call *call, bool *captures)
{
    const struct kern_generation *generation = run->generation;
    size_t number = (size_t)(forward - generation->serving.forwards);
    unsigned reads = generation->reads[number];
    struct kern_driven *driven = figures_of(run, forward);
    *captures = false;
    *call = (struct kern_serving_call){.forward = forward,
                                       .last = &generation->last.forwards[number],
                                       .sequences = kern_calloc(count, sizeof *call->sequences),
                                       .count = count,
                                       .padded = count,
                                       .rows = rows,
                                       .driven = driven};
    memcpy(call->sequences, sequences, count * sizeof(*sequences));
    make_tokens(run, call);
    call->vars = kern_calloc(run->manifest->n_vars, sizeof *call->vars);
    memcpy(call->vars, generation->vars, run->manifest->n_vars * sizeof *call->vars);
    // A program that reads nothing that counts the call is laid out for all its sequences.
    if (forward->rows != KERN_ROWS_VAR && !(reads & (KERN_READS_ROWS | KERN_READS_SEQUENCES)))
        call->padded = forward->groups;
    struct kern_call_shape shape = shape_of(call);
    set_vars(generation, call, &shape);
    if (shape.rows > driven->most_rows) {
        driven->most_rows = shape.rows;
        memcpy(driven->vars, call->vars, run->manifest->n_vars * sizeof *call->vars);
        if (!kern_rank_program_facts(run->rank, forward->program, call->vars, &driven->facts,
                                     &run->diag))
            return false;
    }
    *captures = reads & KERN_READS_AS_GRAPH && is_new(driven, reads, shape);
    return true;
}

// Whether the call says itself how many of the tokens that it proposes count.
static bool proposes(const struct kern_serving_call *call)
{
    return call->last->count != KERN_NONE;
}

// Moves the sequences on. In the middle of a prompt what would follow is known already.
static void move_on(struct kern_serving_call *call)
{
    for (size_t i = 0; i < call->count; i++) {
        struct kern_sequence *sequence = call->sequences[i];
        sequence->proposing = proposes(call);
        if (!sequence->proposing) {
            sequence->fed += call->rows;
            call->taken[i] = call->last->tokens != KERN_NONE &&
                             sequence->fed == sequence->n_prompt + sequence->n_ids;
        }
        call->hands_back = call->hands_back || sequence->proposing || call->taken[i] > 0;
    }
}

bool kern_generate_call_issue(struct kern_run *run, struct kern_serving_call *call)
{
    call->began = kern_now();
    if (!kern_generate_fill(run, call))
        return false;
    if (!run->first_step)
        run->first_step = call->began;
    move_on(call);
    return kern_run_issue(run, call->driven->program, call->vars);
}

// The tokens of the sequence at [index] lie from here on: one row of several, or the sequence's
// own.
static uint64_t first_token(const struct kern_run *run, const struct kern_serving_call *call,
                            uint64_t index)
{
    const struct kern_buffer *buffer = &run->manifest->buffers[call->forward->tokens];
    if (run->manifest->vars[buffer->shape[0].var.index].axis == KERN_AXIS_RANKS)
        return (index + 1) * call->rows - 1;
    return index * call->forward->tokens_width;
}

// Element [index] of what the call left in an integer output.
static int64_t kept_integer(const struct kern_run *run, uint32_t buffer, uint64_t index)
{
    enum kern_dtype dtype = run->manifest->buffers[buffer].dtype;
    bool negative;
    uint64_t magnitude =
        kern_element_integer(dtype, kern_rank_kept(run->rank, buffer), index, &negative);
    return (int64_t)(negative ? -magnitude : magnitude);
}

// How many of the tokens of each sequence are taken, by the program's count.
static bool read_counts(struct kern_run *run, struct kern_serving_call *call)
{
    const struct kern_forward *forward = call->forward;
    bool good = true;
    for (size_t i = 0; good && i < call->count; i++) {
        call->taken[i] = kept_integer(run, forward->count, i);
        if (call->taken[i] < 1 || call->taken[i] > (int64_t)forward->tokens_width)
            good =
                kern_fail(&run->diag, KERN_EXIT_CHECK, run->manifest->buffers[forward->count].name,
                          "says that %" PRId64 " tokens count; it must be 1 to %" PRIu64,
                          call->taken[i], forward->tokens_width);
    }
    return good;
}

// Reads what the program, whose last part this stage runs, hands back.
static bool read_tokens(struct kern_run *run, struct kern_serving_call *call)
{
    if (proposes(call) && !read_counts(run, call))
        return false;
    for (size_t i = 0; i < call->count; i++)
        for (int64_t k = 0; k < call->taken[i]; k++)
            call->tokens[i * call->width + (size_t)k] =
                kept_integer(run, call->forward->tokens, first_token(run, call, i) + (uint64_t)k);
    return true;
}

// Keeps the times of the call that was waited for.
static bool note_times(struct kern_run *run, struct kern_driven *driven)
{
    size_t count = driven->measured + 1;
    kern_reserve(&driven->times, &driven->capacity, count, sizeof *driven->times);
    if (run->edges) {
        kern_reserve(&driven->stamps, &driven->stamps_capacity, count, sizeof *driven->stamps);
        kern_edges_stamp(run->edges, run->items - 1, &driven->stamps[driven->measured]);
    }
    return kern_rank_elapsed(run->rank, &driven->times[driven->measured++], &run->diag);
}

bool kern_generate_call_finish(struct kern_run *run, struct kern_serving_call *call)
{
    struct kern_driven *driven = call->driven;
    kern_board_program(&run->world.board, run->manifest->programs[driven->program].name);
    kern_board_step(&run->world.board, driven->measured + 1);
    bool reads = kern_run_has_results(run) && call->hands_back;
    if (!kern_run_wait(run, driven->program) || !note_times(run, driven) ||
        (reads && !read_tokens(run, call)) || !kern_generate_pass(run, call))
        return false;
    for (size_t i = 0; i < call->count; i++)
        if (call->sequences[i]->proposing) {
            call->sequences[i]->proposing = false;
            call->sequences[i]->fed += (uint64_t)call->taken[i];
        }
    return true;
}

void kern_generate_call_free(struct kern_serving_call *call)
{
    for (int i = 0; i < call->n_sends; i++)
        if (call->sends[i] != MPI_REQUEST_NULL)
            MPI_Request_free(&call->sends[i]);
    free(call->sends);
    free(call->tokens);
    free(call->vars);
    free(call->sequences);
    *call = (struct kern_serving_call){0};
}
