// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void kern_text_tame(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
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
    kern_text_tame(text);
    return text;
}
