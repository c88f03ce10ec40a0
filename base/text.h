// SPDX-License-Identifier: Apache-2.0
//
// Text from files, made fit to be shown.
#ifndef KERN_BASE_TEXT_H
#define KERN_BASE_TEXT_H

#include <stddef.h>

// Room for a name that a manifest gives itself, as much of it as is shown.
enum { KERN_TEXT_SHOWN = 256 };

// Copies [name] into [text] of [size] bytes, ending it in an ellipsis if it is too long; control
// characters become question marks, since what is printed on a terminal must not steer it.
const char *kern_text_shorten(const char *name, char *text, size_t size);

#endif
