// SPDX-License-Identifier: Apache-2.0
//
// Expressions, shapes and ranges for given values of the vars. The arithmetic is unsigned 64-bit
// and checked. The depth of the recursion is that of the manifest, at most KERN_MANIFEST_DEPTH_MAX.
#include "manifest/manifest.h"

static bool ceil_div(uint64_t a, uint64_t c, uint64_t *value)
{
    if (c == 0)
        return false;
    *value = a / c + (a % c != 0);
    return true;
}

static uint64_t clamp(uint64_t e, uint64_t start, uint64_t length)
{
    uint64_t past = e > start ? e - start : 0;
    return past < length ? past : length;
}

bool kern_expr_value(const struct kern_expr *expr, const uint64_t *vars, uint64_t *value)
{
    uint64_t a;
    uint64_t b;
    switch (expr->kind) {
    case KERN_EXPR_CONST:
        *value = expr->value;
        return true;
    case KERN_EXPR_VAR:
        *value = vars[expr->var.index];
        return true;
    case KERN_EXPR_CEIL_DIV:
        return kern_expr_value(expr->a, vars, &a) && ceil_div(a, expr->value, value);
    case KERN_EXPR_MUL:
        return kern_expr_value(expr->a, vars, &a) && !__builtin_mul_overflow(a, expr->value, value);
    case KERN_EXPR_ADD:
        return kern_expr_value(expr->a, vars, &a) && kern_expr_value(expr->b, vars, &b) &&
               !__builtin_add_overflow(a, b, value);
    case KERN_EXPR_CLAMP:
        if (!kern_expr_value(expr->a, vars, &a))
            return false;
        *value = clamp(a, expr->value, expr->length);
        return true;
    }
    return false;
}

bool kern_when_narrow(const struct kern_when *when, uint64_t *low, uint64_t *high)
{
    uint64_t from = when->min > *low ? when->min : *low;
    uint64_t to = when->max < *high ? when->max : *high;
    if (from > to)
        return false;
    *low = from;
    *high = to;
    return true;
}

bool kern_shape_bytes(enum kern_dtype dtype, const struct kern_dim *shape, size_t rank,
                      const uint64_t *vars, uint64_t *bytes)
{
    // A zero extent makes nothing of any product, also of one that would overflow on the way.
    uint64_t product = kern_dtype_bytes(dtype);
    bool overflow = false;
    bool empty = false;
    for (size_t i = 0; i < rank; i++) {
        uint64_t extent = shape[i].var.name ? vars[shape[i].var.index] : shape[i].extent;
        empty = empty || extent == 0;
        overflow = __builtin_mul_overflow(product, extent, &product) || overflow;
    }
    *bytes = empty ? 0 : product;
    return empty || !overflow;
}

void kern_expr_vars(const struct kern_expr *expr, bool *used)
{
    if (expr->kind == KERN_EXPR_VAR)
        used[expr->var.index] = true;
    if (expr->a)
        kern_expr_vars(expr->a, used);
    if (expr->b)
        kern_expr_vars(expr->b, used);
}
