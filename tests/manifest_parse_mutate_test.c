// SPDX-License-Identifier: Apache-2.0
//
// The maximal manifest with random damage: whatever comes in, a parse gives a manifest or errors
// that name a rule, and the reader lets nothing pass that json-c refuses in its strictest mode.
#include <json-c/json.h>

#include "base/json.h"
#include "tests/manifest_parse.h"

enum { ROUNDS = 3000 };

// xorshift64*, the same numbers in every run.
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1d;
}

static size_t pick(uint64_t *state, size_t count)
{
    return (size_t)(next_random(state) >> 32) % count;
}

static const char *const snippets[] = {
    "null",
    "true",
    "{}",
    "[]",
    "\"\"",
    "\"n\"",
    "\"HIDDEN\"",
    "\"HALF\"",
    "-1",
    "0",
    "1.5",
    "1e400",
    "18446744073709551616",
    "-0",
    "{\"add\":[\"n\",1]}",
    "{\"buf\":\"x\"}",
    ",",
    ":",
    "\\ud800",
    "\xc3",
    "\"a\":1,",
    "[[[[[[[[",
    "\\u0000",
    "'",
    "//",
    "NaN",
};

// Overwrites, cuts out, repeats or inserts something at a random place of the text of *[length]
// bytes, which stays below [capacity].
static void damage(uint64_t *state, char *text, size_t *length, size_t capacity)
{
    size_t at = pick(state, *length), span = 1 + pick(state, 24);
    const char *snippet = snippets[pick(state, sizeof snippets / sizeof *snippets)];
    size_t size = strlen(snippet);
    if (span > *length - at)
        span = *length - at;
    switch (pick(state, 4)) {
    case 0:
        text[at] = (char)pick(state, 256);
        break;
    case 1:
        memmove(text + at, text + at + span, *length - at - span);
        *length -= span;
        break;
    case 2:
        if (*length + span >= capacity)
            return;
        memmove(text + at + span, text + at, *length - at);
        *length += span;
        break;
    default:
        if (*length + size >= capacity)
            return;
        memmove(text + at + size, text + at, *length - at);
        for (size_t i = 0; i < size; i++)
            text[at + i] = snippet[i];
        *length += size;
    }
}

static bool strict_json(const char *text, size_t length)
{
    struct json_tokener *tokener = json_tokener_new_ex(KERN_MANIFEST_DEPTH_MAX + 1);
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    struct json_object *root = json_tokener_parse_ex(tokener, text, (int)length + 1);
    bool whole = root && json_tokener_get_parse_end(tokener) == length;
    json_object_put(root);
    json_tokener_free(tokener);
    return whole;
}

static void check(const char *text, size_t length)
{
    struct kern_diag diag = {0};
    struct kern_json_document document = {0};
    struct kern_json_error error;
    if (kern_json_parse(&document, text, length, KERN_MANIFEST_DEPTH_MAX, &error))
        assert_true(strict_json(text, length));
    kern_json_free(&document);
    struct kern_manifest *manifest = kern_manifest_parse(text, length, "m.json", &diag);
    assert_true(!manifest == (diag.errors > 0));
    uint64_t order = 0;
    for (size_t i = 0; i < diag.count; i++) {
        assert_non_null(diag.entries[i].rule);
        assert_true(diag.entries[i].order >= order);
        order = diag.entries[i].order;
    }
    kern_manifest_destroy(manifest);
    kern_diag_clear(&diag);
}

static void test_damaged(void **unused)
{
    (void)unused;
    char *whole = maximal_text();
    size_t whole_length = strlen(whole), capacity = 2 * whole_length;
    char *text = malloc(capacity + 1);
    assert_non_null(text);
    uint64_t state = 0x9e3779b97f4a7c15;
    for (int round = 0; round < ROUNDS; round++) {
        size_t length = whole_length;
        memcpy(text, whole, length);
        for (size_t i = 1 + pick(&state, 4); i > 0 && length > 0; i--)
            damage(&state, text, &length, capacity);
        text[length] = '\0';
        check(text, length);
    }
    free(text);
    free(whole);
}

// Values swapped for others of the wrong kind: the text stays JSON, so that the typed readers see
// it.
static void test_wrong_values(void **unused)
{
    (void)unused;
    static const char *const values[] = {
        "null",
        "true",
        "{}",
        "[]",
        "\"n\"",
        "\"HALF\"",
        "-1",
        "1.5",
        "1e400",
        "18446744073709551616",
        "{\"add\":[\"n\",1]}",
        "{\"buf\":\"x\",\"buf\":[{\"a\":1}]}",
        "[[1,2,3],{\"b\":null}]",
    };
    char *whole = maximal_text();
    size_t length = strlen(whole);
    char *text = malloc(length + 64);
    assert_non_null(text);
    // Only the colon behind a key follows a quote.
    for (const char *key = strstr(whole, "\":"); key; key = strstr(key + 1, "\":")) {
        const char *colon = key + 1;
        for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
            // The value behind the colon ends where its brackets are closed.
            const char *end = colon + 1;
            int depth = 0;
            bool quoted = false;
            for (; depth > 0 || quoted || !strchr(",}]", *end); end++) {
                quoted ^= *end == '"';
                depth += !quoted && (*end == '{' || *end == '[');
                depth -= !quoted && (*end == '}' || *end == ']');
            }
            size_t before = (size_t)(colon - whole) + 1;
            int size = snprintf(text, length + 64, "%.*s%s%s", (int)before, whole, values[i], end);
            check(text, (size_t)size);
        }
    }
    free(text);
    free(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_wrong_values),
    };
    return cmocka_run_group_tests_name("manifest_parse_mutate", tests, NULL, NULL);
}
