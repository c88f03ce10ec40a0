// SPDX-License-Identifier: Apache-2.0
//
// A manifest that uses every key of the schema, field by field.
#include "tests/manifest_parse.h"

static struct kern_manifest *manifest;

static int parse_maximal(void **state)
{
    (void)state;
    char *text = maximal_text();
    manifest = parse_accepted(text, strlen(text));
    uint8_t digest[KERN_SHA256_BYTES];
    kern_sha256(text, strlen(text), digest);
    assert_memory_equal(manifest->digest, digest, sizeof digest);
    free(text);
    return 0;
}

static int destroy(void **state)
{
    (void)state;
    kern_manifest_destroy(manifest);
    return 0;
}

static void assert_ref(struct kern_ref ref, const char *name)
{
    if (name)
        assert_string_equal(ref.name, name);
    else
        assert_null(ref.name);
    assert_int_equal(ref.index, KERN_NONE);
}

static void assert_dim(struct kern_dim dim, const char *var, uint64_t extent)
{
    assert_ref(dim.var, var);
    assert_int_equal(dim.extent, extent);
}

static void assert_const(const struct kern_expr *expr, uint64_t value)
{
    assert_int_equal(expr->kind, KERN_EXPR_CONST);
    assert_int_equal(expr->value, value);
}

static void assert_var(const struct kern_expr *expr, const char *name)
{
    assert_int_equal(expr->kind, KERN_EXPR_VAR);
    assert_ref(expr->var, name);
}

#define FIND(kind, name) (&manifest->kind##s[find(&manifest->kind##_names, name)])

static uint32_t find(const struct kern_names *names, const char *name)
{
    uint32_t index = kern_names_find(names, name);
    assert_int_not_equal(index, KERN_NONE);
    return index;
}

static void test_root(void **state)
{
    (void)state;
    assert_string_equal(manifest->model, "maximal");
    assert_true(manifest->has_chat);
    assert_string_equal(manifest->tool_parser, "hermes");
    assert_true(manifest->has_topology);
    assert_string_equal(manifest->cut->id, "c0ffee");
    assert_int_equal(manifest->cut->stage, 1);
    assert_int_equal(manifest->cut->stages, 3);
    assert_false(manifest->verified);
}

static void test_maps_are_sorted_and_remember_their_order(void **state)
{
    (void)state;
    const char *names[] = {"a", "b", "n", "r"};
    assert_int_equal(manifest->n_vars, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_string_equal(manifest->vars[i].name, names[i]);
        assert_int_equal(find(&manifest->var_names, names[i]), i);
    }
    assert_true(FIND(var, "n")->order < FIND(var, "b")->order);
    assert_true(FIND(var, "b")->order < FIND(var, "r")->order);
    assert_true(FIND(var, "r")->order < FIND(var, "a")->order);
    assert_true(FIND(var, "a")->order < FIND(state, "kv")->order);
    // The order is the byte that a value begins at.
    char *text = maximal_text();
    assert_memory_equal(text + FIND(var, "n")->order - 5, "\"n\": {", 6);
    free(text);
}

static void test_vars_and_groups(void **state)
{
    (void)state;
    assert_int_equal(FIND(var, "n")->max, 128);
    assert_int_equal(FIND(var, "n")->axis, KERN_AXIS_ROWS);
    assert_int_equal(FIND(var, "b")->max, 70);
    assert_int_equal(FIND(var, "b")->axis, KERN_AXIS_GROUPS);
    assert_int_equal(FIND(var, "r")->axis, KERN_AXIS_RANKS);
    assert_int_equal(FIND(var, "a")->axis, KERN_AXIS_NONE);
    assert_int_equal(manifest->n_groups, 2);
    assert_int_equal(FIND(group, "tp")->size, 2);
    assert_int_equal(FIND(group, "ep")->size, 4);
    assert_string_equal(manifest->groups[0].name, "ep");
}

static void test_states(void **state)
{
    (void)state;
    assert_int_equal(manifest->n_states, 4);
    const struct kern_state *kv = FIND(state, "kv");
    assert_int_equal(kv->bytes_per_token, 256);
    assert_int_equal(kv->shard->by, KERN_SHARD_BY_POSITION);
    assert_ref(kv->shard->group, "tp");
    assert_int_equal(kv->shard->n_segments, 0);
    const struct kern_state *ssm = FIND(state, "ssm");
    assert_int_equal(ssm->bytes_per_seq, 64);
    assert_int_equal(ssm->shard->by, KERN_SHARD_BY_HEADS);
    assert_int_equal(ssm->shard->n_segments, 2);
    assert_int_equal(ssm->shard->segments[0][0], 4);
    assert_int_equal(ssm->shard->segments[0][1], 32);
    assert_int_equal(ssm->shard->segments[1][0], 2);
    assert_int_equal(ssm->shard->segments[1][1], 64);
    const struct kern_host_layout *host = FIND(state, "host")->host;
    assert_int_equal(host->dtype, KERN_FP8E4M3);
    assert_int_equal(host->rank, 2);
    assert_int_equal(host->shape[0], 0);
    assert_int_equal(host->shape[1], 64);
    assert_int_equal(host->n_strides, 2);
    assert_int_equal(host->strides[0], 64);
    assert_int_equal(host->strides[1], 1);
    const struct kern_state *flat = FIND(state, "flat");
    assert_int_equal(flat->bytes, 4096);
    assert_null(flat->host);
    assert_null(flat->shard);
}

static void test_buffers(void **state)
{
    (void)state;
    assert_int_equal(manifest->n_buffers, 10);
    const struct kern_buffer *logits = FIND(buffer, "logits");
    assert_int_equal(logits->dtype, KERN_BF16);
    assert_int_equal(logits->kind, KERN_OUTPUT);
    assert_int_equal(logits->rank, 2);
    assert_dim(logits->shape[0], "n", 0);
    assert_dim(logits->shape[1], NULL, 64);
    assert_true(logits->exported);
    assert_int_equal(logits->placement, KERN_ON_DEVICE);
    assert_int_equal(logits->fill, KERN_FILL_NONE);
    assert_null(logits->domain);
    assert_int_equal(logits->n_bind, 0);
    assert_ref(logits->of, NULL);
    assert_ref(logits->group, NULL);

    const struct kern_buffer *peers = FIND(buffer, "peers");
    assert_int_equal(peers->dtype, KERN_U64);
    assert_int_equal(peers->kind, KERN_PEER);
    assert_ref(peers->of, "logits");
    assert_ref(peers->group, "tp");
    assert_null(peers->domain);

    assert_int_equal(FIND(buffer, "slot")->dtype, KERN_I64);
    assert_int_equal(FIND(buffer, "slot")->fill, KERN_FILL_NONE);
    assert_int_equal(FIND(buffer, "scales")->dtype, KERN_FP8E8M0);
    assert_int_equal(FIND(buffer, "scales")->kind, KERN_SOURCE);
    assert_int_equal(FIND(buffer, "x")->dtype, KERN_F16);
    assert_int_equal(FIND(buffer, "x")->kind, KERN_WORKSPACE);
    assert_int_equal(FIND(buffer, "c")->kind, KERN_CARRY);
    assert_dim(FIND(buffer, "c")->shape[0], NULL, UINT64_MAX);
    assert_int_equal(FIND(buffer, "io")->kind, KERN_INOUT);
    assert_dim(FIND(buffer, "io")->shape[0], NULL, 1000);
    assert_dim(FIND(buffer, "io")->shape[1], NULL, 2560);
}

static void test_domains(void **state)
{
    (void)state;
    const struct kern_buffer *token = FIND(buffer, "token");
    assert_int_equal(token->kind, KERN_INPUT);
    assert_int_equal(token->fill, KERN_FILL_TOKEN);
    assert_int_equal(token->domain->min.kind, KERN_BOUND_INT);
    assert_int_equal(token->domain->min.integer, 0);
    assert_int_equal(token->domain->max.kind, KERN_BOUND_EXPR);
    assert_int_equal(token->domain->max.expr->kind, KERN_EXPR_ADD);
    assert_var(token->domain->max.expr->a, "n");
    assert_const(token->domain->max.expr->b, 31999);
    assert_int_equal(token->domain->stride, 1);
    assert_true(token->domain->monotone);
    assert_ref(token->domain->index_into, NULL);

    const struct kern_domain *temperature = FIND(buffer, "temperature")->domain;
    assert_int_equal(temperature->min.kind, KERN_BOUND_FLOAT);
    assert_true(temperature->min.real == 0.5);
    assert_int_equal(temperature->max.kind, KERN_BOUND_FLOAT);
    assert_true(temperature->max.real == 9223372036854775808.0);
    assert_int_equal(temperature->stride, 1);
    assert_false(temperature->monotone);

    const struct kern_domain *slot = FIND(buffer, "slot")->domain;
    assert_int_equal(slot->min.kind, KERN_BOUND_NONE);
    assert_int_equal(slot->max.kind, KERN_BOUND_NONE);
    assert_ref(slot->index_into, "kv");
    assert_int_equal(slot->stride, 16);
    assert_true(slot->order > FIND(buffer, "slot")->order);
}

static void test_bind(void **state)
{
    (void)state;
    const struct kern_buffer *w = FIND(buffer, "w");
    assert_int_equal(w->kind, KERN_WEIGHT);
    assert_int_equal(w->placement, KERN_ON_HOST);
    assert_int_equal(w->n_bind, 3);

    const struct kern_segment *up = &w->bind[0];
    assert_string_equal(up->tensor.name, "up");
    assert_ref(up->tensor.group, NULL);
    assert_ref(up->rows->group, NULL);
    assert_int_equal(up->rows->count, 1);
    assert_int_equal(up->rows->ranges[0][0], 0);
    assert_int_equal(up->rows->ranges[0][1], 64);
    assert_null(up->cols);
    assert_null(up->interleave);

    const struct kern_segment *ranked = &w->bind[1];
    assert_null(ranked->tensor.name);
    assert_ref(ranked->tensor.group, "tp");
    assert_int_equal(ranked->tensor.count, 2);
    assert_string_equal(ranked->tensor.names[0], "w0");
    assert_string_equal(ranked->tensor.names[1], "w1");
    assert_null(ranked->rows);
    assert_ref(ranked->cols->group, "tp");
    assert_int_equal(ranked->cols->count, 2);
    assert_int_equal(ranked->cols->ranges[1][0], 32);
    assert_int_equal(ranked->cols->ranges[1][1], 64);

    const struct kern_segment *gate = &w->bind[2];
    assert_null(gate->interleave->name);
    assert_ref(gate->interleave->group, "tp");
    assert_int_equal(gate->interleave->count, 1);
    assert_string_equal(gate->interleave->names[0], "u0");
    assert_int_equal(gate->interleave_rows, 16);
    assert_true(up->order < ranked->order && ranked->order < gate->order);
}

static void test_modules(void **state)
{
    (void)state;
    const struct kern_module *k = FIND(module, "k");
    assert_string_equal(k->source, "hf:org/repo/k.cubin@main");
    assert_string_equal(k->sha256,
                        "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF");
    assert_int_equal(k->digest[0], 0x00);
    assert_int_equal(k->digest[31], 0xff);
}

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

static void test_smallest(void **state)
{
    (void)state;
    static const char text[] = "{\"schema_version\":7,\"model\":\"\",\"buffers\":{},\"modules\":{},"
                               "\"ops\":{},\"programs\":{}}";
    struct kern_manifest *small = parse_accepted(text, sizeof text - 1);
    assert_false(small->has_chat || small->has_topology);
    assert_null(small->cut);
    assert_int_equal(small->n_vars + small->n_groups + small->n_states + small->n_buffers, 0);
    assert_int_equal(small->n_modules + small->n_ops + small->n_programs, 0);
    assert_int_equal(kern_names_find(&small->var_names, "n"), KERN_NONE);
    kern_manifest_destroy(small);
    kern_manifest_destroy(NULL);
}

static void test_dtypes(void **state)
{
    (void)state;
    static const struct {
        enum kern_dtype dtype;
        const char *name;
        size_t bytes;
        bool is_float;
    } dtypes[] = {
        {KERN_BF16, "bf16", 2, true},       {KERN_F16, "f16", 2, true},
        {KERN_F32, "f32", 4, true},         {KERN_FP8E4M3, "fp8e4m3", 1, true},
        {KERN_FP8E8M0, "fp8e8m0", 1, true}, {KERN_I8, "i8", 1, false},
        {KERN_I32, "i32", 4, false},        {KERN_U32, "u32", 4, false},
        {KERN_I64, "i64", 8, false},        {KERN_U64, "u64", 8, false},
        {KERN_U8, "u8", 1, false},
    };
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        assert_string_equal(kern_dtype_name(dtypes[i].dtype), dtypes[i].name);
        assert_int_equal(kern_dtype_bytes(dtypes[i].dtype), dtypes[i].bytes);
        assert_int_equal(kern_dtype_is_float(dtypes[i].dtype), dtypes[i].is_float);
    }
    assert_string_equal(kern_fill_name(KERN_FILL_CU_SEQLENS), "cu_seqlens");
    assert_string_equal(kern_buffer_kind_name(KERN_WORKSPACE), "workspace");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_root),
        cmocka_unit_test(test_maps_are_sorted_and_remember_their_order),
        cmocka_unit_test(test_vars_and_groups),
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_buffers),
        cmocka_unit_test(test_domains),
        cmocka_unit_test(test_bind),
        cmocka_unit_test(test_modules),
        cmocka_unit_test(test_op),
        cmocka_unit_test(test_kernel_launch),
        cmocka_unit_test(test_launch_args),
        cmocka_unit_test(test_pack),
        cmocka_unit_test(test_default_wiring),
        cmocka_unit_test(test_extern_launch),
        cmocka_unit_test(test_programs),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_smallest),
        cmocka_unit_test(test_dtypes),
    };
    return cmocka_run_group_tests_name("manifest_parse", tests, parse_maximal, destroy);
}
