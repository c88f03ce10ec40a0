// SPDX-License-Identifier: Apache-2.0
//
// Numbers and constants of the maximal manifest: which are refused, and what the others are.
#include "tests/manifest_parse.h"

static void test_numbers(void **state)
{
    (void)state;
    static const struct refused_edit edits[] = {
        {"\"max\": 128", "\"max\": -1", {"V-NUM", "vars.n.max", "-1 is out of range"}},
        {"\"max\": 128", "\"max\": 0.5", {"V-NUM", "vars.n.max", "an integer"}},
        {"\"max\": 128", "\"max\": 1e-1", {"V-NUM", "vars.n.max", "an integer"}},
        {"\"max\": 128",
         "\"max\": 18446744073709551616",
         {"V-NUM", "vars.n.max", "18446744073709551616 is out of range"}},
        {"\"max\": 128", "\"max\": 18446744073709551615.5", {"V-NUM", "vars.n.max", "an integer"}},
        {"\"max\": 128", "\"max\": 1e20", {"V-NUM", "vars.n.max", "1e20 is out of range"}},
        {"\"max\": 128", "\"max\": 1e999999999999999999999", {"V-NUM", "vars.n.max", "range"}},
        {"\"max\": 128", "\"max\": 1e-999999999999999999999", {"V-NUM", "vars.n.max", "integer"}},
        {"{\"i32\": 5}", "{\"i32\": 2147483648}", {"V-NUM", C1 " arg 1.i32", "2147483647"}},
        {"{\"i32\": 5}", "{\"i32\": -2147483649}", {"V-NUM", C1 " arg 1.i32", NULL}},
        {"{\"i32\": 5}", "{\"i32\": 1.5}", {"V-NUM", C1 " arg 1.i32", NULL}},
        {"{\"i64\": 6}", "{\"i64\": 9223372036854775808}", {"V-NUM", C1 " arg 2.i64", NULL}},
        {"{\"i64\": 6}", "{\"i64\": -9223372036854775809}", {"V-NUM", C1 " arg 2.i64", NULL}},
        {"{\"u8\": 255}", "{\"u8\": 256}", {"V-NUM", L0 " arg 5.u8", "0 to 255"}},
        {"{\"u8\": 255}", "{\"u8\": -1}", {"V-NUM", L0 " arg 5.u8", NULL}},
        {"{\"f32\": -1.5}", "{\"f32\": 3.5e38}", {"V-NUM", C0 " arg 5.f32", "f32"}},
        {"{\"f32\": -1.5}", "{\"f32\": -1e39}", {"V-NUM", C0 " arg 5.f32", NULL}},
        {"{\"f32\": -1.5}", "{\"f32\": 1e400}", {"V-NUM", C0 " arg 5.f32", "1e400"}},
        {"\"at\": 40", "\"at\": 4294967296", {"V-NUM", L0 " arg 6 field 6.at", "4294967295"}},
        {"\"width\": 8", "\"width\": -8", {"V-NUM", L0 " arg 6 field 1.width", NULL}},
        {"\"inner_shape\": 65535",
         "\"inner_shape\": 65536",
         {"V-NUM", L2 ".algo.inner_shape", "65535"}},
        {"\"split_k\": -3", "\"split_k\": 0.25", {"V-NUM", L2 ".algo.split_k", NULL}},
        {"[32, \"HIDDEN\", 1]", "[4294967296, 1, 1]", {"V-NUM", L0 ".block[0]", NULL}},
        {"\"max\": 9223372036854775808",
         "\"max\": 1e400",
         {"V-NUM", "buffers.temperature.domain.max", "double"}},
        {"\"schema_version\": 7", "\"schema_version\": 7.5", {"V-NUM", "schema_version", NULL}},
        {"\"schema_version\": 7",
         "\"schema_version\": 6",
         {"V-VERSION", "schema_version", "found 6"}},
        {"\"schema_version\": 7", "\"schema_version\": 0", {"V-VERSION", "schema_version", NULL}},
        {"\"schema_version\": 7",
         "\"schema_version\": \"HIDDEN\"",
         {"V-TYPE", "schema_version", "the number 7"}},
    };
    RUN_REFUSED(edits);
}

static void test_accepted_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
    } numbers[] = {
        {"18446744073709551615", UINT64_MAX},
        {"18446744073709551615.0", UINT64_MAX},
        {"1844674407370955161.5e1", UINT64_MAX},
        {"184467440737095516150000e-4", UINT64_MAX},
        {"9007199254740993.0", 9007199254740993},
        {"1e3", 1000},
        {"1E+3", 1000},
        {"2560.00", 2560},
        {"0.0064e4", 64},
        {"0", 0},
        {"-0", 0},
        {"-0.0", 0},
        {"0e999999999999", 0},
        {"\"SEVENTY\"", 70},
    };
    char *text = maximal_text();
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char new[64];
        snprintf(new, sizeof new, "\"max\": %s", numbers[i].text);
        char *edited = text_replaced(text, "\"max\": 128", new);
        struct kern_manifest *manifest = parse_accepted(edited, strlen(edited));
        uint32_t n = kern_names_find(&manifest->var_names, "n");
        assert_int_equal(manifest->vars[n].max, numbers[i].value);
        kern_manifest_destroy(manifest);
        free(edited);
    }
    free(text);
}

static void test_accepted_f32(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        float value;
    } numbers[] = {
        {"3.4028235e38", 3.4028235e38f},
        {"340282346638528859811704183484516925440", 3.4028235e38f},
        {"100000000000000000000", 1e20f},
        {"-100000000000000000000", -1e20f},
        {"1e-400", 0.0f},
        {"16777217", 16777216.0f},
        // Halfway between two floats but for the last digit: through a double it would round down.
        {"1.00000005960464477540", 1.00000011920928955f},
        {"-9223372036854775808", -9223372036854775808.0f},
    };
    char *text = maximal_text();
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char new[80];
        snprintf(new, sizeof new, "{\"f32\": %s}", numbers[i].text);
        char *edited = text_replaced(text, "{\"f32\": -1.5}", new);
        struct kern_manifest *manifest = parse_accepted(edited, strlen(edited));
        uint32_t step = kern_names_find(&manifest->program_names, "step");
        if (manifest->programs[step].calls[0].args[5].real != numbers[i].value)
            fail_msg("%s was read as %.17g", numbers[i].text,
                     (double)manifest->programs[step].calls[0].args[5].real);
        kern_manifest_destroy(manifest);
        free(edited);
    }
    char *edited = text_replaced(text, "{\"f32\": -1.5}", "{\"f32\": -0}");
    struct kern_manifest *manifest = parse_accepted(edited, strlen(edited));
    uint32_t step = kern_names_find(&manifest->program_names, "step");
    assert_true(__builtin_signbitf(manifest->programs[step].calls[0].args[5].real));
    kern_manifest_destroy(manifest);
    free(edited);
    free(text);
}

static void test_constants(void **state)
{
    (void)state;
    static const struct refused_edit edits[] = {
        {"\"max\": 128", "\"max\": \"NONE\"", {"V-CONST", "vars.n.max", "\"NONE\""}},
        {"\"max\": 128", "\"max\": \"128\"", {"V-CONST", "vars.n.max", "\"128\""}},
        {"\"max\": 128", "\"max\": \"\"", {"V-CONST", "vars.n.max", "\"\""}},
        {"\"max\": 128",
         "\"max\": \"HALF\"",
         {"V-NUM", "vars.n.max", "0.5 (the constant \"HALF\")"}},
        {"\"max\": 128", "\"max\": \"MINUS\"", {"V-NUM", "vars.n.max", "\"MINUS\""}},
        {"\"tp\": 2", "\"tp\": \"b\"", {"V-CONST", "topology.groups.tp", NULL}},
        {"{\"u8\": 255}", "{\"u8\": \"n\"}", {"V-CONST", L0 " arg 5.u8", NULL}},
        {"\"offset\": 128", "\"offset\": \"n\"", {"V-CONST", C0 " arg 1.offset", NULL}},
        {"[\"n\", 4]", "[\"n\", \"b\"]", {"V-CONST", L0 ".shared_mem.mul[1]", NULL}},
        {"[32, \"HIDDEN\", 1]", "[32, \"n\", 1]", {"V-CONST", L0 ".block[1]", NULL}},
        {"\"ONE\": 1.0", "\"ONE\": 1.0, \"n\": 4", {"V-CONST", "constants.n", "a var"}},
        {"\"ONE\": 1.0",
         "\"ONE\": 1.0, \"\": 4",
         {"V-NAME", "constants.\"\"", "a constant is not empty"}},
        {"\"ONE\": 1.0",
         "\"ONE\": 1.0, \"a\\nb\": 4",
         {"V-NAME", "constants.\"a?b\"", "control characters"}},
        {"\"ONE\": 1.0", "\"ONE\": \"HIDDEN\"", {"V-CONST", "constants.ONE", "a number"}},
        {"\"ONE\": 1.0", "\"ONE\": null", {"V-CONST", "constants.ONE", "found null"}},
        {"\"ONE\": 1.0", "\"ONE\": {\"add\": [1, 2]}", {"V-CONST", "constants.ONE", "an object"}},
    };
    RUN_REFUSED(edits);
    static const char not_an_object[] =
        "{\"schema_version\":7,\"model\":\"\",\"buffers\":{},\"modules\":{},\"ops\":{},"
        "\"programs\":{},\"constants\":[[1]]}";
    static const struct expected_error error = {"V-CONST", "constants", "found an array"};
    assert_refused(not_an_object, sizeof not_an_object - 1, &error, 1);
}

// Constants may be declared behind their uses, named like a buffer, and be left unused.
static void test_accepted_constants(void **state)
{
    (void)state;
    static const char text[] =
        "{\"schema_version\":7,\"model\":\"W\",\"vars\":{\"n\":{\"max\":\"W\"}},"
        "\"buffers\":{\"W\":{\"dtype\":\"i8\",\"shape\":[\"W\",\"n\",\"m\"],\"kind\":\"input\"}},"
        "\"modules\":{},\"ops\":{},\"programs\":{},\"constants\":{\"W\":3,\"unused\":1e400}}";
    struct kern_manifest *manifest = parse_accepted(text, sizeof text - 1);
    assert_string_equal(manifest->model, "W");
    assert_int_equal(manifest->vars[0].max, 3);
    assert_string_equal(manifest->buffers[0].name, "W");
    assert_null(manifest->buffers[0].shape[0].var.name);
    assert_int_equal(manifest->buffers[0].shape[0].extent, 3);
    assert_string_equal(manifest->buffers[0].shape[1].var.name, "n");
    assert_string_equal(manifest->buffers[0].shape[2].var.name, "m");
    kern_manifest_destroy(manifest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_accepted_numbers),
        cmocka_unit_test(test_accepted_f32),
        cmocka_unit_test(test_constants),
        cmocka_unit_test(test_accepted_constants),
    };
    return cmocka_run_group_tests_name("manifest_parse_number", tests, NULL, NULL);
}
