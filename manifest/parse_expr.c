// SPDX-License-Identifier: Apache-2.0
//
// Extents, expressions and bounds: what may be a number, a var or more.
#include <math.h>

#include "manifest/parse.h"

// Whether [node] is a string that names no constant, and so a var.
static bool is_var(const struct kern_reader *reader, const struct kern_node *node)
{
    return node->json->kind == KERN_JSON_STRING && !kern_constants_find(reader, node->json);
}

bool kern_read_dim(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    struct kern_dim *dim = into;
    dim->var.index = KERN_NONE;
    if (is_var(reader, node))
        return kern_read_ref(reader, node, &dim->var);
    return kern_read_u64(reader, node, &dim->extent);
}

bool kern_read_shape(struct kern_reader *reader, const struct kern_node *node,
                     const struct kern_dim **shape, size_t *rank)
{
    static const struct kern_items dims = {
        .what = "a shape", .size = sizeof(struct kern_dim), .read = kern_read_dim};
    return kern_read_list(reader, node, &dims, shape, rank);
}

static bool read_ceil_div(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_key parts[] = {
        KERN_KEY("expression", 0, offsetof(struct kern_expr, a), kern_read_expr),
        KERN_KEY("divisor", 0, offsetof(struct kern_expr, value), kern_read_u64),
    };
    static const struct kern_keys tuple = KERN_KEYS("an expression and a divisor", parts);
    ((struct kern_expr *)into)->kind = KERN_EXPR_CEIL_DIV;
    return kern_read_tuple(reader, node, &tuple, into);
}

static bool read_mul(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_key parts[] = {
        KERN_KEY("expression", 0, offsetof(struct kern_expr, a), kern_read_expr),
        KERN_KEY("factor", 0, offsetof(struct kern_expr, value), kern_read_u64),
    };
    static const struct kern_keys tuple = KERN_KEYS("an expression and a factor", parts);
    ((struct kern_expr *)into)->kind = KERN_EXPR_MUL;
    return kern_read_tuple(reader, node, &tuple, into);
}

static bool read_add(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_key parts[] = {
        KERN_KEY("expression", 0, offsetof(struct kern_expr, a), kern_read_expr),
        KERN_KEY("expression", 0, offsetof(struct kern_expr, b), kern_read_expr),
    };
    static const struct kern_keys tuple = KERN_KEYS("two expressions", parts);
    ((struct kern_expr *)into)->kind = KERN_EXPR_ADD;
    return kern_read_tuple(reader, node, &tuple, into);
}

static bool read_clamp(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_key parts[] = {
        KERN_KEY("expression", 0, offsetof(struct kern_expr, a), kern_read_expr),
        KERN_KEY("start", 0, offsetof(struct kern_expr, value), kern_read_u64),
        KERN_KEY("length", 0, offsetof(struct kern_expr, length), kern_read_u64),
    };
    static const struct kern_keys tuple = KERN_KEYS("an expression, a start and a length", parts);
    ((struct kern_expr *)into)->kind = KERN_EXPR_CLAMP;
    return kern_read_tuple(reader, node, &tuple, into);
}

bool kern_read_expr(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_key forms[] = {
        KERN_KEY("ceil_div", KERN_FORM, 0, read_ceil_div),
        KERN_KEY("mul", KERN_FORM, 0, read_mul),
        KERN_KEY("add", KERN_FORM, 0, read_add),
        KERN_KEY("clamp", KERN_FORM, 0, read_clamp),
    };
    static const struct kern_keys keys = KERN_KEYS("an expression", forms);
    struct kern_expr *expr = kern_arena_alloc(reader->arena, sizeof *expr);
    expr->var.index = KERN_NONE;
    *(const struct kern_expr **)into = expr;
    if (is_var(reader, node)) {
        expr->kind = KERN_EXPR_VAR;
        return kern_read_ref(reader, node, &expr->var);
    }
    uint32_t present;
    switch (node->json->kind) {
    case KERN_JSON_OBJECT:
        return kern_read_object(reader, node, &keys, expr, &present);
    case KERN_JSON_STRING:
    case KERN_JSON_NUMBER:
        return kern_read_u64(reader, node, &expr->value);
    default:
        return kern_refuse_type(reader, node,
                                "an expression: a number, the name of a var, or an object such as "
                                "{\"ceil_div\": [\"n\", 128]}");
    }
}

bool kern_read_bound(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    struct kern_bound *bound = into;
    if (node->json->kind == KERN_JSON_OBJECT || is_var(reader, node)) {
        bound->kind = KERN_BOUND_EXPR;
        return kern_read_expr(reader, node, &bound->expr);
    }
    struct kern_json_number number;
    if (!kern_read_number(reader, node, &number))
        return false;
    uint64_t most = number.negative ? 1ull << 63 : INT64_MAX;
    if (number.fits && number.magnitude <= most) {
        bound->kind = KERN_BOUND_INT;
        bound->integer = (int64_t)(number.negative ? 0 - number.magnitude : number.magnitude);
        return true;
    }
    char text[48];
    bound->kind = KERN_BOUND_FLOAT;
    bound->real = kern_json_double(&number);
    if (isfinite(bound->real))
        return true;
    return kern_refuse(reader, "V-NUM", node,
                       "%s is beyond the range of a double, which ends at 1.8e308",
                       kern_number_text(&number, text));
}
