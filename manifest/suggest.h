// SPDX-License-Identifier: Apache-2.0
//
// What somebody who wrote an unknown name probably meant.
#ifndef KERN_MANIFEST_SUGGEST_H
#define KERN_MANIFEST_SUGGEST_H

#include <stddef.h>

#include "base/arena.h"

// The name that [name] is most probably a misspelling of, or NULL if none is near. The [count]
// candidates lie [stride] bytes apart from [items] on, and each begins with a pointer to its name:
// an array of strings is one, and so is an array of structs whose first member is the name.
const char *kern_suggest(const char *name, const void *items, size_t count, size_t stride);

// The end of a message about an unknown [name]: `; did you mean "NAME"?` in [arena], or "".
const char *kern_did_you_mean(struct kern_arena *arena, const char *name, const void *items,
                              size_t count, size_t stride);

#endif
