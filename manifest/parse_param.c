// SPDX-License-Identifier: Apache-2.0
//
// Parameters are written as short texts: "i32", "bytes<64>", "in state", "inout buffer<bf16>".
#include <string.h>

#include "manifest/parse.h"

// Moves *[text] past [word] if it begins with it.
static bool skip(const char **text, const char *word)
{
    size_t length = strlen(word);
    if (strncmp(*text, word, length) != 0)
        return false;
    *text += length;
    return true;
}

// One of [words] that is *[text] up to the byte [end], which is skipped too; or words->count.
static size_t skip_word(const char **text, const struct kern_words *words, char end)
{
    for (size_t i = words->first; i < words->count; i++) {
        size_t length = strlen(words->words[i]);
        if (strncmp(*text, words->words[i], length) == 0 && (*text)[length] == end) {
            *text += length + 1;
            return i;
        }
    }
    return words->count;
}

static bool parse_bytes(const char *text, struct kern_param *param)
{
    param->kind = KERN_PARAM_BYTES;
    if (*text < '1' || *text > '9')
        return false;
    for (; *text >= '0' && *text <= '9'; text++)
        if (__builtin_mul_overflow(param->bytes, 10u, &param->bytes) ||
            __builtin_add_overflow(param->bytes, (unsigned)(*text - '0'), &param->bytes))
            return false;
    return strcmp(text, ">") == 0;
}

static bool parse_memory(const char *text, struct kern_param *param)
{
    size_t direction = skip_word(&text, &kern_direction_words, ' ');
    if (direction == kern_direction_words.count)
        return false;
    param->direction = (enum kern_direction)direction;
    param->kind = KERN_PARAM_STATE;
    if (strcmp(text, "state") == 0)
        return true;
    param->kind = KERN_PARAM_BUFFER;
    if (!skip(&text, "buffer<"))
        return false;
    size_t dtype = skip_word(&text, &kern_dtype_words, '>');
    param->dtype = (enum kern_dtype)dtype;
    return dtype != kern_dtype_words.count && !*text;
}

static bool parse_param(const char *text, struct kern_param *param)
{
    static const struct {
        const char *text;
        enum kern_param_kind kind;
    } scalars[] = {
        {"i32", KERN_PARAM_I32},
        {"i64", KERN_PARAM_I64},
        {"f32", KERN_PARAM_F32},
        {"u8", KERN_PARAM_U8},
    };
    for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++) {
        if (strcmp(text, scalars[i].text) == 0) {
            param->kind = scalars[i].kind;
            return true;
        }
    }
    return skip(&text, "bytes<") ? parse_bytes(text, param) : parse_memory(text, param);
}

bool kern_read_param(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    char text[48], found[64];
    if (node->json->kind != KERN_JSON_STRING)
        return kern_refuse_type(reader, node, "a parameter such as \"in buffer<bf16>\"");
    // No parameter is longer; a longer text is none with its end cut off, either.
    size_t size = node->json->size < sizeof text ? node->json->size : sizeof text - 1;
    memcpy(text, kern_json_chars(&reader->document, node->json), size);
    text[size] = '\0';
    if (size == node->json->size && parse_param(text, into))
        return true;
    return kern_refuse(reader, "V-TYPE", node,
                       "%s is no parameter: there are i32, i64, f32, u8, bytes<N> with N from 1 to "
                       "4294967295, and in, out or inout, one space, and state or buffer<DTYPE>",
                       kern_found(reader, node->json, found));
}
