// SPDX-License-Identifier: Apache-2.0
//
// Stages that belong together, and what is said of those that do not.
#include "base/memory.h"
#include "manifest/arrivals.h"
#include "manifest/chain.h"
#include "manifest/cut.h"
#include "manifest/write.h"
#include "tests/text.h"

// Six calls that carry two buffers on; ' stands for ".
// clang-format off
#define LAUNCH                                                                                     \
    "'impl': {'launches': [{'module': 'k', 'entry': 'e', 'block': [1,1,1],"                        \
    " 'grid': ['rows','seqs',1]}]}"
#define CALL(op, from, to) "{'op': '" op "', 'args': [{'buf': '" from "'}, {'buf': '" to "'}]}"
static const char whole[] =
    "{'schema_version': 7, 'model': 'chain',"
    "'vars': {'rows': {'max': 8, 'axis': 'rows'}, 'seqs': {'max': 2, 'axis': 'groups'}},"
    "'modules': {'k': {'source': 'k.so', 'sha256':"
    " '0000000000000000000000000000000000000000000000000000000000000000'}},"
    "'buffers': {'x': {'dtype': 'f32', 'shape': ['rows', 3], 'kind': 'input'},"
    " 'h': {'dtype': 'f32', 'shape': ['rows', 3], 'kind': 'workspace'},"
    " 'g': {'dtype': 'bf16', 'shape': ['rows', 3], 'kind': 'workspace'},"
    " 'y': {'dtype': 'f32', 'shape': ['rows', 3], 'kind': 'output'}},"
    "'ops': {'first': {'params': ['in buffer<f32>', 'out buffer<f32>'], " LAUNCH "},"
    " 'narrow': {'params': ['in buffer<f32>', 'out buffer<bf16>'], " LAUNCH "},"
    " 'join': {'params': ['inout buffer<f32>', 'in buffer<bf16>'], " LAUNCH "}},"
    "'programs': {'step': {'batch': {'groups': 2, 'rows': 1}, 'calls': ["
    CALL("first", "x", "h") "," CALL("narrow", "h", "g") ","
    CALL("join", "h", "g") "," CALL("narrow", "h", "g") ","
    CALL("join", "h", "g") "," CALL("first", "h", "y") "]}}}";
// clang-format on

struct stages {
    struct kern_manifest *items[3];
    const char *names[3];
    struct kern_diag diag;
};

static struct kern_manifest *parse(const char *text)
{
    struct kern_diag diag = {0};
    struct kern_manifest *manifest = kern_manifest_parse(text, strlen(text), "test", &diag);
    if (!manifest || !kern_manifest_verify(manifest, &diag)) {
        kern_diag_print(&diag, stderr, 8);
        fail();
    }
    kern_diag_clear(&diag);
    return manifest;
}

// The stages of the chain cut at 2 and 4, as files would be given: the last one first.
static void make_stages(struct stages *stages)
{
    static const uint64_t points[] = {2, 4};
    char *text = text_requoted(whole);
    struct kern_manifest *manifest = parse(text);
    struct kern_manifest **cut = kern_manifest_cut(manifest, points, 2, &stages->diag);
    assert_non_null(cut);
    static const char *const names[] = {"two.json", "zero.json", "one.json"};
    static const int order[] = {2, 0, 1};
    for (int i = 0; i < 3; i++) {
        stages->items[i] = cut[order[i]];
        stages->names[i] = names[i];
    }
    free(cut);
    kern_manifest_destroy(manifest);
    free(text);
}

static void free_stages(struct stages *stages)
{
    for (int i = 0; i < 3; i++)
        kern_manifest_destroy(stages->items[i]);
    kern_diag_clear(&stages->diag);
    *stages = (struct stages){0};
}

// Writes stage [index] out with every [from] replaced by [to], and reads it again.
static void edit(struct stages *stages, int index, const char *from, const char *to)
{
    struct kern_arena arena = {0};
    size_t length;
    char *text = kern_manifest_write(stages->items[index], &length);
    char *old = text_requoted(from), *new = text_requoted(to), *rest = text;
    const char *edited = "";
    for (char *at = strstr(rest, old); at; at = strstr(rest, old)) {
        edited = kern_arena_print(&arena, "%s%.*s%s", edited, (int)(at - rest), rest, new);
        rest = at + strlen(old);
    }
    assert_true(rest != text);
    kern_manifest_destroy(stages->items[index]);
    stages->items[index] = parse(kern_arena_print(&arena, "%s%s", edited, rest));
    kern_arena_free(&arena);
    free(new);
    free(old);
    free(text);
}

static void expect(struct stages *stages, size_t count, const char *const *texts)
{
    assert_false(kern_manifest_chain(stages->items, stages->names, count, &stages->diag));
    assert_int_equal(kern_diag_code(&stages->diag), KERN_EXIT_MANIFEST);
    bool found = false;
    for (size_t i = 0; i < stages->diag.count && !found; i++) {
        const char *line = kern_diag_line(&stages->diag, i);
        found = true;
        for (size_t t = 0; texts[t]; t++)
            found = found && strstr(line, texts[t]);
    }
    if (!found)
        kern_diag_print(&stages->diag, stderr, 8);
    assert_true(found);
    free_stages(stages);
}
#define EXPECT(stages, count, ...) expect(stages, count, (const char *const[]){__VA_ARGS__, NULL})

static void stages_are_put_in_order(void **state)
{
    (void)state;
    struct stages stages = {0};
    make_stages(&stages);
    assert_true(kern_manifest_chain(stages.items, stages.names, 3, &stages.diag));
    assert_int_equal(stages.diag.count, 0);
    static const char *const names[] = {"zero.json", "one.json", "two.json"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(stages.items[i]->cut->stage, i);
        assert_string_equal(stages.names[i], names[i]);
    }
    free_stages(&stages);
}

static void marks_must_belong_together(void **state)
{
    (void)state;
    struct stages stages = {0};
    make_stages(&stages);
    char *text = text_requoted(whole);
    kern_manifest_destroy(stages.items[1]);
    stages.items[1] = parse(text);
    free(text);
    EXPECT(&stages, 3, "zero.json: is no stage", "kern cut");

    make_stages(&stages);
    EXPECT(&stages, 2, "two.json: is stage 2 of 3, and 2 are named");

    make_stages(&stages);
    edit(&stages, 2, "'stage': 1", "'stage': 0");
    EXPECT(&stages, 3, "one.json: is stage 0, which zero.json is too");

    make_stages(&stages);
    edit(&stages, 1, "'id': '", "'id': 'x");
    EXPECT(&stages, 3, "zero.json: stage 0 (zero.json) was cut as x", "stage 2 (two.json) as");
}

static void what_arrives_must_leave(void **state)
{
    (void)state;
    struct stages stages = {0};
    make_stages(&stages);
    edit(&stages, 1, "'g'", "'other'");
    EXPECT(&stages, 3,
           "g: arrives at stage 1 (one.json), and stage 0 (zero.json) has no such output",
           "kern cut");
}

static void what_leaves_must_arrive(void **state)
{
    (void)state;
    struct stages stages = {0};
    make_stages(&stages);
    edit(&stages, 1, "'g'", "'other'");
    EXPECT(&stages, 3,
           "other: is an output of stage 0 (zero.json), and does not arrive at stage 1 (one.json)");
}

static void shapes_must_be_the_same(void **state)
{
    (void)state;
    struct stages stages = {0};
    static const char from[] = "'rows', 3";
    make_stages(&stages);
    edit(&stages, 1, from, "'rows', 4");
    EXPECT(&stages, 3, "leaves stage 0 (zero.json) as", "[rows, 4]",
           "arrives at stage 1 (one.json) as", "[rows, 3]");
}

static void vars_and_programs_must_agree(void **state)
{
    (void)state;
    struct stages stages = {0};
    make_stages(&stages);
    edit(&stages, 2, "'max': 8", "'max': 9");
    EXPECT(&stages, 3, "rows: has another maximum", "stage 1 (one.json) (9)",
           "stage 0 (zero.json) (8)");

    make_stages(&stages);
    edit(&stages, 0, "'step'", "'leap'");
    EXPECT(&stages, 3, "leap: has a batch in stage 2 (two.json)", "no such program of stage 1");

    make_stages(&stages);
    edit(&stages, 0, "'groups': 2", "'groups': 1");
    EXPECT(&stages, 3,
           "step: has batches of 1 by 1 in stage 2 (two.json) and of 2 by 1 in stage 1");
}

static void arrivals_lie_one_after_another(void **state)
{
    (void)state;
    struct stages stages = {0};
    make_stages(&stages);
    struct kern_manifest *one = stages.items[2], *zero = stages.items[1];
    uint64_t *offsets = kern_calloc(one->n_buffers + zero->n_buffers, sizeof *offsets), bytes;
    assert_true(kern_arrivals_layout(one, offsets, &bytes));
    uint32_t g = kern_names_find(&one->buffer_names, "g");
    uint32_t h = kern_names_find(&one->buffer_names, "h");
    assert_int_equal(offsets[g], 0);
    assert_int_equal(offsets[h], 256);
    assert_int_equal(bytes, 512);
    assert_true(kern_arrivals_layout(zero, offsets, &bytes));
    assert_int_equal(bytes, 0);
    free(offsets);
    free_stages(&stages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_are_put_in_order),
        cmocka_unit_test(marks_must_belong_together),
        cmocka_unit_test(what_arrives_must_leave),
        cmocka_unit_test(what_leaves_must_arrive),
        cmocka_unit_test(shapes_must_be_the_same),
        cmocka_unit_test(vars_and_programs_must_agree),
        cmocka_unit_test(arrivals_lie_one_after_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
