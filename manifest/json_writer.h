// SPDX-License-Identifier: Apache-2.0
//
// Writes JSON without white space, value by value; commas come by themselves. What an object's
// members are called and that brackets match is the caller's.
#ifndef KERN_MANIFEST_JSON_WRITER_H
#define KERN_MANIFEST_JSON_WRITER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

// Set [file] only.
struct kern_json {
    FILE *file;
    bool comma; // the next value or key of this array or object comes after another one
};

// [bracket] is one of [ { ] }.
void kern_json_open(struct kern_json *json, char bracket);
void kern_json_close(struct kern_json *json, char bracket);

// The next value is the member [name] of the object.
void kern_json_key(struct kern_json *json, const char *name);

// Escapes what RFC 8259 says must be escaped and nothing else. Bytes that are not UTF-8, which a
// file name may have, become U+FFFD.
void kern_json_string(struct kern_json *json, const char *text);
void kern_json_u64(struct kern_json *json, uint64_t number);
void kern_json_i64(struct kern_json *json, int64_t number);
void kern_json_bool(struct kern_json *json, bool truth);
void kern_json_null(struct kern_json *json);

// The shortest text that reads back as the same f32 or f64. [number] is finite; the process's
// numeric locale must have a point.
void kern_json_f32(struct kern_json *json, float number);
void kern_json_f64(struct kern_json *json, double number);

#endif
