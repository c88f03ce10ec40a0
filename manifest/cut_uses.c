// SPDX-License-Identifier: Apache-2.0
//
// What a kept call drags along. Each op and buffer is walked through when it is first named.
#include "manifest/cut_parts.h"

void kern_cut_uses_open(struct kern_cut_uses *uses, const struct kern_manifest *manifest,
                        struct kern_arena *arena)
{
    *uses = (struct kern_cut_uses){
        .manifest = manifest,
        .vars = kern_arena_array(arena, manifest->n_vars, sizeof(bool)),
        .states = kern_arena_array(arena, manifest->n_states, sizeof(bool)),
        .buffers = kern_arena_array(arena, manifest->n_buffers, sizeof(bool)),
        .modules = kern_arena_array(arena, manifest->n_modules, sizeof(bool)),
        .ops = kern_arena_array(arena, manifest->n_ops, sizeof(bool)),
        .programs = kern_arena_array(arena, manifest->n_programs, sizeof(bool)),
        .written = kern_arena_array(arena, manifest->n_buffers, sizeof(bool)),
    };
}

static void use_ref(bool *used, const struct kern_ref *ref)
{
    if (ref->name)
        used[ref->index] = true;
}

static void use_shape(struct kern_cut_uses *uses, const struct kern_dim *shape, size_t rank)
{
    for (size_t i = 0; i < rank; i++)
        use_ref(uses->vars, &shape[i].var);
}

static void use_value(struct kern_cut_uses *uses, const struct kern_value *value)
{
    if (value->kind == KERN_VALUE_VAR)
        use_ref(uses->vars, &value->ref);
    if (value->kind == KERN_VALUE_EXPR)
        kern_expr_vars(value->expr, uses->vars);
    for (size_t i = 0; value->kind == KERN_VALUE_PACK && i < value->pack->n_fields; i++)
        use_value(uses, &value->pack->fields[i].value);
}

static void use_launch(struct kern_cut_uses *uses, const struct kern_launch *launch)
{
    if (launch->when)
        use_ref(uses->vars, &launch->when->var);
    for (size_t i = 0; i < launch->n_args; i++)
        use_value(uses, &launch->args[i]);
    if (launch->is_extern)
        return;
    use_ref(uses->modules, &launch->module);
    for (size_t i = 0; i < 3; i++)
        kern_expr_vars(launch->grid[i], uses->vars);
    if (launch->shared_mem)
        kern_expr_vars(launch->shared_mem, uses->vars);
}

static void use_op(struct kern_cut_uses *uses, uint32_t index)
{
    const struct kern_op *op = &uses->manifest->ops[index];
    if (uses->ops[index])
        return;
    uses->ops[index] = true;
    for (size_t i = 0; i < op->n_scratch; i++)
        use_shape(uses, op->scratch[i].shape, op->scratch[i].rank);
    for (size_t i = 0; i < op->n_launches; i++)
        use_launch(uses, &op->launches[i]);
}

static void use_memory(struct kern_cut_uses *uses, const struct kern_access *access)
{
    if (access->target == KERN_TARGET_STATE)
        uses->states[access->index] = true;
    if (access->target != KERN_TARGET_BUFFER)
        return;
    const struct kern_buffer *buffer = &uses->manifest->buffers[access->index];
    uses->buffers[access->index] = true;
    uses->written[access->index] = uses->written[access->index] || access->writes;
    use_shape(uses, buffer->shape, buffer->rank);
}

void kern_cut_use_call(struct kern_cut_uses *uses, const struct kern_call *call)
{
    use_op(uses, call->op.index);
    for (size_t i = 0; i < call->n_args; i++) {
        struct kern_access access = kern_call_access(uses->manifest, call, i);
        use_memory(uses, &access);
        use_value(uses, &call->args[i]);
    }
}

void kern_cut_use_batch(struct kern_cut_uses *uses, const struct kern_batch *batch)
{
    use_ref(uses->vars, &batch->rows.var);
    use_ref(uses->vars, &batch->context);
}

static void use_bound(struct kern_cut_uses *uses, const struct kern_bound *bound)
{
    if (bound->kind == KERN_BOUND_EXPR)
        kern_expr_vars(bound->expr, uses->vars);
}

void kern_cut_use_domain(struct kern_cut_uses *uses, const struct kern_domain *domain)
{
    use_bound(uses, &domain->min);
    use_bound(uses, &domain->max);
}
