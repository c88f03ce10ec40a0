// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_keys.h"
#include "base/json_token.h"
#include "base/memory.h"

struct parser {
    struct kern_json_document *document;
    const char *text;
    const char *end; // where a NUL stands
    const char *at;
    unsigned depth; // levels that may still be opened
    unsigned depth_max;
    struct kern_json_error *error;
};

static bool fail(struct parser *p, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool fail(struct parser *p, const char *at, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(p->error->text, sizeof p->error->text, format, arguments);
    va_end(arguments);
    p->error->at = (size_t)(at - p->text);
    return false;
}

// What stands at the place of reading, for messages.
static const char *found(const struct parser *p, char text[24])
{
    unsigned char c = (unsigned char)*p->at;
    if (p->at == p->end)
        return "the end";
    if (c > ' ' && c < 0x7f)
        snprintf(text, 24, "'%c'", c);
    else
        snprintf(text, 24, "%sbyte 0x%02x", c ? "" : "NUL ", c);
    return text;
}

static void skip_space(struct parser *p)
{
    while (*p->at == ' ' || *p->at == '\n' || *p->at == '\r' || *p->at == '\t')
        p->at++;
}

// Adds a node that begins [ahead] bytes before the place of reading and returns its number.
static uint32_t add_node(struct parser *p, enum kern_json_kind kind, size_t ahead, uint32_t size)
{
    struct kern_json_document *document = p->document;
    if (document->count == document->capacity)
        kern_reserve(&document->nodes, &document->capacity, document->count + 1,
                     sizeof *document->nodes);
    document->nodes[document->count] = (struct kern_json_node){
        .at = (uint32_t)((size_t)(p->at - p->text) - ahead), .size = size, .kind = kind};
    return (uint32_t)document->count++;
}

// Moves behind the token at the place of reading.
static bool take(struct parser *p, struct kern_json_token token)
{
    if (token.error)
        return fail(p, token.end, "%s",
                    *token.end == '\0' && token.end != p->end ? "a NUL byte is not allowed"
                                                              : token.error);
    p->at = token.end;
    return true;
}

static bool read_string(struct parser *p)
{
    struct kern_json_document *document = p->document;
    const char *chars = p->at + 1;
    struct kern_json_token token = kern_json_string_token(p->at);
    if (!take(p, token))
        return false;
    size_t size = (size_t)(p->at - chars) - 1;
    uint32_t number = add_node(p, KERN_JSON_STRING, size + 2, (uint32_t)size);
    if (!token.escaped)
        return true;
    kern_reserve(&document->decoded, &document->decoded_capacity, document->decoded_count + size,
                 1);
    struct kern_json_node *node = &document->nodes[number];
    node->escaped = true;
    node->span = (uint32_t)document->decoded_count;
    node->size =
        (uint32_t)kern_json_decode(chars, size, document->decoded + document->decoded_count);
    document->decoded_count += node->size;
    return true;
}

static bool read_number(struct parser *p)
{
    const char *start = p->at;
    if (!take(p, kern_json_number_token(start)))
        return false;
    size_t size = (size_t)(p->at - start);
    add_node(p, KERN_JSON_NUMBER, size, (uint32_t)size);
    return true;
}

static bool read_word(struct parser *p, enum kern_json_kind kind, const char *word)
{
    size_t length = strlen(word);
    if (strncmp(p->at, word, length) != 0)
        return fail(p, p->at, "expected a value: true, false and null are the words of JSON");
    p->at += length;
    add_node(p, kind, length, 0);
    return true;
}

// Refuses what stands where a value must.
static bool refuse_value(struct parser *p)
{
    char text[24];
    switch (*p->at) {
    case '\0':
        return fail(p, p->at, "%s",
                    p->at == p->end ? "the text ends where a value must stand"
                                    : "expected a value; a NUL byte is not allowed");
    case '\'':
        return fail(p, p->at, "expected a value; a string stands in double quotes");
    case ']':
    case '}':
        return fail(p, p->at, "a value must stand here: there is no comma or colon before the end");
    case '/':
    case '#':
        return fail(p, p->at, "expected a value; JSON has no comments");
    case 'N':
    case 'I':
        return fail(p, p->at, "a value is expected, and JSON has no NaN and no Infinity");
    }
    if (strncmp(p->at, "\xef\xbb\xbf", 3) == 0)
        return fail(p, p->at, "a byte order mark is not allowed");
    return fail(p, p->at, "expected a value, %s is there", found(p, text));
}

static bool read_value(struct parser *p);

// Opens an array or object and takes its bracket; *[number] gets its node's number.
static bool open_level(struct parser *p, enum kern_json_kind kind, uint32_t *number)
{
    if (p->depth == 0)
        return fail(p, p->at, "arrays and objects nested deeper than %u levels are refused",
                    p->depth_max);
    p->depth--;
    *number = add_node(p, kind, 0, 0);
    p->at++;
    skip_space(p);
    return true;
}

// Takes the bracket that closes the array or object [number] of [size] elements or members.
static struct kern_json_node *close_level(struct parser *p, uint32_t number, uint32_t size)
{
    struct kern_json_node *node = &p->document->nodes[number];
    p->depth++;
    p->at++;
    node->size = size;
    node->span = (uint32_t)p->document->count - number;
    return node;
}

// Takes the comma that stands at the place of reading, if one does.
static bool take_comma(struct parser *p)
{
    skip_space(p);
    if (*p->at != ',')
        return false;
    p->at++;
    skip_space(p);
    return true;
}

static bool read_array(struct parser *p)
{
    uint32_t number = 0, size = 0;
    if (!open_level(p, KERN_JSON_ARRAY, &number))
        return false;
    if (*p->at != ']') {
        do {
            if (!read_value(p))
                return false;
            size++;
        } while (take_comma(p));
        if (*p->at != ']')
            return fail(p, p->at, "%s",
                        p->at == p->end ? "the text ends before its array does"
                                        : "expected a comma or the end of the array, ]");
    }
    close_level(p, number, size);
    return true;
}

static bool read_key(struct parser *p, bool behind_comma)
{
    char text[24];
    if (*p->at != '"')
        return fail(p, p->at, "'\"' is expected, %s is there: a key in double quotes must stand %s",
                    found(p, text), behind_comma ? "behind a comma" : "here");
    if (!read_string(p))
        return false;
    skip_space(p);
    if (*p->at != ':')
        return fail(p, p->at, "':' is expected, %s is there: a colon stands behind a key",
                    found(p, text));
    p->at++;
    skip_space(p);
    return true;
}

static bool read_object(struct parser *p)
{
    uint32_t number = 0, size = 0;
    if (!open_level(p, KERN_JSON_OBJECT, &number))
        return false;
    if (*p->at != '}') {
        do {
            if (!read_key(p, size > 0) || !read_value(p))
                return false;
            size++;
        } while (take_comma(p));
        if (*p->at != '}')
            return fail(p, p->at, "%s",
                        p->at == p->end ? "the text ends before its object does"
                                        : "expected a comma or the end of the object, }");
    }
    const struct kern_json_node *object = close_level(p, number, size);
    if (size > 1)
        kern_json_mark_repeated(p->document, object);
    return true;
}

static bool read_value(struct parser *p)
{
    switch (*p->at) {
    case '{':
        return read_object(p);
    case '[':
        return read_array(p);
    case '"':
        return read_string(p);
    case 't':
        return read_word(p, KERN_JSON_TRUE, "true");
    case 'f':
        return read_word(p, KERN_JSON_FALSE, "false");
    case 'n':
        return read_word(p, KERN_JSON_NULL, "null");
    }
    if (*p->at == '-' || (*p->at >= '0' && *p->at <= '9'))
        return read_number(p);
    return refuse_value(p);
}

static bool read_text(struct parser *p)
{
    char text[24];
    if (p->end - p->text >= UINT32_MAX)
        return fail(p, p->text, "a text of 4 GiB is refused");
    skip_space(p);
    if (!read_value(p))
        return false;
    skip_space(p);
    return p->at == p->end ||
           fail(p, p->at, "nothing may follow the value: %s stands after the end", found(p, text));
}

bool kern_json_parse(struct kern_json_document *document, const char *text, size_t length,
                     unsigned depth, struct kern_json_error *error)
{
    struct parser parser = {
        .document = document,
        .text = text,
        .end = text + length,
        .at = text,
        .depth = depth,
        .depth_max = depth,
        .error = error,
    };
    document->text = text;
    if (read_text(&parser))
        return true;
    kern_json_free(document);
    return false;
}

void kern_json_free(struct kern_json_document *document)
{
    free(document->nodes);
    free(document->decoded);
    *document = (struct kern_json_document){0};
}

const char *kern_json_chars(const struct kern_json_document *document,
                            const struct kern_json_node *node)
{
    if (node->kind == KERN_JSON_NUMBER)
        return document->text + node->at;
    return node->escaped ? document->decoded + node->span : document->text + node->at + 1;
}

char *kern_json_copy(const struct kern_json_document *document, const struct kern_json_node *node,
                     struct kern_arena *arena)
{
    return kern_arena_copy(arena, kern_json_chars(document, node), node->size);
}

bool kern_json_equals(const struct kern_json_document *document, const struct kern_json_node *node,
                      const char *text)
{
    // None of the characters is a NUL, so an end of [text] before node->size is a difference.
    return strncmp(text, kern_json_chars(document, node), node->size) == 0 && !text[node->size];
}

const struct kern_json_node *kern_json_find(const struct kern_json_document *document,
                                            const struct kern_json_node *object, const char *key)
{
    const struct kern_json_node *at = kern_json_first(object);
    for (uint32_t i = 0; i < object->size; i++, at = kern_json_next(at + 1))
        if (kern_json_equals(document, at, key))
            return at + 1;
    return NULL;
}

void kern_json_locate(const char *text, size_t at, struct kern_json_position *position)
{
    if (position->line == 0)
        *position = (struct kern_json_position){0, 1, 1};
    for (; position->at < at; position->at++) {
        bool newline = text[position->at] == '\n';
        position->line += newline;
        position->column = newline ? 1 : position->column + 1;
    }
}
