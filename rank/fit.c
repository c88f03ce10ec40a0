// SPDX-License-Identifier: Apache-2.0
//
// Launches at given values of the vars: which of them run, and of kernels the grid, the shared
// memory and the parameters. Mostly a program is run again with the vars of the time before, and
// all is as it was; and where a value will not do, nothing has been launched yet.
#include "rank/internal.h"

#include <string.h>

// The driver's limits on a grid, the same on every device.
static const uint64_t grid_max[3] = {INT32_MAX, 65535, 65535};

// Evaluates what the launches of the program take. What overflows is no error yet: perhaps no
// launch that takes it runs.
static void evaluate_slots(struct rank_program *program, const uint64_t *vars)
{
    program->overflows = false;
    for (struct rank_slot *slot = program->slots; slot != NULL; slot = slot->next) {
        uint64_t value = 0;
        bool overflows = !kern_expr_value(slot->expr, vars, &value);
        slot->changed = !program->ready || value != slot->value || overflows != slot->overflows;
        slot->value = value;
        slot->overflows = overflows;
        program->overflows = program->overflows || overflows;
    }
}

// Brings the extent up to date; what is finished is as it was compiled.
static bool update(const struct rank_launch *launch, struct rank_extent *extent, const char *what,
                   struct kern_diag *diag)
{
    if (extent->slot == NULL) {
        return true;
    }
    extent->value = extent->slot->value;
    return !extent->slot->overflows ||
           kern_fail(diag, KERN_EXIT_MANIFEST, launch->place, "%s overflows at these vars", what);
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

static bool fit_grid(struct rank_launch *launch, struct kern_diag *diag)
{
    struct rank_extent *grid = launch->grid;
    for (int axis = 0; axis < 3; axis++) {
        if (!update(launch, &grid[axis], "the grid", diag)) {
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

static bool fit_shared(struct rank_launch *launch, struct kern_diag *diag)
{
    struct rank_extent *shared = &launch->shared;
    if (!update(launch, shared, "shared_mem", diag)) {
        return false;
    }
    launch->config.sharedMemBytes = (unsigned int)shared->value;
    return shared->value <= launch->shared_max ||
           kern_fail(diag, KERN_EXIT_MANIFEST, launch->place,
                     "it asks for %llu bytes of shared memory at these vars, %llu were set aside "
                     "for the maxima",
                     (unsigned long long)shared->value, (unsigned long long)launch->shared_max);
}

static void fit_fields(const struct rank_launch *launch)
{
    for (size_t s = 0; s < launch->n_stores; s++) {
        const struct rank_store *store = &launch->stores[s];
        memcpy(store->to, &store->slot->value, store->width);
    }
}

bool rank_launch_fit(struct rank_launch *launch, struct kern_diag *diag)
{
    if (!fit_grid(launch, diag) || (!launch->empty && !fit_shared(launch, diag))) {
        return false;
    }
    fit_fields(launch);
    return true;
}

static bool has_to_be_fitted(const struct rank_launch *launch)
{
    for (size_t s = 0; s < launch->n_fit_slots; s++) {
        if (launch->slots[s]->changed) {
            return true;
        }
    }
    return !launch->fitted;
}

// Whether all that a launch takes has a value.
static bool check_values(const struct rank_launch *launch, struct kern_diag *diag)
{
    for (size_t s = 0; s < launch->n_slots; s++) {
        if (launch->slots[s]->overflows) {
            return kern_fail(diag, KERN_EXIT_MANIFEST, launch->place,
                             "a parameter overflows at these vars");
        }
    }
    return true;
}

// Makes a kernel launch ready that runs at the present values of the slots, if it is not.
static bool refit(const struct rank_program *program, struct rank_launch *launch,
                  struct kern_diag *diag)
{
    if (has_to_be_fitted(launch)) {
        launch->fitted = rank_launch_fit(launch, diag);
    }
    return launch->fitted && (!program->overflows || launch->empty || check_values(launch, diag));
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
    evaluate_slots(program, vars);
    program->ready = false;
    for (size_t l = 0; l < program->n_launches; l++) {
        struct rank_launch *launch = &program->launches[l];
        bool runs = in_range(launch->when, vars);
        if (runs && !launch->fixed && launch->kind == RANK_LAUNCH_KERNEL &&
            !refit(program, launch, diag)) {
            return false;
        }
        // One that does not run now does not follow its slots.
        launch->fitted = launch->fitted && runs;
        launch->skipped = !runs || launch->empty;
    }
    memcpy(program->ready_for, vars, bytes);
    program->ready = true;
    return true;
}
