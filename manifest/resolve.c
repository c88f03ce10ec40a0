// SPDX-License-Identifier: Apache-2.0
//
// The first family: every reference gets its index, the launches of built-ins the built-in, the
// fields of packs their widths. A name that stands for nothing is an error of the rule that speaks
// of the thing that names it.
#include <string.h>

#include "manifest/builtin.h"
#include "manifest/verify.h"

static void resolve_expr(struct kern_verify *verify, const struct kern_expr *expr, const char *rule,
                         uint64_t order, const struct kern_place *place)
{
    if (expr->kind == KERN_EXPR_VAR)
        kern_resolve_ref(verify, KERN_SPACE_VAR, &expr->var, rule, order, place);
    if (expr->kind == KERN_EXPR_CEIL_DIV && expr->value == 0)
        kern_place_fail(verify->diag, "V-EXPR", order, place,
                        "ceil_div divides by 0; the constant must be at least 1");
    if (expr->kind == KERN_EXPR_MUL && expr->value == 0)
        kern_place_fail(verify->diag, "V-EXPR", order, place,
                        "mul multiplies by 0; the constant must be at least 1");
    if (expr->a)
        resolve_expr(verify, expr->a, rule, order, place);
    if (expr->b)
        resolve_expr(verify, expr->b, rule, order, place);
}

static void resolve_shape(struct kern_verify *verify, const struct kern_dim *shape, size_t rank,
                          uint64_t order, const struct kern_place *owner)
{
    struct kern_place shape_place = kern_place_member(owner, "shape");
    for (size_t i = 0; i < rank; i++) {
        struct kern_place place = kern_place_element(&shape_place, i);
        kern_resolve_ref(verify, KERN_SPACE_VAR, &shape[i].var, "V-SHAPE", order, &place);
    }
}

// Resolves a name of a buffer or a state. That such a name does not stand for both, nor for
// [buffer], which refers to it, is asked here too: otherwise it stands for nothing.
static enum kern_target resolve_target(struct kern_verify *verify, const struct kern_buffer *buffer,
                                       const struct kern_ref *ref, const char *rule, bool is_use,
                                       uint64_t order, const struct kern_place *place)
{
    struct kern_named *buffers = &verify->named[KERN_SPACE_BUFFER];
    struct kern_named *states = &verify->named[KERN_SPACE_STATE];
    struct kern_ref *resolved = kern_rewrite(ref);
    uint32_t as_buffer = kern_names_find(buffers->names, ref->name);
    uint32_t as_state = kern_names_find(states->names, ref->name);
    if (is_use && as_buffer != KERN_NONE)
        buffers->used[as_buffer] = true;
    if (is_use && as_state != KERN_NONE)
        states->used[as_state] = true;

    resolved->index = KERN_NONE;
    if (as_buffer != KERN_NONE && as_state != KERN_NONE) {
        kern_place_fail(verify->diag, rule, order, place,
                        "\"%s\" is both a buffer and a state; rename one of them", ref->name);
        return KERN_TARGET_NONE;
    }
    if (as_buffer == KERN_NONE && as_state == KERN_NONE) {
        buffers->dangling = buffers->dangling || is_use;
        states->dangling = states->dangling || is_use;
        const char *near =
            kern_verify_near(verify, ref->name, buffers->items, buffers->count, buffers->stride);
        if (!*near)
            near =
                kern_verify_near(verify, ref->name, states->items, states->count, states->stride);
        kern_place_fail(verify->diag, rule, order, place, "unknown buffer or state \"%s\"%s",
                        ref->name, near);
        return KERN_TARGET_NONE;
    }
    if (strcmp(ref->name, buffer->name) == 0) {
        kern_place_fail(verify->diag, rule, order, place,
                        "the buffer names itself; it must name another one");
        return KERN_TARGET_NONE;
    }
    resolved->index = as_buffer != KERN_NONE ? as_buffer : as_state;
    return as_buffer != KERN_NONE ? KERN_TARGET_BUFFER : KERN_TARGET_STATE;
}

static void resolve_domain(struct kern_verify *verify, const struct kern_buffer *buffer,
                           const struct kern_place *buffer_place)
{
    struct kern_domain *domain = kern_rewrite(buffer->domain);
    struct kern_place place = kern_place_member(buffer_place, "domain");
    struct kern_place min = kern_place_member(&place, "min");
    struct kern_place max = kern_place_member(&place, "max");
    struct kern_place into = kern_place_member(&place, "index_into");
    if (domain->min.kind == KERN_BOUND_EXPR)
        resolve_expr(verify, domain->min.expr, "V-DOMAIN", domain->order, &min);
    if (domain->max.kind == KERN_BOUND_EXPR)
        resolve_expr(verify, domain->max.expr, "V-DOMAIN", domain->order, &max);
    domain->target = KERN_TARGET_NONE;
    // Being indexed into does not count as a use.
    if (domain->index_into.name)
        domain->target = resolve_target(verify, buffer, &domain->index_into, "V-DOMAIN", false,
                                        domain->order, &into);
}

static void resolve_ranges(struct kern_verify *verify, const struct kern_ranges *ranges,
                           uint64_t order, const struct kern_place *segment, const char *member)
{
    if (!ranges)
        return;
    struct kern_place place = kern_place_member(segment, member);
    kern_resolve_ref(verify, KERN_SPACE_GROUP, &ranges->group, "V-BIND", order, &place);
}

static void resolve_segment(struct kern_verify *verify, const struct kern_segment *segment,
                            const struct kern_place *place)
{
    struct kern_place tensor = kern_place_member(place, "tensor");
    kern_resolve_ref(verify, KERN_SPACE_GROUP, &segment->tensor.group, "V-BIND", segment->order,
                     &tensor);
    resolve_ranges(verify, segment->rows, segment->order, place, "rows");
    resolve_ranges(verify, segment->cols, segment->order, place, "cols");
    if (segment->interleave) {
        struct kern_place interleave = kern_place_member(place, "interleave");
        struct kern_place with = kern_place_member(&interleave, "with");
        kern_resolve_ref(verify, KERN_SPACE_GROUP, &segment->interleave->group, "V-BIND",
                         segment->order, &with);
    }
}

static void resolve_buffers(struct kern_verify *verify)
{
    struct kern_place buffers = kern_place_member(NULL, "buffers");
    for (uint32_t i = 0; i < verify->manifest->n_buffers; i++) {
        struct kern_buffer *buffer = kern_rewrite(&verify->manifest->buffers[i]);
        struct kern_place place = kern_place_member(&buffers, buffer->name);
        resolve_shape(verify, buffer->shape, buffer->rank, buffer->order, &place);
        if (buffer->domain)
            resolve_domain(verify, buffer, &place);
        struct kern_place bind = kern_place_member(&place, "bind");
        for (size_t j = 0; j < buffer->n_bind; j++) {
            struct kern_place segment = kern_place_element(&bind, j);
            resolve_segment(verify, &buffer->bind[j], &segment);
        }
        struct kern_place group = kern_place_member(&place, "group");
        kern_resolve_ref(verify, KERN_SPACE_GROUP, &buffer->group, "V-PEER", buffer->order, &group);
        struct kern_place of = kern_place_member(&place, "of");
        buffer->of_target = KERN_TARGET_NONE;
        if (buffer->of.name)
            buffer->of_target =
                resolve_target(verify, buffer, &buffer->of, "V-PEER", true, buffer->order, &of);
    }
}

static void resolve_states(struct kern_verify *verify)
{
    struct kern_place states = kern_place_member(NULL, "states");
    for (uint32_t i = 0; i < verify->manifest->n_states; i++) {
        const struct kern_state *state = &verify->manifest->states[i];
        if (!state->shard)
            continue;
        struct kern_place place = kern_place_member(&states, state->name);
        struct kern_place shard = kern_place_member(&place, "shard");
        struct kern_place group = kern_place_member(&shard, "group");
        kern_resolve_ref(verify, KERN_SPACE_GROUP, &state->shard->group, "V-SHARD", state->order,
                         &group);
    }
}

// The index of the scratch [name] of [op], or KERN_NONE.
static uint32_t find_scratch(const struct kern_op *op, const char *name)
{
    size_t from = 0;
    size_t to = op->n_scratch;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        int order = strcmp(op->scratch[middle].name, name);
        if (order == 0)
            return (uint32_t)middle;
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return KERN_NONE;
}

// The width that a field has of itself, 0 if its param is unknown.
static uint32_t natural_width(const struct kern_op *op, const struct kern_value *value)
{
    switch (value->kind) {
    case KERN_VALUE_PARAM:
        return value->param < op->n_params ? kern_param_bytes(&op->params[value->param]) : 0;
    case KERN_VALUE_BUFFER:
    case KERN_VALUE_STATE:
    case KERN_VALUE_SCRATCH:
    case KERN_VALUE_I64:
        return 8;
    case KERN_VALUE_U8:
        return 1;
    case KERN_VALUE_TENSORMAP:
        return 128;
    case KERN_VALUE_PACK:
        return 0;
    case KERN_VALUE_VAR:
    case KERN_VALUE_EXPR:
    case KERN_VALUE_I32:
    case KERN_VALUE_F32:
    case KERN_VALUE_RANK:
        return 4;
    }
    return 0;
}

static void resolve_wire(struct kern_verify *verify, const struct kern_op *op,
                         const struct kern_value *value, const char *rule,
                         const struct kern_place *place)
{
    if (value->kind == KERN_VALUE_SCRATCH) {
        // A scratch is private to its op, so an unknown one is the affair of V-ARGS and V-PACK.
        struct kern_ref *ref = kern_rewrite(&value->ref);
        ref->index = find_scratch(op, ref->name);
    } else if (value->kind == KERN_VALUE_VAR) {
        kern_resolve_ref(verify, KERN_SPACE_VAR, &value->ref, rule, value->order, place);
    } else if (value->kind == KERN_VALUE_RANK) {
        kern_resolve_ref(verify, KERN_SPACE_GROUP, &value->ref, rule, value->order, place);
    } else if (value->kind == KERN_VALUE_EXPR) {
        resolve_expr(verify, value->expr, "V-EXPR", value->order, place);
    }
}

static void resolve_field(struct kern_verify *verify, const struct kern_launch_at *at,
                          const struct kern_field *field, const struct kern_place *place)
{
    resolve_wire(verify, at->op, &field->value, "V-PACK", place);
    struct kern_field *resolved = kern_rewrite(field);
    if (!field->has_width)
        resolved->width = natural_width(at->op, &field->value);
}

static void resolve_geometry(struct kern_verify *verify, const struct kern_launch *launch,
                             const struct kern_place *place)
{
    struct kern_place module = kern_place_member(place, "module");
    kern_resolve_ref(verify, KERN_SPACE_MODULE, &launch->module, "V-LAUNCH-KERNEL", launch->order,
                     &module);
    struct kern_place grid = kern_place_member(place, "grid");
    for (size_t i = 0; i < 3; i++) {
        struct kern_place axis = kern_place_element(&grid, i);
        resolve_expr(verify, launch->grid[i], "V-EXPR", launch->order, &axis);
    }
    struct kern_place shared_mem = kern_place_member(place, "shared_mem");
    if (launch->shared_mem)
        resolve_expr(verify, launch->shared_mem, "V-EXPR", launch->order, &shared_mem);
}

static void resolve_builtin(const struct kern_launch *launch)
{
    struct kern_launch *resolved = kern_rewrite(launch);
    const struct kern_builtin_info *info =
        launch->is_extern ? kern_builtin_find(launch->entry) : NULL;
    resolved->builtin = info ? info->builtin : KERN_BUILTIN_NONE;
    resolved->builtin_dtype = info ? info->operand : KERN_BF16;
}

static void resolve_launch(struct kern_verify *verify, const struct kern_launch_at *at)
{
    const struct kern_launch *launch = at->launch;
    if (launch->is_extern)
        resolve_builtin(launch);
    else
        resolve_geometry(verify, launch, at->place);
    struct kern_place when = kern_place_member(at->place, "when");
    if (launch->when)
        kern_resolve_ref(verify, KERN_SPACE_VAR, &launch->when->var, "V-WHEN", launch->order,
                         &when);
    for (size_t i = 0; i < kern_own_args(launch); i++) {
        struct kern_place arg = kern_place_numbered(at->place, "arg", i);
        resolve_wire(verify, at->op, &launch->args[i], "V-ARGS", &arg);
    }
    kern_each_field(verify, at, resolve_field);
}

static void resolve_ops(struct kern_verify *verify)
{
    struct kern_place ops = kern_place_member(NULL, "ops");
    for (uint32_t i = 0; i < verify->manifest->n_ops; i++) {
        const struct kern_op *op = &verify->manifest->ops[i];
        struct kern_place place = kern_place_member(&ops, op->name);
        struct kern_place impl = kern_place_member(&place, "impl");
        struct kern_place scratch = kern_place_member(&impl, "scratch");
        for (size_t j = 0; j < op->n_scratch; j++) {
            struct kern_place one = kern_place_member(&scratch, op->scratch[j].name);
            resolve_shape(verify, op->scratch[j].shape, op->scratch[j].rank, op->scratch[j].order,
                          &one);
        }
    }
    kern_each_launch(verify, resolve_launch);
}

static void resolve_batches(struct kern_verify *verify)
{
    struct kern_place programs = kern_place_member(NULL, "programs");
    for (uint32_t i = 0; i < verify->manifest->n_programs; i++) {
        const struct kern_program *program = &verify->manifest->programs[i];
        if (!program->batch)
            continue;
        struct kern_place place = kern_place_member(&programs, program->name);
        struct kern_place batch = kern_place_member(&place, "batch");
        struct kern_place rows = kern_place_member(&batch, "rows");
        struct kern_place context = kern_place_member(&batch, "context");
        kern_resolve_ref(verify, KERN_SPACE_VAR, &program->batch->rows.var, "V-PROGRAM",
                         program->order, &rows);
        kern_resolve_ref(verify, KERN_SPACE_VAR, &program->batch->context, "V-PROGRAM",
                         program->order, &context);
    }
}

static void resolve_call(struct kern_verify *verify, const struct kern_call_at *at)
{
    static const enum kern_space spaces[] = {
        [KERN_VALUE_BUFFER] = KERN_SPACE_BUFFER,
        [KERN_VALUE_STATE] = KERN_SPACE_STATE,
        [KERN_VALUE_VAR] = KERN_SPACE_VAR,
        [KERN_VALUE_RANK] = KERN_SPACE_GROUP,
    };
    kern_resolve_ref(verify, KERN_SPACE_OP, &at->call->op, "V-CALL", at->call->order, at->place);
    for (size_t i = 0; i < at->call->n_args; i++) {
        const struct kern_value *value = &at->call->args[i];
        struct kern_place place = kern_place_numbered(at->place, "arg", i);
        if (value->kind == KERN_VALUE_EXPR)
            resolve_expr(verify, value->expr, "V-EXPR", value->order, &place);
        else if (value->kind == KERN_VALUE_BUFFER || value->kind == KERN_VALUE_STATE ||
                 value->kind == KERN_VALUE_VAR || value->kind == KERN_VALUE_RANK)
            kern_resolve_ref(verify, spaces[value->kind], &value->ref, "V-CALL", value->order,
                             &place);
    }
}

void kern_resolve(struct kern_verify *verify)
{
    resolve_buffers(verify);
    resolve_states(verify);
    resolve_ops(verify);
    resolve_batches(verify);
    kern_each_call(verify, resolve_call, NULL);
}
