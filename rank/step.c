// SPDX-License-Identifier: Apache-2.0
//
// A step: issuing a program's launch list and waiting for it. Nothing is allocated, looked up or
// printed here unless something goes wrong.
#include "rank/internal.h"

#include "base/clock.h"

static bool launch_kernel(struct kern_rank *rank, const struct rank_launch *launch,
                          struct kern_diag *diag)
{
    if (!KERN_CU(rank->device, diag, launch->place, cuLaunchKernelEx, &launch->config,
                 launch->function, launch->params, NULL)) {
        return false;
    }
    rank->issued_launches++;
    rank->last_launch = launch;
    return rank_timing_mark(rank, launch, diag);
}

static bool launch_builtin(struct kern_rank *rank, struct rank_launch *launch, const uint64_t *vars,
                           struct kern_diag *diag)
{
    bool issued;
    if (!rank_builtin_launch(rank, launch, vars, &issued, diag)) {
        return false;
    }
    if (!issued) {
        return true;
    }
    rank->issued_launches++;
    rank->last_launch = launch;
    return rank_timing_mark(rank, launch, diag);
}

bool rank_launch_range(struct kern_rank *rank, const struct rank_program *program, size_t first,
                       size_t end, const uint64_t *vars, struct kern_diag *diag)
{
    for (size_t l = first; l < end; l++) {
        struct rank_launch *launch = &program->launches[l];
        if (launch->skipped) {
            continue;
        }
        switch (launch->kind) {
        case RANK_LAUNCH_KERNEL:
            if (!launch_kernel(rank, launch, diag)) {
                return false;
            }
            break;
        case RANK_LAUNCH_BUILTIN:
            if (!launch_builtin(rank, launch, vars, diag)) {
                return false;
            }
            break;
        }
    }
    return true;
}

static bool check_vars(const struct kern_rank *rank, const struct rank_program *program,
                       const uint64_t *vars, struct kern_diag *diag)
{
    for (uint32_t v = 0; v < rank->manifest->n_vars; v++) {
        const struct kern_var *var = &rank->manifest->vars[v];
        if (program->reads_var[v] && (vars[v] < 1 || vars[v] > var->max)) {
            return kern_fail(diag, KERN_EXIT_USAGE, program->place,
                             "var %s is %llu; it must be from 1 to %llu", var->name,
                             (unsigned long long)vars[v], (unsigned long long)var->max);
        }
    }
    return true;
}

static bool check_peers(const struct kern_rank *rank, const struct rank_program *program,
                        struct kern_diag *diag)
{
    bool ok = true;
    for (size_t i = 0; i < program->n_peers; i++) {
        if (!rank->buffers[program->peers[i]].filled) {
            const struct kern_buffer *buffer = &rank->manifest->buffers[program->peers[i]];
            ok = kern_fail(diag, KERN_EXIT_PEER, program->place,
                           "peer buffer %s does not hold the addresses of group %s yet: memory is "
                           "shared before a program that reads it runs",
                           buffer->name, buffer->group.name);
        }
    }
    return ok;
}

struct rank_program *rank_step_check(const struct kern_rank *rank, uint32_t program,
                                     const uint64_t *vars, struct kern_diag *diag)
{
    if (rank->programs == NULL || program >= rank->manifest->n_programs) {
        kern_fail(diag, KERN_EXIT_USAGE, NULL, "there is no compiled program %u", program);
        return NULL;
    }
    struct rank_program *run = &rank->programs[program];
    if (run->declared->derive) {
        kern_fail(diag, KERN_EXIT_USAGE, run->place,
                  "a derive program runs while weights are loaded and at no other time");
        return NULL;
    }
    bool ok = check_vars(rank, run, vars, diag) && check_peers(rank, run, diag) &&
              rank_communicators_joined(rank, run, diag);
    return ok ? run : NULL;
}

static bool launch_graph(struct kern_rank *rank, const struct rank_graph *graph,
                         struct kern_diag *diag)
{
    if (!KERN_CU(rank->device, diag, graph->program->place, cuGraphLaunch, graph->exec,
                 rank->stream)) {
        return false;
    }
    rank->issued_launches = graph->launches;
    rank->last_launch = graph->last_launch;
    return true;
}

// Whether [program] passes what it makes from stage to stage.
static bool is_handed(const struct kern_rank *rank, const struct rank_program *program)
{
    return rank->hands_over && !program->declared->once;
}

// Takes the place of the next item, and that of the oldest if all are in flight.
static struct rank_item *begin_item(struct kern_rank *rank, const struct rank_program *program)
{
    if (kern_rank_in_flight(rank) == rank->most_in_flight) {
        rank->waited++;
    }
    struct rank_item *item = &rank->items[rank->issued % rank->most_in_flight];
    item->program = program;
    item->number = rank->issued++;
    item->last = item->end;
    item->launches = 0;
    item->last_launch = NULL;
    rank->issued_launches = 0;
    rank->last_launch = NULL;
    return item;
}

// What follows the calls of an item: what it keeps for the host, and its hand-over.
static bool finish_item(struct kern_rank *rank, struct rank_item *item, const uint64_t *vars,
                        struct kern_diag *diag)
{
    const struct rank_program *program = item->program;
    bool handed = is_handed(rank, program);
    if (program->n_kept == 0 && !handed) {
        return true;
    }
    if (!rank_kept_fetch(rank, program, item->number, diag) ||
        (handed && !rank->hand_over.give(rank->hand_over.context, rank->handed++, vars, diag)) ||
        !KERN_CU(rank->device, diag, program->place, cuEventRecord, item->done, rank->stream)) {
        return false;
    }
    item->last = item->done;
    return true;
}

bool kern_rank_issue(struct kern_rank *rank, uint32_t program, const uint64_t *vars,
                     struct kern_diag *diag)
{
    struct rank_program *run = rank_step_check(rank, program, vars, diag);
    if (run == NULL || !rank_enter(rank, diag)) {
        return false;
    }
    run = rank_arrivals_program(rank, run, rank->handed);
    bool as_graph = rank_graph_wanted(rank, run);
    const struct rank_graph *graph = as_graph ? rank_graph_get(rank, run, vars, diag) : NULL;
    if (as_graph ? graph == NULL : !rank_program_fit(rank, run, vars, diag)) {
        return false;
    }
    if (is_handed(rank, run) &&
        !rank->hand_over.take(rank->hand_over.context, rank->handed, diag)) {
        return false;
    }
    CUevent start = rank->items[rank->issued % rank->most_in_flight].start;
    if (!KERN_CU(rank->device, diag, run->place, cuEventRecord, start, rank->stream)) {
        return false;
    }
    struct rank_item *item = begin_item(rank, run);
    rank->timing.count = 0;
    rank->timing.marking = rank->timing.n_events > 0 && !as_graph;
    bool ok = as_graph ? launch_graph(rank, graph, diag)
                       : rank_launch_range(rank, run, 0, run->n_launches, vars, diag);
    rank->timing.marking = false;
    item->launches = rank->issued_launches;
    item->last_launch = rank->last_launch;
    // After a failure too, so that a wait finds the end of what was launched before it.
    CUresult recorded = rank->device->cu.cuEventRecord(item->end, rank->stream);
    return ok && kern_cuda_check(rank->device, recorded, "cuEventRecord", run->place, diag) &&
           finish_item(rank, item, vars, diag);
}

uint32_t kern_rank_in_flight(const struct kern_rank *rank)
{
    return (uint32_t)(rank->issued - rank->waited);
}

uint32_t kern_rank_most_in_flight(const struct kern_rank *rank)
{
    return rank->most_in_flight;
}

// What was issued, for a message: "12 of 40 launches were issued, the last one PLACE".
static const char *issued_text(const struct rank_item *item, struct kern_diag *diag)
{
    return kern_arena_print(&diag->arena, "%zu of its %zu launches were issued%s%s", item->launches,
                            item->program->n_launches,
                            item->last_launch == NULL ? "" : ", the last one ",
                            item->last_launch == NULL ? "" : item->last_launch->place);
}

// Fails for a wait that has lasted too long.
static bool refuse_late(const struct rank_item *item, struct kern_diag *diag)
{
    return kern_fail(diag, KERN_EXIT_PEER, item->program->place,
                     "it did not end within the time allowed: a kernel hangs or waits for a peer; "
                     "%s",
                     issued_text(item, diag));
}

bool kern_rank_wait(struct kern_rank *rank, uint64_t deadline,
                    const struct kern_interrupt *interrupt, struct kern_diag *diag)
{
    if (kern_rank_in_flight(rank) == 0) {
        return true;
    }
    if (!rank_enter(rank, diag)) {
        return false;
    }
    const struct rank_item *item = &rank->items[rank->waited % rank->most_in_flight];
    const char *place = item->program->place;
    // Whether to go on is asked once the first quick looks are over: that may cost a message.
    struct kern_patience patience = {0};
    for (;;) {
        CUresult result = rank->device->cu.cuEventQuery(item->last);
        if (result == CUDA_SUCCESS) {
            rank->waited++;
            return true;
        }
        if (result != CUDA_ERROR_NOT_READY) {
            kern_cuda_check(rank->device, result, "cuEventQuery", place, diag);
            return kern_fail(diag, KERN_EXIT_DEVICE, place, "it failed on the device; %s",
                             issued_text(item, diag));
        }
        if (patience.since != 0 && !rank_communicators_sound(rank, item->program, diag)) {
            return kern_fail(diag, KERN_EXIT_PEER, place, "a collective of it failed; %s",
                             issued_text(item, diag));
        }
        enum kern_wait answer = KERN_WAIT_ON;
        if (interrupt != NULL && patience.since != 0) {
            answer = interrupt->asked(interrupt->context);
        }
        if (kern_deadline_passed(deadline) || answer == KERN_WAIT_LATE) {
            return refuse_late(item, diag);
        }
        if (answer == KERN_WAIT_STOP) {
            return kern_fail(diag, KERN_EXIT_PEER, place, "the wait for it was ended; %s",
                             issued_text(item, diag));
        }
        kern_relax(&patience);
    }
}

bool kern_rank_elapsed(const struct kern_rank *rank, uint64_t *nanoseconds, struct kern_diag *diag)
{
    // The place of the item last waited for is taken again only once all places are.
    if (rank->waited == 0 || kern_rank_in_flight(rank) == rank->most_in_flight) {
        return kern_fail(diag, KERN_EXIT_USAGE, NULL,
                         "device time is known of a program that was issued and waited for");
    }
    const struct rank_item *item = &rank->items[(rank->waited - 1) % rank->most_in_flight];
    float milliseconds = 0;
    if (!rank_enter(rank, diag) ||
        !KERN_CU(rank->device, diag, item->program->place, cuEventElapsedTime, &milliseconds,
                 item->start, item->end)) {
        return false;
    }
    *nanoseconds = (uint64_t)((double)milliseconds * 1e6);
    return true;
}
