// SPDX-License-Identifier: Apache-2.0
//
// The parameters of a kernel in PTX text: `.entry NAME ( .param … , .param … )`, by the PTX ISA's
// description of kernel parameters. Each lies at the next multiple of its alignment, which is that
// of its type or what `.align` says of an array of bytes.
#include "rank/layout.h"

#include <string.h>

struct text {
    const char *at, *end;
};

struct token {
    const char *begin;
    size_t length; // 0: the text is at its end
};

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '$' || c == '.' || c == '%';
}

static bool starts(const struct text *text, const char *word)
{
    size_t length = strlen(word);
    return (size_t)(text->end - text->at) >= length && memcmp(text->at, word, length) == 0;
}

// Goes behind the next [word], or to the end.
static void skip_past(struct text *text, const char *word)
{
    const char *found = memmem(text->at, (size_t)(text->end - text->at), word, strlen(word));
    text->at = found == NULL ? text->end : found + strlen(word);
}

static void skip_blanks(struct text *text)
{
    while (text->at < text->end) {
        if (starts(text, "//")) {
            skip_past(text, "\n");
        } else if (starts(text, "/*")) {
            text->at += 2;
            skip_past(text, "*/");
        } else if (strchr(" \t\r\n", *text->at) != NULL && *text->at != '\0') {
            text->at++;
        } else {
            return;
        }
    }
}

// A word, or one other character.
static struct token next(struct text *text)
{
    skip_blanks(text);
    const char *begin = text->at;
    while (text->at < text->end && is_word(*text->at)) {
        text->at++;
    }
    if (text->at == begin && text->at < text->end) {
        text->at++;
    }
    return (struct token){begin, (size_t)(text->at - begin)};
}

static bool is(struct token token, const char *word)
{
    return token.length == strlen(word) && memcmp(token.begin, word, token.length) == 0;
}

static bool read_number(struct token token, uint64_t *number)
{
    *number = 0;
    for (size_t i = 0; i < token.length; i++) {
        char c = token.begin[i];
        if (c < '0' || c > '9' || *number > UINT32_MAX) {
            return false;
        }
        *number = *number * 10 + (uint64_t)(c - '0');
    }
    return token.length > 0;
}

// The bytes of a fundamental type that a kernel's parameter can have, or 0.
static uint64_t type_bytes(struct token token)
{
    static const struct {
        const char *name;
        uint64_t bytes;
    } types[] = {{".b8", 1},    {".u8", 1},   {".s8", 1},  {".b16", 2}, {".u16", 2}, {".s16", 2},
                 {".f16", 2},   {".bf16", 2}, {".b32", 4}, {".u32", 4}, {".s32", 4}, {".f32", 4},
                 {".f16x2", 4}, {".b64", 8},  {".u64", 8}, {".s64", 8}, {".f64", 8}, {".b128", 16}};
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
        if (is(token, types[i].name)) {
            return types[i].bytes;
        }
    }
    return 0;
}

// Reads a parameter behind its `.param`, up to the name.
static bool read_type(struct text *text, uint64_t *alignment, uint64_t *bytes)
{
    *bytes = *alignment = 0;
    bool pointer = false;
    for (;;) {
        struct token token = next(text);
        if (is(token, ".align")) {
            uint64_t number;
            if (!read_number(next(text), &number) || number == 0) {
                return false;
            }
            // Behind `.ptr` it is the alignment of what the parameter points to.
            *alignment = pointer ? *alignment : number;
        } else if (is(token, ".ptr")) {
            pointer = true;
        } else if (type_bytes(token) != 0 && *bytes == 0) {
            *bytes = type_bytes(token);
        } else if (token.length > 0 && token.begin[0] != '.' && is_word(token.begin[0])) {
            return *bytes > 0;
        } else if (!pointer || token.length == 0 || token.begin[0] != '.') {
            return false; // a texture, a sampler, or what is not PTX
        }
    }
}

// Reads a parameter and the comma or bracket behind it.
static bool read_param(struct text *text, struct rank_layout *layout, uint64_t *end, bool *last)
{
    uint64_t alignment, bytes, count = 1;
    if (!read_type(text, &alignment, &bytes)) {
        return false;
    }
    if (alignment == 0) {
        alignment = bytes;
    }
    struct token token = next(text);
    if (is(token, "[")) {
        if (!read_number(next(text), &count) || count == 0 || !is(next(text), "]")) {
            return false;
        }
        token = next(text);
    }
    uint64_t offset = (*end + alignment - 1) / alignment * alignment;
    *end = offset + bytes * count;
    if (*end > UINT32_MAX) {
        return false;
    }
    rank_layout_add(layout, offset, bytes * count);
    *last = is(token, ")");
    return *last || is(token, ",");
}

static bool read_params(struct text *text, struct rank_layout *layout)
{
    struct text ahead = *text;
    if (!is(next(&ahead), "(")) {
        return true;
    }
    *text = ahead;
    if (is(next(&ahead), ")")) {
        return true;
    }
    uint64_t end = 0;
    for (bool last = false; !last;) {
        if (!is(next(text), ".param") || !read_param(text, layout, &end, &last)) {
            return false;
        }
    }
    return true;
}

enum rank_lookup rank_layout_of_ptx(const uint8_t *bytes, size_t length, const char *entry,
                                    struct rank_layout *layout, const char **why)
{
    struct text text = {(const char *)bytes, (const char *)bytes + length};
    for (struct token token = next(&text); token.length > 0; token = next(&text)) {
        if (is(token, "\"")) {
            skip_past(&text, "\"");
        } else if (is(token, ".entry") && is(next(&text), entry)) {
            if (read_params(&text, layout)) {
                return RANK_FOUND;
            }
            *why = "parameters of it that are none of PTX's scalars and arrays";
            return RANK_UNREADABLE;
        }
    }
    return RANK_ABSENT;
}
