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

uint64_t *kern_run_ones(const struct kern_run *run)
{
    uint64_t *vars = kern_calloc(run->manifest->n_vars, sizeof *vars);
    for (uint32_t v = 0; v < run->manifest->n_vars; v++)
        vars[v] = 1;
    return vars;
}

void kern_run_once(struct kern_run *run)
{
    const struct kern_manifest *manifest = run->manifest;
    uint64_t *vars = kern_run_ones(run);
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

static bool issue_step(struct kern_run *run, struct kern_driven *driven, uint64_t step)
{
    if (!write_inputs(run, driven, step == 0))
        return false;
    if (!run->first_step)
        run->first_step = kern_now();
    return kern_run_issue(run, driven->program, driven->vars);
}

// Waits for step [step] and keeps what it took, unless it was for warming up.
static bool wait_for_step(struct kern_run *run, struct kern_driven *driven, uint64_t step)
{
    kern_board_step(&run->world.board, step + 1);
    if (!kern_run_wait(run, driven->program))
        return false;
    if (step < run->options.warmup)
        return true;
    if (run->edges)
        kern_edges_stamp(run->edges, run->items - 1, &driven->stamps[driven->measured]);
    return kern_rank_elapsed(run->rank, &driven->times[driven->measured++], &run->diag);
}

// In a pipeline the first stage may be ahead of the last one's host by what the edges and the
// stages between hold, and what is in flight there. It waits for the others on its edge, where it
// can say for whom, and not in a meeting.
static uint64_t lag_of(const struct kern_run *run)
{
    uint64_t held = (run->options.depth + 1) * run->n_stages;
    return run->edges ? held + kern_rank_most_in_flight(run->rank) : 0;
}

// Runs the warm-up and the steps, until somebody fails or a signal comes. All ranks issue and wait
// in the same order, so that all have issued as many steps when they hear of a signal.
static bool run_steps(struct kern_run *run, struct kern_driven *driven, struct kern_watch *watch)
{
    uint64_t total = run->options.warmup + run->options.steps, issued = 0, done = 0;
    uint64_t ahead = kern_rank_most_in_flight(run->rank);
    kern_watch_begin(watch, lag_of(run));
    kern_board_program(&run->world.board, run->manifest->programs[driven->program].name);
    while (done < total) {
        for (; issued < total && issued - done < ahead; issued++)
            if (!issue_step(run, driven, issued))
                return false;
        if (!wait_for_step(run, driven, done++))
            return false;
        kern_watch_step(watch, &run->world, done);
        if (watch->failed)
            return false;
        if (watch->signal)
            total = issued;
    }
    kern_watch_settle(watch, &run->world, done);
    return !watch->failed;
}

void kern_run_drive(struct kern_run *run)
{
    struct kern_watch watch = {.meeting = MPI_REQUEST_NULL};
    bool good = true;
    for (size_t i = 0; good && !watch.signal && i < run->n_driven; i++)
        good =
            run_steps(run, &run->driven[i], &watch) && kern_run_read_results(run, &run->driven[i]);
    if (!watch.failed) {
        if (!good)
            kern_world_raise_alarm(&run->world);
        kern_watch_meet(&watch, &run->world, watch.last + 1, !good);
    }
    run->stopped = watch.signal;
    if (!watch.failed)
        kern_run_gather_results(run);
}
