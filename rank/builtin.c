// SPDX-License-Identifier: Apache-2.0
//
// What all built-in launches have in common: operands by role, values of integers, room behind
// pointers, and the shapes at which a launch can run.
#include "rank/builtin.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

bool rank_operand_value(const struct rank_builtin *builtin, enum kern_role role,
                        const uint64_t *vars, uint64_t *value, struct kern_diag *diag)
{
    const struct rank_value *operand = &builtin->operands[role];
    if (operand->expr == NULL) {
        *value = operand->value;
        return true;
    }
    return kern_expr_value(operand->expr, vars, value) ||
           kern_fail(diag, KERN_EXIT_MANIFEST, builtin->place, "%s overflows at these vars",
                     kern_role_name(role));
}

bool rank_operand_holds(const struct rank_builtin *builtin, enum kern_role role, uint64_t elements)
{
    uint64_t size = kern_dtype_bytes(kern_role_dtype(builtin->info, role));
    return elements <= builtin->operands[role].bytes_left / size;
}

bool rank_operand_refuse(const struct rank_builtin *builtin, enum kern_role role, uint64_t elements,
                         const char *shape, struct kern_diag *diag)
{
    uint64_t bytes, left = builtin->operands[role].bytes_left;
    uint64_t size = kern_dtype_bytes(kern_role_dtype(builtin->info, role));
    if (elements == UINT64_MAX || __builtin_mul_overflow(elements, size, &bytes)) {
        return kern_fail(diag, KERN_EXIT_MANIFEST, builtin->place,
                         "%s needs more bytes than 64 bits can count: %s", kern_role_name(role),
                         shape);
    }
    return kern_fail(diag, KERN_EXIT_MANIFEST, builtin->place,
                     "%s needs %llu bytes and has %llu from the call's offset on: %s",
                     kern_role_name(role), (unsigned long long)bytes, (unsigned long long)left,
                     shape);
}

void *rank_operand_pointer(const struct rank_builtin *builtin, enum kern_role role)
{
    return (void *)(uintptr_t)builtin->operands[role].value;
}

// The least and the greatest values of the vars with which a launch runs; false if there are none.
static bool find_corners(const struct kern_manifest *manifest, const struct kern_when *when,
                         uint64_t *low, uint64_t *high)
{
    for (uint32_t v = 0; v < manifest->n_vars; v++) {
        low[v] = 1;
        high[v] = manifest->vars[v].max;
    }
    if (when == NULL) {
        return true;
    }
    return kern_when_narrow(when, &low[when->var.index], &high[when->var.index]);
}

// Goes on to the next combination of the [used] vars, like an odometer; false after the last.
static bool next_combination(uint64_t *vars, const uint64_t *low, const uint64_t *high,
                             const bool *used, uint32_t n_vars)
{
    for (uint32_t v = 0; v < n_vars; v++) {
        if (used[v] && vars[v] < high[v]) {
            vars[v]++;
            return true;
        }
        vars[v] = low[v];
    }
    return false;
}

// Whether the combinations of the [used] vars are few enough to be visited one by one.
static bool are_few(const uint64_t *low, const uint64_t *high, const bool *used, uint32_t n_vars)
{
    uint64_t count = 1;
    for (uint32_t v = 0; v < n_vars; v++) {
        if (used[v] && (high[v] - low[v] >= RANK_SHAPES_MAX ||
                        (count *= high[v] - low[v] + 1) > RANK_SHAPES_MAX)) {
            return false;
        }
    }
    return true;
}

bool rank_builtin_visit(struct kern_rank *rank, const struct rank_launch *launch, bool between,
                        rank_visit *visit, struct kern_diag *diag)
{
    const struct rank_builtin *builtin = launch->builtin;
    uint32_t n_vars = rank->manifest->n_vars;
    uint64_t *low = kern_calloc(3 * (size_t)n_vars, sizeof(*low));
    uint64_t *high = low + n_vars, *vars = high + n_vars;
    bool *used = kern_calloc(n_vars, sizeof(*used));
    bool ok = true;
    for (size_t i = 0; i < KERN_ROLES; i++) {
        if (builtin->operands[i].expr != NULL) {
            kern_expr_vars(builtin->operands[i].expr, used);
        }
    }
    if (find_corners(rank->manifest, launch->when, low, high)) {
        if (between && are_few(low, high, used, n_vars)) {
            memcpy(vars, low, n_vars * sizeof(*vars));
            do {
                ok = visit(rank, builtin, vars, diag);
            } while (ok && next_combination(vars, low, high, used, n_vars));
        } else {
            ok = visit(rank, builtin, low, diag) && visit(rank, builtin, high, diag);
        }
    }
    free(used);
    free(low);
    return ok;
}

// An integer that is negative as the i32 or i64 that it is would count as a huge extent.
static bool check_sign(const struct rank_builtin *builtin, enum kern_role role,
                       const struct kern_param *param, struct kern_diag *diag)
{
    const struct rank_value *operand = &builtin->operands[role];
    int64_t value =
        param->kind == KERN_PARAM_I32 ? (int32_t)operand->value : (int64_t)operand->value;
    return operand->expr != NULL || value >= 0 ||
           kern_fail(diag, KERN_EXIT_MANIFEST, builtin->place,
                     "%s is %lld; it must not be negative", kern_role_name(role), (long long)value);
}

static bool bind_operands(struct rank_call_site *site, struct rank_builtin *builtin,
                          const struct kern_launch *declared, struct kern_diag *diag)
{
    for (size_t i = 0; i < declared->n_args; i++) {
        enum kern_role role = builtin->info->signature->roles[i];
        struct rank_value *operand = &builtin->operands[role];
        *operand = rank_value_of(site, &declared->args[i]);
        builtin->given[role] = true;
        if (operand->expr != NULL) {
            kern_expr_vars(operand->expr, site->program->reads_var);
        }
        if (role >= KERN_ROLE_M && !check_sign(builtin, role, &declared->params[i], diag)) {
            return false;
        }
    }
    return true;
}

bool rank_builtin_compile(struct rank_call_site *site, const struct kern_launch *declared,
                          struct kern_diag *diag)
{
    struct rank_launch *launch = site->launch;
    struct rank_builtin *builtin = kern_arena_alloc(&site->rank->arena, sizeof(*builtin));
    builtin->info = kern_builtin_find(declared->entry);
    builtin->place = launch->place;
    launch->kind = RANK_LAUNCH_BUILTIN;
    launch->builtin = builtin;
    if (!bind_operands(site, builtin, declared, diag)) {
        return false;
    }
    return kern_builtin_is_collective(declared->builtin)
               ? rank_collective_compile(site, declared, diag)
               : rank_gemm_compile(site, declared, diag);
}

bool rank_builtin_launch(struct kern_rank *rank, const struct rank_launch *launch,
                         const uint64_t *vars, bool *issued, struct kern_diag *diag)
{
    *issued = false;
    return kern_builtin_is_collective(launch->builtin->info->builtin)
               ? rank_collective_launch(rank, launch->builtin, vars, issued, diag)
               : rank_gemm_launch(rank, launch->builtin, vars, issued, diag);
}
