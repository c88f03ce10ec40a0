// SPDX-License-Identifier: Apache-2.0
//
// A manifest that uses every key of the schema, field by field: ops, their launches, and programs.
#include "tests/manifest_maximal.h"

static void assert_param(const struct kern_param *param, const char *text, uint32_t bytes)
{
    char written[32];
    assert_string_equal(kern_param_text(param, written), text);
    assert_int_equal(kern_param_bytes(param), bytes);
}

static void test_op(void **state)
{
    (void)state;
    const struct kern_op *op = FIND(op, "full");
    assert_int_equal(op->n_params, 7);
    assert_param(&op->params[0], "in buffer<bf16>", 8);
    assert_param(&op->params[1], "out state", 8);
    assert_param(&op->params[2], "inout buffer<fp8e8m0>", 8);
    assert_param(&op->params[3], "i32", 4);
    assert_param(&op->params[4], "i64", 8);
    assert_param(&op->params[5], "f32", 4);
    assert_param(&op->params[6], "u8", 1);
    assert_int_equal(op->n_scratch, 2);
    assert_string_equal(op->scratch[0].name, "acc");
    assert_int_equal(op->scratch[0].dtype, KERN_F32);
    assert_dim(op->scratch[0].shape[0], NULL, 64);
    assert_string_equal(op->scratch[1].name, "tmp");
    assert_int_equal(op->scratch[1].dtype, KERN_I8);
    assert_int_equal(op->scratch[1].rank, 2);
    assert_dim(op->scratch[1].shape[0], "n", 0);
    assert_true(op->scratch[1].order < op->scratch[0].order);
    assert_int_equal(FIND(op, "empty")->n_params, 0);
    assert_int_equal(FIND(op, "empty")->n_launches, 0);
}

static void test_kernel_launch(void **state)
{
    (void)state;
    const struct kern_op *op = FIND(op, "full");
    assert_int_equal(op->n_launches, 4);
    const struct kern_launch *launch = &op->launches[0];
    assert_false(launch->is_extern);
    assert_ref(launch->module, "k");
    assert_string_equal(launch->entry, "first");
    assert_int_equal(launch->block[0], 32);
    assert_int_equal(launch->block[1], 64);
    assert_int_equal(launch->block[2], 1);
    assert_int_equal(launch->grid[0]->kind, KERN_EXPR_CEIL_DIV);
    assert_var(launch->grid[0]->a, "n");
    assert_int_equal(launch->grid[0]->value, 64);
    assert_int_equal(launch->grid[1]->kind, KERN_EXPR_MUL);
    assert_int_equal(launch->grid[1]->value, 2);
    assert_int_equal(launch->grid[1]->a->kind, KERN_EXPR_ADD);
    assert_var(launch->grid[1]->a->a, "b");
    assert_const(launch->grid[1]->a->b, 1);
    assert_const(launch->grid[2], 1);
    assert_int_equal(launch->shared_mem->kind, KERN_EXPR_MUL);
    assert_true(launch->has_cluster);
    assert_int_equal(launch->cluster[0], 2);
    assert_true(launch->pdl);
    assert_ref(launch->when->var, "n");
    assert_true(launch->when->has_min && launch->when->has_max);
    assert_int_equal(launch->when->min, 2);
    assert_int_equal(launch->when->max, 64);
    assert_null(launch->algo);
    assert_true(launch->params_given && launch->args_given);
    assert_int_equal(launch->n_params, 8);
    assert_param(&launch->params[6], "bytes<256>", 256);
}

static void test_launch_args(void **state)
{
    (void)state;
    const struct kern_launch *launch = &FIND(op, "full")->launches[0];
    const struct kern_value *args = launch->args;
    assert_int_equal(launch->n_args, 8);
    assert_int_equal(args[0].kind, KERN_VALUE_PARAM);
    assert_int_equal(args[0].param, 0);
    assert_int_equal(args[1].kind, KERN_VALUE_SCRATCH);
    assert_ref(args[1].ref, "acc");
    assert_int_equal(args[2].kind, KERN_VALUE_I32);
    assert_int_equal(args[2].integer, -3);
    assert_int_equal(args[3].kind, KERN_VALUE_I64);
    assert_int_equal(args[3].integer, INT64_MIN);
    assert_int_equal(args[4].kind, KERN_VALUE_F32);
    assert_true(args[4].real == 0.5f);
    assert_int_equal(args[5].kind, KERN_VALUE_U8);
    assert_int_equal(args[5].integer, 255);
    assert_int_equal(args[6].kind, KERN_VALUE_PACK);
    assert_int_equal(args[7].kind, KERN_VALUE_RANK);
    assert_ref(args[7].ref, "tp");
    for (size_t i = 1; i < launch->n_args; i++)
        assert_true(args[i].order > args[i - 1].order);
}

static void test_pack(void **state)
{
    (void)state;
    const struct kern_pack *pack = FIND(op, "full")->launches[0].args[6].pack;
    static const enum kern_value_kind kinds[] = {
        KERN_VALUE_PARAM, KERN_VALUE_SCRATCH,   KERN_VALUE_I32, KERN_VALUE_I64,
        KERN_VALUE_F32,   KERN_VALUE_U8,        KERN_VALUE_VAR, KERN_VALUE_EXPR,
        KERN_VALUE_RANK,  KERN_VALUE_TENSORMAP,
    };
    static const uint32_t at[] = {0, 8, 16, 24, 32, 36, 40, 44, 48, 64};
    assert_int_equal(pack->size, 256);
    assert_int_equal(pack->n_fields, 10);
    const struct kern_field *fields = pack->fields;
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(fields[i].value.kind, kinds[i]);
        assert_int_equal(fields[i].at, at[i]);
        assert_int_equal(fields[i].has_width, i == 1 || i == 5 || i == 7);
    }
    assert_int_equal(fields[0].value.param, 1);
    assert_ref(fields[1].value.ref, "tmp");
    assert_int_equal(fields[1].width, 8);
    assert_int_equal(fields[2].value.integer, INT32_MIN);
    assert_int_equal(fields[3].value.integer, INT64_MAX);
    assert_true(fields[4].value.real == 0.1f);
    assert_int_equal(fields[5].value.integer, 7);
    assert_int_equal(fields[5].width, 1);
    assert_ref(fields[6].value.ref, "n");
    const struct kern_expr *clamp = fields[7].value.expr;
    assert_int_equal(clamp->kind, KERN_EXPR_CLAMP);
    assert_var(clamp->a, "n");
    assert_int_equal(clamp->value, 4);
    assert_int_equal(clamp->length, 64);
    assert_ref(fields[8].value.ref, "ep");

    const struct kern_tensormap *map = fields[9].value.tensormap;
    assert_int_equal(map->param, 0);
    assert_int_equal(map->dtype, KERN_TMA_TF32);
    assert_int_equal(map->n_dims, 2);
    assert_int_equal(map->dims[0], 64);
    assert_int_equal(map->dims[1], 0);
    assert_int_equal(map->n_strides, 1);
    assert_int_equal(map->strides[0], 256);
    assert_int_equal(map->n_box, 2);
    assert_int_equal(map->box[0], 32);
    assert_int_equal(map->box[1], 64);
    assert_int_equal(map->swizzle, 128);
    assert_int_equal(map->l2_promotion, 256);
    assert_true(map->oob_nan);
    assert_true(map->wrap);
}

static void test_default_wiring(void **state)
{
    (void)state;
    const struct kern_op *op = FIND(op, "full");
    const struct kern_launch *launch = &op->launches[1];
    assert_false(launch->params_given || launch->args_given);
    assert_ptr_equal(launch->params, op->params);
    assert_int_equal(launch->n_params, 7);
    assert_int_equal(launch->n_args, 7);
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(launch->args[i].kind, KERN_VALUE_PARAM);
        assert_int_equal(launch->args[i].param, i);
    }
    assert_null(launch->shared_mem);
    assert_null(launch->when);
    assert_false(launch->has_cluster || launch->pdl);
}

static void test_extern_launch(void **state)
{
    (void)state;
    const struct kern_launch *launch = &FIND(op, "full")->launches[2];
    assert_true(launch->is_extern);
    assert_string_equal(launch->entry, "extern:cublaslt_bf16_tn");
    assert_true(launch->params_given && launch->args_given);
    assert_int_equal(launch->n_params, 0);
    assert_int_equal(launch->n_args, 0);
    assert_ref(launch->module, NULL);
    assert_int_equal(launch->algo->id, -1);
    assert_int_equal(launch->algo->tile, 1);
    assert_int_equal(launch->algo->stages, 2);
    assert_int_equal(launch->algo->split_k, -3);
    assert_int_equal(launch->algo->reduction, 4);
    assert_int_equal(launch->algo->swizzle, 5);
    assert_int_equal(launch->algo->custom, 6);
    assert_int_equal(launch->algo->inner_shape, 65535);
    assert_int_equal(launch->algo->cluster_shape, 8);
    assert_ref(launch->when->var, "b");
    assert_false(launch->when->has_min || launch->when->has_max);
    assert_int_equal(launch->when->min, 0);
    assert_int_equal(launch->when->max, UINT64_MAX);
    const struct kern_launch *collective = &FIND(op, "full")->launches[3];
    assert_true(collective->is_extern);
    assert_null(collective->algo);
    assert_int_equal(collective->n_args, 7);
}

static void test_programs(void **state)
{
    (void)state;
    assert_int_equal(manifest->n_programs, 4);
    const struct kern_program *step = FIND(program, "step");
    assert_false(step->once || step->derive);
    assert_true(step->graph);
    assert_int_equal(step->batch->groups, 1);
    assert_dim(step->batch->rows, "n", 0);
    assert_ref(step->batch->context, "b");
    assert_true(FIND(program, "init")->once);
    assert_null(FIND(program, "init")->batch);
    assert_true(FIND(program, "prepare")->derive);
    const struct kern_batch *tail = FIND(program, "tail")->batch;
    assert_int_equal(tail->groups, 64);
    assert_dim(tail->rows, NULL, 64);
    assert_ref(tail->context, NULL);
}

static void test_calls(void **state)
{
    (void)state;
    const struct kern_program *step = FIND(program, "step");
    assert_int_equal(step->n_calls, 2);
    const struct kern_call *call = &step->calls[0];
    assert_string_equal(call->label, "l0.attn");
    assert_ref(call->op, "full");
    assert_int_equal(call->n_args, 7);
    assert_int_equal(call->args[0].kind, KERN_VALUE_BUFFER);
    assert_ref(call->args[0].ref, "w");
    assert_int_equal(call->args[0].offset, 64);
    assert_int_equal(call->args[1].kind, KERN_VALUE_STATE);
    assert_ref(call->args[1].ref, "kv");
    assert_int_equal(call->args[1].offset, 128);
    assert_int_equal(call->args[2].offset, 0);
    assert_int_equal(call->args[3].kind, KERN_VALUE_VAR);
    assert_ref(call->args[3].ref, "n");
    assert_int_equal(call->args[4].kind, KERN_VALUE_EXPR);
    assert_int_equal(call->args[4].expr->kind, KERN_EXPR_ADD);
    assert_int_equal(call->args[5].kind, KERN_VALUE_F32);
    assert_true(call->args[5].real == -1.5f);
    assert_int_equal(call->args[6].kind, KERN_VALUE_U8);
    const struct kern_call *second = &step->calls[1];
    assert_null(second->label);
    assert_int_equal(second->args[0].kind, KERN_VALUE_STATE);
    assert_int_equal(second->args[1].integer, 5);
    assert_int_equal(second->args[2].kind, KERN_VALUE_I64);
    assert_int_equal(second->args[2].integer, 6);
    assert_int_equal(second->args[3].kind, KERN_VALUE_RANK);
    assert_ref(second->args[3].ref, "tp");
    assert_true(second->args[0].order > second->order);
    assert_true(second->order > call->args[6].order);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_op),
        cmocka_unit_test(test_kernel_launch),
        cmocka_unit_test(test_launch_args),
        cmocka_unit_test(test_pack),
        cmocka_unit_test(test_default_wiring),
        cmocka_unit_test(test_extern_launch),
        cmocka_unit_test(test_programs),
        cmocka_unit_test(test_calls),
    };
    return cmocka_run_group_tests_name("manifest_parse_op", tests, parse_maximal, destroy);
}
