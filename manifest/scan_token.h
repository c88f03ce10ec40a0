// SPDX-License-Identifier: Apache-2.0
//
// The strings and numbers of RFC 8259, checked byte by byte.
#ifndef KERN_MANIFEST_SCAN_TOKEN_H
#define KERN_MANIFEST_SCAN_TOKEN_H

#include <stdbool.h>
#include <stddef.h>

// A string or number in a text that ends in a NUL.
struct kern_token {
    const char *end;   // behind it; where it is wrong, the offending byte
    const char *error; // what is wrong and what would be right, or NULL
    bool escaped;      // string: has a backslash
    bool unsafe;       // number: an integer that json-c would not keep as it is
};

// Checks the string that begins with the quote at [text].
struct kern_token kern_token_string(const char *text);

// Checks the number that begins at [text] with a digit or a minus sign.
struct kern_token kern_token_number(const char *text);

// Decodes the checked string between its quotes, text[0, length), into [decoded], which has room
// for [length] bytes, and returns the length of what it stands for.
size_t kern_token_decode(const char *text, size_t length, char *decoded);

#endif
