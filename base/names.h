// SPDX-License-Identifier: Apache-2.0
//
// A set of names with the index of each, looked up by hash. Names are compared byte for byte. The
// hash is keyed at random, so that nobody can write names that all fall into one slot.
#ifndef KERN_BASE_NAMES_H
#define KERN_BASE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KERN_NONE UINT32_MAX

struct kern_name_slot;

// All zero is a valid empty set. Names are borrowed and must outlive it.
struct kern_names {
    struct kern_name_slot *slots;
    uint32_t mask;
    uint32_t count;
    uint64_t key[2];
};

// Gives [name] the index [index]. Returns KERN_NONE, or the index that the name has already, which
// then stays as it was.
uint32_t kern_names_add(struct kern_names *names, const char *name, uint32_t index);

// The index of [name], or KERN_NONE.
uint32_t kern_names_find(const struct kern_names *names, const char *name);

// As kern_names_find for the [length] bytes at [name], none of which is a NUL.
uint32_t kern_names_find_span(const struct kern_names *names, const char *name, size_t length);

void kern_names_free(struct kern_names *names);

#endif
