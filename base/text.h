// SPDX-License-Identifier: Apache-2.0
//
// Text from files, made fit to be shown.
#ifndef KERN_BASE_TEXT_H
#define KERN_BASE_TEXT_H

#include <stddef.h>

// Makes question marks of the control characters of [text]: what is printed on a terminal must not
// steer it.
void kern_text_tame(char *text);

// Room for a name that a manifest gives itself, as much of it as is shown.
enum { KERN_TEXT_SHOWN = 256 };

// Copies [name] into [text] of [size] bytes, ending it in an ellipsis if it is too long, and
// tames it.
const char *kern_text_shorten(const char *name, char *text, size_t size);

#endif
