// SPDX-License-Identifier: Apache-2.0
//
// The strings and numbers of RFC 8259, checked byte by byte.
#ifndef KERN_BASE_JSON_TOKEN_H
#define KERN_BASE_JSON_TOKEN_H

#include <stdbool.h>
#include <stddef.h>

// A string or number in a text that ends in a NUL.
struct kern_json_token {
    const char *end;   // behind it; where it is wrong, the offending byte
    const char *error; // what is wrong and what would be right, or NULL
    bool escaped;      // string: has a backslash
};

// Checks the string that begins with the quote at [text].
struct kern_json_token kern_json_string_token(const char *text);

// Checks the number that begins at [text] with a digit or a minus sign.
struct kern_json_token kern_json_number_token(const char *text);

// Decodes the checked string between its quotes, text[0, length), into [decoded], which has room
// for [length] bytes, and returns the length of what it stands for.
size_t kern_json_decode(const char *text, size_t length, char *decoded);

#endif
