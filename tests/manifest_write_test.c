// SPDX-License-Identifier: Apache-2.0
//
// The canonical text: it means the same, is its own canonical text, and looks as it should.
#include <float.h>
#include <glob.h>
#include <locale.h>

#include "manifest/write.h"
#include "tests/manifest_parse.h"
#include "tests/manifest_same.h"

// Writes what [text] says, and checks that the result says the same and is written as it is; both
// are verified if [verified]. The caller frees the text.
static char *write_and_compare(const char *text, bool verified)
{
    struct kern_diag diag = {0};
    struct kern_manifest *first = parse_accepted(text, strlen(text));
    if (verified && !kern_manifest_verify(first, &diag))
        kern_diag_print(&diag, stderr, 20);
    size_t length, again_length;
    char *written = kern_manifest_write(first, &length);
    assert_int_equal(strlen(written), length);
    struct kern_manifest *second = parse_accepted(written, length);
    if (verified && !kern_manifest_verify(second, &diag))
        kern_diag_print(&diag, stderr, 20);
    assert_int_equal(diag.errors, 0);
    assert_same_manifest(first, second);
    char *again = kern_manifest_write(second, &again_length);
    assert_string_equal(again, written);
    assert_int_equal(again_length, length);
    free(again);
    kern_manifest_destroy(first);
    kern_manifest_destroy(second);
    kern_diag_clear(&diag);
    return written;
}

static void test_maximal(void **state)
{
    (void)state;
    char *text = maximal_text();
    char *written = write_and_compare(text, false);
    assert_null(strstr(written, "constants"));
    assert_null(strstr(written, "null"));
    assert_null(strstr(written, "false"));
    free(written);
    free(text);
}

static void test_examples(void **state)
{
    (void)state;
    glob_t found;
    size_t length;
    assert_int_equal(glob(KERN_BUILD_DIR "/examples/*/model.json", 0, NULL, &found), 0);
    assert_true(found.gl_pathc >= 4);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct kern_diag diag = {0};
        char *text = kern_file_read(found.gl_pathv[i], 1 << 26, &length, KERN_EXIT_USAGE, &diag);
        assert_non_null(text);
        free(write_and_compare(text, true));
        free(text);
    }
    globfree(&found);
}

#define HEAD "{\"schema_version\": 7, \"model\": \"m\", "
#define TAIL "\"modules\": {}, \"ops\": {}, \"programs\": {}}"

static void assert_written(const char *text, const char *expected)
{
    char *written = write_and_compare(text, false);
    assert_string_equal(written, expected);
    free(written);
}

static void test_smallest(void **state)
{
    (void)state;
    assert_written(HEAD "\"buffers\": {}, " TAIL, "{\n"
                                                  "  \"schema_version\": 7,\n"
                                                  "  \"model\": \"m\",\n"
                                                  "  \"buffers\": {},\n"
                                                  "  \"modules\": {},\n"
                                                  "  \"ops\": {},\n"
                                                  "  \"programs\": {}\n"
                                                  "}\n");
}

static void test_maps_are_sorted_by_bytes(void **state)
{
    (void)state;
    assert_written("{\"vars\": {\"b\": {\"max\": 2}, \"\xc3\xa4\": {\"max\": 3}, \"B\": {\"max\": "
                   "1}}, \"schema_version\": 7e0, \"chat\": {}, \"topology\": {\"groups\": {}}, "
                   "\"model\": \"m\", \"buffers\": {}, " TAIL,
                   "{\n"
                   "  \"schema_version\": 7,\n"
                   "  \"model\": \"m\",\n"
                   "  \"vars\": {\n"
                   "    \"B\": {\"max\": 1},\n"
                   "    \"b\": {\"max\": 2},\n"
                   "    \"\xc3\xa4\": {\"max\": 3}\n"
                   "  },\n"
                   "  \"topology\": {\n"
                   "    \"groups\": {}\n"
                   "  },\n"
                   "  \"chat\": {},\n"
                   "  \"buffers\": {},\n"
                   "  \"modules\": {},\n"
                   "  \"ops\": {},\n"
                   "  \"programs\": {}\n"
                   "}\n");
}

static void test_strings_are_escaped_no_more_than_they_must(void **state)
{
    (void)state;
    char *written = write_and_compare("{\"schema_version\": 7, \"model\": \"a\\\"\\\\\\/\\n\\u0001"
                                      "\\u007f\\u00e4\\ud83d\\ude00\", \"buffers\": {}, " TAIL,
                                      false);
    assert_non_null(strstr(written, "\"a\\\"\\\\/\\n\\u0001\x7f\xc3\xa4\xf0\x9f\x98\x80\""));
    free(written);
}

// The text of a manifest whose only call has the f32 argument [number].
static char *with_f32(const char *number)
{
    static const char format[] =
        HEAD "\"buffers\": {}, \"modules\": {}, \"ops\": {}, \"programs\": {\"p\": {\"calls\": "
             "[{\"op\": \"o\", \"args\": [{\"f32\": %s}]}]}}}";
    char *text = malloc(sizeof format + strlen(number));
    assert_non_null(text);
    sprintf(text, format, number);
    return text;
}

static void test_f32_are_as_short_as_can_be(void **state)
{
    (void)state;
    static const char *const numbers[][2] = {
        {"0.1", "0.1"},
        {"1.0", "1"},
        {"-0.0", "-0.0"},
        {"0", "0"},
        {"1e-5", "1e-5"},
        {"0.30000001192092896", "0.3"},
        {"16777217", "16777216"},
        {"3.4028234663852886e38", "3.4028235e38"},
        {"1.401298464324817e-45", "1e-45"},
        {"1e10", "1e10"},
        {"-123456.789", "-123456.79"},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char expected[64];
        char *text = with_f32(numbers[i][0]);
        char *written = write_and_compare(text, false);
        snprintf(expected, sizeof expected, "{\"f32\": %s}", numbers[i][1]);
        if (!strstr(written, expected))
            fail_msg("%s is not written as %s in: %s", numbers[i][0], expected, written);
        free(written);
        free(text);
    }
}

// Many bit patterns, from a generator that is always the same.
static void test_every_f32_comes_back(void **state)
{
    (void)state;
    uint32_t bits = 1;
    for (size_t i = 0; i < 2000; i++) {
        bits = bits * 1664525u + 1013904223u;
        float number;
        memcpy(&number, &bits, sizeof number);
        if (!(number >= -FLT_MAX && number <= FLT_MAX))
            continue;
        char decimal[64];
        snprintf(decimal, sizeof decimal, "%.20e", (double)number);
        char *text = with_f32(decimal);
        free(write_and_compare(text, false));
        free(text);
    }
}

static void test_bounds_keep_their_value(void **state)
{
    (void)state;
    static const char *const bounds[] = {
        "0.1",
        "-1e300",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "-9223372036854775809",
        "1.7976931348623157e308",
        "5e-324",
        "0.5",
        "2.2250738585072014e-308",
    };
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        char text[400];
        snprintf(text, sizeof text,
                 HEAD "\"buffers\": {\"a\": {\"dtype\": \"f32\", \"shape\": [1], \"kind\": "
                      "\"input\", \"domain\": {\"min\": %s}}}, " TAIL,
                 bounds[i]);
        free(write_and_compare(text, false));
    }
}

static void test_no_line_is_longer_than_it_must(void **state)
{
    (void)state;
    char *text = maximal_text();
    char *written = write_and_compare(text, false);
    for (char *line = strtok(written, "\n"); line; line = strtok(NULL, "\n"))
        assert_true(strlen(line) <= 100);
    free(written);
    free(text);
}

// The program's locale may write a comma where JSON has a point.
static void test_the_locale_is_of_no_account(void **state)
{
    (void)state;
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"};
    const char *set = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !set; i++)
        set = setlocale(LC_NUMERIC, names[i]);
    if (!set)
        skip();
    char *text = with_f32("0.5");
    char *written = write_and_compare(text, false);
    assert_non_null(strstr(written, "{\"f32\": 0.5}"));
    free(written);
    free(text);
    setlocale(LC_NUMERIC, "C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_maximal),
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_smallest),
        cmocka_unit_test(test_maps_are_sorted_by_bytes),
        cmocka_unit_test(test_strings_are_escaped_no_more_than_they_must),
        cmocka_unit_test(test_f32_are_as_short_as_can_be),
        cmocka_unit_test(test_every_f32_comes_back),
        cmocka_unit_test(test_bounds_keep_their_value),
        cmocka_unit_test(test_no_line_is_longer_than_it_must),
        cmocka_unit_test(test_the_locale_is_of_no_account),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
