// SPDX-License-Identifier: Apache-2.0
//
// Extents, expressions and the values of calls, launches and fields.
#include "manifest/write_parts.h"

void kern_write_text(struct kern_json *json, const char *key, const char *text)
{
    if (!text)
        return;
    kern_json_key(json, key);
    kern_json_string(json, text);
}

void kern_write_number(struct kern_json *json, const char *key, uint64_t number, uint64_t usual)
{
    if (number == usual)
        return;
    kern_json_key(json, key);
    kern_json_u64(json, number);
}

void kern_write_flag(struct kern_json *json, const char *key, bool flag)
{
    if (!flag)
        return;
    kern_json_key(json, key);
    kern_json_bool(json, true);
}

void kern_write_word(struct kern_json *json, const char *key, const struct kern_words *words,
                     unsigned word)
{
    kern_json_key(json, key);
    kern_json_string(json, words->words[word]);
}

void kern_write_u64s(struct kern_json *json, const uint64_t *numbers, size_t count)
{
    kern_json_open(json, '[');
    for (size_t i = 0; i < count; i++)
        kern_json_u64(json, numbers[i]);
    kern_json_close(json, ']');
}

void kern_write_u32s(struct kern_json *json, const uint32_t *numbers, size_t count)
{
    kern_json_open(json, '[');
    for (size_t i = 0; i < count; i++)
        kern_json_u64(json, numbers[i]);
    kern_json_close(json, ']');
}

void kern_write_pairs(struct kern_json *json, const uint64_t (*pairs)[2], size_t count)
{
    kern_json_open(json, '[');
    for (size_t i = 0; i < count; i++)
        kern_write_u64s(json, pairs[i], 2);
    kern_json_close(json, ']');
}

void kern_write_dim(struct kern_json *json, const struct kern_dim *dim)
{
    if (dim->var.name)
        kern_json_string(json, dim->var.name);
    else
        kern_json_u64(json, dim->extent);
}

void kern_write_shape(struct kern_json *json, const struct kern_dim *shape, size_t rank)
{
    kern_json_open(json, '[');
    for (size_t i = 0; i < rank; i++)
        kern_write_dim(json, &shape[i]);
    kern_json_close(json, ']');
}

void kern_write_expr(struct kern_json *json, const struct kern_expr *expr)
{
    static const char *const names[] = {
        [KERN_EXPR_CEIL_DIV] = "ceil_div",
        [KERN_EXPR_MUL] = "mul",
        [KERN_EXPR_ADD] = "add",
        [KERN_EXPR_CLAMP] = "clamp",
    };
    if (expr->kind == KERN_EXPR_CONST) {
        kern_json_u64(json, expr->value);
        return;
    }
    if (expr->kind == KERN_EXPR_VAR) {
        kern_json_string(json, expr->var.name);
        return;
    }
    kern_json_open(json, '{');
    kern_json_key(json, names[expr->kind]);
    kern_json_open(json, '[');
    kern_write_expr(json, expr->a);
    if (expr->kind == KERN_EXPR_ADD)
        kern_write_expr(json, expr->b);
    else
        kern_json_u64(json, expr->value);
    if (expr->kind == KERN_EXPR_CLAMP)
        kern_json_u64(json, expr->length);
    kern_json_close(json, ']');
    kern_json_close(json, '}');
}

static void write_tensormap(struct kern_json *json, const struct kern_tensormap *map)
{
    kern_json_open(json, '{');
    kern_json_key(json, "param");
    kern_json_u64(json, map->param);
    kern_write_word(json, "dtype", &kern_tma_words, map->dtype);
    kern_json_key(json, "dims");
    kern_write_u64s(json, map->dims, map->n_dims);
    if (map->n_strides) {
        kern_json_key(json, "strides");
        kern_write_u64s(json, map->strides, map->n_strides);
    }
    kern_json_key(json, "box");
    kern_write_u32s(json, map->box, map->n_box);
    kern_write_number(json, "swizzle", map->swizzle, 0);
    kern_write_number(json, "l2_promotion", map->l2_promotion, 0);
    kern_write_flag(json, "oob_nan", map->oob_nan);
    kern_write_flag(json, "wrap", map->wrap);
    kern_json_close(json, '}');
}

static void write_source(struct kern_json *json, const struct kern_value *value);

static void write_pack(struct kern_json *json, const struct kern_pack *pack)
{
    kern_json_open(json, '{');
    kern_json_key(json, "size");
    kern_json_u64(json, pack->size);
    kern_json_key(json, "fields");
    kern_json_open(json, '[');
    for (size_t i = 0; i < pack->n_fields; i++) {
        const struct kern_field *field = &pack->fields[i];
        kern_json_open(json, '{');
        kern_json_key(json, "at");
        kern_json_u64(json, field->at);
        if (field->has_width) {
            kern_json_key(json, "width");
            kern_json_u64(json, field->width);
        }
        write_source(json, &field->value);
        kern_json_close(json, '}');
    }
    kern_json_close(json, ']');
    kern_json_close(json, '}');
}

// The member that says what kind of value it is, and what belongs to it.
static void write_source(struct kern_json *json, const struct kern_value *value)
{
    static const char *const keys[] = {
        [KERN_VALUE_BUFFER] = "buf",
        [KERN_VALUE_STATE] = "state",
        [KERN_VALUE_PARAM] = "param",
        [KERN_VALUE_SCRATCH] = "scratch",
        [KERN_VALUE_VAR] = "var",
        [KERN_VALUE_EXPR] = "expr",
        [KERN_VALUE_I32] = "i32",
        [KERN_VALUE_I64] = "i64",
        [KERN_VALUE_F32] = "f32",
        [KERN_VALUE_U8] = "u8",
        [KERN_VALUE_RANK] = "rank",
        [KERN_VALUE_PACK] = "pack",
        [KERN_VALUE_TENSORMAP] = "tensormap",
    };
    kern_json_key(json, keys[value->kind]);
    switch (value->kind) {
    case KERN_VALUE_BUFFER:
    case KERN_VALUE_STATE:
        kern_json_string(json, value->ref.name);
        kern_write_number(json, "offset", value->offset, 0);
        break;
    case KERN_VALUE_SCRATCH:
    case KERN_VALUE_VAR:
    case KERN_VALUE_RANK:
        kern_json_string(json, value->ref.name);
        break;
    case KERN_VALUE_PARAM:
        kern_json_u64(json, value->param);
        break;
    case KERN_VALUE_EXPR:
        kern_write_expr(json, value->expr);
        break;
    case KERN_VALUE_I32:
    case KERN_VALUE_I64:
    case KERN_VALUE_U8:
        kern_json_i64(json, value->integer);
        break;
    case KERN_VALUE_F32:
        kern_json_f32(json, value->real);
        break;
    case KERN_VALUE_PACK:
        write_pack(json, value->pack);
        break;
    case KERN_VALUE_TENSORMAP:
        write_tensormap(json, value->tensormap);
        break;
    }
}

void kern_write_values(struct kern_json *json, const struct kern_value *values, size_t count)
{
    kern_json_open(json, '[');
    for (size_t i = 0; i < count; i++) {
        kern_json_open(json, '{');
        write_source(json, &values[i]);
        kern_json_close(json, '}');
    }
    kern_json_close(json, ']');
}
