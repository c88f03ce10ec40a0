// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "manifest/read.h"
#include "manifest/suggest.h"

// An integer format of the schema: from -[min_magnitude] to [max].
struct format {
    const char *range;
    uint64_t min_magnitude;
    uint64_t max;
};

static const struct format format_u8 = {"0 to 255", 0, UINT8_MAX};
static const struct format format_u16 = {"0 to 65535", 0, UINT16_MAX};
static const struct format format_u32 = {"0 to 4294967295", 0, UINT32_MAX};
static const struct format format_u64 = {"0 to 18446744073709551615", 0, UINT64_MAX};
static const struct format format_i32 = {"-2147483648 to 2147483647", 1ull << 31, INT32_MAX};
static const struct format format_i64 = {"-9223372036854775808 to 9223372036854775807", 1ull << 63,
                                         INT64_MAX};

bool kern_read_number(struct kern_reader *reader, const struct kern_node *node,
                      struct kern_json_number *number)
{
    char found[64];
    const struct kern_json_node *value = node->json;
    if (value->kind == KERN_JSON_STRING) {
        value = kern_constants_find(reader, value);
        if (!value)
            return kern_refuse(reader, "V-CONST", node,
                               "a number must stand here, and no constant is called %s",
                               kern_found(reader, node->json, found));
        // That the constant is no number was said where it stands.
        if (value->kind != KERN_JSON_NUMBER)
            return false;
    }
    if (value->kind != KERN_JSON_NUMBER) {
        kern_refuse_type(reader, node, "a number");
        return false;
    }
    *number = kern_json_number(&reader->document, value);
    return true;
}

// The integer at [node] as two's complement in 64 bits.
static bool read_integer(struct kern_reader *reader, const struct kern_node *node,
                         const struct format *format, uint64_t *value)
{
    struct kern_json_number number;
    if (!kern_read_number(reader, node, &number))
        return false;
    char text[48], found[64], constant[96] = "";
    if (node->json->kind == KERN_JSON_STRING)
        snprintf(constant, sizeof constant, " (the constant %s)",
                 kern_found(reader, node->json, found));
    if (!number.integral)
        return kern_refuse(reader, "V-NUM", node, "expected an integer from %s, found %s%s",
                           format->range, kern_number_text(&number, text), constant);
    if (!number.fits || number.magnitude > (number.negative ? format->min_magnitude : format->max))
        return kern_refuse(reader, "V-NUM", node, "%s%s is out of range: expected %s",
                           kern_number_text(&number, text), constant, format->range);
    *value = number.negative ? 0 - number.magnitude : number.magnitude;
    return true;
}

bool kern_read_u8(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    uint64_t value = 0;
    bool ok = read_integer(reader, node, &format_u8, &value);
    *(uint8_t *)into = (uint8_t)value;
    return ok;
}

bool kern_read_u16(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    uint64_t value = 0;
    bool ok = read_integer(reader, node, &format_u16, &value);
    *(uint16_t *)into = (uint16_t)value;
    return ok;
}

bool kern_read_u32(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    uint64_t value = 0;
    bool ok = read_integer(reader, node, &format_u32, &value);
    *(uint32_t *)into = (uint32_t)value;
    return ok;
}

bool kern_read_u64(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    uint64_t value = 0;
    bool ok = read_integer(reader, node, &format_u64, &value);
    *(uint64_t *)into = value;
    return ok;
}

bool kern_read_i32(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    uint64_t value = 0;
    bool ok = read_integer(reader, node, &format_i32, &value);
    *(int32_t *)into = (int32_t)(int64_t)value;
    return ok;
}

bool kern_read_i64(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    uint64_t value = 0;
    bool ok = read_integer(reader, node, &format_i64, &value);
    *(int64_t *)into = (int64_t)value;
    return ok;
}

bool kern_read_f32(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    struct kern_json_number number;
    if (!kern_read_number(reader, node, &number))
        return false;
    float value = kern_json_float(&number);
    *(float *)into = value;
    char text[48];
    if (isfinite(value))
        return true;
    return kern_refuse(reader, "V-NUM", node, "%s is beyond the range of f32, which ends at 3.4e38",
                       kern_number_text(&number, text));
}

bool kern_read_bool(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    if (node->json->kind != KERN_JSON_FALSE && node->json->kind != KERN_JSON_TRUE)
        return kern_refuse_type(reader, node, "true or false");
    *(bool *)into = node->json->kind == KERN_JSON_TRUE;
    return true;
}

bool kern_read_string(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    if (node->json->kind != KERN_JSON_STRING)
        return kern_refuse_type(reader, node, "a string");
    *(const char **)into = kern_copy_string(reader, node->json);
    return true;
}

bool kern_read_ref(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    struct kern_ref *ref = into;
    ref->index = KERN_NONE;
    return kern_read_string(reader, node, &ref->name);
}

bool kern_read_word(struct kern_reader *reader, const struct kern_node *node,
                    const struct kern_words *words, void *into)
{
    if (node->json->kind != KERN_JSON_STRING)
        return kern_refuse_type(reader, node, "a string");
    for (size_t i = words->first; i < words->count; i++) {
        if (kern_json_equals(&reader->document, node->json, words->words[i])) {
            // GCC and Clang store an enumeration without negative enumerators as unsigned int.
            *(unsigned *)into = (unsigned)i;
            return true;
        }
    }
    char list[400], found[64];
    const char *word = kern_copy_string(reader, node->json);
    size_t used = 0;
    for (size_t i = words->first; i < words->count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "",
                                 words->words[i]);
    return kern_refuse(reader, "V-TYPE", node, "%s is no %s: there are %s%s",
                       kern_found(reader, node->json, found), words->what, list,
                       kern_did_you_mean(reader->arena, word, words->words + words->first,
                                         words->count - words->first, sizeof *words->words));
}

bool kern_read_dtype(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    return kern_read_word(reader, node, &kern_dtype_words, into);
}
