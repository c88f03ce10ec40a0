// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the manifest's parse share.
#ifndef KERN_TESTS_MANIFEST_PARSE_H
#define KERN_TESTS_MANIFEST_PARSE_H

#include "base/file.h"
#include "manifest/manifest.h"
#include "tests/text.h"

// The manifest that uses every key of the schema; the caller frees it.
static inline char *maximal_text(void)
{
    struct kern_diag diag = {0};
    size_t length;
    char *text = kern_file_read(KERN_SOURCE_DIR "/tests/data/manifest_maximal.json", 1 << 20,
                                &length, KERN_EXIT_USAGE, &diag);
    if (!text)
        kern_diag_print(&diag, stderr, 10);
    assert_non_null(text);
    return text;
}

struct expected_error {
    const char *rule;
    const char *place;
    const char *text; // a part of the message, or NULL
};

// Parses [text] and checks that it is refused with exactly these errors, in this order.
static inline void assert_refused(const char *text, size_t length,
                                  const struct expected_error *errors, size_t count)
{
    struct kern_diag diag = {0};
    // A copy of exactly this size lets a sanitizer see reads past the NUL.
    char *copy = malloc(length + 1);
    assert_non_null(copy);
    memcpy(copy, text, length);
    copy[length] = '\0';
    struct kern_manifest *manifest = kern_manifest_parse(copy, length, "m.json", &diag);
    bool same = !manifest && diag.count == count;
    for (size_t i = 0; same && i < count; i++)
        same = diag.entries[i].rule && strcmp(diag.entries[i].rule, errors[i].rule) == 0 &&
               strcmp(diag.entries[i].place ? diag.entries[i].place : "", errors[i].place) == 0 &&
               (!errors[i].text || strstr(diag.entries[i].text, errors[i].text)) &&
               diag.entries[i].code == KERN_EXIT_MANIFEST;
    if (!same) {
        kern_diag_print(&diag, stderr, 50);
        fail_msg("expected %zu errors, first [%s] at %s, found %zu, in: %.200s", count,
                 count ? errors[0].rule : "", count ? errors[0].place : "", diag.count, text);
    }
    kern_manifest_destroy(manifest);
    kern_diag_clear(&diag);
    free(copy);
}

// Places in the maximal manifest.
#define L0 "ops.full.impl.launches[0]"
#define L2 "ops.full.impl.launches[2]"
#define C0 "programs.step.calls[0] (l0.attn)"
#define C1 "programs.step.calls[1]"

// One edit of the maximal manifest, and the one error that it must give.
struct refused_edit {
    const char *old;
    const char *new;
    struct expected_error error;
};

static inline void run_refused(const struct refused_edit *edits, size_t count)
{
    char *text = maximal_text();
    for (size_t i = 0; i < count; i++) {
        char *edited = text_replaced(text, edits[i].old, edits[i].new);
        assert_refused(edited, strlen(edited), &edits[i].error, 1);
        free(edited);
    }
    free(text);
}

#define RUN_REFUSED(edits) run_refused(edits, sizeof(edits) / sizeof *(edits))

static inline struct kern_manifest *parse_accepted(const char *text, size_t length)
{
    struct kern_diag diag = {0};
    struct kern_manifest *manifest = kern_manifest_parse(text, length, "m.json", &diag);
    if (!manifest)
        kern_diag_print(&diag, stderr, 50);
    assert_non_null(manifest);
    assert_int_equal(diag.count, 0);
    kern_diag_clear(&diag);
    return manifest;
}

#endif
