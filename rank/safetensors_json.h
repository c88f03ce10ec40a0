// SPDX-License-Identifier: Apache-2.0
//
// The JSON of safetensors files and their indexes, with errors that name the file and the byte. It
// comes from strangers and decides which bytes are read, so an integer is one of plain digits.
#ifndef KERN_RANK_SAFETENSORS_JSON_H
#define KERN_RANK_SAFETENSORS_JSON_H

#include "base/diag.h"
#include "base/json.h"

struct kern_tensor_json {
    struct kern_json_document document;
    const char *path;         // of the file, for messages
    const char *part;         // what the text is of that file: "the header"
    struct kern_arena *arena; // where strings are copied to
    struct kern_diag *diag;
};

// Reads [length] bytes of [text], which a NUL follows, into json->document, which is to be freed
// with kern_json_free in either case. The root must be an object.
bool kern_tensor_json_parse(struct kern_tensor_json *json, const char *text, size_t length);

// Whether [node] is of this kind; refuses it otherwise.
bool kern_tensor_json_expect(const struct kern_tensor_json *json, const struct kern_json_node *node,
                             enum kern_json_kind kind);

// A string or key with a NUL.
const char *kern_tensor_json_copy(const struct kern_tensor_json *json,
                                  const struct kern_json_node *node);

// Reads an integer without sign, fraction and exponent.
bool kern_tensor_json_uint(const struct kern_tensor_json *json, const struct kern_json_node *node,
                           uint64_t *value);

#endif
