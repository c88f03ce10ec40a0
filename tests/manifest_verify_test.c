// SPDX-License-Identifier: Apache-2.0
//
// What a verification leaves in the manifest, how it reports many errors, and what it suggests.
#include "manifest/flow.h"
#include "manifest/manifest.h"
#include "manifest/suggest.h"
#include "tests/text.h"

#define HASH "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static const char whole[] =
    "{'schema_version': 7, 'model': 'm', 'vars': {'n': {'max': 16}, 'm': {'max': 4}}, "
    "'topology': {'groups': {'tp': 2, 'ep': 4}}, "
    "'states': {'kv': {'bytes_per_token': 64, 'shard': {'by': 'position', 'group': 'ep'}}}, "
    "'buffers': {"
    "'x': {'dtype': 'bf16', 'shape': ['n', 32], 'kind': 'input', 'domain': {'max': 'm'}}, "
    "'i': {'dtype': 'i32', 'shape': ['m'], 'kind': 'input', 'domain': {'index_into': 'kv'}}, "
    "'w': {'dtype': 'bf16', 'shape': [8, 32], 'kind': 'weight', 'bind': [{'tensor': 't', "
    "'rows': {'group': 'tp', 'ranges': [[0, 8], [8, 16]]}}]}, "
    "'c': {'dtype': 'bf16', 'shape': ['n', 8], 'kind': 'output', 'export': true}, "
    "'y': {'dtype': 'u64', 'shape': [2], 'kind': 'peer', 'of': 'c', 'group': 'tp'}}, "
    "'modules': {'k': {'source': 'k', 'sha256': '" HASH "'}, "
    "'j': {'source': 'j', 'sha256': '" HASH "'}}, "
    "'ops': {'gemm': {'params': ['in buffer<bf16>', 'in buffer<bf16>', 'out buffer<bf16>', 'i32', "
    "'i32', 'i32'], 'impl': {'launches': [{'entry': 'extern:cublaslt_bf16_tn', "
    "'when': {'var': 'm', 'min': 2}}]}}, "
    "'attn': {'params': ['in buffer<i32>', 'inout state', 'in buffer<u64>', 'i64'], 'impl': "
    "{'scratch': {'t': {'dtype': 'f32', 'shape': ['n', 'm']}, "
    "'s': {'dtype': 'u8', 'shape': [3]}}, 'launches': [{'module': 'k', 'entry': 'e', "
    "'block': [1, 1, 1], 'grid': [{'add': ['n', 'm']}, 1, 1], "
    "'params': ['bytes<64>'], 'args': [{'pack': {'size': 64, 'fields': [{'at': 0, 'scratch': 't'}, "
    "{'at': 8, 'scratch': 's'}, {'at': 16, 'param': 3}, {'at': 24, 'var': 'm'}, "
    "{'at': 28, 'width': 2, 'rank': 'ep'}, {'at': 32, 'param': 1}]}}]}, "
    "{'module': 'j', 'entry': 'e', 'block': [1, 1, 1], 'grid': [1, 1, 1]}]}}, "
    "'sum': {'params': ['inout buffer<bf16>', 'i32', 'i32'], 'impl': {'launches': [{'entry': "
    "'extern:nccl_allreduce_bf16', 'params': ['in buffer<bf16>', 'out buffer<bf16>', 'i32', "
    "'i32'], "
    "'args': [{'param': 0}, {'param': 0}, {'param': 1}, {'param': 2}]}]}}}, "
    "'programs': {'p': {'calls': ["
    "{'op': 'attn', 'args': [{'buf': 'i'}, {'state': 'kv', 'offset': 8}, {'buf': 'y'}, "
    "{'expr': {'mul': ['n', 2]}}]}, "
    "{'op': 'gemm', 'args': [{'buf': 'x'}, {'buf': 'w'}, {'buf': 'c'}, {'var': 'n'}, {'i32': 8}, "
    "{'i32': 32}]}, "
    "{'op': 'sum', 'args': [{'buf': 'c'}, {'i32': 8}, {'rank': 'tp'}]}]}}}";

// Parses [quoted], which has single quotes for double ones.
static struct kern_manifest *parse(const char *quoted, struct kern_diag *diag)
{
    char *text = text_requoted(quoted);
    struct kern_manifest *manifest = kern_manifest_parse(text, strlen(text), "test", diag);
    if (!manifest)
        kern_diag_print(diag, stderr, 10);
    assert_non_null(manifest);
    free(text);
    return manifest;
}

static struct kern_manifest *verified(struct kern_diag *diag)
{
    struct kern_manifest *manifest = parse(whole, diag);
    bool ok = kern_manifest_verify(manifest, diag);
    kern_diag_print(diag, stderr, 10);
    assert_true(ok && manifest->verified);
    return manifest;
}

// The names that an index must stand for, through the manifest's own maps.
#define BUFFER(manifest, name) kern_names_find(&(manifest)->buffer_names, name)
#define VAR(manifest, name) kern_names_find(&(manifest)->var_names, name)
#define GROUP(manifest, name) kern_names_find(&(manifest)->group_names, name)
#define STATE(manifest, name) kern_names_find(&(manifest)->state_names, name)
#define MODULE(manifest, name) kern_names_find(&(manifest)->module_names, name)
#define OP(manifest, name) kern_names_find(&(manifest)->op_names, name)

static void test_buffers(void **state)
{
    (void)state;
    struct kern_diag diag = {0};
    struct kern_manifest *m = verified(&diag);
    const struct kern_buffer *x = &m->buffers[BUFFER(m, "x")];
    const struct kern_buffer *i = &m->buffers[BUFFER(m, "i")];
    const struct kern_buffer *w = &m->buffers[BUFFER(m, "w")];
    const struct kern_buffer *y = &m->buffers[BUFFER(m, "y")];
    assert_int_equal(x->bytes, 16 * 32 * 2);
    assert_int_equal(x->shape[0].var.index, VAR(m, "n"));
    assert_int_equal(x->shape[1].var.index, KERN_NONE);
    assert_int_equal(x->domain->max.expr->var.index, VAR(m, "m"));
    assert_int_equal(x->of.index, KERN_NONE);
    assert_int_equal(i->bytes, 4 * 4);
    assert_int_equal(i->domain->target, KERN_TARGET_STATE);
    assert_int_equal(i->domain->index_into.index, STATE(m, "kv"));
    assert_int_equal(w->bytes, 8 * 32 * 2);
    assert_int_equal(w->bind[0].rows->group.index, GROUP(m, "tp"));
    assert_int_equal(y->of_target, KERN_TARGET_BUFFER);
    assert_int_equal(y->of.index, BUFFER(m, "c"));
    assert_int_equal(y->group.index, GROUP(m, "tp"));
    assert_int_equal(m->states[0].shard->group.index, GROUP(m, "ep"));
    assert_int_equal(m->modules[0].digest[1], 0x11);
    kern_manifest_destroy(m);
    kern_diag_clear(&diag);
}

static void test_launches(void **state)
{
    (void)state;
    struct kern_diag diag = {0};
    struct kern_manifest *m = verified(&diag);
    const struct kern_op *gemm = &m->ops[OP(m, "gemm")];
    const struct kern_op *attn = &m->ops[OP(m, "attn")];
    const struct kern_op *sum = &m->ops[OP(m, "sum")];

    const struct kern_launch *product = &gemm->launches[0];
    assert_int_equal(product->builtin, KERN_BUILTIN_CUBLASLT_BF16_TN);
    assert_int_equal(product->module.index, KERN_NONE);
    assert_int_equal(product->when->var.index, VAR(m, "m"));
    assert_int_equal(product->n_params, 6);
    assert_int_equal(product->n_args, 6);
    assert_false(product->params_given || product->args_given);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(product->args[i].kind, KERN_VALUE_PARAM);
        assert_int_equal(product->args[i].param, i);
    }

    assert_int_equal(sum->launches[0].builtin, KERN_BUILTIN_NCCL_ALLREDUCE);
    assert_int_equal(sum->launches[0].builtin_dtype, KERN_BF16);

    const struct kern_launch *packed = &attn->launches[0];
    assert_int_equal(packed->builtin, KERN_BUILTIN_NONE);
    assert_int_equal(packed->module.index, MODULE(m, "k"));
    assert_int_equal(attn->launches[1].module.index, MODULE(m, "j"));
    assert_int_equal(packed->grid[0]->b->var.index, VAR(m, "m"));
    const struct kern_field *fields = packed->args[0].pack->fields;
    static const uint32_t widths[] = {8, 8, 8, 4, 2, 8};
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(fields[i].width, widths[i]);
    assert_string_equal(attn->scratch[fields[0].value.ref.index].name, "t");
    assert_string_equal(attn->scratch[fields[1].value.ref.index].name, "s");
    assert_int_equal(attn->scratch[fields[0].value.ref.index].bytes, 16 * 4 * 4);
    assert_int_equal(attn->scratch[fields[1].value.ref.index].bytes, 3);
    assert_int_equal(fields[3].value.ref.index, VAR(m, "m"));
    assert_int_equal(fields[4].value.ref.index, GROUP(m, "ep"));
    kern_manifest_destroy(m);
    kern_diag_clear(&diag);
}

static void test_calls(void **state)
{
    (void)state;
    struct kern_diag diag = {0};
    struct kern_manifest *m = verified(&diag);
    const struct kern_call *calls = m->programs[0].calls;
    assert_int_equal(calls[0].op.index, OP(m, "attn"));
    assert_int_equal(calls[0].args[1].ref.index, STATE(m, "kv"));
    assert_int_equal(calls[0].args[3].expr->a->var.index, VAR(m, "n"));
    assert_int_equal(calls[1].args[3].ref.index, VAR(m, "n"));
    assert_int_equal(calls[2].args[2].ref.index, GROUP(m, "tp"));

    struct kern_access access = kern_call_access(m, &calls[0], 1);
    assert_int_equal(access.target, KERN_TARGET_STATE);
    assert_int_equal(access.index, STATE(m, "kv"));
    assert_int_equal(access.offset, 8);
    assert_true(access.reads && access.writes && !access.whole);
    access = kern_call_access(m, &calls[1], 0);
    assert_int_equal(access.target, KERN_TARGET_BUFFER);
    assert_true(access.reads && !access.writes && !access.whole);
    access = kern_call_access(m, &calls[1], 2);
    assert_int_equal(access.index, BUFFER(m, "c"));
    assert_true(!access.reads && access.writes && access.whole);
    access = kern_call_access(m, &calls[1], 3);
    assert_int_equal(access.target, KERN_TARGET_NONE);
    assert_false(access.reads || access.writes || access.whole);
    kern_manifest_destroy(m);
    kern_diag_clear(&diag);
}

// Errors of several families come in the order of the document, which is not that of the names, and
// a second verification says the same.
static void test_order(void **state)
{
    (void)state;
    static const char broken[] =
        "{'schema_version': 7, 'model': 'm', 'programs': {'z': {'graph': true, 'calls': ["
        "{'op': 'f', 'args': [{'buf': 'a', 'offset': 3}]}, {'op': 'g', 'args': []}]}, "
        "'y': {'calls': [{'op': 'f', 'args': []}]}}, "
        "'buffers': {'a': {'dtype': 'i32', 'shape': [4], 'kind': 'input', 'fill': 'error'}}, "
        "'vars': {'n': {'max': 0}}, "
        "'modules': {'k': {'source': '', 'sha256': '" HASH "'}}, "
        "'ops': {'f': {'params': ['in buffer<i32>'], 'impl': {'launches': [{'module': 'k', "
        "'entry': 'e', 'block': [0, 1, 1], 'grid': ['n', 'q', 1]}]}}}}";
    static const char *const wanted[][2] = {
        {"V-PROGRAM", "programs.z.graph"},
        {"V-CALL", "programs.z.calls[0] arg 0"},
        {"V-CALL", "programs.z.calls[1]"},
        {"V-CALL", "programs.y.calls[0]"},
        {"V-FILL", "buffers.a.fill"},
        {"V-VAR", "vars.n.max"},
        {"V-MODULE", "modules.k.source"},
        {"V-EXPR", "ops.f.impl.launches[0].grid[1]"},
        {"V-LAUNCH-KERNEL", "ops.f.impl.launches[0].block"},
    };
    enum { WANTED = sizeof wanted / sizeof *wanted };
    struct kern_diag diag = {0};
    struct kern_manifest *manifest = parse(broken, &diag);
    for (int round = 0; round < 2; round++) {
        assert_false(kern_manifest_verify(manifest, &diag));
        assert_false(manifest->verified);
        if (diag.count != WANTED)
            kern_diag_print(&diag, stderr, 20);
        assert_int_equal(diag.count, WANTED);
        for (size_t i = 0; i < WANTED; i++) {
            assert_string_equal(diag.entries[i].rule, wanted[i][0]);
            assert_string_equal(diag.entries[i].place, wanted[i][1]);
            assert_int_equal(diag.entries[i].code, KERN_EXIT_MANIFEST);
        }
        kern_diag_clear(&diag);
    }
    kern_manifest_destroy(manifest);
}

static void test_suggestions(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *near;
    } cases[] = {
        {"hiden", "hidden"},
        {"hidden", "hidden"},
        {"hdiden", "hidden"},
        {"HIDDEN", "hidden"},
        {"hidden2", "hidden"},
        {"qwz", NULL},
        {"q", NULL},
        {"", NULL},
        {"kw", "kv"},
        {"weights_u", "weight_up"},
        {"weight_dn", "weight_down"},
        {"entirely_else", NULL},
    };
    static const char *const names[] = {"a", "hidden", "kv", "weight_down", "weight_up"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *near =
            kern_suggest(cases[i].name, names, sizeof names / sizeof *names, sizeof *names);
        if (cases[i].near)
            assert_string_equal(near ? near : "nothing", cases[i].near);
        else
            assert_null(near);
    }
    char longest[400];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    const char *const long_names[] = {longest};
    assert_null(kern_suggest(longest, long_names, 1, sizeof *long_names));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buffers),     cmocka_unit_test(test_launches),
        cmocka_unit_test(test_calls),       cmocka_unit_test(test_order),
        cmocka_unit_test(test_suggestions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
