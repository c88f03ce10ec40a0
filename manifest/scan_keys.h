// SPDX-License-Identifier: Apache-2.0
//
// The keys of the objects that are open during a scan: which of them stands in its object twice.
#ifndef KERN_MANIFEST_SCAN_KEYS_H
#define KERN_MANIFEST_SCAN_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/names.h"

struct kern_scan_key {
    const char *text; // decoded, not ended by a NUL
    size_t length;
};

// The keys of one object. Few keys are compared one by one; beyond that they are hashed.
struct kern_scan_keys {
    size_t first; // in the stack
    uint32_t count;
    struct kern_names names; // in use if there are any
    struct kern_arena copies;
};

// The keys of all open objects, the innermost last. All zero is a valid empty stack.
struct kern_scan_stack {
    struct kern_scan_key *keys;
    size_t count;
    size_t capacity;
};

// An object is opened; its keys come next.
void kern_scan_keys_open(struct kern_scan_stack *stack, struct kern_scan_keys *keys);

// Adds a key to the innermost object; false if the object has it already.
bool kern_scan_keys_add(struct kern_scan_stack *stack, struct kern_scan_keys *keys,
                        struct kern_scan_key key);

// The innermost object is closed.
void kern_scan_keys_close(struct kern_scan_stack *stack, struct kern_scan_keys *keys);

#endif
