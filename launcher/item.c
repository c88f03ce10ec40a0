// SPDX-License-Identifier: Apache-2.0
//
// Items: runs of programs, from the issue to the end of the wait.
#include <string.h>

#include "base/clock.h"
#include "launcher/run.h"
#include "topo/watchdog.h"

// What a wait of a pipeline's rank has seen its stream at, and until when it may stay there.
struct waiting {
    struct kern_run *run;
    enum kern_edge_phase phase;
    uint64_t item;
    uint64_t deadline;
};

// Waits for a neighbour have a deadline on the device, which says more than ours.
enum { GRACE = 1 };

// Each part of an item has all of the time allowed: a stage that waits is not one that hangs.
static void follow(struct waiting *waiting)
{
    struct kern_run *run = waiting->run;
    uint64_t item;
    enum kern_edge_phase phase = kern_edges_at(run->edges, &item);
    if (phase == waiting->phase && item == waiting->item)
        return;
    bool waits = phase == KERN_EDGE_TAKING || phase == KERN_EDGE_ROOM;
    waiting->phase = phase;
    waiting->item = item;
    waiting->deadline = kern_deadline_in(run->options.timeout + (waits ? GRACE : 0));
    kern_board_awaits(&run->world.board, kern_edges_awaited(run->edges, phase));
    kern_limit_begin(&run->world, "a step");
}

static enum kern_wait ask(void *context)
{
    struct waiting *waiting = context;
    if (kern_world_alarm_raised(&waiting->run->world))
        return KERN_WAIT_STOP;
    if (waiting->run->edges)
        follow(waiting);
    return kern_deadline_passed(waiting->deadline) ? KERN_WAIT_LATE : KERN_WAIT_ON;
}

// Adds what our stage did for the item last waited for, the number-th run of [program]: as people
// draw a pipeline.
static void trace_flow(struct kern_run *run, const char *program, uint64_t number)
{
    struct kern_trace *trace = run->trace;
    struct kern_edge_stamp stamp;
    if (!kern_edges_stamp(run->edges, run->items - 1, &stamp))
        return;
    kern_trace_device_clock(trace, stamp.posted);
    if (run->stage.index > 0)
        kern_trace_flow(trace, "wait for input", number, stamp.take_began, stamp.take_ended);
    kern_trace_flow(trace, program, number, stamp.take_ended, stamp.room_began);
    if (run->stage.index + 1 == run->stage.count)
        return;
    kern_trace_flow(trace, "wait for room", number, stamp.room_began, stamp.room_ended);
    kern_trace_flow(trace, "hand over", number, stamp.room_ended, stamp.posted);
}

// Adds the item of [program] that has ended just now to the trace.
static bool trace_item(struct kern_run *run, uint32_t program)
{
    const struct kern_launch_time *launches;
    size_t count;
    uint64_t taken;
    if (!kern_rank_elapsed(run->rank, &taken, &run->diag) ||
        !kern_rank_launch_times(run->rank, &launches, &count, &run->diag))
        return false;
    struct kern_trace_span step =
        kern_trace_step(run->trace, run->manifest->programs[program].name, taken);
    if (run->edges && !run->manifest->programs[program].once)
        trace_flow(run, run->manifest->programs[program].name, step.number);
    for (size_t i = 0; i < count; i++) {
        // The span that it is in has the program's name.
        const char *call = strstr(launches[i].place, "calls[");
        uint64_t begin = step.begin + launches[i].begin, end = step.begin + launches[i].end;
        kern_trace_span(run->trace, KERN_TRACE_DEVICE, call ? call : launches[i].place, step.number,
                        begin < step.end ? begin : step.end, end < step.end ? end : step.end);
    }
    return true;
}

// While it runs, kernels of other ranks may wait for ours and ours for theirs.
bool kern_run_issue(struct kern_run *run, uint32_t program, const uint64_t *vars)
{
    run->in_flight = true;
    kern_trace_issue(run->trace);
    kern_limit_begin(&run->world, "a step");
    bool good = kern_rank_issue(run->rank, program, vars, &run->diag);
    kern_wait_end(&run->world);
    return good;
}

// Whether no wait for a neighbour was given up; else the board goes on to say which. [ended]: the
// item did.
static bool look_at_edges(struct kern_run *run, bool ended)
{
    enum kern_edge_phase phase;
    bool sound = kern_edges_sound(run->edges, &phase, &run->diag);
    if (!sound)
        kern_wait_overdue();
    if (ended || !sound)
        kern_board_awaits(&run->world.board, kern_edges_awaited(run->edges, phase));
    return sound;
}

bool kern_run_wait(struct kern_run *run, uint32_t program)
{
    struct waiting waiting = {.run = run, .deadline = kern_deadline_in(run->options.timeout)};
    struct kern_interrupt interrupt = {ask, &waiting};
    kern_limit_begin(&run->world, "a step");
    bool good = kern_rank_wait(run->rank, KERN_NO_DEADLINE, &interrupt, &run->diag);
    kern_wait_end(&run->world);
    if (!good && kern_deadline_passed(waiting.deadline))
        kern_wait_overdue();
    // A wait for a neighbour that was given up lets the item end. One that was broken off, because
    // another rank gave up, stays on the board as well.
    if (run->edges)
        good = look_at_edges(run, good) && good;
    if (!good)
        return false;
    run->in_flight = kern_rank_in_flight(run->rank) > 0;
    run->items += run->edges && !run->manifest->programs[program].once;
    if (run->trace && !trace_item(run, program))
        return false;
    return kern_rank_check_errors(run->rank, program, &run->diag);
}

bool kern_run_program(struct kern_run *run, uint32_t program, const uint64_t *vars)
{
    return kern_run_issue(run, program, vars) && kern_run_wait(run, program);
}
