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

// A program that reads none of the vars that count the call is laid out for all its sequences.
static bool needs_padding(const struct kern_generation *generation,
                          const struct kern_forward *forward, const bool *reads_var)
{
    for (enum kern_axis axis = KERN_AXIS_ROWS; axis <= KERN_AXIS_RANKS; axis++) {
        uint32_t var = generation->serving.axes[axis].var;
        if (var != KERN_NONE && reads_var[var])
            return false;
    }
    return forward->rows != KERN_ROWS_VAR;
}

static void set_vars(const struct kern_generation *generation, struct kern_serving_call *call)
{
    const struct kern_serving_axis *axes = generation->serving.axes;
    uint64_t rows = call->padded * call->rows, longest = call->rows;
    for (size_t i = 0; i < call->count; i++)
        if (call->sequences[i]->fed + call->rows > longest)
            longest = call->sequences[i]->fed + call->rows;
    call->vars[axes[KERN_AXIS_ROWS].var] = rows;
    call->vars[axes[KERN_AXIS_GROUPS].var] = call->padded;
    if (axes[KERN_AXIS_RANKS].var != KERN_NONE)
        call->vars[axes[KERN_AXIS_RANKS].var] = rows * generation->members;
    if (generation->serving.context != KERN_NONE)
        call->vars[generation->serving.context] = longest;
}

// Whether the program is about to run for the first time with these values of the vars it reads.
static bool is_new(const struct kern_run *run, const struct kern_serving_call *call)
{
    const struct kern_driven *driven = call->driven;
    for (size_t i = 0; i < driven->n_seen; i++) {
        const uint64_t *seen = driven->seen + i * run->manifest->n_vars;
        bool same = true;
        for (uint32_t v = 0; v < run->manifest->n_vars; v++)
            same = same && (!driven->facts.reads_var[v] || seen[v] == call->vars[v]);
        if (same)
            return false;
    }
    return true;
}

static void remember(const struct kern_run *run, const struct kern_serving_call *call)
{
    struct kern_driven *driven = call->driven;
    size_t n_vars = run->manifest->n_vars;
    kern_reserve(&driven->seen, &driven->seen_capacity, (driven->n_seen + 1) * n_vars,
                 sizeof *driven->seen);
    memcpy(driven->seen + driven->n_seen++ * n_vars, call->vars, n_vars * sizeof *call->vars);
}

bool kern_generate_call_make(struct kern_run *run, const struct kern_forward *forward,
                             struct kern_sequence *const *sequences, size_t count, uint64_t rows,
                             struct kern_serving_call *call, bool *captures)
{
    const struct kern_generation *generation = run->generation;
    uint32_t rows_var = generation->serving.axes[KERN_AXIS_ROWS].var;
    struct kern_program_facts facts;
    *call = (struct kern_serving_call){
        forward, sequences, count, count, rows, NULL, figures_of(run, forward)};
    *captures = false;
    call->vars = kern_calloc(run->manifest->n_vars, sizeof *call->vars);
    memcpy(call->vars, generation->vars, run->manifest->n_vars * sizeof *call->vars);
    if (!kern_rank_program_facts(run->rank, forward->program, call->vars, &facts, &run->diag))
        return false;
    if (needs_padding(generation, forward, facts.reads_var))
        call->padded = forward->groups;
    set_vars(generation, call);
    struct kern_driven *driven = call->driven;
    if (call->vars[rows_var] > driven->vars[rows_var]) {
        memcpy(driven->vars, call->vars, run->manifest->n_vars * sizeof *call->vars);
        if (!kern_rank_program_facts(run->rank, forward->program, call->vars, &driven->facts,
                                     &run->diag))
            return false;
    }
    if (driven->facts.graph && is_new(run, call)) {
        *captures = true;
        remember(run, call);
    }
    return true;
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

// The first [count] elements of an integer output; the caller frees them. NULL on failure.
static int64_t *read_integers(struct kern_run *run, uint32_t buffer, uint64_t count)
{
    enum kern_dtype dtype = run->manifest->buffers[buffer].dtype;
    size_t length = count * kern_dtype_bytes(dtype);
    void *bytes = kern_calloc(length, 1);
    int64_t *integers = NULL;
    if (kern_rank_read(run->rank, buffer, bytes, length, &run->diag)) {
        integers = kern_calloc(count, sizeof *integers);
        for (uint64_t i = 0; i < count; i++) {
            bool negative;
            uint64_t magnitude = kern_element_integer(dtype, bytes, i, &negative);
            integers[i] = (int64_t)(negative ? -magnitude : magnitude);
        }
    }
    free(bytes);
    return integers;
}

// How many of the tokens of each sequence are taken, by the program's count.
static bool read_counts(struct kern_run *run, const struct kern_serving_call *call, uint64_t *taken)
{
    const struct kern_forward *forward = call->forward;
    int64_t *counts = read_integers(run, forward->count, call->count);
    bool good = counts != NULL;
    for (size_t i = 0; good && i < call->count; i++) {
        if (counts[i] < 1 || counts[i] > (int64_t)forward->tokens_width)
            good =
                kern_fail(&run->diag, KERN_EXIT_CHECK, run->manifest->buffers[forward->count].name,
                          "says that %" PRId64 " tokens count; it must be 1 to %" PRIu64, counts[i],
                          forward->tokens_width);
        taken[i] = (uint64_t)counts[i];
    }
    free(counts);
    return good;
}

// Reads what the program hands back, and moves the sequences on.
static bool take_tokens(struct kern_run *run, const struct kern_serving_call *call, int64_t *tokens,
                        uint64_t *taken, uint64_t width)
{
    const struct kern_forward *forward = call->forward;
    bool proposes = forward->count != KERN_NONE;
    if (proposes && !read_counts(run, call, taken))
        return false;
    int64_t *all = NULL;
    if (forward->tokens != KERN_NONE) {
        uint64_t count = first_token(run, call, call->count - 1) + width;
        all = read_integers(run, forward->tokens, count);
        if (!all)
            return false;
    }
    for (size_t i = 0; i < call->count; i++) {
        struct kern_sequence *sequence = call->sequences[i];
        sequence->fed += proposes ? taken[i] : call->rows;
        // In the middle of a prompt what would follow is known already.
        if (!proposes)
            taken[i] = sequence->fed == sequence->n_prompt + sequence->n_ids;
        if (!all)
            taken[i] = 0;
        for (uint64_t k = 0; k < taken[i]; k++)
            tokens[i * width + k] = all[first_token(run, call, i) + k];
    }
    free(all);
    return true;
}

bool kern_generate_call_run(struct kern_run *run, const struct kern_serving_call *call,
                            int64_t **tokens, uint64_t **taken, uint64_t *width)
{
    struct kern_driven *driven = call->driven;
    *width = call->forward->tokens_width > 1 ? call->forward->tokens_width : 1;
    *tokens = kern_calloc(call->count * *width, sizeof **tokens);
    *taken = kern_calloc(call->count, sizeof **taken);
    kern_board_program(&run->world.board, run->manifest->programs[driven->program].name);
    kern_board_step(&run->world.board, driven->measured + 1);
    if (!kern_generate_fill(run, call))
        return false;
    if (!run->first_step)
        run->first_step = kern_now();
    if (!kern_run_program(run, driven->program, call->vars))
        return false;
    kern_reserve(&driven->times, &driven->capacity, driven->measured + 1, sizeof *driven->times);
    return kern_rank_elapsed(run->rank, &driven->times[driven->measured++], &run->diag) &&
           take_tokens(run, call, *tokens, *taken, *width);
}
