// SPDX-License-Identifier: Apache-2.0
//
// A strict look at JSON text before json-c parses it: json-c lets pass what RFC 8259 forbids
// (single quotes, NaN, control characters, broken UTF-8, lone surrogates), folds repeated keys,
// cuts names at a NUL and clamps integers that are too large.
#ifndef KERN_MANIFEST_SCAN_H
#define KERN_MANIFEST_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/diag.h"

// What must change in the text so that json-c makes of it what it says. Where [from] < [to], those
// bytes are a member with a repeated key and are to be left out. Where they are equal, the integer
// that ends there keeps its digits only as a double: "e0" is to be inserted.
struct kern_scan_edit {
    size_t from;
    size_t to;
};

// All zero is a valid empty scan. Edits are in the order of the text and do not overlap.
struct kern_scan {
    struct kern_scan_edit *edits;
    size_t count;
    size_t capacity;
};

// Checks [length] bytes of [text], which a NUL follows. False, with one V-JSON error that names
// line and column, if they are not one JSON object of the depth that a manifest may have. A
// repeated key is a V-DUP error in [diag], but no reason to stop: true is returned, and [scan]
// leaves the repetition out. The order of an error counts the values of the text so edited, from 1
// for the object itself. [name] says where the text came from.
bool kern_scan_text(const char *text, size_t length, const char *name, struct kern_scan *scan,
                    struct kern_diag *diag);

void kern_scan_free(struct kern_scan *scan);

#endif
