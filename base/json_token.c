// SPDX-License-Identifier: Apache-2.0
#include "base/json_token.h"

#include <stdint.h>
#include <string.h>

#include "base/text.h"

static struct kern_json_token wrong(const char *at, const char *error)
{
    return (struct kern_json_token){.end = at, .error = error};
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// The value of a hex digit, or -1.
static int hex_value(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

// The code unit of the four hex digits at [text], or -1. Stops at the first byte that is none, so
// it does not read past a NUL.
static int32_t code_unit(const char *text)
{
    int32_t unit = 0;
    for (int i = 0; i < 4; i++) {
        int digit = hex_value(text[i]);
        if (digit < 0)
            return -1;
        unit = unit * 16 + digit;
    }
    return unit;
}

static bool is_high_surrogate(int32_t unit)
{
    return unit >= 0xd800 && unit <= 0xdbff;
}

static bool is_low_surrogate(int32_t unit)
{
    return unit >= 0xdc00 && unit <= 0xdfff;
}

// Checks the escape whose backslash stands at [text]. The length of it, or 0 with *[error].
static size_t escape_length(const char *text, const char **error)
{
    *error = "this escape is unknown: JSON has \\\" \\\\ \\/ \\b \\f \\n \\r \\t and \\uXXXX";
    if (text[1] != 'u')
        return text[1] && strchr("\"\\/bfnrt", text[1]) ? 2 : 0;
    int32_t unit = code_unit(text + 2);
    if (unit < 0) {
        *error = "\\u needs four hex digits";
        return 0;
    }
    if (unit == 0) {
        *error = "a NUL character is not allowed in keys and strings";
        return 0;
    }
    if (is_high_surrogate(unit) && text[6] == '\\' && text[7] == 'u' &&
        is_low_surrogate(code_unit(text + 8)))
        return 12;
    if (is_high_surrogate(unit) || is_low_surrogate(unit)) {
        *error = "this surrogate is unpaired: a character above U+FFFF is written as a high and a "
                 "low one";
        return 0;
    }
    return 6;
}

static bool is_ordinary(char c)
{
    return (unsigned char)c >= ' ' && (unsigned char)c < 0x80 && c != '"' && c != '\\';
}

struct kern_json_token kern_json_string_token(const char *text)
{
    struct kern_json_token token = {0};
    const char *error;
    for (text++;;) {
        while (is_ordinary(*text))
            text++;
        size_t length;
        if (*text == '"') {
            token.end = text + 1;
            return token;
        }
        if (*text == '\\') {
            token.escaped = true;
            length = escape_length(text, &error);
            if (length == 0)
                return wrong(text, error);
        } else if ((unsigned char)*text < ' ') {
            return wrong(text, *text ? "a control character in a string must be escaped"
                                     : "this string does not end");
        } else {
            length = kern_text_utf8_length(text);
            if (length == 0)
                return wrong(text, "these bytes are not UTF-8");
        }
        text += length;
    }
}

struct kern_json_token kern_json_number_token(const char *text)
{
    text += *text == '-';
    const char *digits = text;
    if (!is_digit(*text))
        return wrong(text, "a number needs a digit here (there is no NaN and no Infinity in JSON)");
    while (is_digit(*text))
        text++;
    if (digits[0] == '0' && text - digits > 1)
        return wrong(digits, "a number does not begin with 0 and another digit");
    if (*text == '.') {
        if (!is_digit(*++text))
            return wrong(text, "a number needs a digit after its point");
        while (is_digit(*text))
            text++;
    }
    if (*text == 'e' || *text == 'E') {
        text++;
        text += *text == '+' || *text == '-';
        if (!is_digit(*text))
            return wrong(text, "a number needs a digit in its exponent");
        while (is_digit(*text))
            text++;
    }
    if (hex_value(*text) >= 0 || (*text && strchr(".+-xXnN_", *text)))
        return wrong(text, "this does not belong to a number");
    return (struct kern_json_token){.end = text};
}

// Writes [code] as UTF-8 and returns its length.
static size_t encode(uint32_t code, char *text)
{
    if (code < 0x80) {
        text[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        text[0] = (char)(0xc0 | code >> 6);
        text[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        text[0] = (char)(0xe0 | code >> 12);
        text[1] = (char)(0x80 | (code >> 6 & 0x3f));
        text[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    text[0] = (char)(0xf0 | code >> 18);
    text[1] = (char)(0x80 | (code >> 12 & 0x3f));
    text[2] = (char)(0x80 | (code >> 6 & 0x3f));
    text[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

static char simple_escape(char letter)
{
    switch (letter) {
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return letter;
    }
}

size_t kern_json_decode(const char *text, size_t length, char *decoded)
{
    char *out = decoded;
    for (size_t i = 0; i < length;) {
        if (text[i] != '\\') {
            *out++ = text[i++];
        } else if (text[i + 1] != 'u') {
            *out++ = simple_escape(text[i + 1]);
            i += 2;
        } else {
            uint32_t code = (uint32_t)code_unit(text + i + 2);
            i += 6;
            if (is_high_surrogate((int32_t)code)) {
                uint32_t low = (uint32_t)code_unit(text + i + 2);
                code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                i += 6;
            }
            out += encode(code, out);
        }
    }
    return (size_t)(out - decoded);
}
