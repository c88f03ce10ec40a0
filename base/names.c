// SPDX-License-Identifier: Apache-2.0
#include "base/names.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/siphash.h"

struct kern_name_slot {
    const char *name; // NULL: free
    uint64_t hash;
    uint32_t index;
};

// The slot that holds the [length] bytes at [name], or the free one where they belong.
static struct kern_name_slot *find_slot(const struct kern_names *names, const char *name,
                                        size_t length, uint64_t hash)
{
    for (uint32_t i = (uint32_t)hash & names->mask;; i = (i + 1) & names->mask) {
        struct kern_name_slot *slot = &names->slots[i];
        if (!slot->name ||
            (slot->hash == hash && strncmp(slot->name, name, length) == 0 && !slot->name[length]))
            return slot;
    }
}

// The slot of [names] where [slot], which is none of them yet, belongs.
static struct kern_name_slot *free_slot(const struct kern_names *names,
                                        const struct kern_name_slot *slot)
{
    uint32_t i = (uint32_t)slot->hash & names->mask;
    while (names->slots[i].name)
        i = (i + 1) & names->mask;
    return &names->slots[i];
}

static void grow(struct kern_names *names)
{
    struct kern_names larger = *names;
    larger.mask = names->mask ? names->mask * 2 + 1 : 15;
    larger.slots = kern_calloc((size_t)larger.mask + 1, sizeof *larger.slots);
    for (uint32_t i = 0; names->slots && i <= names->mask; i++)
        if (names->slots[i].name)
            *free_slot(&larger, &names->slots[i]) = names->slots[i];
    free(names->slots);
    *names = larger;
}

uint32_t kern_names_add(struct kern_names *names, const char *name, uint32_t index)
{
    if (!names->slots)
        kern_siphash_key(names->key);
    if (names->count + 1 > names->mask / 4 * 3)
        grow(names);
    size_t length = strlen(name);
    uint64_t hash = kern_siphash(names->key, name, length);
    struct kern_name_slot *slot = find_slot(names, name, length, hash);
    if (slot->name)
        return slot->index;
    *slot = (struct kern_name_slot){name, hash, index};
    names->count++;
    return KERN_NONE;
}

uint32_t kern_names_find(const struct kern_names *names, const char *name)
{
    return kern_names_find_span(names, name, strlen(name));
}

uint32_t kern_names_find_span(const struct kern_names *names, const char *name, size_t length)
{
    if (!names->count)
        return KERN_NONE;
    const struct kern_name_slot *slot =
        find_slot(names, name, length, kern_siphash(names->key, name, length));
    return slot->name ? slot->index : KERN_NONE;
}

void kern_names_free(struct kern_names *names)
{
    free(names->slots);
    *names = (struct kern_names){0};
}
