// SPDX-License-Identifier: Apache-2.0
//
// V-LAUNCH-EXTERN: launches of built-ins have the arguments that the built-in takes.
#include <string.h>

#include "manifest/builtin.h"
#include "manifest/verify.h"

static bool is_result(enum kern_role role)
{
    return role == KERN_ROLE_C || role == KERN_ROLE_RECV;
}

// Whether [param] can take the role; a result may be declared inout although it is only written.
static bool fits(const struct kern_builtin_info *info, enum kern_role role,
                 const struct kern_param *param)
{
    if (role >= KERN_ROLE_M)
        return param->kind == KERN_PARAM_I32 || param->kind == KERN_PARAM_I64;
    if (param->kind != KERN_PARAM_BUFFER || param->dtype != kern_role_dtype(info, role))
        return false;
    if (!is_result(role))
        return param->direction == KERN_IN;
    return param->direction == KERN_BOTH || (param->direction == KERN_OUT && !info->accumulates);
}

// What would fit, as the manifest writes it.
static const char *wanted(const struct kern_builtin_info *info, enum kern_role role, char text[32])
{
    struct kern_param param = {.kind = KERN_PARAM_BUFFER, .direction = KERN_IN};
    if (role >= KERN_ROLE_M)
        return "i32\" or \"i64";
    param.dtype = kern_role_dtype(info, role);
    if (is_result(role))
        param.direction = info->accumulates ? KERN_BOTH : KERN_OUT;
    return kern_param_text(&param, text);
}

static void check_params(struct kern_verify *verify, const struct kern_launch_at *at,
                         const struct kern_builtin_info *info)
{
    const struct kern_launch *launch = at->launch;
    const struct kern_signature *signature = info->signature;
    struct kern_place params = kern_place_member(at->place, "params");
    if (launch->n_params < signature->required || launch->n_params > signature->count) {
        kern_place_fail(verify->diag, "V-LAUNCH-EXTERN", launch->order, at->place,
                        "%zu param%s; %s takes %zu%s%s", launch->n_params,
                        kern_plural(launch->n_params), info->name, signature->required,
                        signature->count > signature->required ? " to " : "",
                        signature->count > signature->required
                            ? kern_arena_print(&verify->arena, "%zu", signature->count)
                            : "");
        return;
    }
    for (size_t i = 0; i < launch->n_params; i++) {
        struct kern_place place = kern_place_element(&params, i);
        enum kern_role role = signature->roles[i];
        char found[32];
        char right[32];
        if (launch->params[i].kind != KERN_PARAM_BYTES && !fits(info, role, &launch->params[i]))
            kern_place_fail(verify->diag, "V-LAUNCH-EXTERN", launch->order,
                            launch->params_given ? &place : at->place,
                            "%s of %s is \"%s\"; it must be \"%s\"", kern_role_name(role),
                            info->name, kern_param_text(&launch->params[i], found),
                            wanted(info, role, right));
    }
}

// The last argument of a collective names its group: at the launch, or, forwarded, at each call.
static void check_group(struct kern_verify *verify, const struct kern_launch_at *at)
{
    const struct kern_launch *launch = at->launch;
    if (launch->n_args != launch->n_params || launch->n_args != 4)
        return;
    const struct kern_value *value = &launch->args[3];
    struct kern_place place = kern_place_numbered(at->place, "arg", 3);
    if (value->kind == KERN_VALUE_PARAM && value->param < at->op->n_params)
        at->facts->demands[value->param].group = true;
    else if (value->kind != KERN_VALUE_PARAM && value->kind != KERN_VALUE_RANK)
        kern_place_fail(verify->diag, "V-LAUNCH-EXTERN", value->order, &place,
                        "the last argument of a collective names its group: {\"rank\": GROUP}");
}

static void refuse_entry(struct kern_verify *verify, const struct kern_launch_at *at)
{
    const char *entry = at->launch->entry;
    struct kern_place place = kern_place_member(at->place, "entry");
    const char *near = kern_builtin_suggest(entry);
    if (strncmp(entry, KERN_EXTERN_PREFIX, strlen(KERN_EXTERN_PREFIX)) != 0)
        kern_place_fail(verify->diag, "V-LAUNCH-EXTERN", at->launch->order, &place,
                        "\"%s\" is no built-in (\"%s...\"); a kernel launch names its module",
                        entry, KERN_EXTERN_PREFIX);
    else
        kern_place_fail(verify->diag, "V-LAUNCH-EXTERN", at->launch->order, &place,
                        "unknown built-in \"%s\"%s%s%s", entry, near ? "; did you mean \"" : "",
                        near ? near : "", near ? "\"?" : "");
}

static void check_extern(struct kern_verify *verify, const struct kern_launch_at *at)
{
    const struct kern_launch *launch = at->launch;
    if (!launch->is_extern)
        return;
    at->facts->has_extern = true;
    struct kern_place params = kern_place_member(at->place, "params");
    for (size_t i = 0; launch->params_given && i < launch->n_params; i++) {
        struct kern_place param = kern_place_element(&params, i);
        if (launch->params[i].kind == KERN_PARAM_BYTES)
            kern_place_fail(verify->diag, "V-LAUNCH-EXTERN", launch->order, &param,
                            "a built-in takes no packed image");
    }
    const struct kern_builtin_info *info = kern_builtin_find(launch->entry);
    if (!info) {
        refuse_entry(verify, at);
        return;
    }
    struct kern_place algo = kern_place_member(at->place, "algo");
    if (launch->algo && !info->takes_algo)
        kern_place_fail(verify->diag, "V-LAUNCH-EXTERN", launch->order, &algo,
                        "only extern:cublaslt_bf16_tn and extern:cublaslt_bf16_tn_acc take an "
                        "algo; this is %s",
                        info->name);
    check_params(verify, at, info);
    if (kern_builtin_is_collective(info->builtin)) {
        at->facts->has_collective = true;
        check_group(verify, at);
    }
}

void kern_rules_extern(struct kern_verify *verify)
{
    kern_each_launch(verify, check_extern);
}
