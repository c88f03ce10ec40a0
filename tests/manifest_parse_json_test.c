// SPDX-License-Identifier: Apache-2.0
//
// What is no JSON: the grammar of RFC 8259, the limits, and every laxity that json-c is known for.
#include <locale.h>

#include "base/memory.h"
#include "tests/manifest_parse.h"

// A manifest around [model], which stands where its model is expected.
#define REST ",\"schema_version\":7,\"buffers\":{},\"modules\":{},\"ops\":{},\"programs\":{}}"
#define AROUND(model) "{\"model\":" model REST

struct bad_text {
    const char *text;
    size_t length;
    struct expected_error error;
};

#define BAD(bytes, place, message)                                                                 \
    {                                                                                              \
        bytes, sizeof(bytes) - 1,                                                                  \
        {                                                                                          \
            "V-JSON", "m.json:" place, message                                                     \
        }                                                                                          \
    }

static void run(const struct bad_text *texts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_refused(texts[i].text, texts[i].length, &texts[i].error, 1);
}

#define RUN(texts) run(texts, sizeof(texts) / sizeof *(texts))

static void test_shape_of_the_text(void **state)
{
    (void)state;
    static const struct bad_text texts[] = {
        BAD("", "1:1", "the text ends"),
        BAD(" \n\t", "2:2", "the text ends"),
        BAD("null", "1:1", "one JSON object"),
        BAD("12", "1:1", "one JSON object"),
        BAD("[]", "1:1", "one JSON object"),
        BAD("\"a\"", "1:1", "one JSON object"),
        BAD("\xef\xbb\xbf{}", "1:1", "byte order mark"),
        BAD("{} trailing", "1:4", "nothing may follow"),
        BAD("{}}", "1:3", "nothing may follow"),
        BAD("{}{}", "1:3", "nothing may follow"),
        BAD("{}\0", "1:3", "NUL byte"),
        BAD("{\"a\":1}\0{\"a\":2}", "1:8", "NUL byte"),
        BAD("{", "1:2", "key"),
        BAD("{\"a\"", "1:5", "colon"),
        BAD("{\"a\":", "1:6", "the text ends"),
        BAD("{\"a\":1", "1:7", "the text ends"),
        BAD("{\"a\":[1,", "1:9", "the text ends"),
        BAD("{\"a\":tru", "1:6", "expected a value"),
        BAD("{\"a\":\"b", "1:8", "does not end"),
        BAD("{\"a\":1,}", "1:8", "comma"),
        BAD("{\"a\":[1,]}", "1:9", "a value must stand here"),
        BAD("{,}", "1:2", "key"),
        BAD("{\"a\" 1}", "1:6", "colon"),
        BAD("{\"a\":}", "1:6", "a value must stand here"),
        BAD("{\"a\":1 \"b\":2}", "1:8", "comma"),
        BAD("{\"a\":[1 2]}", "1:9", "comma"),
        BAD("{\"a\":[1}}", "1:8", "end of the array"),
        BAD("{\"a\":1]", "1:7", "end of the object"),
        BAD("{'a':1}", "1:2", "double quotes"),
        BAD("{\"a\":'b'}", "1:6", "double quotes"),
        BAD("{a:1}", "1:2", "key"),
        BAD("{1:1}", "1:2", "key"),
        BAD("{null:1}", "1:2", "key"),
        BAD("{/* c */}", "1:2", "key"),
        BAD("{\"a\":1 // c\n}", "1:8", "comma"),
        BAD("{\"a\":/**/1}", "1:6", "no comments"),
        BAD("{\"a\":TRUE}", "1:6", "expected a value"),
        BAD("{\"a\":True}", "1:6", "expected a value"),
        BAD("{\"a\":nul}", "1:6", "true, false and null"),
        BAD("{\"a\":nullx}", "1:10", "comma"),
        BAD("{\"a\":NaN}", "1:6", "NaN"),
        BAD("{\"a\":nan}", "1:6", "null"),
        BAD("{\"a\":Infinity}", "1:6", "Infinity"),
        BAD("{\"a\":-Infinity}", "1:7", "Infinity"),
        BAD("{\"a\":undefined}", "1:6", "expected a value"),
        BAD("{\"a\":\f1}", "1:6", "expected a value"),
        BAD("{\n  \"a\": 1,\r\n  \"b\": ?\n}", "3:8", "expected a value"),
    };
    RUN(texts);
}

static void test_numbers(void **state)
{
    (void)state;
    static const struct bad_text texts[] = {
        BAD("{\"a\":01}", "1:6", "begin with 0"),      BAD("{\"a\":-01}", "1:7", "begin with 0"),
        BAD("{\"a\":00}", "1:6", "begin with 0"),      BAD("{\"a\":-}", "1:7", "a digit here"),
        BAD("{\"a\":--1}", "1:7", "a digit here"),     BAD("{\"a\":+1}", "1:6", "expected a value"),
        BAD("{\"a\":.5}", "1:6", "expected a value"),  BAD("{\"a\":1.}", "1:8", "after its point"),
        BAD("{\"a\":1.e3}", "1:8", "after its point"), BAD("{\"a\":1e}", "1:8", "exponent"),
        BAD("{\"a\":1e+}", "1:9", "exponent"),         BAD("{\"a\":1e5.5}", "1:9", "belong"),
        BAD("{\"a\":1.2.3}", "1:9", "belong"),         BAD("{\"a\":0x10}", "1:7", "belong"),
        BAD("{\"a\":1_000}", "1:7", "belong"),         BAD("{\"a\":1f}", "1:7", "belong"),
        BAD("{\"a\":1-2}", "1:7", "belong"),           BAD("{\"a\":1\xc2\xa0}", "1:7", "comma"),
    };
    RUN(texts);
}

static void test_strings(void **state)
{
    (void)state;
    static const struct bad_text texts[] = {
        BAD("{\"a\tb\":1}", "1:4", "control character"),
        BAD("{\"a\":\"\n\"}", "1:7", "control character"),
        BAD("{\"a\":\"\x1f\"}", "1:7", "control character"),
        BAD("{\"a\":\"x\0y\"}", "1:8", "NUL byte"),
        BAD("{\"a\\u0000b\":1}", "1:4", "NUL character"),
        BAD("{\"a\":\"\\u0000\"}", "1:7", "NUL character"),
        BAD("{\"a\":\"\\x41\"}", "1:7", "escape"),
        BAD("{\"a\":\"\\'\"}", "1:7", "escape"),
        BAD("{\"a\":\"\\", "1:7", "escape"),
        BAD("{\"a\":\"\\u12\"}", "1:7", "four hex digits"),
        BAD("{\"a\":\"\\u12g4\"}", "1:7", "four hex digits"),
        BAD("{\"a\":\"\\u", "1:7", "four hex digits"),
        BAD("{\"a\":\"\\ud800\"}", "1:7", "surrogate"),
        BAD("{\"a\":\"\\ud800x\"}", "1:7", "surrogate"),
        BAD("{\"a\":\"\\ud800\\u0041\"}", "1:7", "surrogate"),
        BAD("{\"a\":\"\\ud800\\ud800\"}", "1:7", "surrogate"),
        BAD("{\"a\":\"\\udc00\"}", "1:7", "surrogate"),
        BAD("{\"a\":\"\\udc00\\ud800\"}", "1:7", "surrogate"),
        BAD("{\"a\":\"\\ud800\\u", "1:7", "surrogate"),
        BAD("{\"\\ud800\":1}", "1:3", "surrogate"),
        BAD("{\"a\":\"\x80\"}", "1:7", "UTF-8"),
        BAD("{\"a\":\"\xc0\x80\"}", "1:7", "UTF-8"),
        BAD("{\"a\":\"\xc1\xbf\"}", "1:7", "UTF-8"),
        BAD("{\"a\":\"\xc2\"}", "1:7", "UTF-8"),
        BAD("{\"a\":\"\xe0\x9f\xbf\"}", "1:7", "UTF-8"),
        BAD("{\"a\":\"\xe4\xb8\"}", "1:7", "UTF-8"),
        BAD("{\"a\":\"\xed\xa0\x80\"}", "1:7", "UTF-8"),
        BAD("{\"a\":\"\xf0\x8f\xbf\xbf\"}", "1:7", "UTF-8"),
        BAD("{\"a\":\"\xf4\x90\x80\x80\"}", "1:7", "UTF-8"),
        BAD("{\"a\":\"\xf5\x80\x80\x80\"}", "1:7", "UTF-8"),
        BAD("{\"a\":\"\xff\"}", "1:7", "UTF-8"),
        BAD("{\"\xfe\":1}", "1:3", "UTF-8"),
        BAD("{\"a\":\"\xf0\x9f\x98", "1:7", "UTF-8"),
    };
    RUN(texts);
}

static void test_accepted_texts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *model;
    } texts[] = {
        {AROUND("\"\""), ""},
        {" \r\n\t" AROUND(" \"a\"") " \r\n\t", "a"},
        {AROUND("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""), "\"\\/\b\f\n\r\t"},
        {AROUND("\"\\u0041\\u00e9\\u4E2d\\ud83d\\ude00\""),
         "A\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80"},
        {AROUND("\"\\u0001\\uffff\\udbff\\udfff\""), "\x01\xef\xbf\xbf\xf4\x8f\xbf\xbf"},
        {AROUND("\"\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80\""),
         "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80"},
        {AROUND("\"{\\\"a\\\":1,'NaN'\""), "{\"a\":1,'NaN'"},
        {"{\"m\\u006fdel\":\"escaped key\"" REST, "escaped key"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct kern_manifest *manifest = parse_accepted(texts[i].text, strlen(texts[i].text));
        assert_string_equal(manifest->model, texts[i].model);
        kern_manifest_destroy(manifest);
    }
}

static void put_repeated(FILE *file, const char *text, size_t times)
{
    for (size_t i = 0; i < times; i++)
        fputs(text, file);
}

// Writes [depth] levels of arrays below the root's.
static char *nested(size_t depth)
{
    char *text;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    assert_non_null(file);
    fputs("{\"chat\":", file);
    put_repeated(file, "[", depth);
    put_repeated(file, "]", depth);
    fputs("}", file);
    fclose(file);
    return text;
}

static void test_depth(void **state)
{
    (void)state;
    struct kern_diag diag = {0};
    // The root is a level too: 64 in all pass as JSON and fail as a manifest.
    char *text = nested(63);
    assert_null(kern_manifest_parse(text, strlen(text), "m.json", &diag));
    assert_true(diag.count > 0);
    for (size_t i = 0; i < diag.count; i++)
        assert_string_equal(diag.entries[i].rule, "V-TYPE");
    kern_diag_clear(&diag);
    free(text);
    static const struct expected_error error = {"V-JSON", "m.json:1:72", "deeper than 64"};
    text = nested(64);
    assert_refused(text, strlen(text), &error, 1);
    free(text);
    text = nested(1000000);
    assert_refused(text, strlen(text), &error, 1);
    free(text);
}

static void test_size(void **state)
{
    (void)state;
    // Zeroed pages that nobody touches: the size is refused before the text is read.
    size_t length = KERN_MANIFEST_BYTES_MAX + 1;
    char *text = kern_calloc(1, length + 1);
    struct kern_diag diag = {0};
    assert_null(kern_manifest_parse(text, length, "big.json", &diag));
    assert_int_equal(diag.count, 1);
    assert_string_equal(diag.entries[0].rule, "V-JSON");
    assert_string_equal(diag.entries[0].place, "big.json");
    assert_non_null(strstr(diag.entries[0].text, "256 MiB"));
    kern_diag_clear(&diag);
    free(text);
}

// A million wrong things must not fill memory with messages, nor take the square of their number.
static void test_errors_are_bounded(void **state)
{
    (void)state;
    static const char *const elements[] = {"\"a\":1,", "\"a\":{\"a\":1,\"a\":2},", "\"\":[],"};
    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++) {
        char *text;
        size_t length;
        FILE *file = open_memstream(&text, &length);
        assert_non_null(file);
        fputs("{", file);
        put_repeated(file, elements[i], 200000);
        fputs("\"model\":\"\"}", file);
        fclose(file);
        struct kern_diag diag = {0};
        assert_null(kern_manifest_parse(text, length, "m.json", &diag));
        assert_true(diag.count > 5000 && diag.count < 20000);
        kern_diag_print(&diag, stdout, 0);
        kern_diag_clear(&diag);
        free(text);
    }
}

// An op with many params and many launches that forward them: its size may not be squared.
static void test_default_wiring_is_shared(void **state)
{
    (void)state;
    const size_t count = 20000;
    char *text;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    assert_non_null(file);
    fputs("{\"schema_version\":7,\"model\":\"\",\"buffers\":{},\"modules\":{},"
          "\"programs\":{},\"ops\":{\"f\":{\"params\":[\"i32\"",
          file);
    put_repeated(file, ",\"i32\"", count - 1);
    fputs("],\"impl\":{\"launches\":[{\"entry\":\"extern:x\"}", file);
    put_repeated(file, ",{\"entry\":\"extern:x\"}", count - 1);
    fputs("]}}}}", file);
    fclose(file);
    struct kern_manifest *manifest = parse_accepted(text, length);
    assert_int_equal(manifest->ops[0].launches[count - 1].n_args, count);
    assert_true(manifest->arena.reserved < 100 * count * sizeof(void *));
    kern_manifest_destroy(manifest);
    free(text);
}

// A string or a number of many megabytes is read once.
static void test_long_tokens(void **state)
{
    (void)state;
    const size_t size = 8 << 20;
    for (size_t i = 0; i < 2; i++) {
        char *text;
        size_t length;
        FILE *file = open_memstream(&text, &length);
        assert_non_null(file);
        fputs(i == 0 ? "{\"model\":\"" : "{\"model\":\"\",\"vars\":{\"n\":{\"max\":", file);
        put_repeated(file, i == 0 ? "x" : "9", size);
        fputs(i == 0 ? "\"" REST : "}}" REST, file);
        fclose(file);
        if (i == 0) {
            struct kern_manifest *manifest = parse_accepted(text, length);
            assert_int_equal(strlen(manifest->model), size);
            kern_manifest_destroy(manifest);
        } else {
            static const struct expected_error error = {"V-NUM", "vars.n.max", "99..."};
            assert_refused(text, length, &error, 1);
        }
        free(text);
    }
}

// json-c before 0.19 and strtod read numbers by the locale; a manifest has a point everywhere.
static void test_locale(void **state)
{
    (void)state;
    static const char text[] = "{\"constants\":{\"H\":0.5},\"vars\":{\"n\":{\"max\":\"H\"}},"
                               "\"model\":\"\"" REST;
    static const struct expected_error error = {"V-NUM", "vars.n.max", "0.5"};
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8"))
        skip();
    assert_refused(text, sizeof text - 1, &error, 1);
    setlocale(LC_NUMERIC, "C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shape_of_the_text),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_accepted_texts),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_size),
        cmocka_unit_test(test_errors_are_bounded),
        cmocka_unit_test(test_default_wiring_is_shared),
        cmocka_unit_test(test_long_tokens),
        cmocka_unit_test(test_locale),
    };
    return cmocka_run_group_tests_name("manifest_parse_json", tests, NULL, NULL);
}
