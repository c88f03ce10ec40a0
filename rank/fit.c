// SPDX-License-Identifier: Apache-2.0
//
// Launches at given values of the vars: which of them run, and of kernels the grid, the shared
// memory and the parameters. Mostly a program is run again with the vars of the time before, and
// all is as it was; and where a value will not do, nothing has been launched yet.
#include "rank/internal.h"

#include <string.h>

// The driver's limits on a grid, the same on every device.
static const uint64_t grid_max[3] = {INT32_MAX, 65535, 65535};

// Most expressions are a var.
static bool evaluate(const struct rank_launch *launch, const struct kern_expr *expr,
                     const uint64_t *vars, uint64_t *value, const char *what,
                     struct kern_diag *diag)
{
    if (expr->kind == KERN_EXPR_VAR) {
        *value = vars[expr->var.index];
        return true;
    }
    return kern_expr_value(expr, vars, value) ||
           kern_fail(diag, KERN_EXIT_MANIFEST, launch->place, "%s overflows at these vars", what);
}

// What is finished is as it was compiled.
static bool update(const struct rank_launch *launch, struct rank_value *value, const uint64_t *vars,
                   const char *what, struct kern_diag *diag)
{
    return value->expr == NULL || evaluate(launch, value->expr, vars, &value->value, what, diag);
}

static bool check_grid(const struct rank_launch *launch, struct kern_diag *diag)
{
    bool good = true;
    for (int axis = 0; axis < 3; axis++) {
        uint64_t extent = launch->grid[axis].value;
        uint32_t cluster = launch->cluster[axis];
        good = good && extent <= grid_max[axis] && (cluster == 1 || extent % cluster == 0);
    }
    return good ||
           kern_fail(diag, KERN_EXIT_MANIFEST, launch->place,
                     "its grid is %llu x %llu x %llu at these vars; it must be a multiple of the "
                     "cluster %u x %u x %u and at most 2147483647 x 65535 x 65535",
                     (unsigned long long)launch->grid[0].value,
                     (unsigned long long)launch->grid[1].value,
                     (unsigned long long)launch->grid[2].value, launch->cluster[0],
                     launch->cluster[1], launch->cluster[2]);
}

static bool fit_grid(struct rank_launch *launch, const uint64_t *vars, struct kern_diag *diag)
{
    struct rank_value *grid = launch->grid;
    for (int axis = 0; axis < 3; axis++) {
        if (!update(launch, &grid[axis], vars, "the grid", diag)) {
            return false;
        }
    }
    launch->empty = grid[0].value == 0 || grid[1].value == 0 || grid[2].value == 0;
    if (launch->empty) {
        return true;
    }
    launch->config.gridDimX = (unsigned int)grid[0].value;
    launch->config.gridDimY = (unsigned int)grid[1].value;
    launch->config.gridDimZ = (unsigned int)grid[2].value;
    return check_grid(launch, diag);
}

static bool fit_shared(struct rank_launch *launch, const uint64_t *vars, struct kern_diag *diag)
{
    struct rank_value *shared = &launch->shared;
    if (!update(launch, shared, vars, "shared_mem", diag)) {
        return false;
    }
    launch->config.sharedMemBytes = (unsigned int)shared->value;
    return shared->value <= launch->shared_max ||
           kern_fail(diag, KERN_EXIT_MANIFEST, launch->place,
                     "it asks for %llu bytes of shared memory at these vars, %llu were set aside "
                     "for the maxima",
                     (unsigned long long)shared->value, (unsigned long long)launch->shared_max);
}

static bool fit_params(const struct rank_launch *launch, const uint64_t *vars,
                       struct kern_diag *diag)
{
    for (size_t s = 0; s < launch->n_stores; s++) {
        const struct rank_store *store = &launch->stores[s];
        uint64_t value;
        if (!evaluate(launch, store->expr, vars, &value, "a parameter", diag)) {
            return false;
        }
        // Parameters are eight bytes wide, and a copy of a known width is one instruction; the
        // fields of packs are few.
        if (store->width == sizeof(value)) {
            memcpy(store->to, &value, sizeof(value));
        } else {
            memcpy(store->to, &value, store->width);
        }
    }
    return true;
}

bool rank_launch_fit(struct rank_launch *launch, const uint64_t *vars, struct kern_diag *diag)
{
    return fit_grid(launch, vars, diag) &&
           (launch->empty || (fit_shared(launch, vars, diag) && fit_params(launch, vars, diag)));
}

static bool in_range(const struct kern_when *when, const uint64_t *vars)
{
    return when == NULL ||
           (vars[when->var.index] >= when->min && vars[when->var.index] <= when->max);
}

bool rank_program_fit(const struct kern_rank *rank, struct rank_program *program,
                      const uint64_t *vars, struct kern_diag *diag)
{
    size_t bytes = rank->manifest->n_vars * sizeof(*vars);
    if (program->ready && memcmp(program->ready_for, vars, bytes) == 0) {
        return true;
    }
    program->ready = false;
    for (size_t l = 0; l < program->n_launches; l++) {
        struct rank_launch *launch = &program->launches[l];
        bool runs = in_range(launch->when, vars);
        if (runs && launch->kind == RANK_LAUNCH_KERNEL && !launch->fixed &&
            !rank_launch_fit(launch, vars, diag)) {
            return false;
        }
        launch->skipped = !runs || launch->empty;
    }
    memcpy(program->ready_for, vars, bytes);
    program->ready = true;
    return true;
}
