// SPDX-License-Identifier: Apache-2.0
//
// Domains: their ranges, what they let pass, and what is made up for them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rank/domain.h"
#include "rank/element.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

// A manifest of one var, a buffer to index into and a state of every kind.
static const struct kern_dim rows_64[] = {{.extent = 64}, {.extent = 64}};
static const struct kern_dim rows_n[] = {{.var = {.name = "n", .index = 0}}};
static const struct kern_buffer targets[] = {
    {.name = "embed", .shape = rows_64, .rank = 2},
    {.name = "rows", .shape = rows_n, .rank = 1},
};
static const struct kern_host_layout host;
static const struct kern_state states[] = {
    {.name = "paged", .bytes_per_token = 128},     {.name = "lines", .bytes_per_seq = 24},
    {.name = "fixed", .bytes = 1 << 20},           {.name = "hosted", .host = &host},
    {.name = "vast", .bytes_per_seq = UINT64_MAX},
};
enum { EMBED, N_ROWS };
enum { PAGED, LINES, FIXED, HOSTED, VAST };
static const struct kern_manifest manifest = {
    .buffers = targets, .n_buffers = 2, .states = states, .n_states = 5};
static const struct kern_provision provision = {.tokens = 4096, .slots = 6};

static const struct kern_expr var_n = {.kind = KERN_EXPR_VAR, .var = {.name = "n", .index = 0}};
static const struct kern_expr n_times_8 = {.kind = KERN_EXPR_MUL, .a = &var_n, .value = 8};
static const uint64_t n_4[] = {4}, n_vast[] = {UINT64_MAX};

// What stands in the braces of a bound and of a domain.
#define INT(value) .kind = KERN_BOUND_INT, .integer = value
#define FLOAT(value) .kind = KERN_BOUND_FLOAT, .real = value
#define EXPR(expression) .kind = KERN_BOUND_EXPR, .expr = &expression
#define INTO(kind, i, n) .index_into = {.name = "target", .index = i}, .target = kind, .stride = n
#define INTO_BUFFER(i, n) INTO(KERN_TARGET_BUFFER, i, n)
#define INTO_STATE(i, n) INTO(KERN_TARGET_STATE, i, n)

static struct kern_buffer buffer_of(enum kern_dtype dtype, const struct kern_domain *domain)
{
    return (struct kern_buffer){.name = "x",
                                .dtype = dtype,
                                .kind = KERN_INPUT,
                                .domain = domain,
                                .shape = rows_n,
                                .rank = 1};
}

static const struct {
    struct kern_domain domain;
    bool has_lo, has_hi;
    int64_t lo, hi;
} ranges[] = {
    {{.min = {INT(-3)}, .max = {INT(5)}}, true, true, -3, 5},
    {{.min = {INT(1)}, .max = {EXPR(var_n)}}, true, true, 1, 4},
    {{.max = {EXPR(n_times_8)}}, false, true, 0, 32},
    {{.min = {FLOAT(2.0)}}, true, false, 2, 0},
    {{.monotone = true}, false, false, 0, 0},
    {{INTO_BUFFER(EMBED, 1)}, true, true, 0, 63},
    {{INTO_BUFFER(EMBED, 16)}, true, true, 0, 3},
    {{INTO_BUFFER(EMBED, 100)}, true, true, 0, 0},
    {{INTO_BUFFER(N_ROWS, 1)}, true, true, 0, 3},
    {{INTO_STATE(PAGED, 16)}, true, true, 0, 255},
    {{INTO_STATE(PAGED, 4097)}, true, true, 0, 0},
    {{INTO_STATE(LINES, 8)}, true, true, 0, 17},
    {{INTO_STATE(FIXED, 1)}, true, true, 0, 4095},
    {{INTO_STATE(HOSTED, 1)}, true, false, 0, 0},
};

static void ranges_are_resolved(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(ranges); i++) {
        struct kern_diag diag = {0};
        struct kern_range range;
        struct kern_buffer buffer = buffer_of(KERN_I32, &ranges[i].domain);
        assert_true(kern_domain_range(&manifest, &buffer, n_4, &provision, &range, &diag));
        assert_int_equal(range.has_lo, ranges[i].has_lo);
        assert_int_equal(range.has_hi, ranges[i].has_hi);
        assert_true(range.integral);
        assert_int_equal(range.monotone, ranges[i].domain.monotone);
        if (range.has_lo)
            assert_true(range.lo_integer == ranges[i].lo && range.lo == (double)ranges[i].lo);
        if (range.has_hi)
            assert_true(range.hi_integer == ranges[i].hi && range.hi == (double)ranges[i].hi);
    }
}

static void a_fractional_bound_is_not_integral(void **state)
{
    (void)state;
    struct kern_diag diag = {0};
    struct kern_range range;
    const struct kern_domain domain = {.min = {INT(0)}, .max = {FLOAT(0.5)}};
    struct kern_buffer buffer = buffer_of(KERN_BF16, &domain);
    assert_true(kern_domain_range(&manifest, &buffer, n_4, &provision, &range, &diag));
    assert_false(range.integral);
    assert_true(range.lo == 0 && range.hi == 0.5);
}

static void impossible_ranges_are_errors(void **state)
{
    (void)state;
    static const struct {
        struct kern_domain domain;
        const uint64_t *vars;
        const char *text;
    } cases[] = {
        {{.min = {INT(5)}, .max = {EXPR(var_n)}}, n_4, "its domain is empty at these vars: 5..4"},
        {{.min = {FLOAT(0.5)}, .max = {FLOAT(0.25)}}, n_4, "empty at these vars: 0.5..0.25"},
        {{.max = {EXPR(n_times_8)}}, n_vast, "max of its domain is larger than"},
        {{.min = {EXPR(var_n)}}, n_vast, "min of its domain is larger than"},
        {{INTO_STATE(VAST, 1)}, n_4, "index_into of its domain is larger than"},
        {{INTO_BUFFER(N_ROWS, 1)}, n_vast, "index_into of its domain is larger than"},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct kern_diag diag = {0};
        struct kern_range range;
        struct kern_buffer buffer = buffer_of(KERN_F32, &cases[i].domain);
        assert_false(
            kern_domain_range(&manifest, &buffer, cases[i].vars, &provision, &range, &diag));
        assert_int_equal(diag.entries[0].code, KERN_EXIT_ARTIFACT);
        assert_string_equal(diag.entries[0].place, "x");
        assert_non_null(strstr(diag.entries[0].text, cases[i].text));
        kern_diag_clear(&diag);
    }
}

// The message of a refused check, or NULL if [length] bytes pass.
static bool check(enum kern_dtype dtype, const struct kern_domain *domain, const void *bytes,
                  size_t length, const char *expected)
{
    struct kern_diag diag = {0};
    struct kern_buffer buffer = buffer_of(dtype, domain);
    bool passed = kern_domain_check(&manifest, &buffer, bytes, length, n_4, &provision, &diag);
    assert_int_equal(diag.errors, !passed);
    if (expected && !passed)
        assert_string_equal(diag.entries[0].text, expected);
    kern_diag_clear(&diag);
    return passed;
}

static void integers_are_checked_exactly(void **state)
{
    (void)state;
    const struct kern_domain small = {.min = {INT(-2)}, .max = {INT(5)}};
    const int32_t good[] = {-2, 0, 5}, bad[] = {0, 6, 7};
    assert_true(check(KERN_I32, &small, good, sizeof good, NULL));
    assert_true(check(KERN_I32, &small, bad, 4, NULL));
    assert_false(check(KERN_I32, &small, bad, sizeof bad, "element 1 is 6; its domain is -2..5"));

    // 2^53 + 1 is no double, and neither is 2^63 - 1.
    const struct kern_domain wide = {.max = {INT(1ll << 53)}};
    const int64_t above = (1ll << 53) + 1;
    assert_false(check(KERN_I64, &wide, &above, 8,
                       "element 0 is 9007199254740993; its domain is ..9007199254740992"));
    const struct kern_domain widest = {.min = {INT(INT64_MAX)}};
    const uint64_t at = INT64_MAX, below = at - 1, top = UINT64_MAX;
    assert_true(check(KERN_U64, &widest, &at, 8, NULL));
    assert_true(check(KERN_U64, &widest, &top, 8, NULL));
    assert_false(check(KERN_U64, &widest, &below, 8, NULL));
    const struct kern_domain positive = {.min = {INT(0)}};
    const int64_t least = INT64_MIN;
    assert_true(check(KERN_U64, &positive, &top, 8, NULL));
    assert_false(check(KERN_I64, &positive, &least, 8,
                       "element 0 is -9223372036854775808; its domain is 0.."));
}

static void floats_are_checked_and_nan_is_never_inside(void **state)
{
    (void)state;
    const struct kern_domain unit = {.min = {INT(0)}, .max = {FLOAT(0.5)}};
    const float good[] = {0, -0.0f, 0.5f}, bad[] = {0.5f, 0.75f}, nan = NAN, infinity = INFINITY;
    assert_true(check(KERN_F32, &unit, good, sizeof good, NULL));
    assert_false(
        check(KERN_F32, &unit, bad, sizeof bad, "element 1 is 0.75; its domain is 0..0.5"));
    assert_false(check(KERN_F32, &unit, &infinity, 4, "element 0 is inf; its domain is 0..0.5"));
    const struct kern_domain open = {.monotone = true}, above = {.min = {INT(3)}};
    assert_false(check(KERN_F32, &open, &nan, 4, "element 0 is nan; its domain is .."));
    assert_false(check(KERN_F32, &unit, &nan, 4, NULL));
    assert_true(check(KERN_F32, &above, &infinity, 4, NULL));
    const unsigned char e8m0_nan = 0xff, e4m3_nan = 0x7f;
    assert_false(check(KERN_FP8E8M0, &open, &e8m0_nan, 1, NULL));
    assert_false(check(KERN_FP8E4M3, &open, &e4m3_nan, 1, NULL));
    // Without a domain nothing is asked.
    assert_true(check(KERN_F32, NULL, &nan, 4, NULL));
}

static void monotone_is_asked_within_the_prefix(void **state)
{
    (void)state;
    const struct kern_domain domain = {.min = {INT(0)}, .monotone = true};
    const int32_t values[] = {0, 3, 3, 7, 6};
    assert_true(check(KERN_I32, &domain, values, 16, NULL));
    assert_false(check(KERN_I32, &domain, values, 20,
                       "element 4 is 6, below element 3, which is 7; its domain is monotone"));
    const int64_t wide[] = {(1ll << 53) + 1, 1ll << 53};
    assert_false(check(KERN_I64, &domain, wide, 16, NULL));
    const struct kern_domain open = {.monotone = true};
    const float floats[] = {-1, 0.0f, -0.0f, 2};
    assert_true(check(KERN_F32, &open, floats, sizeof floats, NULL));
}

static void half_an_element_is_refused(void **state)
{
    (void)state;
    const int32_t values[] = {0, 0};
    const struct kern_domain domain = {.min = {INT(0)}};
    const char *text = "7 bytes are no whole number of i32 elements of 4 bytes";
    assert_false(check(KERN_I32, &domain, values, 7, text));
    assert_false(check(KERN_I32, NULL, values, 7, text));
    assert_true(check(KERN_I32, &domain, values, 0, NULL));
}

static bool synthesize(const char *name, enum kern_dtype dtype, const struct kern_domain *domain,
                       uint64_t seed, void *bytes, size_t count, const char *expected)
{
    struct kern_diag diag = {0};
    struct kern_buffer buffer = buffer_of(dtype, domain);
    buffer.name = name;
    size_t length = count * kern_dtype_bytes(dtype);
    bool made =
        kern_domain_synthesize(&manifest, &buffer, seed, n_4, &provision, bytes, length, &diag);
    assert_int_equal(diag.errors, !made);
    if (!made && expected && !strstr(diag.entries[0].text, expected))
        fail_msg("\"%s\" does not say \"%s\"", diag.entries[0].text, expected);
    if (made && !kern_domain_check(&manifest, &buffer, bytes, length, n_4, &provision, &diag))
        fail_msg("%s", diag.entries[0].text);
    kern_diag_clear(&diag);
    return made;
}

// The numbers were computed from the definitions of the generators by another program.
static void made_up_values_are_the_same_everywhere(void **state)
{
    (void)state;
    const struct kern_domain vocabulary = {.min = {INT(0)}, .max = {INT(511)}};
    const int32_t tokens[] = {34, 141, 264, 79, 35, 56, 268, 474};
    int32_t made[8];
    assert_true(synthesize("tokens", KERN_I32, &vocabulary, 7, made, 8, NULL));
    assert_memory_equal(made, tokens, sizeof tokens);

    const struct kern_domain all = {.monotone = true};
    const uint64_t wide[] = {0x4793ea6f22fe3f7c, 0xb5a17da613c9c138, 0xd15e0b35b0393a02};
    uint64_t made_wide[3];
    assert_true(synthesize("wide", KERN_U64, &all, 7, made_wide, 3, NULL));
    assert_memory_equal(made_wide, wide, sizeof wide);

    const uint32_t normal[] = {0x3e5554cd, 0x3f8d92f9, 0x3f8996dc, 0xbf15b218};
    const uint32_t uniform[] = {0x3eccf440, 0x3dc26414, 0xbd82e582, 0xbceb94f2};
    const struct kern_domain bounded = {.min = {FLOAT(-0.3)}, .max = {FLOAT(0.7)}};
    uint32_t made_floats[4];
    assert_true(synthesize("hidden", KERN_F32, NULL, 7, made_floats, 4, NULL));
    assert_memory_equal(made_floats, normal, sizeof normal);
    assert_true(synthesize("hidden", KERN_F32, &bounded, 7, made_floats, 4, NULL));
    assert_memory_equal(made_floats, uniform, sizeof uniform);
}

static void seed_and_name_decide(void **state)
{
    (void)state;
    uint64_t base[4], seed[4], name[4];
    const struct kern_domain all = {.max = {INT(INT64_MAX)}};
    assert_true(synthesize("a", KERN_U64, &all, 1, base, 4, NULL));
    assert_true(synthesize("a", KERN_U64, &all, 2, seed, 4, NULL));
    assert_true(synthesize("b", KERN_U64, &all, 1, name, 4, NULL));
    assert_memory_not_equal(base, seed, sizeof base);
    assert_memory_not_equal(base, name, sizeof base);
    assert_memory_not_equal(seed, name, sizeof base);
}

// Domains that are narrow in some type: every made-up value passes the check of the domain.
static void every_made_up_value_is_inside(void **state)
{
    (void)state;
    static const struct kern_domain domains[] = {
        {.min = {FLOAT(0.1)},
         .max = {FLOAT(0.1171875)}}, // rounding steps over both in 8 and 16 bits
        {.min = {FLOAT(-0.3)}},
        {.max = {FLOAT(-0.3)}},
        {.min = {FLOAT(300)}, .max = {FLOAT(1e30)}},
        {.min = {FLOAT(1e-30)}, .max = {FLOAT(0.01)}},
        {.min = {INT(-1)}, .max = {INT(1)}},
        {.max = {INT(1)}, .monotone = true},
        {.min = {INT(2)}, .max = {INT(40)}, .monotone = true},
        {.monotone = true},
    };
    static const enum kern_dtype dtypes[] = {KERN_BF16, KERN_F16, KERN_F32,    KERN_FP8E4M3,
                                             KERN_I8,   KERN_I32, KERN_U32,    KERN_I64,
                                             KERN_U64,  KERN_U8,  KERN_FP8E8M0};
    char bytes[8 * 4096];
    for (size_t d = 0; d < LENGTH(domains); d++) {
        for (size_t t = 0; t < LENGTH(dtypes); t++) {
            const struct kern_domain *domain = &domains[d];
            bool fractional =
                domain->min.kind == KERN_BOUND_FLOAT || domain->max.kind == KERN_BOUND_FLOAT;
            if (fractional && !kern_dtype_is_float(dtypes[t]))
                continue;
            // e8m0 has no negative values, and no power of two lies in the first domain.
            bool empty = dtypes[t] == KERN_FP8E8M0 && (d == 0 || d == 2);
            assert_int_equal(
                synthesize("x", dtypes[t], domain, d, bytes, 4096, "value lies in its domain"),
                !empty);
        }
    }
}

static void whole_ranges_are_used(void **state)
{
    (void)state;
    static int8_t bytes[20000];
    int counts[256] = {0};
    const struct kern_domain die = {.min = {INT(-3)}, .max = {INT(2)}}, any = {.monotone = true};
    assert_true(synthesize("x", KERN_I8, &die, 0, bytes, LENGTH(bytes), NULL));
    for (size_t i = 0; i < LENGTH(bytes); i++)
        counts[bytes[i] + 3]++;
    for (int face = 0; face < 6; face++)
        assert_in_range(counts[face], 20000 / 6 - 300, 20000 / 6 + 300);
    assert_true(synthesize("x", KERN_I8, &any, 0, bytes, LENGTH(bytes), NULL));
    assert_int_equal(bytes[0], INT8_MIN);
    assert_int_equal(bytes[LENGTH(bytes) - 1], INT8_MAX);
}

static void an_unbounded_float_is_normal(void **state)
{
    (void)state;
    enum { COUNT = 100000 };
    static float values[COUNT];
    double sum = 0, squares = 0;
    size_t within = 0;
    assert_true(synthesize("x", KERN_F32, NULL, 0, values, COUNT, NULL));
    for (size_t i = 0; i < COUNT; i++) {
        sum += values[i];
        squares += (double)values[i] * values[i];
        within += fabsf(values[i]) < 1;
    }
    // Five deviations of each estimate; 68.27 % of a normal distribution lie within one of it, of
    // this one a little less.
    assert_true(fabs(sum / COUNT) < 0.016);
    assert_true(fabs(squares / COUNT - 1) < 0.023);
    assert_true(fabs((double)within / COUNT - 0.68) < 0.01);
}

static void scales_are_near_one_unless_bounded(void **state)
{
    (void)state;
    unsigned char codes[1000];
    assert_true(synthesize("x", KERN_FP8E8M0, NULL, 0, codes, LENGTH(codes), NULL));
    for (size_t i = 0; i < LENGTH(codes); i++)
        assert_in_range(codes[i], 120, 134);
    const struct kern_domain domain = {.min = {FLOAT(0.3)}, .max = {INT(4)}};
    bool seen[256] = {false};
    assert_true(synthesize("x", KERN_FP8E8M0, &domain, 0, codes, LENGTH(codes), NULL));
    for (size_t i = 0; i < LENGTH(codes); i++) {
        assert_in_range(codes[i], 126, 129);
        seen[codes[i]] = true;
    }
    assert_true(seen[126] && seen[127] && seen[128] && seen[129]);
}

static void what_nobody_described_is_not_made_up(void **state)
{
    (void)state;
    const struct kern_domain hosted = {INTO_STATE(HOSTED, 1)}, high = {.min = {INT(300)}};
    const struct kern_domain gap = {.min = {FLOAT(500)}, .max = {FLOAT(600)}};
    const struct kern_domain tiny = {.min = {FLOAT(1e-30)}, .max = {FLOAT(2e-30)}};
    const struct kern_domain between = {.min = {FLOAT(1.01)}, .max = {FLOAT(1.02)}};
    char bytes[64];
    assert_false(synthesize("x", KERN_I32, NULL, 0, bytes, 4, "without a domain"));
    assert_false(synthesize("x", KERN_I32, &hosted, 0, bytes, 4, "it indexes state hosted"));
    assert_false(synthesize("x", KERN_U8, &high, 0, bytes, 4, "no u8 value lies in its domain"));
    assert_false(synthesize("x", KERN_FP8E4M3, &gap, 0, bytes, 4, "no fp8e4m3 value"));
    assert_false(synthesize("x", KERN_F16, &tiny, 0, bytes, 4, "no f16 value"));
    assert_false(synthesize("x", KERN_FP8E4M3, &between, 0, bytes, 4, "no fp8e4m3 value"));
    struct kern_diag diag = {0};
    struct kern_buffer buffer = buffer_of(KERN_F32, NULL);
    assert_false(kern_domain_synthesize(&manifest, &buffer, 0, n_4, &provision, bytes, 7, &diag));
    kern_diag_clear(&diag);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_resolved),
        cmocka_unit_test(a_fractional_bound_is_not_integral),
        cmocka_unit_test(impossible_ranges_are_errors),
        cmocka_unit_test(integers_are_checked_exactly),
        cmocka_unit_test(floats_are_checked_and_nan_is_never_inside),
        cmocka_unit_test(monotone_is_asked_within_the_prefix),
        cmocka_unit_test(half_an_element_is_refused),
        cmocka_unit_test(made_up_values_are_the_same_everywhere),
        cmocka_unit_test(seed_and_name_decide),
        cmocka_unit_test(every_made_up_value_is_inside),
        cmocka_unit_test(whole_ranges_are_used),
        cmocka_unit_test(an_unbounded_float_is_normal),
        cmocka_unit_test(scales_are_near_one_unless_bounded),
        cmocka_unit_test(what_nobody_described_is_not_made_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
