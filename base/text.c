// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool in_range(char c, unsigned low, unsigned high)
{
    return (unsigned char)c >= low && (unsigned char)c <= high;
}

size_t kern_text_utf8_length(const char *text)
{
    unsigned char lead = (unsigned char)text[0];
    if (lead < 0x80)
        return 1;
    if (lead >= 0xc2 && lead <= 0xdf)
        return in_range(text[1], 0x80, 0xbf) ? 2 : 0;
    if (lead >= 0xe0 && lead <= 0xef) {
        unsigned low = lead == 0xe0 ? 0xa0 : 0x80, high = lead == 0xed ? 0x9f : 0xbf;
        return in_range(text[1], low, high) && in_range(text[2], 0x80, 0xbf) ? 3 : 0;
    }
    if (lead >= 0xf0 && lead <= 0xf4) {
        unsigned low = lead == 0xf0 ? 0x90 : 0x80, high = lead == 0xf4 ? 0x8f : 0xbf;
        return in_range(text[1], low, high) && in_range(text[2], 0x80, 0xbf) &&
                       in_range(text[3], 0x80, 0xbf)
                   ? 4
                   : 0;
    }
    return 0;
}

size_t kern_text_shown(const char *text)
{
    unsigned char lead = (unsigned char)text[0];
    if (lead < 0x80)
        return lead >= ' ' && lead != 0x7f;
    // U+0080 to U+009f are control characters too.
    return lead == 0xc2 && in_range(text[1], 0x80, 0x9f) ? 0 : kern_text_utf8_length(text);
}

char *kern_text_tame(char *text)
{
    for (char *at = text; *at;) {
        size_t length = kern_text_shown(at);
        if (length == 0)
            *at = '?';
        at += length ? length : 1;
    }
    return text;
}

const char *kern_text_shorten(const char *name, char *text, size_t size)
{
    static const char more[] = "...";
    size_t length = strnlen(name, size);
    bool whole = length < size;
    if (!whole) {
        length = size - sizeof more;
        // Not in the middle of a character.
        while (length > 0 && ((unsigned char)name[length] & 0xc0) == 0x80)
            length--;
    }
    memcpy(text, name, length);
    snprintf(text + length, size - length, "%s", whole ? "" : more);
    return kern_text_tame(text);
}
