// SPDX-License-Identifier: Apache-2.0
//
// How JSON looks to people: what is short stands on one line, the rest is indented.
#ifndef KERN_MANIFEST_JSON_LAYOUT_H
#define KERN_MANIFEST_JSON_LAYOUT_H

#include <stdio.h>

// Writes the JSON value [text], which ends with a NUL and has no white space between its tokens, to
// [file] with a line break after it. Arrays and objects are put on one line where they end before
// column 100, save the outermost and those of its members that hold others. Longer arrays of short
// elements are filled line by line.
void kern_json_layout(const char *text, FILE *file);

#endif
