// SPDX-License-Identifier: Apache-2.0
#include "base/json_keys.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/siphash.h"

// The largest number of keys that are compared one by one; beyond that they are hashed.
enum { FEW = 16 };

static bool same_key(const struct kern_json_document *document, const struct kern_json_node *a,
                     const struct kern_json_node *b)
{
    return a->size == b->size &&
           memcmp(kern_json_chars(document, a), kern_json_chars(document, b), a->size) == 0;
}

static void mark(struct kern_json_document *document, const struct kern_json_node *key)
{
    document->nodes[key - document->nodes].repeated = true;
    document->repeated++;
}

static void compare_all(struct kern_json_document *document, const struct kern_json_node *object)
{
    const struct kern_json_node *keys[FEW], *key = kern_json_first(object);
    for (uint32_t i = 0; i < object->size; i++, key = kern_json_next(key + 1)) {
        uint32_t j = 0;
        while (j < i && !same_key(document, keys[j], key))
            j++;
        if (j < i)
            mark(document, key);
        keys[i] = key;
    }
}

static void hash_all(struct kern_json_document *document, const struct kern_json_node *object)
{
    size_t slots = FEW;
    while (slots / 2 < object->size)
        slots *= 2;
    // Of each key the number of its node, from the object's, which is none; 0 is a free slot.
    uint32_t *table = kern_calloc(slots, sizeof *table);
    uint64_t seed[2];
    kern_siphash_key(seed);
    const struct kern_json_node *key = kern_json_first(object);
    for (uint32_t i = 0; i < object->size; i++, key = kern_json_next(key + 1)) {
        size_t slot = kern_siphash(seed, kern_json_chars(document, key), key->size) & (slots - 1);
        while (table[slot] && !same_key(document, object + table[slot], key))
            slot = (slot + 1) & (slots - 1);
        if (table[slot])
            mark(document, key);
        else
            table[slot] = (uint32_t)(key - object);
    }
    free(table);
}

void kern_json_mark_repeated(struct kern_json_document *document,
                             const struct kern_json_node *object)
{
    if (object->size <= FEW)
        compare_all(document, object);
    else
        hash_all(document, object);
}
