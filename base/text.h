// SPDX-License-Identifier: Apache-2.0
//
// Text from files: what of it is UTF-8, and how it is made fit to be shown.
#ifndef KERN_BASE_TEXT_H
#define KERN_BASE_TEXT_H

#include <stddef.h>

// The length of the UTF-8 character at [text], or 0 if there is none (RFC 3629, the table of
// section 4: no overlong forms, no surrogates, nothing above U+10FFFF).
size_t kern_text_utf8_length(const char *text);

// The length of the character at [text] if it may be shown, or 0: it is not UTF-8, or controls
// something.
size_t kern_text_shown(const char *text);

// Makes question marks of the control characters of [text] and of bytes that are not UTF-8: what is
// printed on a terminal must not steer it. Returns [text].
char *kern_text_tame(char *text);

// Room for a name that a manifest gives itself, as much of it as is shown.
enum { KERN_TEXT_SHOWN = 256 };

// Copies [name] into [text] of [size] bytes, ending it in an ellipsis if it is too long, and
// tames it.
const char *kern_text_shorten(const char *name, char *text, size_t size);

#endif
