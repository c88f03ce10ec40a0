// SPDX-License-Identifier: Apache-2.0
//
// Each rule of the serving projection refuses an edit of the manifest that can be served.
#include "tests/serving_case.h"

struct refusal {
    const char *rule;
    const char *place;
    struct text_edit edits[EDITS];
};

#define REFUSED(id, where, ...)                                                                    \
    {                                                                                              \
        .rule = id, .place = where, .edits = { __VA_ARGS__ }                                       \
    }
// P1, P2 and P15 have tests of their own below; P8 is none, see serving_test.c.
static const struct refusal refusals[] = {
    REFUSED("P3", "buffers.positions", POSITIONS_AS("['rows', 1, 1]")),
    REFUSED("P3", "buffers.positions", POSITIONS_AS("[1, 'rows']")),
    REFUSED("P3", "buffers.positions", POSITIONS_AS("[8, 8]")),
    REFUSED("P3", "buffers.positions", POSITIONS_AS("['rows', 'seqs']")),
    REFUSED("P4", "buffers.positions", POSITIONS_AS("['context']")),
    REFUSED("P4", "buffers.pages", PAGES_AS("['context', 32]")),
    REFUSED("P4", "buffers.lines", LINES_AS("[2, 'context']")),
    REFUSED("P5", "buffers.positions", POSITIONS_AS("['seqs']")),
    REFUSED("P5", "buffers.positions", POSITIONS_AS("['rows', 2]")),
    REFUSED("P5", "buffers.lengths", {LENGTHS("['seqs']"), LENGTHS("['rows']")}),
    REFUSED("P5", "buffers.offsets", OFFSETS_AS("[4]", "'fill': 'cu_seqlens', ")),
    REFUSED("P5", "buffers.offsets", OFFSETS_AS("['seqs']", "'fill': 'cu_seqlens', ")),
    REFUSED("P5", "buffers.top_k", {TOP_K("['seqs']"), TOP_K("[4]")}),
    REFUSED("P5", "buffers.error", {ERROR("[1]"), ERROR("[2]")}),
    REFUSED("P5", "buffers.drafts", DRAFTS_AS("['rows', 3]")),
    REFUSED("P5", "buffers.valid", VALID_AS("[1]", "blocks")),
    REFUSED("P5", "buffers.seed", SEED_AS("[3], 'kind': 'input', 'fill': 'blocks'")),
    REFUSED("P6", "buffers.valid", VALID_AS("['rows']", "position")),
    REFUSED("P6", "buffers.valid", VALID_AS("['rows']", "token")),
    REFUSED("P6", "buffers.valid", VALID_AS("[9]", "cu_seqlens")),
    REFUSED("P7", "buffers.valid", VALID_AS("[3]", "blocks")),
    REFUSED("P9", "buffers.seed",
            SEED_AS("['seqs', 2], 'kind': 'input', 'domain': {'index_into': 'kv'}")),
    REFUSED("P9", "buffers.seed",
            SEED_AS("[2, 'seqs'], 'kind': 'input', 'domain': {'index_into': 'conv'}")),
    REFUSED("P10", "buffers.lines", LINES_AS("['seqs', 2]")),
    REFUSED("P10", "buffers.lines", LINES_AS("[2, 4]")),
    REFUSED("P10", "buffers.lines", LINES_AS("['seqs']")),
    REFUSED("P10", "buffers.lines", LINES_AS("[2, 'seqs', 'rows']")),
    REFUSED("P11", "buffers.lines", LINES_AS("[2, 'rows']")),
    REFUSED("P12", "buffers.pages", PAGES_AS("['seqs']")),
    REFUSED("P12", "buffers.pages", PAGES_AS("['rows', 32]")),
    REFUSED("P12", "buffers.pages", PAGES_AS("[4, 32]")),
    REFUSED("P12", "buffers.pages", PAGES_AS("['seqs', 'seqs']")),
    REFUSED("P13", "programs.round.batch", ROUND_AS("'groups': 3, 'rows': 3")),
    REFUSED("P13", "programs.decode_many.batch",
            DECODE_MANY_AS("'groups': 4, 'rows': 4611686018427387904")),
    REFUSED("P14", "programs.prefill.batch", PREFILL_AS("'groups': 1, 'rows': 'seqs'")),
    REFUSED("P16", "programs.decode_many.batch", DECODE_MANY_AS("'groups': 5, 'rows': 1")),
    REFUSED("P17", "programs.round", {TAKEN(FILL("count")), TAKEN(FILL("tokens"))}),
    REFUSED("P18", "programs.round", ROUND_AS("'groups': 4, 'rows': 2")),
    REFUSED("P18", "programs.round", ROUND_AS("'groups': 3, 'rows': 'rows'")),
    REFUSED("P19", "programs.round", DRAFTS_AS("['seqs']")),
    REFUSED("P20", "programs.prefill.batch",
            PREFILL_AS("'groups': 1, 'rows': 'rows', 'context': 'seqs'")),
    REFUSED("P21", "programs.prefill.batch",
            PREFILL_AS("'groups': 1, 'rows': 'rows', 'context': 'longest'"),
            {CONTEXT_VAR, CONTEXT_VAR ", 'longest': {'max': 512}"}),
    REFUSED("P22", "programs.decode_many.batch", DECODE_MANY_AS("'groups': 1, 'rows': 1")),
    REFUSED("P22", "programs.prefill.batch", PREFILL_AS("'groups': 4, 'rows': 'rows'")),
    REFUSED("P23", "programs", NO_BATCHES),
    REFUSED("P24", "programs", NO_TOKENS),
};

// Projects the edited manifest and checks that it is refused with these [count] errors in order.
static void assert_reasons(const struct text_edit *edits, const struct refusal *reasons,
                           size_t count)
{
    struct kern_diag diag = {0};
    struct kern_serving serving;
    struct kern_manifest *manifest = edited(edits);
    bool right = !kern_serving_project(manifest, KERN_SERVING_SAMPLED, &serving, &diag) &&
                 diag.count == count && serving.n_forwards == 0;
    for (size_t i = 0; right && i < count; i++)
        right = strcmp(diag.entries[i].rule, reasons[i].rule) == 0 &&
                strcmp(diag.entries[i].place, reasons[i].place) == 0 &&
                diag.entries[i].code == KERN_EXIT_MANIFEST;
    if (!right) {
        kern_diag_print(&diag, stderr, 20);
        fail_msg("expected %zu errors, first %s at %s", count, reasons[0].rule, reasons[0].place);
    }
    kern_diag_clear(&diag);
    kern_manifest_destroy(manifest);
}

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        assert_reasons(refusals[i].edits, &refusals[i], 1);
}

// P1 and P2: without both axes nothing more is said.
static void test_axes_are_needed(void **state)
{
    (void)state;
    static const struct text_edit edits[EDITS] = {
        NO_BATCHES,
        {"'rows': {'max': 8, 'axis': 'rows'}", "'rows': {'max': 8}"},
        {"'seqs': {'max': 4, 'axis': 'groups'}", "'seqs': {'max': 4}"},
    };
    static const struct refusal reasons[] = {{.rule = "P1", .place = "vars"},
                                             {.rule = "P2", .place = "vars"}};
    assert_reasons(edits, reasons, 2);
}

static void test_every_reason_is_given_in_document_order(void **state)
{
    (void)state;
    static const struct text_edit edits[EDITS] = {
        DECODE_MANY_AS("'groups': 5, 'rows': 1"),
        LINES_AS("[2, 'rows']"),
        POSITIONS_AS("['seqs']"),
    };
    static const struct refusal reasons[] = {
        {.rule = "P5", .place = "buffers.positions"},
        {.rule = "P11", .place = "buffers.lines"},
        {.rule = "P16", .place = "programs.decode_many.batch"},
    };
    assert_reasons(edits, reasons, 3);
}

// P15: the contract itself asks for cu_seqlens where several sequences have a var of rows.
static void test_packed_sequences_are_told_apart(void **state)
{
    (void)state;
    struct kern_diag diag = {0};
    size_t length;
    char *text = kern_file_read(KERN_SOURCE_DIR "/tests/data/kern_serving.json", 1 << 20, &length,
                                KERN_EXIT_USAGE, &diag);
    char *without = text_replaced(text, "\"fill\": \"cu_seqlens\", ", "");
    struct kern_manifest *manifest = parse_accepted(without, strlen(without));
    assert_false(kern_manifest_verify(manifest, &diag));
    assert_int_equal(diag.count, 1);
    assert_string_equal(diag.entries[0].rule, "V-PROGRAM");
    kern_manifest_destroy(manifest);
    kern_diag_clear(&diag);
    free(without);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_axes_are_needed),
        cmocka_unit_test(test_every_reason_is_given_in_document_order),
        cmocka_unit_test(test_packed_sequences_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
