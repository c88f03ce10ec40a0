// SPDX-License-Identifier: Apache-2.0
//
// Typed readers: each takes one value of the document and stores what it stands for, or says what
// is wrong with it and goes on. What an object may hold is a table of its keys.
#ifndef KERN_MANIFEST_READ_H
#define KERN_MANIFEST_READ_H

#include "base/json.h"
#include "manifest/constants.h"
#include "manifest/internal.h"
#include "manifest/manifest.h"
#include "manifest/place.h"

struct kern_reader {
    struct kern_manifest *manifest;
    struct kern_arena *arena; // of the manifest
    struct kern_diag *diag;
    struct kern_json_document document;
    struct kern_json_position position; // of the last repeated key
    struct kern_constants constants;
};

// A value and where it stands. Its order in the document is the byte that it begins at, json->at.
struct kern_node {
    const struct kern_json_node *json;
    struct kern_place place;
};

// Reads [node] into [into]; false if something was refused.
typedef bool kern_read(struct kern_reader *reader, const struct kern_node *node, void *into);

enum {
    KERN_REQUIRED = 1,
    KERN_NULLABLE = 2, // null stands for absent
    // Exactly one key of these must stand in the object. None, several, and a key beside a form
    // that it does not go with are V-KEY errors, as the contract has it for the sources of a field.
    KERN_FORM = 4,
};

struct kern_key {
    const char *name;
    uint8_t length;
    uint8_t flags;
    uint16_t offset; // of what [read] is given, in what the object is read into
    kern_read *read;
};

// An object's keys. Readers give masks of them: bit i is keys[i].
struct kern_keys {
    const char *what; // "a buffer"
    const struct kern_key *keys;
    uint32_t count;
};

#define KERN_KEY(key, key_flags, key_offset, key_read)                                             \
    {                                                                                              \
        .name = key, .length = sizeof(key) - 1, .flags = key_flags, .offset = key_offset,          \
        .read = key_read                                                                           \
    }
#define KERN_KEYS(object, table)                                                                   \
    {                                                                                              \
        .what = object, .keys = table, .count = sizeof(table) / sizeof *(table)                    \
    }

// The elements of an array or the entries of a map.
struct kern_items {
    const char *what; // "a shape", "the map of buffers"
    const char *word; // of an element's place, see place.h; NULL: brackets
    size_t size;      // of an element; that of a map begins with its name
    kern_read *read;
};

// Adds an error at [node]; false.
#define kern_refuse(reader, rule, node, ...)                                                       \
    kern_place_fail((reader)->diag, rule, (node)->json->at, &(node)->place, __VA_ARGS__)

// Whether no further error would be listed, so that reading on is of no use.
static inline bool kern_reader_is_full(const struct kern_reader *reader)
{
    return reader->diag->errors > KERN_MANIFEST_ERRORS_MAX;
}

// Refuses [node], which is not [expected], as a V-TYPE error, and passes over it; false.
bool kern_refuse_type(struct kern_reader *reader, const struct kern_node *node,
                      const char *expected);

// read_repeated.c: refuses the repeated [key], whose member is at [place], and passes over it.
void kern_refuse_repeated(struct kern_reader *reader, const struct kern_json_node *key,
                          const struct kern_place *place);

// Passes over what is below [node], which nobody will read: only its repeated keys are refused.
void kern_pass_over(struct kern_reader *reader, const struct kern_node *node);

// What stands at a place, for messages: `"abc"`, `2.5`, `an object`.
const char *kern_found(const struct kern_reader *reader, const struct kern_json_node *json,
                       char text[64]);

// The number as written, shortened.
const char *kern_number_text(const struct kern_json_number *number, char text[48]);

// A string or key with a NUL, in the manifest's arena.
static inline const char *kern_copy_string(struct kern_reader *reader,
                                           const struct kern_json_node *json)
{
    return kern_json_copy(&reader->document, json, reader->arena);
}

// Reads the object [node] by [keys], each member into [into] + its offset. *[present] gets the mask
// of the keys that stand in it, with a null or not, or that an unknown key probably means. Unknown
// keys, missing required ones and a number of forms that is not one are refused.
bool kern_read_object(struct kern_reader *reader, const struct kern_node *node,
                      const struct kern_keys *keys, void *into, uint32_t *present);

// Refuses what is not in [present] of the keys [required]; false if there are such.
bool kern_require(struct kern_reader *reader, const struct kern_node *node,
                  const struct kern_keys *keys, uint32_t required, uint32_t present);

// Reads an array of any length into [*items], a new array in the arena, and its length [*count].
bool kern_read_list(struct kern_reader *reader, const struct kern_node *node,
                    const struct kern_items *list, void *items, size_t *count);

// Reads an array with exactly as many elements as [parts], each with its own reader.
bool kern_read_tuple(struct kern_reader *reader, const struct kern_node *node,
                     const struct kern_keys *parts, void *into);

// Checks the name in a map that [node] has, of what is called [what]: "a buffer".
bool kern_check_name(struct kern_reader *reader, const struct kern_node *node, const char *what);

// Reads a map into [*items], a new array in byte-wise order of the names, and fills [names], which
// may be NULL, with their indices.
bool kern_read_map(struct kern_reader *reader, const struct kern_node *node,
                   const struct kern_items *map, void *items, uint32_t *count,
                   struct kern_names *names);

// The number at [node], written as such or as the name of a constant.
bool kern_read_number(struct kern_reader *reader, const struct kern_node *node,
                      struct kern_json_number *number);

// Readers of scalars into what their name says; i32, f32 and so on into a variable of that type.
kern_read kern_read_u8, kern_read_u16, kern_read_u32, kern_read_u64, kern_read_i32, kern_read_i64,
    kern_read_f32, kern_read_bool, kern_read_string, kern_read_ref;

// A list of numbers of 64 or 32 bits, new in the arena.
bool kern_read_u64s(struct kern_reader *reader, const struct kern_node *node,
                    const uint64_t **numbers, size_t *count);
bool kern_read_u32s(struct kern_reader *reader, const struct kern_node *node,
                    const uint32_t **numbers, size_t *count);

// Two numbers of 64 bits; [what] says in messages what they are.
bool kern_read_u64_pair(struct kern_reader *reader, const struct kern_node *node, const char *what,
                        uint64_t pair[2]);

// Reads one of [words] into the enumeration at [into].
bool kern_read_word(struct kern_reader *reader, const struct kern_node *node,
                    const struct kern_words *words, void *into);

kern_read kern_read_dtype;

#endif
