// SPDX-License-Identifier: Apache-2.0
//
// Running programs: the once programs after load, then the steps.
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "launcher/run.h"
#include "launcher/watch.h"
#include "topo/watchdog.h"

static bool alarm_raised(void *world)
{
    return kern_world_alarm_raised(world);
}

// Adds the step that has been going on since [begin] to the trace. On the device it ended when its
// end was seen, or a little before.
static bool trace_step(struct kern_run *run, uint32_t program, uint64_t begin)
{
    const char *name = run->manifest->programs[program].name;
    const struct kern_launch_time *launches;
    size_t count;
    uint64_t end = kern_now(), taken, step = kern_trace_step(run->trace, name);
    if (!kern_rank_elapsed(run->rank, &taken, &run->diag) ||
        !kern_rank_launch_times(run->rank, &launches, &count, &run->diag))
        return false;
    uint64_t start = end - taken;
    kern_trace_span(run->trace, KERN_TRACE_STEPS, name, step, begin, end);
    kern_trace_span(run->trace, KERN_TRACE_DEVICE, name, step, start, end);
    for (size_t i = 0; i < count; i++) {
        // The span that it is in has the program's name.
        const char *call = strstr(launches[i].place, "calls[");
        kern_trace_span(run->trace, KERN_TRACE_DEVICE, call ? call : launches[i].place, step,
                        start + launches[i].begin, start + launches[i].end);
    }
    return true;
}

// While it runs, kernels of other ranks may wait for ours and ours for theirs.
bool kern_run_program(struct kern_run *run, uint32_t program, const uint64_t *vars)
{
    struct kern_interrupt interrupt = {alarm_raised, &run->world};
    uint64_t begin = run->trace ? kern_now() : 0;
    run->in_flight = true;
    kern_limit_begin(&run->world, "a step");
    bool good =
        kern_rank_issue(run->rank, program, vars, &run->diag) &&
        kern_rank_wait(run->rank, kern_deadline_in(run->options.timeout), &interrupt, &run->diag);
    kern_wait_end(&run->world);
    if (!good)
        return false;
    run->in_flight = false;
    if (run->trace && !trace_step(run, program, begin))
        return false;
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
            good = kern_run_program(run, p, vars);
    free(vars);
    if (!good)
        kern_world_raise_alarm(&run->world);
}

// Every rank has captured its graphs before any of them runs: a rank that cannot says so in the
// agreement, and no kernel waits for it.
void kern_run_capture(struct kern_run *run)
{
    for (size_t i = 0; i < run->n_driven; i++)
        kern_rank_prepare(run->rank, run->driven[i].program, run->driven[i].vars, &run->diag);
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

static bool run_step(struct kern_run *run, struct kern_driven *driven, uint64_t step)
{
    kern_board_step(&run->world.board, step + 1);
    if (!write_inputs(run, driven, step == 0))
        return false;
    if (!run->first_step)
        run->first_step = kern_now();
    if (!kern_run_program(run, driven->program, driven->vars))
        return false;
    if (step < run->options.warmup)
        return true;
    return kern_rank_elapsed(run->rank, &driven->times[driven->measured++], &run->diag);
}

// Runs the warm-up and the steps, until somebody fails or a signal comes.
static bool run_steps(struct kern_run *run, struct kern_driven *driven, struct kern_watch *watch)
{
    uint64_t total = run->options.warmup + run->options.steps;
    *watch = (struct kern_watch){.next = 1, .started = kern_now()};
    kern_board_program(&run->world.board, run->manifest->programs[driven->program].name);
    for (uint64_t step = 0; step < total && !watch->signal; step++) {
        if (!run_step(run, driven, step))
            return false;
        if (kern_watch_due(watch, step + 1)) {
            kern_watch_meet(watch, &run->world, step + 1, false);
            if (watch->failed)
                return false;
        }
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
        *result = (struct kern_result){.buffer = b,
                                       .length = length,
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
    struct kern_watch watch = {0};
    run->results = kern_calloc(run->manifest->n_buffers, sizeof *run->results);
    bool good = true;
    for (size_t i = 0; good && !watch.signal && i < run->n_driven; i++)
        good = run_steps(run, &run->driven[i], &watch) && read_results(run, &run->driven[i]);
    if (!watch.failed) {
        if (!good)
            kern_world_raise_alarm(&run->world);
        kern_watch_meet(&watch, &run->world, watch.last + 1, !good);
    }
    run->stopped = watch.signal;
}
