// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the serving projection share: tests/data/kern_serving.json and edits of it, in
// which ' stands for ".
#ifndef KERN_TESTS_SERVING_CASE_H
#define KERN_TESTS_SERVING_CASE_H

#include "manifest/serving.h"
#include "tests/manifest_parse.h"

enum { EDITS = 8 };

// The verified manifest that the edits make of the file.
static inline struct kern_manifest *edited(const struct text_edit *edits)
{
    struct kern_diag diag = {0};
    size_t length;
    char *file = kern_file_read(KERN_SOURCE_DIR "/tests/data/kern_serving.json", 1 << 20, &length,
                                KERN_EXIT_USAGE, &diag);
    assert_non_null(file);
    text_swap(file, '"', '\'');
    char *text = text_edited(file, edits, EDITS);
    free(file);
    text_swap(text, '\'', '"');
    struct kern_manifest *manifest = parse_accepted(text, strlen(text));
    free(text);
    if (!kern_manifest_verify(manifest, &diag)) {
        kern_diag_print(&diag, stderr, 20);
        fail_msg("the edited manifest is refused by the contract itself");
    }
    kern_diag_clear(&diag);
    return manifest;
}

// The projection in [mode], which must succeed.
static inline void project(const struct kern_manifest *manifest, enum kern_serving_mode mode,
                           struct kern_serving *serving)
{
    struct kern_diag diag = {0};
    bool good = kern_serving_project(manifest, mode, serving, &diag);
    if (!good)
        kern_diag_print(&diag, stderr, 20);
    assert_true(good);
    assert_int_equal(diag.count, 0);
}

// A whole buffer as the file has it, and the same with other members.
#define I32(name, rest) "'" name "': {'dtype': 'i32', 'shape': " rest
#define POSITIONS(shape) I32("positions", shape ", 'kind': 'input', 'fill': 'position'}")
#define VALID(shape, fill) I32("valid", shape ", 'kind': 'input', 'fill': '" fill "'}")
#define LENGTHS(shape) I32("lengths", shape ", 'kind': 'input', 'fill': 'seq_len'}")
#define OFFSETS(shape, rest) I32("offsets", shape ", 'kind': 'input', " rest "'domain': ")
#define TOP_K(shape) I32("top_k", shape ", 'kind': 'input', 'fill': 'top_k'}")
#define SEED(rest) "'seed': {'dtype': 'i64', 'shape': " rest "}"
#define PAGES(shape) I32("pages", shape ", 'kind': 'input', 'domain': ")
#define LINES(shape) I32("lines", shape ", 'kind': 'input', 'domain': ")
#define FIRST(shape, rest) I32("first", shape ", 'kind': 'input'" rest "}")
#define NEXT(rest) I32("next", "['seqs'], 'kind': 'output'" rest "}")
#define DRAFTS(shape, rest) I32("drafts", shape ", 'kind': 'output'" rest "}")
#define TAKEN(rest) I32("taken", "['seqs'], 'kind': 'output'" rest "}")
#define ERROR(shape) I32("error", shape ", 'kind': 'output', 'fill': 'error'}")
#define IDS(rest) I32("ids", "['rows'], 'kind': 'input', " rest)

// The head of a program as the file has it, and the same with another batch.
#define BATCH(name, batch) "'" name "': {'batch': {" batch "}"
#define DECODE BATCH("decode", "'groups': 1, 'rows': 1")
#define DECODE_MANY(batch) BATCH("decode_many", batch)
#define PREFILL(batch) BATCH("prefill", batch)
#define PACKED BATCH("packed", "'groups': 4, 'rows': 'rows', 'context': 'context'")
#define ROUND(batch) BATCH("round", batch)
#define OLD_DECODE_MANY DECODE_MANY("'groups': 4, 'rows': 1")
#define OLD_PREFILL PREFILL("'groups': 1, 'rows': 'rows', 'context': 'context'")
#define OLD_ROUND ROUND("'groups': 2, 'rows': 3")

#define FILL(name) ", 'fill': '" name "'"
#define CONTEXT_VAR ",\n    'context': {'max': 512}"

// No program has a batch, and so none a graph or a context.
#define NO_BATCHES                                                                                 \
    {DECODE ", 'graph': true, ", "'decode': {"},                                                   \
        {OLD_DECODE_MANY ", 'graph': true, ", "'decode_many': {"}, {PACKED ", ", "'packed': {"},   \
        {OLD_PREFILL ", ", "'prefill': {"}, {OLD_ROUND ", 'graph': true, ", "'round': {"},         \
    {                                                                                              \
        CONTEXT_VAR, ""                                                                            \
    }

// Nothing hands back tokens.
#define NO_TOKENS                                                                                  \
    {NEXT(FILL("tokens")), NEXT("")},                                                              \
        {DRAFTS("['seqs', 3]", FILL("tokens")), DRAFTS("['seqs', 3]", "")},                        \
    {                                                                                              \
        TAKEN(FILL("count")), TAKEN("")                                                            \
    }

// Edits of one thing.
#define POSITIONS_AS(shape)                                                                        \
    {                                                                                              \
        POSITIONS("['rows']"), POSITIONS(shape)                                                    \
    }
#define VALID_AS(shape, fill)                                                                      \
    {                                                                                              \
        VALID("['rows']", "valid"), VALID(shape, fill)                                             \
    }
#define PAGES_AS(shape)                                                                            \
    {                                                                                              \
        PAGES("['seqs', 32]"), PAGES(shape)                                                        \
    }
#define LINES_AS(shape)                                                                            \
    {                                                                                              \
        LINES("[2, 'seqs']"), LINES(shape)                                                         \
    }
#define DRAFTS_AS(shape)                                                                           \
    {                                                                                              \
        DRAFTS("['seqs', 3]", FILL("tokens")), DRAFTS(shape, FILL("tokens"))                       \
    }
#define OFFSETS_AS(shape, rest)                                                                    \
    {                                                                                              \
        OFFSETS("[5]", "'fill': 'cu_seqlens', "), OFFSETS(shape, rest)                             \
    }
#define SEED_AS(rest)                                                                              \
    {                                                                                              \
        SEED("['seqs'], 'kind': 'input', 'fill': 'seed'"), SEED(rest)                              \
    }
#define ROUND_AS(batch)                                                                            \
    {                                                                                              \
        OLD_ROUND, ROUND(batch)                                                                    \
    }
#define PREFILL_AS(batch)                                                                          \
    {                                                                                              \
        OLD_PREFILL, PREFILL(batch)                                                                \
    }
#define DECODE_MANY_AS(batch)                                                                      \
    {                                                                                              \
        OLD_DECODE_MANY, DECODE_MANY(batch)                                                        \
    }

#endif
