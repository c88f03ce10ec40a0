// SPDX-License-Identifier: Apache-2.0
//
// Named numbers: `constants` of the root, which strings in numeric positions stand for. They are
// looked up while the typed reader walks; the document is not rewritten.
#ifndef KERN_MANIFEST_CONSTANTS_H
#define KERN_MANIFEST_CONSTANTS_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/names.h"

struct kern_reader;
struct kern_node;

struct kern_constant {
    const struct kern_json_node *value; // no number if the constant is refused
    bool is_var;                        // a var has the name too
};

// All zero is a valid empty set.
struct kern_constants {
    struct kern_names names;
    struct kern_constant *constants; // by index
    struct kern_arena arena;
};

// Collects the reader's constants without a word about those that are wrong: they may stand behind
// what uses them, and errors come in document order.
void kern_constants_collect(struct kern_reader *reader);

// What the constant called as the string [name] stands for, or NULL if there is none.
const struct kern_json_node *kern_constants_find(const struct kern_reader *reader,
                                                 const struct kern_json_node *name);

// Reads the member `constants` and refuses what is wrong in it.
bool kern_read_constants(struct kern_reader *reader, const struct kern_node *node, void *into);

void kern_constants_free(struct kern_constants *constants);

#endif
