// SPDX-License-Identifier: Apache-2.0
//
// A strict reader of JSON (RFC 8259) for texts that strangers write: nothing is folded, clamped or
// repaired on the way. What comes out is flat, 16 bytes for each value and each key, in the order
// of the text; it borrows the text, which must outlive it and stay as it is.
//
// Refused beside what the grammar refuses: a NUL character in a key or string, also as an escape,
// surrogates without their other half, and bytes that are not UTF-8. A key that stands in its
// object twice is well-formed JSON; it is marked, and what that means is the caller's to say.
#ifndef KERN_BASE_JSON_H
#define KERN_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

enum kern_json_kind {
    KERN_JSON_NULL,
    KERN_JSON_FALSE,
    KERN_JSON_TRUE,
    KERN_JSON_NUMBER,
    KERN_JSON_STRING, // a key is a string too
    KERN_JSON_ARRAY,
    KERN_JSON_OBJECT,
};

// A value or a key. An array is followed by its elements; an object by its members, each a key and
// a value: see kern_json_first and kern_json_next.
struct kern_json_node {
    uint32_t at;   // the byte of the text where it begins
    uint32_t size; // bytes of a string (decoded) or a number; elements or members otherwise
    uint32_t span; // of an array or object: nodes from this one to the last within it
    enum kern_json_kind kind : 8;
    bool escaped : 1;  // a string that is written with escapes; [span] is where it lies decoded
    bool repeated : 1; // a key that stands in its object already; its member is still there
};

// All zero is a valid empty document, and so is one that was freed.
struct kern_json_document {
    const char *text;
    struct kern_json_node *nodes; // nodes[0] is the root
    size_t count, capacity;
    char *decoded; // the strings with escapes, one after another
    size_t decoded_count, decoded_capacity;
    size_t repeated; // how many keys are marked
};

// Where and why a text was refused.
struct kern_json_error {
    size_t at;      // the offending byte
    char text[192]; // what is wrong and what would be right, without a full stop
};

// Reads [length] bytes of [text], which a NUL follows, into the empty [document]. Arrays and
// objects may be nested [depth] deep, which is in the hundreds at most since the reader recurs.
// False with [error] and an empty document if the text is not one JSON value or has 4 GiB.
bool kern_json_parse(struct kern_json_document *document, const char *text, size_t length,
                     unsigned depth, struct kern_json_error *error);

void kern_json_free(struct kern_json_document *document);

// The node behind [node] and everything in it: the next element, or, of a key, its value, or, of a
// member's value, the next key.
static inline const struct kern_json_node *kern_json_next(const struct kern_json_node *node)
{
    return node + (node->kind >= KERN_JSON_ARRAY ? node->span : 1);
}

// The first element of an array or the first key of an object that has any.
static inline const struct kern_json_node *kern_json_first(const struct kern_json_node *node)
{
    return node + 1;
}

// The node->size bytes of a string or key, decoded, or of a number; no NUL follows them.
const char *kern_json_chars(const struct kern_json_document *document,
                            const struct kern_json_node *node);

// A copy with a NUL of kern_json_chars.
char *kern_json_copy(const struct kern_json_document *document, const struct kern_json_node *node,
                     struct kern_arena *arena);

// Whether the string or key is [text].
bool kern_json_equals(const struct kern_json_document *document, const struct kern_json_node *node,
                      const char *text);

// The value of the first member called [key] of the [object], or NULL.
const struct kern_json_node *kern_json_find(const struct kern_json_document *document,
                                            const struct kern_json_node *object, const char *key);

// A place in a text: line and column from 1, the column in bytes. All zero is one before the text.
struct kern_json_position {
    size_t at;
    uint64_t line;
    uint64_t column;
};

// Moves *[position], which is of the same text, forward to the byte [at]. Somebody who has many
// places to name goes on from the last one.
void kern_json_locate(const char *text, size_t at, struct kern_json_position *position);

// The exact value of a number: 1e3 and 2560.0 are integers, 18446744073709551615.0 is the largest
// of them, and none of it goes through a double.
struct kern_json_number {
    bool integral; // it has an integer value
    bool fits;     // which has a sign and a magnitude of 64 bits, below
    bool negative;
    uint64_t magnitude;
    const char *text; // as written, [length] bytes, borrowed
    uint32_t length;
};

struct kern_json_number kern_json_number(const struct kern_json_document *document,
                                         const struct kern_json_node *node);

// The value of the number (RFC 8259 grammar) that begins at [text] and ends where its grammar says.
struct kern_json_number kern_json_parse_number(const char *text);

// Rounded once, to nearest, whatever the locale; infinite if it is too large.
double kern_json_double(const struct kern_json_number *number);
float kern_json_float(const struct kern_json_number *number);

#endif
