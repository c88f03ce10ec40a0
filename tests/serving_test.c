// SPDX-License-Identifier: Apache-2.0
//
// What the serving projection finds, and which forward is chosen.
#include "tests/serving_case.h"

static const struct text_edit none[EDITS];

static uint32_t buffer(const struct kern_manifest *manifest, const char *name)
{
    uint32_t index = kern_names_find(&manifest->buffer_names, name);
    assert_int_not_equal(index, KERN_NONE);
    return index;
}

static uint32_t var(const struct kern_manifest *manifest, const char *name)
{
    uint32_t index = kern_names_find(&manifest->var_names, name);
    assert_int_not_equal(index, KERN_NONE);
    return index;
}

static void test_axes_and_roles(void **state)
{
    (void)state;
    struct kern_manifest *manifest = edited(none);
    struct kern_serving serving;
    project(manifest, KERN_SERVING_SAMPLED, &serving);
    assert_int_equal(serving.axes[KERN_AXIS_ROWS].var, var(manifest, "rows"));
    assert_int_equal(serving.axes[KERN_AXIS_ROWS].max, 8);
    assert_int_equal(serving.axes[KERN_AXIS_GROUPS].var, var(manifest, "seqs"));
    assert_int_equal(serving.axes[KERN_AXIS_GROUPS].max, 4);
    assert_int_equal(serving.axes[KERN_AXIS_RANKS].var, KERN_NONE);
    assert_int_equal(serving.context, var(manifest, "context"));

    assert_int_equal(serving.token[KERN_AXIS_ROWS], buffer(manifest, "ids"));
    assert_int_equal(serving.token[KERN_AXIS_GROUPS], buffer(manifest, "first"));
    assert_int_equal(serving.token[KERN_AXIS_RANKS], KERN_NONE);
    static const struct {
        enum kern_fill fill;
        const char *name;
    } fills[] = {
        {KERN_FILL_POSITION, "positions"}, {KERN_FILL_VALID, "valid"},
        {KERN_FILL_SLOT, "slots"},         {KERN_FILL_SEQ_LEN, "lengths"},
        {KERN_FILL_CU_SEQLENS, "offsets"}, {KERN_FILL_TEMPERATURE, "temperature"},
        {KERN_FILL_TOP_K, "top_k"},        {KERN_FILL_TOP_P, "top_p"},
        {KERN_FILL_MIN_P, "min_p"},        {KERN_FILL_SEED, "seed"},
        {KERN_FILL_COUNT, "taken"},        {KERN_FILL_ERROR, "error"},
    };
    for (size_t i = 0; i < sizeof fills / sizeof *fills; i++)
        assert_int_equal(serving.fills[fills[i].fill], buffer(manifest, fills[i].name));
    assert_int_equal(serving.fills[KERN_FILL_BLOCKS], KERN_NONE);
    kern_serving_free(&serving);
    kern_manifest_destroy(manifest);
}

static void test_tables(void **state)
{
    (void)state;
    struct kern_manifest *manifest = edited(none);
    struct kern_serving serving;
    project(manifest, KERN_SERVING_SAMPLED, &serving);
    // The slots index a state, too, but have a role.
    assert_int_equal(serving.n_page_tables, 1);
    const struct kern_page_table *pages = &serving.page_tables[0];
    assert_int_equal(pages->buffer, buffer(manifest, "pages"));
    assert_string_equal(manifest->states[pages->state].name, "kv");
    assert_int_equal(pages->pages, 32);
    assert_int_equal(pages->tokens, 16);
    assert_int_equal(serving.n_line_tables, 1);
    const struct kern_line_table *lines = &serving.line_tables[0];
    assert_int_equal(lines->buffer, buffer(manifest, "lines"));
    assert_string_equal(manifest->states[lines->state].name, "conv");
    assert_int_equal(lines->lines, 2);
    assert_int_equal(lines->width, 1);
    assert_int_equal(lines->axis, KERN_AXIS_GROUPS);
    assert_int_equal(lines->bytes, 512);
    kern_serving_free(&serving);
    kern_manifest_destroy(manifest);
}

// Checks which program takes [groups] sequences of [rows] rows; NULL: none does.
static void assert_forward(const struct kern_manifest *manifest, const struct kern_serving *serving,
                           uint64_t groups, uint64_t rows, const char *name)
{
    const struct kern_forward *forward = kern_serving_forward(serving, groups, rows);
    assert_int_equal(forward == NULL, name == NULL);
    if (forward)
        assert_string_equal(manifest->programs[forward->program].name, name);
}

static void test_forwards(void **state)
{
    (void)state;
    struct kern_manifest *manifest = edited(none);
    struct kern_serving serving;
    project(manifest, KERN_SERVING_SAMPLED, &serving);
    assert_int_equal(serving.n_forwards, 5);
    const struct kern_forward *round = &serving.forwards[4];
    assert_string_equal(manifest->programs[round->program].name, "round");
    assert_int_equal(round->groups, 2);
    assert_int_equal(round->rows, 3);
    assert_int_equal(round->tokens, buffer(manifest, "drafts"));
    assert_int_equal(round->tokens_width, 3);
    assert_int_equal(round->count, buffer(manifest, "taken"));
    const struct kern_forward *prefill = &serving.forwards[3];
    assert_int_equal(prefill->rows, KERN_ROWS_VAR);
    assert_int_equal(prefill->tokens, buffer(manifest, "next"));
    assert_int_equal(prefill->tokens_width, 1);
    assert_int_equal(prefill->count, KERN_NONE);

    assert_forward(manifest, &serving, 1, 1, "decode");
    assert_forward(manifest, &serving, 2, 1, "decode_many");
    assert_forward(manifest, &serving, 4, 1, "decode_many");
    assert_forward(manifest, &serving, 5, 1, NULL);
    assert_forward(manifest, &serving, 1, KERN_ROWS_VAR, "prefill");
    assert_forward(manifest, &serving, 2, KERN_ROWS_VAR, "packed");
    assert_forward(manifest, &serving, 5, KERN_ROWS_VAR, NULL);
    assert_forward(manifest, &serving, 1, 3, "round");
    assert_forward(manifest, &serving, 2, 3, "round");
    assert_forward(manifest, &serving, 1, 2, NULL);
    kern_serving_free(&serving);
    kern_manifest_destroy(manifest);
}

// P8: who feeds no tokens needs no buffer for them, as a later stage of a pipeline.
static void test_tokens_to_feed_are_not_demanded(void **state)
{
    (void)state;
    static const struct text_edit edits[EDITS] = {
        {IDS("'fill': 'token', "), IDS("")},
        {FIRST("['seqs']", FILL("token")), FIRST("['seqs']", "")},
    };
    struct kern_manifest *manifest = edited(edits);
    struct kern_serving serving;
    project(manifest, KERN_SERVING_SAMPLED, &serving);
    for (enum kern_axis axis = KERN_AXIS_NONE; axis <= KERN_AXIS_RANKS; axis++)
        assert_int_equal(serving.token[axis], KERN_NONE);
    kern_serving_free(&serving);
    kern_manifest_destroy(manifest);
}

static void test_a_loop_that_samples_itself_needs_no_tokens(void **state)
{
    (void)state;
    static const struct text_edit edits[EDITS] = {NO_TOKENS};
    struct kern_manifest *manifest = edited(edits);
    struct kern_serving serving;
    project(manifest, KERN_SERVING_UNSAMPLED, &serving);
    assert_int_equal(serving.n_forwards, 5);
    assert_int_equal(serving.forwards[0].tokens, KERN_NONE);
    kern_serving_free(&serving);
    kern_manifest_destroy(manifest);
}

static void test_only_the_last_stage_samples(void **state)
{
    (void)state;
    static const struct {
        const char *stage;
        enum kern_serving_mode mode;
    } stages[] = {
        {"'model': 'serving', 'cut': {'id': 'c', 'stage': 0, 'stages': 2}", KERN_SERVING_UNSAMPLED},
        {"'model': 'serving', 'cut': {'id': 'c', 'stage': 1, 'stages': 2}", KERN_SERVING_SAMPLED},
        {"'model': 'serving'", KERN_SERVING_SAMPLED},
    };
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        const struct text_edit edits[EDITS] = {{"'model': 'serving'", stages[i].stage}};
        struct kern_manifest *manifest = edited(edits);
        assert_int_equal(kern_serving_mode_of(manifest), stages[i].mode);
        kern_manifest_destroy(manifest);
    }
}

static void test_the_ranks_axis(void **state)
{
    (void)state;
    static const struct text_edit edits[EDITS] = {
        {CONTEXT_VAR, CONTEXT_VAR ", 'all': {'max': 16, 'axis': 'ranks'}"},
        {FIRST("['seqs']", FILL("token")), FIRST("['all']", FILL("token"))},
        VALID_AS("[3]", "blocks"),
        LINES_AS("[2, 'all', 3]"),
    };
    struct kern_manifest *manifest = edited(edits);
    struct kern_serving serving;
    project(manifest, KERN_SERVING_SAMPLED, &serving);
    assert_int_equal(serving.axes[KERN_AXIS_RANKS].max, 16);
    assert_int_equal(serving.token[KERN_AXIS_RANKS], buffer(manifest, "first"));
    assert_int_equal(serving.token[KERN_AXIS_GROUPS], KERN_NONE);
    assert_int_equal(serving.fills[KERN_FILL_BLOCKS], buffer(manifest, "valid"));
    assert_int_equal(serving.line_tables[0].axis, KERN_AXIS_RANKS);
    assert_int_equal(serving.line_tables[0].width, 3);
    kern_serving_free(&serving);
    kern_manifest_destroy(manifest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_axes_and_roles),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_forwards),
        cmocka_unit_test(test_tokens_to_feed_are_not_demanded),
        cmocka_unit_test(test_a_loop_that_samples_itself_needs_no_tokens),
        cmocka_unit_test(test_only_the_last_stage_samples),
        cmocka_unit_test(test_the_ranks_axis),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
