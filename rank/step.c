// SPDX-License-Identifier: Apache-2.0
//
// A step: issuing a program's launch list and waiting for it. Nothing is allocated, looked up or
// printed here unless something goes wrong.
#include "rank/internal.h"

#include <string.h>

#include "base/clock.h"

// Looks at the end event before the caller is asked whether to go on, which may cost a message.
#define ROUNDS_BEFORE_ASKING 100

// The driver's limits on a grid, the same on every device.
static const uint64_t grid_max[3] = {INT32_MAX, 65535, 65535};

static bool overflow(const struct rank_launch *launch, const char *what, struct kern_diag *diag)
{
    return kern_fail(diag, KERN_EXIT_MANIFEST, launch->place, "%s overflows at these vars", what);
}

// The grid at [vars]; *[empty] if an extent is 0.
static bool evaluate_grid(const struct rank_launch *launch, const uint64_t *vars, uint64_t grid[3],
                          bool *empty, struct kern_diag *diag)
{
    *empty = false;
    for (int axis = 0; axis < 3; axis++) {
        if (!kern_expr_value(launch->grid[axis], vars, &grid[axis])) {
            return overflow(launch, "the grid", diag);
        }
        *empty = *empty || grid[axis] == 0;
    }
    for (int axis = 0; axis < 3 && !*empty; axis++) {
        if (grid[axis] > grid_max[axis] || grid[axis] % launch->cluster[axis] != 0) {
            return kern_fail(diag, KERN_EXIT_MANIFEST, launch->place,
                             "its grid is %llu x %llu x %llu at these vars; it must be a multiple "
                             "of the cluster %u x %u x %u and at most 2147483647 x 65535 x 65535",
                             (unsigned long long)grid[0], (unsigned long long)grid[1],
                             (unsigned long long)grid[2], launch->cluster[0], launch->cluster[1],
                             launch->cluster[2]);
        }
    }
    return true;
}

static bool evaluate_shared(const struct rank_launch *launch, const uint64_t *vars,
                            uint64_t *shared, struct kern_diag *diag)
{
    *shared = 0;
    if (launch->shared == NULL) {
        return true;
    }
    if (!kern_expr_value(launch->shared, vars, shared)) {
        return overflow(launch, "shared_mem", diag);
    }
    return *shared <= launch->shared_max ||
           kern_fail(diag, KERN_EXIT_MANIFEST, launch->place,
                     "it asks for %llu bytes of shared memory at these vars, %llu were set aside "
                     "for the maxima",
                     (unsigned long long)*shared, (unsigned long long)launch->shared_max);
}

static bool evaluate_stores(const struct rank_launch *launch, const uint64_t *vars,
                            struct kern_diag *diag)
{
    for (size_t s = 0; s < launch->n_stores; s++) {
        uint64_t value = 0;
        if (!kern_expr_value(launch->stores[s].expr, vars, &value)) {
            return overflow(launch, "a parameter", diag);
        }
        memcpy(launch->stores[s].to, &value, launch->stores[s].width);
    }
    return true;
}

static bool launch_kernel(struct kern_rank *rank, struct rank_launch *launch, const uint64_t *vars,
                          struct kern_diag *diag)
{
    uint64_t grid[3], shared;
    bool empty;
    if (!evaluate_grid(launch, vars, grid, &empty, diag)) {
        return false;
    }
    if (empty) {
        return true;
    }
    if (!evaluate_shared(launch, vars, &shared, diag) || !evaluate_stores(launch, vars, diag)) {
        return false;
    }
    CUlaunchConfig config = {
        .gridDimX = (unsigned int)grid[0],
        .gridDimY = (unsigned int)grid[1],
        .gridDimZ = (unsigned int)grid[2],
        .blockDimX = launch->block[0],
        .blockDimY = launch->block[1],
        .blockDimZ = launch->block[2],
        .sharedMemBytes = (unsigned int)shared,
        .hStream = rank->stream,
        .attrs = launch->attributes,
        .numAttrs = launch->n_attributes,
    };
    if (!KERN_CU(rank->device, diag, launch->place, cuLaunchKernelEx, &config, launch->function,
                 launch->params, NULL)) {
        return false;
    }
    rank->issued_launches++;
    rank->last_launch = launch;
    return true;
}

static bool in_range(const struct kern_when *when, const uint64_t *vars)
{
    return when == NULL ||
           (vars[when->var.index] >= when->min && vars[when->var.index] <= when->max);
}

bool rank_launch_range(struct kern_rank *rank, const struct rank_program *program, size_t first,
                       size_t end, const uint64_t *vars, struct kern_diag *diag)
{
    for (size_t l = first; l < end; l++) {
        struct rank_launch *launch = &program->launches[l];
        if (!in_range(launch->when, vars)) {
            continue;
        }
        switch (launch->kind) {
        case RANK_LAUNCH_KERNEL:
            if (!launch_kernel(rank, launch, vars, diag)) {
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

bool kern_rank_issue(struct kern_rank *rank, uint32_t program, const uint64_t *vars,
                     struct kern_diag *diag)
{
    if (rank->programs == NULL || program >= rank->manifest->n_programs) {
        return kern_fail(diag, KERN_EXIT_USAGE, NULL, "there is no compiled program %u", program);
    }
    const struct rank_program *run = &rank->programs[program];
    if (run->declared->derive) {
        return kern_fail(diag, KERN_EXIT_USAGE, run->place,
                         "a derive program runs while weights are loaded and at no other time");
    }
    if (!check_vars(rank, run, vars, diag) || !check_peers(rank, run, diag) ||
        !rank_enter(rank, diag) ||
        !KERN_CU(rank->device, diag, run->place, cuEventRecord, rank->start, rank->stream)) {
        return false;
    }
    rank->issued = run;
    rank->issued_launches = 0;
    rank->last_launch = NULL;
    rank->in_flight = true;
    bool ok = rank_launch_range(rank, run, 0, run->n_launches, vars, diag);
    // After a failure too, so that a wait finds the end of what was launched before it.
    CUresult recorded = rank->device->cu.cuEventRecord(rank->end, rank->stream);
    return ok && kern_cuda_check(rank->device, recorded, "cuEventRecord", run->place, diag);
}

// What was issued, for a message: "12 of 40 launches were issued, the last one PLACE".
static const char *issued_text(const struct kern_rank *rank, struct kern_diag *diag)
{
    return kern_arena_print(&diag->arena, "%zu of its %zu launches were issued%s%s",
                            rank->issued_launches, rank->issued->n_launches,
                            rank->last_launch == NULL ? "" : ", the last one ",
                            rank->last_launch == NULL ? "" : rank->last_launch->place);
}

bool kern_rank_wait(struct kern_rank *rank, uint64_t deadline,
                    const struct kern_interrupt *interrupt, struct kern_diag *diag)
{
    if (!rank->in_flight) {
        return true;
    }
    if (!rank_enter(rank, diag)) {
        return false;
    }
    const char *place = rank->issued->place;
    for (unsigned round = 0;; round += round < UINT32_MAX) {
        CUresult result = rank->device->cu.cuEventQuery(rank->end);
        if (result == CUDA_SUCCESS) {
            rank->in_flight = false;
            return true;
        }
        if (result != CUDA_ERROR_NOT_READY) {
            kern_cuda_check(rank->device, result, "cuEventQuery", place, diag);
            return kern_fail(diag, KERN_EXIT_DEVICE, place, "it failed on the device; %s",
                             issued_text(rank, diag));
        }
        if (kern_deadline_passed(deadline)) {
            return kern_fail(diag, KERN_EXIT_PEER, place,
                             "it did not end within the time allowed: a kernel hangs or waits for "
                             "a peer; %s",
                             issued_text(rank, diag));
        }
        if (interrupt != NULL && round >= ROUNDS_BEFORE_ASKING &&
            interrupt->asked(interrupt->context)) {
            return kern_fail(diag, KERN_EXIT_PEER, place, "the wait for it was ended; %s",
                             issued_text(rank, diag));
        }
        kern_relax(round);
    }
}

bool kern_rank_elapsed(const struct kern_rank *rank, uint64_t *nanoseconds, struct kern_diag *diag)
{
    if (rank->issued == NULL || rank->in_flight) {
        return kern_fail(diag, KERN_EXIT_USAGE, NULL,
                         "device time is known of a program that was issued and waited for");
    }
    float milliseconds = 0;
    if (!rank_enter(rank, diag) ||
        !KERN_CU(rank->device, diag, rank->issued->place, cuEventElapsedTime, &milliseconds,
                 rank->start, rank->end)) {
        return false;
    }
    *nanoseconds = (uint64_t)((double)milliseconds * 1e6);
    return true;
}
