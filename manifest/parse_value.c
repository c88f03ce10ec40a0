// SPDX-License-Identifier: Apache-2.0
//
// Arguments of calls and launches and the fields of packs: objects whose one key says what kind of
// value they are.
#include "manifest/parse.h"

#define OF_VALUE(member) offsetof(struct kern_value, member)

static bool read_i32(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    int32_t value = 0;
    bool ok = kern_read_i32(reader, node, &value);
    ((struct kern_value *)into)->integer = value;
    return ok;
}

static bool read_u8(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    uint8_t value = 0;
    bool ok = kern_read_u8(reader, node, &value);
    ((struct kern_value *)into)->integer = value;
    return ok;
}

// The kind of the only form in [present]: the forms come first in their table, [kinds] in the same
// order. Without a form, which has been refused, any kind will do.
static enum kern_value_kind kind_of(uint32_t present, const enum kern_value_kind *kinds,
                                    uint32_t forms)
{
    uint32_t form = present & forms;
    return kinds[form ? __builtin_ctz(form) : 0];
}

bool kern_read_call_arg(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const enum kern_value_kind kinds[] = {
        KERN_VALUE_BUFFER, KERN_VALUE_STATE, KERN_VALUE_VAR, KERN_VALUE_EXPR, KERN_VALUE_I32,
        KERN_VALUE_I64,    KERN_VALUE_F32,   KERN_VALUE_U8,  KERN_VALUE_RANK,
    };
    static const struct kern_key table[] = {
        KERN_KEY("buf", KERN_FORM, OF_VALUE(ref), kern_read_ref),
        KERN_KEY("state", KERN_FORM, OF_VALUE(ref), kern_read_ref),
        KERN_KEY("var", KERN_FORM, OF_VALUE(ref), kern_read_ref),
        KERN_KEY("expr", KERN_FORM, OF_VALUE(expr), kern_read_expr),
        KERN_KEY("i32", KERN_FORM, 0, read_i32),
        KERN_KEY("i64", KERN_FORM, OF_VALUE(integer), kern_read_i64),
        KERN_KEY("f32", KERN_FORM, OF_VALUE(real), kern_read_f32),
        KERN_KEY("u8", KERN_FORM, 0, read_u8),
        KERN_KEY("rank", KERN_FORM, OF_VALUE(ref), kern_read_ref),
        KERN_KEY("offset", 0, OF_VALUE(offset), kern_read_u64),
    };
    enum { BUF_OR_STATE = 1 << 0 | 1 << 1, FORMS = (1 << 9) - 1, OFFSET = 1 << 9 };
    static const struct kern_keys keys = KERN_KEYS("an argument of a call", table);
    struct kern_value *value = into;
    uint32_t present;
    value->order = node->json->at;
    value->ref.index = KERN_NONE;
    bool ok = kern_read_object(reader, node, &keys, value, &present);
    value->kind = kind_of(present, kinds, FORMS);
    if (ok && (present & OFFSET) && !(present & BUF_OR_STATE))
        return kern_refuse(reader, "V-KEY", node,
                           "\"offset\" stands only beside \"buf\" or \"state\"");
    return ok;
}

static bool read_width(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    struct kern_field *field = into;
    field->has_width = true;
    return kern_read_u32(reader, node, &field->width);
}

static bool read_field(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const enum kern_value_kind kinds[] = {
        KERN_VALUE_PARAM, KERN_VALUE_SCRATCH,   KERN_VALUE_I32, KERN_VALUE_I64,
        KERN_VALUE_F32,   KERN_VALUE_U8,        KERN_VALUE_VAR, KERN_VALUE_EXPR,
        KERN_VALUE_RANK,  KERN_VALUE_TENSORMAP,
    };
    static const struct kern_key table[] = {
        KERN_KEY("param", KERN_FORM, OF_VALUE(param), kern_read_u64),
        KERN_KEY("scratch", KERN_FORM, OF_VALUE(ref), kern_read_ref),
        KERN_KEY("i32", KERN_FORM, 0, read_i32),
        KERN_KEY("i64", KERN_FORM, OF_VALUE(integer), kern_read_i64),
        KERN_KEY("f32", KERN_FORM, OF_VALUE(real), kern_read_f32),
        KERN_KEY("u8", KERN_FORM, 0, read_u8),
        KERN_KEY("var", KERN_FORM, OF_VALUE(ref), kern_read_ref),
        KERN_KEY("expr", KERN_FORM, OF_VALUE(expr), kern_read_expr),
        KERN_KEY("rank", KERN_FORM, OF_VALUE(ref), kern_read_ref),
        KERN_KEY("tensormap", KERN_FORM, OF_VALUE(tensormap), kern_read_tensormap),
        KERN_KEY("at", KERN_REQUIRED, offsetof(struct kern_field, at), kern_read_u32),
        KERN_KEY("width", KERN_NULLABLE, 0, read_width),
    };
    // The readers of a value are given the start of the field.
    _Static_assert(offsetof(struct kern_field, value) == 0, "a field begins with its value");
    enum { FORMS = (1 << 10) - 1 };
    static const struct kern_keys keys = KERN_KEYS("a field", table);
    struct kern_field *field = into;
    uint32_t present;
    field->value.order = node->json->at;
    field->value.ref.index = KERN_NONE;
    bool ok = kern_read_object(reader, node, &keys, field, &present);
    field->value.kind = kind_of(present, kinds, FORMS);
    return ok;
}

static bool read_fields(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_items list = {.what = "a list of fields",
                                           .word = "field",
                                           .size = sizeof(struct kern_field),
                                           .read = read_field};
    struct kern_pack *pack = into;
    return kern_read_list(reader, node, &list, &pack->fields, &pack->n_fields);
}

static bool read_pack(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_key table[] = {
        KERN_KEY("size", KERN_REQUIRED, offsetof(struct kern_pack, size), kern_read_u32),
        KERN_KEY("fields", KERN_REQUIRED, 0, read_fields),
    };
    static const struct kern_keys keys = KERN_KEYS("a pack", table);
    struct kern_pack *pack = kern_arena_alloc(reader->arena, sizeof *pack);
    uint32_t present;
    *(const struct kern_pack **)into = pack;
    // A pack is the argument that it is written in: "arg 2 field 1".
    struct kern_node argument = *node;
    argument.place = *node->place.parent;
    return kern_read_object(reader, &argument, &keys, pack, &present);
}

bool kern_read_launch_arg(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const enum kern_value_kind kinds[] = {
        KERN_VALUE_PARAM, KERN_VALUE_SCRATCH, KERN_VALUE_I32,  KERN_VALUE_I64,
        KERN_VALUE_F32,   KERN_VALUE_U8,      KERN_VALUE_RANK, KERN_VALUE_PACK,
    };
    static const struct kern_key table[] = {
        KERN_KEY("param", KERN_FORM, OF_VALUE(param), kern_read_u64),
        KERN_KEY("scratch", KERN_FORM, OF_VALUE(ref), kern_read_ref),
        KERN_KEY("i32", KERN_FORM, 0, read_i32),
        KERN_KEY("i64", KERN_FORM, OF_VALUE(integer), kern_read_i64),
        KERN_KEY("f32", KERN_FORM, OF_VALUE(real), kern_read_f32),
        KERN_KEY("u8", KERN_FORM, 0, read_u8),
        KERN_KEY("rank", KERN_FORM, OF_VALUE(ref), kern_read_ref),
        KERN_KEY("pack", KERN_FORM, OF_VALUE(pack), read_pack),
    };
    enum { FORMS = (1 << 8) - 1 };
    static const struct kern_keys keys = KERN_KEYS("an argument of a launch", table);
    struct kern_value *value = into;
    uint32_t present;
    value->order = node->json->at;
    value->ref.index = KERN_NONE;
    bool ok = kern_read_object(reader, node, &keys, value, &present);
    value->kind = kind_of(present, kinds, FORMS);
    return ok;
}
