// SPDX-License-Identifier: Apache-2.0
//
// Running programs: the once programs after load, then the steps.
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "launcher/run.h"

static bool alarm_raised(void *world)
{
    return kern_world_alarm_raised(world);
}

// Runs [program] to its end. While it runs, kernels of other ranks may wait for ours and ours for
// theirs; a rank that fails says so at once, and whoever hears it stops waiting.
static bool run_program(struct kern_run *run, uint32_t program, const uint64_t *vars)
{
    struct kern_interrupt interrupt = {alarm_raised, &run->world};
    run->in_flight = true;
    if (!kern_rank_issue(run->rank, program, vars, &run->diag) ||
        !kern_rank_wait(run->rank, kern_deadline_in(run->options.timeout), &interrupt, &run->diag))
        return false;
    run->in_flight = false;
    return kern_rank_check_errors(run->rank, program, &run->diag);
}

void kern_run_once(struct kern_run *run)
{
    const struct kern_manifest *manifest = run->manifest;
    uint64_t *vars = kern_calloc(manifest->n_vars, sizeof *vars);
    for (uint32_t v = 0; v < manifest->n_vars; v++)
        vars[v] = 1;
    bool good = true;
    for (uint32_t p = 0; good && p < manifest->n_programs; p++)
        if (manifest->programs[p].once)
            good = run_program(run, p, vars);
    free(vars);
    if (!good)
        kern_world_raise_alarm(&run->world);
}

// Stages all inputs for the first step. Every later one finds them as they were but for the inout
// buffers, which the step before may have rewritten.
static bool write_inputs(struct kern_run *run, const struct kern_driven *driven, bool first)
{
    for (size_t i = 0; i < driven->n_inputs; i++) {
        const struct kern_staged *input = &driven->inputs[i];
        if ((first || run->manifest->buffers[input->buffer].kind == KERN_INOUT) &&
            !kern_rank_write(run->rank, input->buffer, input->bytes, input->length, driven->vars,
                             &run->diag))
            return false;
    }
    return true;
}

static bool run_steps(struct kern_run *run, struct kern_driven *driven)
{
    uint64_t total = run->options.warmup + run->options.steps;
    for (uint64_t step = 0; step < total; step++) {
        if (!write_inputs(run, driven, step == 0))
            return false;
        if (!run->first_step)
            run->first_step = kern_now();
        if (!run_program(run, driven->program, driven->vars))
            return false;
        uint64_t *time = step < run->options.warmup ? NULL : &driven->times[step - run->options.warmup];
        if (time && !kern_rank_elapsed(run->rank, time, &run->diag))
            return false;
    }
    return true;
}

static struct kern_result *result_of(struct kern_run *run, uint32_t buffer)
{
    for (size_t i = 0; i < run->n_results; i++)
        if (run->results[i].buffer == buffer)
            return &run->results[i];
    return &run->results[run->n_results++];
}

// Reads what the program's last step left in the outputs. Where several programs write one output,
// the last of them in the order of driving counts.
static bool read_results(struct kern_run *run, const struct kern_driven *driven)
{
    for (uint32_t b = 0; b < run->manifest->n_buffers; b++) {
        const struct kern_buffer *buffer = &run->manifest->buffers[b];
        if (!driven->facts.touches_buffer[b] ||
            (buffer->kind != KERN_OUTPUT && buffer->kind != KERN_INOUT))
            continue;
        uint64_t length;
        if (!kern_shape_bytes(buffer->dtype, buffer->shape, buffer->rank, driven->vars, &length))
            return kern_fail(&run->diag, KERN_EXIT_MANIFEST, buffer->name,
                             "has too many bytes to count");
        struct kern_result *result = result_of(run, b);
        free(result->shape);
        free(result->bytes);
        *result = (struct kern_result){.buffer = b, .length = length,
                                       .shape = kern_calloc(buffer->rank, sizeof(uint64_t)),
                                       .bytes = kern_calloc(length, 1)};
        kern_run_shape(buffer, driven->vars, result->shape);
        if (!kern_rank_read(run->rank, b, result->bytes, length, &run->diag))
            return false;
    }
    return true;
}

void kern_run_drive(struct kern_run *run)
{
    run->results = kern_calloc(run->manifest->n_buffers, sizeof *run->results);
    bool good = true;
    for (size_t i = 0; good && i < run->n_driven; i++)
        good = run_steps(run, &run->driven[i]) && read_results(run, &run->driven[i]);
    if (!good)
        kern_world_raise_alarm(&run->world);
}
