// SPDX-License-Identifier: Apache-2.0
//
// Places in a manifest, as `programs.decode.calls[3] (l0.attn) arg 1`. A place is a chain of steps
// from a thing up to the root; it is built on the stack on the way down and only turned into text
// when something is to be said about it.
#ifndef KERN_MANIFEST_PLACE_H
#define KERN_MANIFEST_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"

// The most bytes of a place's text, its NUL included; a longer one ends in an ellipsis.
#define KERN_PLACE_MAX 512

// After this many errors one more says that there are others, and the rest is dropped: a hostile
// manifest must not fill memory with complaints about itself.
#define KERN_MANIFEST_ERRORS_MAX 10000

// All zero is the root, which has no text.
struct kern_place {
    const struct kern_place *parent; // NULL: the root
    const char *name;                // a member: ".name"; NULL: an element
    const char *word;                // an element: " arg 1" if a word is given, else "[1]"
    uint64_t index;
    const char *label; // after it, in brackets; NULL: none
};

// The member [name] of [parent]; [parent] may be NULL, for a member of the root.
static inline struct kern_place kern_place_member(const struct kern_place *parent, const char *name)
{
    return (struct kern_place){.parent = parent, .name = name};
}

// The element [index] of [parent], "[3]".
static inline struct kern_place kern_place_element(const struct kern_place *parent, uint64_t index)
{
    return (struct kern_place){.parent = parent, .index = index};
}

// The numbered thing [index] of [parent], " arg 3". The words in use are "arg" for an argument of a
// call or launch and "field" for a field of a pack; both stand directly on their call, launch or
// pack, without an `args` or `fields` between.
static inline struct kern_place kern_place_numbered(const struct kern_place *parent,
                                                    const char *word, uint64_t index)
{
    return (struct kern_place){.parent = parent, .word = word, .index = index};
}

// Writes the text of [place] and returns [text]; "" for the root. Names that are long, or that
// would be misread, are shortened and quoted.
const char *kern_place_text(const struct kern_place *place, char text[KERN_PLACE_MAX]);

// Adds an error at [place] for [rule], as kern_error_rule does.
void kern_place_error(struct kern_diag *diag, const char *rule, uint64_t order,
                      const struct kern_place *place, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

// The same with the value false; see kern_fail.
#define kern_place_fail(...)                                                                       \
    ({                                                                                             \
        kern_place_error(__VA_ARGS__);                                                             \
        false;                                                                                     \
    })

// Adds a warning at [place], as kern_warn does.
void kern_place_warn(struct kern_diag *diag, const char *rule, uint64_t order,
                     const struct kern_place *place, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#endif
