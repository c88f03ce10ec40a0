// SPDX-License-Identifier: Apache-2.0
//
// Expressions and shapes against a naive evaluation in 128 bits, at every value of small vars.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "manifest/manifest.h"

enum {
    VARS = 3,
    VAR_MAX = 5,
    ASSIGNMENTS = VAR_MAX * VAR_MAX * VAR_MAX,
    EXPRESSIONS = 4000,
    DEPTH = 4,
    NODES = 1 << (DEPTH + 1),
};

typedef unsigned __int128 wide;
#define OVERFLOW ((wide)1 << 64)

static uint64_t next(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

// A constant: mostly small, sometimes at the end of the range, and not 0 if [positive].
static uint64_t constant(uint64_t *seed, bool positive)
{
    static const uint64_t ends[] = {UINT64_MAX, UINT64_MAX - 1, UINT64_C(1) << 63, UINT32_MAX};
    uint64_t pick = next(seed);
    if (pick % 8 == 0)
        return ends[pick / 8 % 4];
    return pick / 8 % 6 + positive;
}

struct pool {
    struct kern_expr nodes[NODES];
    size_t used;
};

static const struct kern_expr *make(struct pool *pool, uint64_t *seed, int depth)
{
    assert_true(pool->used < NODES);
    struct kern_expr *expr = &pool->nodes[pool->used++];
    enum kern_expr_kind kind = (enum kern_expr_kind)(next(seed) % (depth ? 6 : 2));
    bool divides = kind == KERN_EXPR_CEIL_DIV || kind == KERN_EXPR_MUL;
    *expr = (struct kern_expr){
        .kind = kind,
        .var = {.index = (uint32_t)(next(seed) % VARS)},
        .value = constant(seed, divides),
        .length = constant(seed, false),
    };
    if (kind != KERN_EXPR_CONST && kind != KERN_EXPR_VAR)
        expr->a = make(pool, seed, depth - 1);
    if (kind == KERN_EXPR_ADD)
        expr->b = make(pool, seed, depth - 1);
    return expr;
}

// The value, or OVERFLOW if it or a value on the way exceeds 64 bits.
static wide naive(const struct kern_expr *expr, const uint64_t *vars)
{
    wide a = expr->a ? naive(expr->a, vars) : 0;
    wide b = expr->b ? naive(expr->b, vars) : 0;
    wide value = 0;
    if (a == OVERFLOW || b == OVERFLOW)
        return OVERFLOW;
    switch (expr->kind) {
    case KERN_EXPR_CONST:
        value = expr->value;
        break;
    case KERN_EXPR_VAR:
        value = vars[expr->var.index];
        break;
    case KERN_EXPR_CEIL_DIV:
        value = (a + expr->value - 1) / expr->value;
        break;
    case KERN_EXPR_MUL:
        value = a * expr->value;
        break;
    case KERN_EXPR_ADD:
        value = a + b;
        break;
    case KERN_EXPR_CLAMP:
        value = a < expr->value ? 0 : a - expr->value;
        value = value > expr->length ? expr->length : value;
        break;
    }
    return value < OVERFLOW ? value : OVERFLOW;
}

static void mark(const struct kern_expr *expr, bool *used)
{
    if (expr->kind == KERN_EXPR_VAR)
        used[expr->var.index] = true;
    if (expr->a)
        mark(expr->a, used);
    if (expr->b)
        mark(expr->b, used);
}

// The assignment of 1 to VAR_MAX to each var that is the [number]th of them all.
static void assign(unsigned number, uint64_t vars[VARS])
{
    for (size_t i = 0; i < VARS; i++, number /= VAR_MAX)
        vars[i] = number % VAR_MAX + 1;
}

static void test_values(void **state)
{
    (void)state;
    uint64_t seed = 0x9e3779b97f4a7c15;
    size_t overflows = 0;
    size_t values = 0;
    for (size_t i = 0; i < EXPRESSIONS; i++) {
        struct pool pool = {.used = 0};
        const struct kern_expr *expr = make(&pool, &seed, DEPTH);
        for (unsigned j = 0; j < ASSIGNMENTS; j++) {
            uint64_t vars[VARS];
            assign(j, vars);
            uint64_t value;
            wide expected = naive(expr, vars);
            bool fits = kern_expr_value(expr, vars, &value);
            assert_int_equal(fits, expected != OVERFLOW);
            if (fits)
                assert_true(value == expected);
            overflows += !fits;
            values += fits;
        }
    }
    // The expressions were not all of one kind.
    assert_true(overflows > 1000 && values > 1000);
}

// What the rules rest on: all vars at 1 and all at their max bound every value between.
static void test_corners(void **state)
{
    (void)state;
    const uint64_t least[VARS] = {1, 1, 1};
    const uint64_t most[VARS] = {VAR_MAX, VAR_MAX, VAR_MAX};
    uint64_t seed = 88172645463325252;
    for (size_t i = 0; i < EXPRESSIONS; i++) {
        struct pool pool = {.used = 0};
        const struct kern_expr *expr = make(&pool, &seed, DEPTH);
        uint64_t low;
        uint64_t high;
        uint64_t value;
        if (!kern_expr_value(expr, most, &high))
            continue;
        assert_true(kern_expr_value(expr, least, &low));
        for (unsigned j = 0; j < ASSIGNMENTS; j++) {
            uint64_t vars[VARS];
            assign(j, vars);
            assert_true(kern_expr_value(expr, vars, &value));
            assert_in_range(value, low, high);
        }
    }
}

static void test_vars(void **state)
{
    (void)state;
    uint64_t seed = 2463534242;
    for (size_t i = 0; i < EXPRESSIONS; i++) {
        struct pool pool = {.used = 0};
        const struct kern_expr *expr = make(&pool, &seed, DEPTH);
        bool expected[VARS] = {false};
        bool used[VARS] = {false};
        mark(expr, expected);
        kern_expr_vars(expr, used);
        assert_memory_equal(used, expected, sizeof used);
    }
}

static void test_division_by_zero(void **state)
{
    (void)state;
    const struct kern_expr one = {.kind = KERN_EXPR_CONST, .value = 1};
    const struct kern_expr division = {.kind = KERN_EXPR_CEIL_DIV, .a = &one, .value = 0};
    uint64_t value;
    assert_false(kern_expr_value(&division, NULL, &value));
}

// The bytes of a shape, or OVERFLOW. A zero extent makes nothing of any product.
static wide naive_bytes(enum kern_dtype dtype, const struct kern_dim *shape, size_t rank,
                        const uint64_t *vars)
{
    wide bytes = kern_dtype_bytes(dtype);
    for (size_t i = 0; i < rank; i++)
        if (!shape[i].var.name && shape[i].extent == 0)
            return 0;
    for (size_t i = 0; i < rank && bytes < OVERFLOW; i++)
        bytes *= shape[i].var.name ? vars[shape[i].var.index] : shape[i].extent;
    return bytes < OVERFLOW ? bytes : OVERFLOW;
}

static void test_shapes(void **state)
{
    (void)state;
    static const enum kern_dtype dtypes[] = {KERN_U8, KERN_BF16, KERN_F32, KERN_I64};
    uint64_t seed = 123456789;
    size_t overflows = 0;
    for (size_t i = 0; i < EXPRESSIONS; i++) {
        struct kern_dim shape[4];
        size_t rank = next(&seed) % 4 + 1;
        enum kern_dtype dtype = dtypes[next(&seed) % 4];
        for (size_t j = 0; j < rank; j++)
            shape[j] = (struct kern_dim){
                .var = {.name = next(&seed) % 2 ? "v" : NULL,
                        .index = (uint32_t)(next(&seed) % VARS)},
                .extent = constant(&seed, false),
            };
        for (unsigned j = 0; j < ASSIGNMENTS; j++) {
            uint64_t vars[VARS];
            assign(j, vars);
            wide expected = naive_bytes(dtype, shape, rank, vars);
            uint64_t bytes;
            bool fits = kern_shape_bytes(dtype, shape, rank, vars, &bytes);
            assert_int_equal(fits, expected != OVERFLOW);
            if (fits)
                assert_true(bytes == expected);
            overflows += !fits;
        }
    }
    assert_true(overflows > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values), cmocka_unit_test(test_corners),
        cmocka_unit_test(test_vars),   cmocka_unit_test(test_division_by_zero),
        cmocka_unit_test(test_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
