// SPDX-License-Identifier: Apache-2.0
//
// From the entry that a launch names to a function of the driver. Several modules of one artifact
// may hold an entry of that name; the one whose parameters lie as the launch declares them is
// meant.
#include "rank/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "rank/layout.h"

// What a block may use without opting in: static and dynamic shared memory together, on every
// device (the CUDA programming guide's table of compute capabilities).
#define SHARED_WITHOUT_OPT_IN (48u << 10)

// The most blocks of a cluster that every device with clusters takes (the same table).
#define CLUSTER_PORTABLE 8u

// One launch that looks for its function.
struct wanted {
    struct kern_rank *rank;
    const struct kern_launch *launch;
    const struct kern_module *module;
    const char *place; // "ops.add.impl.launches[0]"
    struct kern_diag *diag;
};

// Asks the driver for the parameters of [function].
static bool read_layout(const struct wanted *wanted, CUfunction function,
                        struct rank_layout *layout)
{
    for (;;) {
        size_t offset = 0, bytes = 0;
        CUresult result =
            wanted->rank->device->cu.cuFuncGetParamInfo(function, layout->count, &offset, &bytes);
        if (result == CUDA_ERROR_INVALID_VALUE) {
            return true;
        }
        if (!kern_cuda_check(wanted->rank->device, result, "cuFuncGetParamInfo", wanted->place,
                             wanted->diag)) {
            return false;
        }
        rank_layout_add(layout, offset, bytes);
    }
}

// Compares the layout of [function] with the launch's. *[misfit] gets what is different, or NULL.
static bool compare_layouts(const struct wanted *wanted, CUfunction function, const char **misfit)
{
    struct rank_layout layout = {0};
    struct kern_arena *arena = &wanted->diag->arena;
    bool ok = read_layout(wanted, function, &layout);
    uint32_t index = ok ? rank_layout_misfit(&layout, wanted->launch) : KERN_NONE;
    *misfit = NULL;
    if (index != KERN_NONE) {
        *misfit = kern_arena_print(arena, "%s (all of them: %s)",
                                   rank_layout_misfit_text(arena, &layout, wanted->launch, index),
                                   layout.count > 0 ? rank_layout_text(arena, &layout) : "none");
    }
    free(layout.items);
    return ok;
}

// Finds the function in the modules of the launch's artifact. *[function] stays NULL if none fits,
// which is not said here, as [misfits] then tells what there is.
static bool find_function(const struct wanted *wanted, CUfunction *function, const char **misfits)
{
    const struct rank_modules *modules = &wanted->rank->modules;
    uint32_t artifact = modules->artifact_of[wanted->launch->module.index];
    *misfits = NULL;
    for (size_t i = 0; i < modules->count && *function == NULL; i++) {
        if (modules->artifact[i] != artifact) {
            continue;
        }
        CUfunction found = NULL;
        CUresult result = wanted->rank->device->cu.cuModuleGetFunction(&found, modules->handles[i],
                                                                       wanted->launch->entry);
        if (result == CUDA_ERROR_NOT_FOUND) {
            continue;
        }
        const char *misfit = NULL;
        if (!kern_cuda_check(wanted->rank->device, result, "cuModuleGetFunction", wanted->place,
                             wanted->diag) ||
            !compare_layouts(wanted, found, &misfit)) {
            return false;
        }
        if (misfit == NULL) {
            *function = found;
        } else if (*misfits == NULL) {
            *misfits = misfit;
        } else {
            *misfits = kern_arena_print(&wanted->diag->arena, "%s; in other code of that name, %s",
                                        *misfits, misfit);
        }
    }
    return true;
}

static bool report_unresolved(const struct wanted *wanted, const char *misfits)
{
    const struct kern_launch *launch = wanted->launch;
    if (misfits == NULL) {
        return kern_fail(wanted->diag, KERN_EXIT_ARTIFACT, wanted->place,
                         "module %s (%s) has no entry %s", wanted->module->name,
                         wanted->module->source, launch->entry);
    }
    return kern_fail(wanted->diag, KERN_EXIT_ARTIFACT, wanted->place,
                     "entry %s of module %s (%s): %s", launch->entry, wanted->module->name,
                     wanted->module->source, misfits);
}

// The index of [handle] in the rank's functions, where it is added if it is new.
static uint32_t function_index(const struct wanted *wanted, CUfunction handle)
{
    struct rank_modules *modules = &wanted->rank->modules;
    for (size_t i = 0; i < modules->n_functions; i++) {
        if (modules->functions[i].handle == handle) {
            return (uint32_t)i;
        }
    }
    kern_reserve(&modules->functions, &modules->functions_capacity, modules->n_functions + 1,
                 sizeof(*modules->functions));
    modules->functions[modules->n_functions] =
        (struct rank_function){.handle = handle, .place = wanted->place};
    return (uint32_t)modules->n_functions++;
}

// The var values at which a launch asks for most: all at max, the var of its `when` in the range.
// False if none are, so that it never runs.
static bool launch_maxima(const struct kern_manifest *manifest, const struct kern_launch *launch,
                          uint64_t *vars)
{
    for (uint32_t v = 0; v < manifest->n_vars; v++) {
        vars[v] = manifest->vars[v].max;
    }
    const struct kern_when *when = launch->when;
    uint64_t low = 1;
    return when == NULL || kern_when_narrow(when, &low, &vars[when->var.index]);
}

// Notes what this launch asks of its function.
static bool note_needs(const struct wanted *wanted, struct rank_function *function, uint64_t *vars)
{
    const struct kern_launch *launch = wanted->launch;
    uint64_t bytes = 0;
    if (!launch_maxima(wanted->rank->manifest, launch, vars)) {
        return true;
    }
    if (launch->shared_mem != NULL && !kern_expr_value(launch->shared_mem, vars, &bytes)) {
        return kern_fail(wanted->diag, KERN_EXIT_MANIFEST, wanted->place,
                         "shared_mem overflows at the maxima of the vars");
    }
    if (bytes > function->dynamic_shared) {
        function->dynamic_shared = bytes;
    }
    if (launch->has_cluster &&
        launch->cluster[0] * launch->cluster[1] * launch->cluster[2] > CLUSTER_PORTABLE) {
        function->cluster_beyond_portable = true;
    }
    int threads = 0;
    if (!KERN_CU(wanted->rank->device, wanted->diag, wanted->place, cuFuncGetAttribute, &threads,
                 CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function->handle)) {
        return false;
    }
    uint64_t block = (uint64_t)launch->block[0] * launch->block[1] * launch->block[2];
    if (block > (uint64_t)threads) {
        return kern_fail(wanted->diag, KERN_EXIT_ARTIFACT, wanted->place,
                         "a block of %llu threads is declared; entry %s takes at most %d on this "
                         "device",
                         (unsigned long long)block, launch->entry, threads);
    }
    return true;
}

// Opts in to what the launches of a function need, once, and has its code brought to the device:
// code that is loaded at the first launch waits for the device, on which a kernel may be waiting
// for a peer. [opt_in] is the most shared memory that a block of the device can have.
static bool prepare_function(const struct kern_device *device, const struct rank_function *function,
                             int opt_in, struct kern_diag *diag)
{
    int fixed = 0;
    if (!KERN_CU(device, diag, function->place, cuFuncGetAttribute, &fixed,
                 CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function->handle)) {
        return false;
    }
    uint64_t shared = function->dynamic_shared + (uint64_t)fixed;
    if (shared > (uint64_t)opt_in) {
        return kern_fail(diag, KERN_EXIT_ARTIFACT, function->place,
                         "%llu bytes of dynamic and %d of static shared memory are needed at the "
                         "maxima of the vars; a block of this device has at most %d",
                         (unsigned long long)function->dynamic_shared, fixed, opt_in);
    }
    if (shared > SHARED_WITHOUT_OPT_IN &&
        !KERN_CU(device, diag, function->place, cuFuncSetAttribute, function->handle,
                 CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)function->dynamic_shared)) {
        return false;
    }
    if (function->cluster_beyond_portable &&
        !KERN_CU(device, diag, function->place, cuFuncSetAttribute, function->handle,
                 CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)) {
        return false;
    }
    return KERN_CU(device, diag, function->place, cuFuncLoad, function->handle);
}

static bool resolve_launch(struct wanted *wanted, uint32_t *index, uint64_t *vars)
{
    CUfunction handle = NULL;
    const char *misfits = NULL;
    wanted->module = &wanted->rank->manifest->modules[wanted->launch->module.index];
    if (!find_function(wanted, &handle, &misfits)) {
        return false;
    }
    if (handle == NULL) {
        return report_unresolved(wanted, misfits);
    }
    *index = function_index(wanted, handle);
    return note_needs(wanted, &wanted->rank->modules.functions[*index], vars);
}

// Every launch is looked at, so that all that do not fit are reported together.
static bool resolve_op(struct kern_rank *rank, const struct kern_op *op, uint32_t *indices,
                       uint64_t *vars, struct kern_diag *diag)
{
    bool ok = true;
    for (size_t l = 0; l < op->n_launches; l++) {
        struct wanted wanted = {.rank = rank, .launch = &op->launches[l], .diag = diag};
        indices[l] = KERN_NONE;
        if (!wanted.launch->is_extern) {
            wanted.place = kern_arena_print(&rank->arena, "ops.%s.impl.launches[%zu]", op->name, l);
            ok = resolve_launch(&wanted, &indices[l], vars) && ok;
        }
    }
    return ok;
}

bool rank_functions_resolve(struct kern_rank *rank, struct kern_diag *diag)
{
    const struct kern_manifest *manifest = rank->manifest;
    struct rank_modules *modules = &rank->modules;
    int opt_in = 0;
    if (!KERN_CU(rank->device, diag, "asking for the device's shared memory", cuDeviceGetAttribute,
                 &opt_in, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, rank->cu_device)) {
        return false;
    }
    modules->launch_functions =
        kern_arena_array(&rank->arena, manifest->n_ops, sizeof(*modules->launch_functions));
    uint64_t *vars = kern_calloc(manifest->n_vars + 1, sizeof(*vars));
    bool ok = true;
    for (uint32_t o = 0; o < manifest->n_ops; o++) {
        const struct kern_op *op = &manifest->ops[o];
        modules->launch_functions[o] =
            kern_arena_array(&rank->arena, op->n_launches, sizeof(uint32_t));
        ok = resolve_op(rank, op, modules->launch_functions[o], vars, diag) && ok;
    }
    free(vars);
    for (size_t f = 0; ok && f < modules->n_functions; f++) {
        ok = prepare_function(rank->device, &modules->functions[f], opt_in, diag);
    }
    return ok;
}
