// SPDX-License-Identifier: Apache-2.0
#include "manifest/verify.h"

#include "manifest/suggest.h"

// A search looks at every name there is; a manifest in which everything is misspelt gets no more.
#define SUGGESTIONS_MAX 64

static void (*const families[])(struct kern_verify *verify) = {
    kern_resolve,       kern_rules_declaration, kern_rules_shape,   kern_rules_state,
    kern_rules_bind,    kern_rules_buffer,      kern_rules_domain,  kern_rules_launch,
    kern_rules_extern,  kern_rules_args,        kern_rules_pack,    kern_rules_tma,
    kern_rules_program, kern_rules_call,        kern_rules_operand, kern_rules_reach,
    kern_rules_flow,    kern_rules_unused,
};

const char *kern_verify_near(struct kern_verify *verify, const char *name, const void *items,
                             size_t count, size_t stride)
{
    if (verify->suggestions == 0)
        return "";
    verify->suggestions--;
    return kern_did_you_mean(&verify->arena, name, items, count, stride);
}

static const char *where_declared(struct kern_verify *verify, enum kern_space space)
{
    if (space == KERN_SPACE_GROUP && !verify->manifest->has_topology)
        return "; the manifest has no topology";
    return verify->named[space].count == 0 ? "; none is declared" : "";
}

bool kern_resolve_ref(struct kern_verify *verify, enum kern_space space, const struct kern_ref *ref,
                      const char *rule, uint64_t order, const struct kern_place *place)
{
    struct kern_named *named = &verify->named[space];
    struct kern_ref *resolved = kern_rewrite(ref);
    resolved->index = ref->name ? kern_names_find(named->names, ref->name) : KERN_NONE;
    if (!ref->name)
        return true;
    if (resolved->index != KERN_NONE) {
        named->used[resolved->index] = true;
        return true;
    }
    named->dangling = true;
    return kern_place_fail(
        verify->diag, rule, order, place, "unknown %s \"%s\"%s%s", named->what, ref->name,
        where_declared(verify, space),
        kern_verify_near(verify, ref->name, named->items, named->count, named->stride));
}

bool kern_corners_enter(struct kern_verify *verify, const struct kern_launch *launch)
{
    const struct kern_when *when = launch->when;
    if (!when)
        return true;
    if (when->var.index == KERN_NONE)
        return false;
    return kern_when_narrow(when, &verify->low[when->var.index], &verify->high[when->var.index]);
}

static uint64_t highest(const struct kern_var *var)
{
    return var->max ? var->max : 1;
}

void kern_corners_leave(struct kern_verify *verify, const struct kern_launch *launch)
{
    if (!launch->when)
        return;
    uint32_t var = launch->when->var.index;
    verify->low[var] = 1;
    verify->high[var] = highest(&verify->manifest->vars[var]);
}

static bool is_sound(const struct kern_expr *expr)
{
    if (expr->kind == KERN_EXPR_VAR && expr->var.index == KERN_NONE)
        return false;
    if ((expr->kind == KERN_EXPR_CEIL_DIV || expr->kind == KERN_EXPR_MUL) && expr->value == 0)
        return false;
    return (!expr->a || is_sound(expr->a)) && (!expr->b || is_sound(expr->b));
}

bool kern_expr_high_quiet(const struct kern_verify *verify, const struct kern_expr *expr,
                          uint64_t *value)
{
    return is_sound(expr) && kern_expr_value(expr, verify->high, value);
}

bool kern_expr_high(struct kern_verify *verify, const struct kern_expr *expr, uint64_t order,
                    const struct kern_place *place, uint64_t *value)
{
    if (kern_expr_high_quiet(verify, expr, value))
        return true;
    if (is_sound(expr))
        kern_place_fail(verify->diag, "V-EXPR", order, place,
                        "the expression exceeds 64 bits with the vars at their max");
    return false;
}

uint64_t kern_expr_low(const struct kern_verify *verify, const struct kern_expr *expr)
{
    // Expressions do not fall when a var rises, so what has a value above has one here.
    uint64_t value = 0;
    kern_expr_value(expr, verify->low, &value);
    return value;
}

void kern_each_launch(struct kern_verify *verify,
                      void (*visit)(struct kern_verify *verify, const struct kern_launch_at *at))
{
    const struct kern_manifest *manifest = verify->manifest;
    struct kern_place ops = kern_place_member(NULL, "ops");
    for (uint32_t i = 0; i < manifest->n_ops; i++) {
        const struct kern_op *op = &manifest->ops[i];
        struct kern_place op_place = kern_place_member(&ops, op->name);
        struct kern_place impl = kern_place_member(&op_place, "impl");
        struct kern_place launches = kern_place_member(&impl, "launches");
        for (size_t j = 0; j < op->n_launches; j++) {
            struct kern_place place = kern_place_element(&launches, j);
            struct kern_launch_at at = {op, &verify->op_facts[i], &op->launches[j], &place};
            visit(verify, &at);
        }
    }
}

void kern_each_field(struct kern_verify *verify, const struct kern_launch_at *at,
                     void (*visit)(struct kern_verify *verify, const struct kern_launch_at *at,
                                   const struct kern_field *field, const struct kern_place *place))
{
    for (size_t i = 0; i < kern_own_args(at->launch); i++) {
        if (at->launch->args[i].kind != KERN_VALUE_PACK)
            continue;
        const struct kern_pack *pack = at->launch->args[i].pack;
        struct kern_place arg = kern_place_numbered(at->place, "arg", i);
        struct kern_place pack_place = kern_place_member(&arg, "pack");
        for (size_t j = 0; j < pack->n_fields; j++) {
            struct kern_place place = kern_place_numbered(&pack_place, "field", j);
            visit(verify, at, &pack->fields[j], &place);
        }
    }
}

void kern_each_call(struct kern_verify *verify,
                    void (*visit)(struct kern_verify *verify, const struct kern_call_at *at),
                    void *data)
{
    const struct kern_manifest *manifest = verify->manifest;
    struct kern_place programs = kern_place_member(NULL, "programs");
    for (uint32_t i = 0; i < manifest->n_programs; i++) {
        const struct kern_program *program = &manifest->programs[i];
        struct kern_place program_place = kern_place_member(&programs, program->name);
        struct kern_place calls = kern_place_member(&program_place, "calls");
        for (size_t j = 0; j < program->n_calls; j++) {
            const struct kern_call *call = &program->calls[j];
            struct kern_place place = kern_place_element(&calls, j);
            place.label = call->label;
            bool known = call->op.index != KERN_NONE;
            const struct kern_op *op = known ? &manifest->ops[call->op.index] : NULL;
            struct kern_call_at at = {
                .program = program,
                .call = call,
                .op = op,
                .facts = known ? &verify->op_facts[call->op.index] : NULL,
                .whole = known && call->n_args == op->n_params,
                .place = &place,
                .data = data,
            };
            visit(verify, &at);
        }
    }
}

static void add_space(struct kern_verify *verify, enum kern_space space, const char *what,
                      const struct kern_names *names, const void *items, uint32_t count,
                      size_t stride)
{
    verify->named[space] = (struct kern_named){
        .what = what,
        .names = names,
        .items = items,
        .count = count,
        .stride = stride,
        .used = kern_arena_array(&verify->arena, count, sizeof(bool)),
    };
}

static void prepare(struct kern_verify *verify)
{
    struct kern_manifest *m = verify->manifest;
#define ADD_SPACE(space, name)                                                                     \
    add_space(verify, space, #name, &m->name##_names, m->name##s, m->n_##name##s,                  \
              sizeof *m->name##s)
    ADD_SPACE(KERN_SPACE_VAR, var);
    ADD_SPACE(KERN_SPACE_GROUP, group);
    ADD_SPACE(KERN_SPACE_STATE, state);
    ADD_SPACE(KERN_SPACE_BUFFER, buffer);
    ADD_SPACE(KERN_SPACE_MODULE, module);
    ADD_SPACE(KERN_SPACE_OP, op);
#undef ADD_SPACE

    verify->low = kern_arena_array(&verify->arena, m->n_vars, sizeof *verify->low);
    verify->high = kern_arena_array(&verify->arena, m->n_vars, sizeof *verify->high);
    for (uint32_t i = 0; i < m->n_vars; i++) {
        verify->low[i] = 1;
        verify->high[i] = highest(&m->vars[i]);
    }
    verify->op_facts = kern_arena_array(&verify->arena, m->n_ops, sizeof *verify->op_facts);
    for (uint32_t i = 0; i < m->n_ops; i++)
        verify->op_facts[i].demands =
            kern_arena_array(&verify->arena, m->ops[i].n_params, sizeof(struct kern_demand));
    verify->suggestions = SUGGESTIONS_MAX;
}

bool kern_manifest_verify(struct kern_manifest *manifest, struct kern_diag *diag)
{
    struct kern_verify verify = {.manifest = manifest, .diag = diag};
    size_t errors = diag->errors;
    prepare(&verify);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        families[i](&verify);
    kern_arena_free(&verify.arena);
    kern_diag_sort(diag);
    manifest->verified = diag->errors == errors;
    return manifest->verified;
}
