// SPDX-License-Identifier: Apache-2.0
//
// A manifest that uses every key of the schema, field by field: what it declares.
#include "tests/manifest_maximal.h"

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
        cmocka_unit_test(test_smallest),
        cmocka_unit_test(test_dtypes),
    };
    return cmocka_run_group_tests_name("manifest_parse", tests, parse_maximal, destroy);
}
