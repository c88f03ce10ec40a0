// SPDX-License-Identifier: Apache-2.0
#include "manifest/scan_keys.h"

#include <string.h>

#include "base/memory.h"

// The largest number of keys that are compared one by one. Objects of the schema have fewer.
enum { FEW = 16 };

void kern_scan_keys_open(struct kern_scan_stack *stack, struct kern_scan_keys *keys)
{
    *keys = (struct kern_scan_keys){.first = stack->count};
}

static bool add_hashed(struct kern_scan_keys *keys, struct kern_scan_key key)
{
    const char *name = kern_arena_copy(&keys->copies, key.text, key.length);
    return kern_names_add(&keys->names, name, 0) == KERN_NONE;
}

static bool same_key(const struct kern_scan_key *a, const struct kern_scan_key *b)
{
    return a->length == b->length && memcmp(a->text, b->text, a->length) == 0;
}

bool kern_scan_keys_add(struct kern_scan_stack *stack, struct kern_scan_keys *keys,
                        struct kern_scan_key key)
{
    if (keys->count == FEW && !keys->names.count)
        for (size_t i = 0; i < FEW; i++)
            add_hashed(keys, stack->keys[keys->first + i]);
    if (keys->names.count) {
        if (!add_hashed(keys, key))
            return false;
    } else {
        for (size_t i = 0; i < keys->count; i++)
            if (same_key(&stack->keys[keys->first + i], &key))
                return false;
        kern_reserve(&stack->keys, &stack->capacity, stack->count + 1, sizeof *stack->keys);
        stack->keys[stack->count++] = key;
    }
    keys->count++;
    return true;
}

void kern_scan_keys_close(struct kern_scan_stack *stack, struct kern_scan_keys *keys)
{
    stack->count = keys->first;
    kern_names_free(&keys->names);
    kern_arena_free(&keys->copies);
}
