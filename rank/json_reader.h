// SPDX-License-Identifier: Apache-2.0
//
// A strict pull reader of JSON text (RFC 8259). The headers of safetensors files come from
// strangers and decide which bytes are read, so nothing may be folded, clamped or repaired on the
// way: each key is seen as it stands, also when it stands there twice, and integers are exact to
// 2^64 - 1.
//
// The first failure is reported to the diag and stays: every later call returns false at once.
#ifndef KERN_RANK_JSON_READER_H
#define KERN_RANK_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/diag.h"

struct kern_json_reader {
    const char *text; // [length] bytes and a NUL
    size_t length;
    size_t at;
    const char *path;         // of the file, for messages
    const char *part;         // what the text is of that file: "the header"
    struct kern_arena *arena; // where decoded strings live
    struct kern_diag *diag;
    bool failed;
};

// Reads [open], '{' or '['.
bool kern_json_reader_enter(struct kern_json_reader *reader, char open);

// Whether another member or element follows; reads the comma before it, or [close]. *[first] must
// be true for the first one of each object or array. False also after a failure.
bool kern_json_reader_more(struct kern_json_reader *reader, char close, bool *first);

// Reads a key and its colon.
bool kern_json_reader_key(struct kern_json_reader *reader, const char **key);

// Reads a string; one that holds a NUL is refused.
bool kern_json_reader_string(struct kern_json_reader *reader, const char **text);

// Reads an integer without sign, fraction and exponent.
bool kern_json_reader_uint(struct kern_json_reader *reader, uint64_t *value);

// Reads a value of any kind, nested at most 64 deep, and forgets it.
bool kern_json_reader_skip(struct kern_json_reader *reader);

// Whether nothing but white space is left.
bool kern_json_reader_end(struct kern_json_reader *reader);

#endif
