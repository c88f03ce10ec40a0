// SPDX-License-Identifier: Apache-2.0
#include "rank/json_reader.h"

#include <stdarg.h>
#include <string.h>

#include "manifest/scan_token.h"

enum { DEPTH_MAX = 64 };

static bool fail(struct kern_json_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool fail(struct kern_json_reader *reader, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *text = kern_arena_vprint(&reader->diag->arena, format, arguments);
    va_end(arguments);
    reader->failed = true;
    return kern_fail(reader->diag, KERN_EXIT_ARTIFACT, reader->path, "byte %zu of %s: %s",
                     reader->at, reader->part, text);
}

// The byte at the place of reading; a NUL at the end of the text, where one stands.
static char peek(const struct kern_json_reader *reader)
{
    return reader->text[reader->at];
}

static void skip_space(struct kern_json_reader *reader)
{
    while (peek(reader) == ' ' || peek(reader) == '\t' || peek(reader) == '\n' ||
           peek(reader) == '\r')
        reader->at++;
}

// What stands at the place of reading, for messages.
static const char *found(const struct kern_json_reader *reader)
{
    char c = peek(reader);
    if (reader->at == reader->length)
        return "the end";
    if (c < 0x20 || c > 0x7e)
        return kern_arena_print(&reader->diag->arena, "byte 0x%02x", (unsigned char)c);
    return kern_arena_print(&reader->diag->arena, "'%c'", c);
}

static bool expect(struct kern_json_reader *reader, char wanted)
{
    if (reader->failed)
        return false;
    skip_space(reader);
    if (peek(reader) != wanted)
        return fail(reader, "'%c' is expected, %s is there", wanted, found(reader));
    reader->at++;
    return true;
}

bool kern_json_reader_enter(struct kern_json_reader *reader, char open)
{
    return expect(reader, open);
}

bool kern_json_reader_more(struct kern_json_reader *reader, char close, bool *first)
{
    if (reader->failed)
        return false;
    skip_space(reader);
    if (peek(reader) == close) {
        reader->at++;
        return false;
    }
    if (!*first && !expect(reader, ','))
        return false;
    *first = false;
    return true;
}

// Moves behind the token at the place of reading, or fails where it is wrong.
static bool take(struct kern_json_reader *reader, struct kern_token token)
{
    reader->at = (size_t)(token.end - reader->text);
    return !token.error || fail(reader, "%s", token.error);
}

bool kern_json_reader_string(struct kern_json_reader *reader, const char **text)
{
    if (!expect(reader, '"'))
        return false;
    const char *start = reader->text + reader->at;
    if (!take(reader, kern_token_string(start - 1)))
        return false;
    size_t length = (size_t)(reader->text + reader->at - 1 - start);
    char *decoded = kern_arena_alloc(reader->arena, length + 1);
    kern_token_decode(start, length, decoded);
    *text = decoded;
    return true;
}

bool kern_json_reader_key(struct kern_json_reader *reader, const char **key)
{
    return kern_json_reader_string(reader, key) && expect(reader, ':');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool kern_json_reader_uint(struct kern_json_reader *reader, uint64_t *value)
{
    if (reader->failed)
        return false;
    skip_space(reader);
    size_t start = reader->at;
    if (!is_digit(peek(reader)))
        return fail(reader, "an integer of at least 0 is expected, %s is there", found(reader));
    if (!take(reader, kern_token_number(reader->text + start)))
        return false;
    uint64_t result = 0;
    for (size_t i = start; i < reader->at; i++) {
        if (!is_digit(reader->text[i]))
            return fail(reader, "an integer has no fraction and no exponent");
        if (__builtin_mul_overflow(result, 10u, &result) ||
            __builtin_add_overflow(result, (uint64_t)(reader->text[i] - '0'), &result))
            return fail(reader, "an integer is larger than 18446744073709551615");
    }
    *value = result;
    return true;
}

static bool skip_word(struct kern_json_reader *reader)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t length = strlen(words[i]);
        if (strncmp(reader->text + reader->at, words[i], length) == 0) {
            reader->at += length;
            return true;
        }
    }
    return fail(reader, "a value is expected, %s is there", found(reader));
}

static bool skip_value(struct kern_json_reader *reader, int depth)
{
    if (reader->failed)
        return false;
    if (depth > DEPTH_MAX)
        return fail(reader, "nested deeper than %d", DEPTH_MAX);
    skip_space(reader);
    char c = peek(reader);
    const char *text;
    if (c == '"')
        return kern_json_reader_string(reader, &text);
    if (c == '-' || is_digit(c))
        return take(reader, kern_token_number(reader->text + reader->at));
    if (c != '{' && c != '[')
        return skip_word(reader);
    reader->at++;
    bool first = true;
    while (kern_json_reader_more(reader, c == '{' ? '}' : ']', &first))
        if ((c == '{' && !kern_json_reader_key(reader, &text)) || !skip_value(reader, depth + 1))
            return false;
    return !reader->failed;
}

bool kern_json_reader_skip(struct kern_json_reader *reader)
{
    return skip_value(reader, 1);
}

bool kern_json_reader_end(struct kern_json_reader *reader)
{
    if (reader->failed)
        return false;
    skip_space(reader);
    return reader->at == reader->length || fail(reader, "%s stands after the end", found(reader));
}
