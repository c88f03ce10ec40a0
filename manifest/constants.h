// SPDX-License-Identifier: Apache-2.0
//
// Named numbers: `constants` of the root, which strings in numeric positions stand for. They are
// looked up while the typed reader walks; the tree is not rewritten.
#ifndef KERN_MANIFEST_CONSTANTS_H
#define KERN_MANIFEST_CONSTANTS_H

#include <json-c/json.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/names.h"

struct kern_reader;
struct kern_node;

// All zero is a valid empty set. Names and values are borrowed from the tree.
struct kern_constants {
    struct kern_names names;
    struct json_object **values;
};

// Collects the constants of [root] without a word about those that are wrong: they may stand behind
// what uses them, and errors come in document order.
void kern_constants_collect(struct kern_constants *constants, struct json_object *root,
                            struct kern_arena *arena);

// Whether [name] is a constant; *[value] is what it stands for, which is no number if the constant
// was refused.
bool kern_constants_find(const struct kern_constants *constants, const char *name,
                         struct json_object **value);

// Reads the member `constants` and refuses what is wrong in it, beside the vars of reader->root.
bool kern_read_constants(struct kern_reader *reader, const struct kern_node *node, void *into);

void kern_constants_free(struct kern_constants *constants);

#endif
