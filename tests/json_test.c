// SPDX-License-Identifier: Apache-2.0
//
// The JSON reader: what it refuses and where, its closest neighbours that it accepts, and what it
// makes of them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"

enum { DEPTH = 8 };

// A text that is refused at byte [at] with [message], and a neighbour of it that is accepted.
struct refusal {
    const char *text;
    size_t length;
    size_t at;
    const char *message;
    const char *right;
};

#define REFUSED(text, at, message, right)                                                          \
    {                                                                                              \
        text, sizeof(text) - 1, at, message, right                                                 \
    }

static const struct refusal refusals[] = {
    // Values and what surrounds them.
    REFUSED("", 0, "the text ends where a value must stand", "0"),
    REFUSED(" \t\r\n", 4, "the text ends", " \t\r\n0"),
    REFUSED("\f0", 0, "expected a value, byte 0x0c is there", " 0"),
    REFUSED("\v0", 0, "byte 0x0b", "\n0"),
    REFUSED("\xc2\xa0"
            "0",
            0, "byte 0xc2", "\t0"),
    REFUSED("\xef\xbb\xbf{}", 0, "a byte order mark", "{}"),
    REFUSED("0 0", 2, "nothing may follow the value: '0' stands after the end", "0 "),
    REFUSED("{},", 2, "','", "{}\r"),
    REFUSED("{}\0", 2, "NUL byte 0x00 stands after the end", "{}\n"),
    REFUSED("\0", 0, "a NUL byte is not allowed", "1"),
    REFUSED("[\0]", 1, "a NUL byte is not allowed", "[]"),
    REFUSED("tru", 0, "true, false and null", "true"),
    REFUSED("truE", 0, "true, false and null", "true"),
    REFUSED("falsee", 5, "'e'", "false"),
    REFUSED("nul", 0, "true, false and null", "null"),
    REFUSED("True", 0, "'T'", "true"),
    REFUSED("NaN", 0, "no NaN", "null"),
    REFUSED("Infinity", 0, "no Infinity", "1e308"),
    REFUSED("-Infinity", 1, "no Infinity", "-1e308"),
    REFUSED("undefined", 0, "'u'", "null"),
    REFUSED("'a'", 0, "double quotes", "\"a\""),
    REFUSED("/**/0", 0, "no comments", "  0"),
    REFUSED("#\n0", 0, "no comments", "\n0"),
    // Arrays.
    REFUSED("[", 1, "the text ends where a value must stand", "[]"),
    REFUSED("]", 0, "a value must stand here", "[]"),
    REFUSED("[1", 2, "the text ends before its array does", "[1]"),
    REFUSED("[1,", 3, "the text ends", "[1,2]"),
    REFUSED("[1,]", 3, "a value must stand here", "[1]"),
    REFUSED("[,1]", 1, "','", "[1]"),
    REFUSED("[1,,2]", 3, "','", "[1,2]"),
    REFUSED("[1 2]", 3, "expected a comma or the end of the array", "[1, 2]"),
    REFUSED("[1}", 2, "the end of the array", "[1]"),
    REFUSED("[1:2]", 2, "the end of the array", "[1,2]"),
    // Objects.
    REFUSED("{", 1, "'\"' is expected, the end is there", "{}"),
    REFUSED("{\"a\"", 4, "':' is expected, the end is there", "{\"a\":1}"),
    REFUSED("{\"a\" 1}", 5, "':' is expected, '1' is there", "{\"a\" : 1}"),
    REFUSED("{\"a\":", 5, "the text ends where a value must stand", "{\"a\":0}"),
    REFUSED("{\"a\":}", 5, "a value must stand here", "{\"a\":{}}"),
    REFUSED("{\"a\":1", 6, "the text ends before its object does", "{\"a\":1}"),
    REFUSED("{\"a\":1,}", 7, "behind a comma", "{\"a\":1}"),
    REFUSED("{,}", 1, "'\"' is expected, ',' is there", "{}"),
    REFUSED("{\"a\":1 \"b\":2}", 7, "a comma or the end of the object", "{\"a\":1,\"b\":2}"),
    REFUSED("{\"a\":1]", 6, "a comma or the end of the object", "{\"a\":1}"),
    REFUSED("{1:2}", 1, "'1' is there", "{\"1\":2}"),
    REFUSED("{a:2}", 1, "a key in double quotes", "{\"a\":2}"),
    REFUSED("{'a':2}", 1, "a key in double quotes", "{\"a\":2}"),
    REFUSED("{null:2}", 1, "'n' is there", "{\"null\":2}"),
    REFUSED("{\"a\"\0:1}", 4, "NUL byte", "{\"a\":1}"),
    // Nesting.
    REFUSED("[[[[[[[[[]]]]]]]]]", 8, "nested deeper than 8", "[[[[[[[[]]]]]]]]"),
    REFUSED("{\"a\":[[[[[[[{}]]]]]]]}", 12, "nested deeper than 8", "{\"a\":[[[[[[{}]]]]]]}"),
    // Numbers.
    REFUSED("01", 0, "does not begin with 0", "0"),
    REFUSED("-01", 1, "does not begin with 0", "-0"),
    REFUSED("00", 0, "does not begin with 0", "0.0"),
    REFUSED("-", 1, "a digit here", "-1"),
    REFUSED("--1", 1, "a digit here", "-1"),
    REFUSED("+1", 0, "expected a value", "1"),
    REFUSED(".5", 0, "expected a value", "0.5"),
    REFUSED("1.", 2, "after its point", "1.0"),
    REFUSED("1.e1", 2, "after its point", "1.0e1"),
    REFUSED("1e", 2, "in its exponent", "1e0"),
    REFUSED("1E-", 3, "in its exponent", "1E-0"),
    REFUSED("1e1.5", 3, "does not belong", "1e15"),
    REFUSED("1.2.3", 3, "does not belong", "1.23"),
    REFUSED("0x10", 1, "does not belong", "10"),
    REFUSED("1_000", 1, "does not belong", "1000"),
    REFUSED("1f", 1, "does not belong", "1"),
    REFUSED("1-2", 1, "does not belong", "1"),
    REFUSED("[1\xc2\xa0]", 2, "a comma", "[1 ]"),
    // Strings.
    REFUSED("\"", 1, "does not end", "\"\""),
    REFUSED("\"a", 2, "does not end", "\"a\""),
    REFUSED("\"a\\\"", 4, "does not end", "\"a\\\"\""),
    REFUSED("\"a\nb\"", 2, "control character", "\"a\\nb\""),
    REFUSED("\"\x1f\"", 1, "control character", "\" \""),
    REFUSED("\"a\0b\"", 2, "a NUL byte", "\"a b\""),
    REFUSED("\"\\u0000\"", 1, "a NUL character", "\"\\u0001\""),
    REFUSED("{\"\\u0000\":0}", 2, "a NUL character", "{\"\\u0001\":0}"),
    REFUSED("\"\\x41\"", 1, "this escape is unknown", "\"\\u0041\""),
    REFUSED("\"\\'\"", 1, "this escape is unknown", "\"'\""),
    REFUSED("\"\\", 1, "this escape is unknown", "\"\\\\\""),
    REFUSED("\"\\u12g4\"", 1, "four hex digits", "\"\\u12A4\""),
    REFUSED("\"\\u123\"", 1, "four hex digits", "\"\\u1230\""),
    REFUSED("\"\\ud800\"", 1, "unpaired", "\"\\ud800\\udc00\""),
    REFUSED("\"\\udbffx\"", 1, "unpaired", "\"\\udbff\\udfff\""),
    REFUSED("\"\\ud800\\u0041\"", 1, "unpaired", "\"\\ud7ff\\u0041\""),
    REFUSED("\"\\udc00\"", 1, "unpaired", "\"\\ue000\""),
    REFUSED("\"\\udc00\\ud800\"", 1, "unpaired", "\"\\ud800\\udc00\""),
    REFUSED("\"\x80\"", 1, "not UTF-8", "\"\x7f\""),
    REFUSED("\"\xc0\x80\"", 1, "not UTF-8", "\"\xc2\x80\""),
    REFUSED("\"\xc2\"", 1, "not UTF-8", "\"\xc2\xbf\""),
    REFUSED("\"\xe0\x9f\xbf\"", 1, "not UTF-8", "\"\xe0\xa0\x80\""),
    REFUSED("\"\xed\xa0\x80\"", 1, "not UTF-8", "\"\xed\x9f\xbf\""),
    REFUSED("\"\xef\xbf\"", 1, "not UTF-8", "\"\xef\xbf\xbf\""),
    REFUSED("\"\xf0\x8f\xbf\xbf\"", 1, "not UTF-8", "\"\xf0\x90\x80\x80\""),
    REFUSED("\"\xf4\x90\x80\x80\"", 1, "not UTF-8", "\"\xf4\x8f\xbf\xbf\""),
    REFUSED("\"\xf5\x80\x80\x80\"", 1, "not UTF-8", "\"\xf1\x80\x80\x80\""),
    REFUSED("{\"\xff\":0}", 2, "not UTF-8", "{\"\xc3\xbf\":0}"),
};

// Parses a copy of exactly this size, in which a sanitizer sees reads past the NUL; the caller
// frees *[copy], which the document borrows.
static bool parse(const char *text, size_t length, struct kern_json_document *document,
                  struct kern_json_error *error, char **copy)
{
    *copy = malloc(length + 1);
    assert_non_null(*copy);
    memcpy(*copy, text, length);
    (*copy)[length] = '\0';
    return kern_json_parse(document, *copy, length, DEPTH, error);
}

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *refusal = &refusals[i];
        struct kern_json_document document = {0};
        struct kern_json_error error;
        char *copy;
        if (parse(refusal->text, refusal->length, &document, &error, &copy))
            fail_msg("accepted: %s", refusal->text);
        if (error.at != refusal->at || !strstr(error.text, refusal->message))
            fail_msg("%s: byte %zu: %s", refusal->text, error.at, error.text);
        assert_null(document.nodes);
        free(copy);
        if (!parse(refusal->right, strlen(refusal->right), &document, &error, &copy))
            fail_msg("%s: byte %zu: %s", refusal->right, error.at, error.text);
        kern_json_free(&document);
        free(copy);
    }
}

static void test_nodes(void **state)
{
    (void)state;
    static const char text[] =
        " {\"a\" : [1, [], \"x\\ny\"],\n\"\\u0062\":{\"c\":null},\"d\":true}";
    struct kern_json_document document = {0};
    struct kern_json_error error;
    struct kern_arena arena = {0};
    assert_true(kern_json_parse(&document, text, sizeof text - 1, DEPTH, &error));
    assert_int_equal(document.count, 12);
    const struct kern_json_node *root = document.nodes;
    assert_int_equal(root->kind, KERN_JSON_OBJECT);
    assert_int_equal(root->at, 1);
    assert_int_equal(root->size, 3);
    assert_int_equal(root->span, 12);

    const struct kern_json_node *key = kern_json_first(root), *array = key + 1;
    assert_true(kern_json_equals(&document, key, "a"));
    assert_false(kern_json_equals(&document, key, ""));
    assert_false(kern_json_equals(&document, key, "ab"));
    assert_int_equal(array->size, 3);
    const struct kern_json_node *element = kern_json_next(kern_json_next(kern_json_first(array)));
    assert_int_equal(element->kind, KERN_JSON_STRING);
    assert_int_equal(element->size, 3);
    assert_string_equal(kern_json_copy(&document, element, &arena), "x\ny");

    key = kern_json_next(array);
    assert_int_equal(text[key->at], '"');
    assert_true(key->escaped);
    assert_true(kern_json_equals(&document, key, "b"));
    const struct kern_json_node *inner = kern_json_find(&document, root, "b");
    assert_ptr_equal(inner, key + 1);
    assert_int_equal(kern_json_find(&document, inner, "c")->kind, KERN_JSON_NULL);
    assert_null(kern_json_find(&document, inner, "d"));
    assert_int_equal(kern_json_find(&document, root, "d")->kind, KERN_JSON_TRUE);
    kern_arena_free(&arena);
    kern_json_free(&document);
}

static void test_repeated_keys(void **state)
{
    (void)state;
    // The number of each key that stands in its object already, in the order of the text.
    static const struct {
        const char *text;
        size_t repeated;
        size_t keys[4];
    } texts[] = {
        {"{\"a\":1,\"b\":1,\"A\":1,\"\":1,\"ab\":1}", 0, {0}},
        {"{\"a\":1,\"a\":1}", 1, {1}},
        {"{\"a\":1,\"b\":1,\"\\u0061\":1,\"a\":1}", 2, {2, 3}},
        {"{\"a\\n\":1,\"a\\u000a\":1,\"\":1,\"\":1}", 2, {1, 3}},
        {"{\"\xf0\x9f\x98\x80\":1,\"\\ud83d\\ude00\":1}", 1, {1}},
        {"{\"a\":{\"a\":{}},\"b\":[{\"a\":1},{\"a\":1}]}", 0, {0}},
        {"{\"a\":{\"b\":1,\"b\":1},\"a\":{\"b\":2}}", 2, {2, 3}},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct kern_json_document document = {0};
        struct kern_json_error error;
        size_t keys = 0, found = 0;
        assert_true(
            kern_json_parse(&document, texts[i].text, strlen(texts[i].text), DEPTH, &error));
        assert_int_equal(document.repeated, texts[i].repeated);
        for (size_t j = 0; j < document.count; j++) {
            const struct kern_json_node *node = &document.nodes[j];
            bool is_key = node->kind == KERN_JSON_STRING; // no value of these texts is a string
            if (node->repeated)
                assert_int_equal(keys, texts[i].keys[found++]);
            keys += is_key;
        }
        assert_int_equal(found, texts[i].repeated);
        kern_json_free(&document);
    }
}

// So many keys that they are hashed, each a second time at the end: found, and in time that does
// not grow with their square.
static void test_repeated_keys_of_a_large_object(void **state)
{
    (void)state;
    const size_t count = 200000;
    char *text;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    assert_non_null(file);
    for (size_t i = 0; i < 2 * count; i++)
        fprintf(file, "%c\"key\\u00%02zx%zu\":0", i ? ',' : '{', 0x61 + i % count % 16, i % count);
    fputc('}', file);
    fclose(file);
    struct kern_json_document document = {0};
    struct kern_json_error error;
    assert_true(kern_json_parse(&document, text, length, DEPTH, &error));
    assert_int_equal(document.repeated, count);
    assert_false(document.nodes[1 + 2 * (count - 1)].repeated);
    assert_true(document.nodes[1 + 2 * count].repeated);
    kern_json_free(&document);
    free(text);
}

static void test_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool integral, fits;
        uint64_t magnitude;
        double real;
        float single;
    } numbers[] = {
        {"0", true, true, 0, 0, 0},
        {"-0", true, true, 0, -0.0, -0.0f},
        {"18446744073709551615", true, true, UINT64_MAX, 18446744073709551616.0, 0x1p64f},
        {"18446744073709551616", true, false, 0, 18446744073709551616.0, 0x1p64f},
        {"-18446744073709551615", true, true, UINT64_MAX, -18446744073709551616.0, -0x1p64f},
        {"1e3", true, true, 1000, 1000, 1000},
        {"2560.0", true, true, 2560, 2560, 2560},
        {"2560.50e1", true, true, 25605, 25605, 25605},
        {"1e-1", false, false, 0, 0.1, 0.1f},
        {"10e-1", true, true, 1, 1, 1},
        {"0e999999999999", true, true, 0, 0, 0},
        {"0.000e-7", true, true, 0, 0, 0},
        {"1e400", true, false, 0, INFINITY, INFINITY},
        {"-1e400", true, false, 0, -INFINITY, -INFINITY},
        {"1e-400", false, false, 0, 0, 0},
        {"123456789012345678901234567890e-20", false, false, 0, 1234567890.1234567, 1234567890.0f},
        {"1000000000000000000000e-20", true, true, 10, 10, 10},
        // Rounded to f32 from the double, this would be 1 + 2^-23: the double falls on the middle.
        {"1.00000005960464477539062500000000000000001", false, false, 0, 1.0000000596046448,
         1.00000012f},
        {"1.000000059604644775390624999999999999999", false, false, 0, 1.0000000596046448, 1.0f},
        {"9007199254740993", true, true, 9007199254740993, 9007199254740992.0, 9007199254740992.0f},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct kern_json_document document = {0};
        struct kern_json_error error;
        const char *text = numbers[i].text;
        assert_true(kern_json_parse(&document, text, strlen(text), DEPTH, &error));
        struct kern_json_number number = kern_json_number(&document, document.nodes);
        if (number.integral != numbers[i].integral || number.fits != numbers[i].fits ||
            (number.fits && number.magnitude != numbers[i].magnitude) ||
            number.negative != (*text == '-'))
            fail_msg("%s is read as %d %d %lu", text, number.integral, number.fits,
                     (unsigned long)number.magnitude);
        double real = kern_json_double(&number);
        float single = kern_json_float(&number);
        assert_memory_equal(&real, &numbers[i].real, sizeof real);
        assert_memory_equal(&single, &numbers[i].single, sizeof single);
        assert_int_equal(number.length, strlen(text));
        kern_json_free(&document);
    }
}

// A process whose numbers have a comma reads the same.
static void test_locale(void **state)
{
    (void)state;
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "fr_FR"};
    for (size_t i = 0; i < sizeof names / sizeof *names && *localeconv()->decimal_point == '.'; i++)
        setlocale(LC_ALL, names[i]);
    if (*localeconv()->decimal_point == '.')
        skip(); // none is installed
    struct kern_json_number number = kern_json_parse_number("0.5");
    assert_true(kern_json_double(&number) == 0.5);
    assert_true(kern_json_float(&number) == 0.5f);
    setlocale(LC_ALL, "C");
}

static void test_positions(void **state)
{
    (void)state;
    static const char text[] = "ab\n\r\nc";
    struct kern_json_position position = {0};
    static const uint64_t lines[] = {1, 1, 1, 2, 2, 3, 3}, columns[] = {1, 2, 3, 1, 2, 1, 2};
    for (size_t at = 0; at < sizeof text; at++) {
        kern_json_locate(text, at, &position);
        assert_int_equal(position.line, lines[at]);
        assert_int_equal(position.column, columns[at]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_repeated_keys),
        cmocka_unit_test(test_repeated_keys_of_a_large_object),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_locale),
        cmocka_unit_test(test_positions),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
