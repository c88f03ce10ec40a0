// SPDX-License-Identifier: Apache-2.0
#include "base/names.h"
#include "manifest/align.h"
#include "manifest/diff.h"
#include "tests/text.h"

// Single quotes stand for double ones.
#define CALL(label, buffer)                                                                        \
    "{'op': 'f', 'label': '" label "', 'args': [{'buf': 'a'}, {'buf': '" buffer "'}]}"
#define BUFFERS(...)                                                                               \
    "'buffers': {'a': {'dtype': 'i32', 'shape': [16], 'kind': 'input'}, "                          \
    "'b': {'dtype': 'i32', 'shape': [16], 'kind': 'output'}" __VA_ARGS__ "}"
#define OPS(entry)                                                                                 \
    "'ops': {'f': {'params': ['in buffer<i32>', 'out buffer<i32>'], 'impl': {'launches': [{"       \
    "'module': 'k', 'entry': '" entry "', 'block': [32, 1, 1], 'grid': [1, 1, 1]}]}}}"
#define MODULES(file)                                                                              \
    "'modules': {'k': {'source': '" file "', 'sha256': "                                           \
    "'00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff'}}"
#define MANIFEST(rest) "{'schema_version': 7, 'model': 'm', " rest "}"
#define PROGRAM(calls) "'programs': {'p': {'calls': [" calls "]}}"

static const char base[] = MANIFEST(BUFFERS() ", " MODULES("k.cubin") ", " OPS("g") ", " PROGRAM(
    CALL("one", "b") ", " CALL("two", "b") ", " CALL("three", "b")));

static struct kern_manifest *parse(const char *quoted)
{
    struct kern_diag diag = {0};
    char *text = text_requoted(quoted);
    struct kern_manifest *manifest = kern_manifest_parse(text, strlen(text), "m.json", &diag);
    kern_diag_print(&diag, stderr, 10);
    assert_non_null(manifest);
    kern_diag_clear(&diag);
    free(text);
    return manifest;
}

struct expected {
    enum kern_change change;
    const char *section, *place, *before, *after;
};

// Compares [a] with [b] and then [b] with [a], where what was added is removed and so on.
static void assert_differ(const char *a, const char *b, const struct expected *expected,
                          size_t count)
{
    struct kern_manifest *left = parse(a), *right = parse(b);
    struct kern_differences found = {0}, back = {0};
    kern_manifest_diff(left, right, &found);
    kern_manifest_diff(right, left, &back);
    for (size_t i = 0; i < found.count; i++)
        if (found.count != count)
            print_message("%s: %s -> %s\n", found.items[i].place, found.items[i].before,
                          found.items[i].after);
    assert_int_equal(found.count, count);
    assert_int_equal(back.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(found.items[i].change, expected[i].change);
        assert_string_equal(found.items[i].section, expected[i].section);
        assert_string_equal(found.items[i].place, expected[i].place);
        assert_int_equal(!found.items[i].before, !expected[i].before);
        assert_int_equal(!found.items[i].after, !expected[i].after);
        if (expected[i].before)
            assert_string_equal(found.items[i].before, expected[i].before);
        if (expected[i].after)
            assert_string_equal(found.items[i].after, expected[i].after);
    }
    kern_differences_clear(&found);
    kern_differences_clear(&back);
    kern_manifest_destroy(left);
    kern_manifest_destroy(right);
}

#define ASSERT_DIFFER(a, b, ...)                                                                   \
    assert_differ(a, b, (const struct expected[]){__VA_ARGS__},                                    \
                  sizeof((const struct expected[]){__VA_ARGS__}) / sizeof(struct expected))

static void what_means_the_same_does_not_differ(void **state)
{
    (void)state;
    // Another order of the maps, a constant, and a member at its default.
    assert_differ(
        base,
        MANIFEST(PROGRAM(CALL("one", "b") ", " CALL("two", "b") ", " CALL("three", "b")) ", " OPS(
            "g") ", 'constants': {'N': 16}, "
                 "'buffers': {'b': {'dtype': 'i32', 'shape': ['N'], 'kind': 'output', "
                 "'export': false}, 'a': {'dtype': 'i32', 'shape': [16.0], 'kind': "
                 "'input'}}, " MODULES("k.cubin")),
        NULL, 0);
}

static void members_that_differ_have_both_values(void **state)
{
    (void)state;
    ASSERT_DIFFER(
        base,
        MANIFEST("'vars': {'n': {'max': 4}}, "
                 "'buffers': {'a': {'dtype': 'i32', 'shape': ['n'], 'kind': 'input', "
                 "'fill': 'token'}, 'b': {'dtype': 'u8', 'shape': [4, 4], 'kind': "
                 "'output'}}, " MODULES("say \\\"k\\\" [x].cubin") ", " OPS("h") ", " PROGRAM(
                     CALL("one", "b") ", " CALL("two", "b") ", " CALL("three", "b"))),
        {KERN_CHANGE_ADDED, "vars", "vars.n", NULL, "{\"max\":4}"},
        {KERN_CHANGE_CHANGED, "buffers", "buffers.a.shape[0]", "16", "\"n\""},
        {KERN_CHANGE_ADDED, "buffers", "buffers.a.fill", NULL, "\"token\""},
        {KERN_CHANGE_CHANGED, "buffers", "buffers.b.dtype", "\"i32\"", "\"u8\""},
        {KERN_CHANGE_CHANGED, "buffers", "buffers.b.shape", "[16]", "[4,4]"},
        {KERN_CHANGE_CHANGED, "modules", "modules.k.source", "\"k.cubin\"",
         "\"say \\\"k\\\" [x].cubin\""},
        {KERN_CHANGE_REMOVED, "ops", "ops.f.impl.launches[0]",
         "{\"module\":\"k\",\"entry\":\"g\",\"block\":[32,1,1],\"grid\":[1,1,1]}", NULL},
        {KERN_CHANGE_ADDED, "ops", "ops.f.impl.launches[0]", NULL,
         "{\"module\":\"k\",\"entry\":\"h\",\"block\":[32,1,1],\"grid\":[1,1,1]}"});
}

static void things_come_and_go_whole(void **state)
{
    (void)state;
    ASSERT_DIFFER(base,
                  MANIFEST("'topology': {'groups': {'tp': 2}}, 'chat': {}, " BUFFERS(
                      ", 'c': {'dtype': 'u8', "
                      "'shape': [1], 'kind': "
                      "'workspace'}") ", " MODULES("k.cubin") ", " OPS("g") ", "
                                                                            "'programs': {'q': "
                                                                            "{'calls': []}}"),
                  {KERN_CHANGE_ADDED, "topology", "topology", NULL, "{\"groups\":{\"tp\":2}}"},
                  {KERN_CHANGE_ADDED, "chat", "chat", NULL, "{}"},
                  {KERN_CHANGE_ADDED, "buffers", "buffers.c", NULL,
                   "{\"dtype\":\"u8\",\"shape\":[1],\"kind\":\"workspace\"}"},
                  {KERN_CHANGE_REMOVED, "programs", "programs.p",
                   "{\"calls\":[{\"op\":\"f\",\"label\":\"one\",\"args\":[{\"buf\":\"a\"},{\"buf\":"
                   "\"b\"}]},{\"op\":\"f\",\"label\":\"two\",\"args\":[{\"buf\":\"a\"},{\"buf\":"
                   "\"b\"}]},{\"op\":\"f\",\"label\":\"three\",\"args\":[{\"buf\":\"a\"},{\"buf\":"
                   "\"b\"}]}]}",
                   NULL},
                  {KERN_CHANGE_ADDED, "programs", "programs.q", NULL, "{\"calls\":[]}"});
}

static void calls_are_aligned(void **state)
{
    (void)state;
#define WITH(calls) MANIFEST(BUFFERS() ", " MODULES("k.cubin") ", " OPS("g") ", " PROGRAM(calls))
    static const char put[] =
        "{\"op\":\"f\",\"label\":\"new\",\"args\":[{\"buf\":\"a\"},{\"buf\":\"b\"}]}";
    ASSERT_DIFFER(
        base,
        WITH(CALL("one", "b") ", " CALL("new", "b") ", " CALL("two", "b") ", " CALL("three", "b")),
        {KERN_CHANGE_ADDED, "programs", "programs.p.calls[1] (new)", NULL, put});
    ASSERT_DIFFER(base, WITH(CALL("one", "b") ", " CALL("three", "b")),
                  {KERN_CHANGE_REMOVED, "programs", "programs.p.calls[1] (two)",
                   "{\"op\":\"f\",\"label\":\"two\",\"args\":[{\"buf\":\"a\"},{\"buf\":\"b\"}]}",
                   NULL});
    // A changed call is found behind the one that was put before it.
    ASSERT_DIFFER(
        base,
        WITH(CALL("one", "b") ", " CALL("new", "b") ", " CALL("two", "a") ", " CALL("three", "b")),
        {KERN_CHANGE_ADDED, "programs", "programs.p.calls[1] (new)", NULL, put},
        {KERN_CHANGE_CHANGED, "programs", "programs.p.calls[1] (two) arg 1.buf", "\"b\"", "\"a\""});
#undef WITH
}

// How many elements a longest common subsequence has, by the table that everybody knows.
static size_t longest(const uint32_t *a, size_t n, const uint32_t *b, size_t m)
{
    size_t table[33][33] = {0};
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < m; j++)
            table[i + 1][j + 1] = a[i] == b[j]                        ? table[i][j] + 1
                                  : table[i][j + 1] > table[i + 1][j] ? table[i][j + 1]
                                                                      : table[i + 1][j];
    return table[n][m];
}

static void alignments_are_the_longest(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (size_t round = 0; round < 20000; round++) {
        uint32_t a[32], b[32], matches[32], letters = 2 + (uint32_t)(round % 7);
        size_t n = round % 33, m = round / 33 % 33, matched = 0, next = 0;
        for (size_t i = 0; i < 32; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            a[i] = (uint32_t)(seed >> 33) % letters;
            b[i] = (uint32_t)(seed >> 48) % letters;
        }
        kern_align(a, n, b, m, matches);
        for (size_t i = 0; i < n; i++) {
            if (matches[i] == KERN_NONE)
                continue;
            assert_true(matches[i] >= next && matches[i] < m);
            assert_int_equal(a[i], b[matches[i]]);
            next = matches[i] + 1;
            matched++;
        }
        assert_int_equal(matched, longest(a, n, b, m));
    }
}

static void long_sequences_without_anything_in_common_end(void **state)
{
    (void)state;
    enum { LENGTH = 20000 };
    uint32_t *a = calloc(LENGTH, sizeof *a), *b = calloc(LENGTH, sizeof *b);
    uint32_t *matches = calloc(LENGTH, sizeof *matches);
    for (uint32_t i = 0; i < LENGTH; i++) {
        a[i] = i;
        b[i] = i == 0 || i == LENGTH - 1 ? i : LENGTH + i;
    }
    kern_align(a, LENGTH, b, LENGTH, matches);
    assert_int_equal(matches[0], 0);
    assert_int_equal(matches[1], KERN_NONE);
    assert_int_equal(matches[LENGTH - 2], KERN_NONE);
    assert_int_equal(matches[LENGTH - 1], LENGTH - 1);
    free(a);
    free(b);
    free(matches);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_means_the_same_does_not_differ),
        cmocka_unit_test(members_that_differ_have_both_values),
        cmocka_unit_test(things_come_and_go_whole),
        cmocka_unit_test(calls_are_aligned),
        cmocka_unit_test(alignments_are_the_longest),
        cmocka_unit_test(long_sequences_without_anything_in_common_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
