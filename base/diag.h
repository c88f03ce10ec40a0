// SPDX-License-Identifier: Apache-2.0
//
// What went wrong, where, and what would be right. A function that can fail takes a diag, adds one
// entry or more, and returns false or NULL; its callers only pass that on. Nothing is printed until
// somebody who knows the reader (the launcher, kern) prints the diag.
#ifndef KERN_BASE_DIAG_H
#define KERN_BASE_DIAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/exit.h"

struct kern_diag_entry {
    enum kern_exit code; // what the entry asks the process to exit with; KERN_EXIT_OK: a warning
    const char *rule;    // "V-SHAPE", or NULL where no rule of the contract is concerned
    const char *place;   // "buffers.a.shape[0]", "weights.safetensors", or NULL
    const char *text;    // what is wrong and what would be right, without a full stop
    uint64_t order;      // place in the document: entries are printed by it, then as they came
    int library_code;    // what a driver or library returned (its own numbers); 0: none did
};

// All zero is a valid empty diag. Places and texts live in the diag's own arena, and are tamed
// (kern_text_tame): what they quote from a file steers no terminal, and an entry is one line.
struct kern_diag {
    struct kern_diag_entry *entries;
    size_t count;
    size_t capacity;
    size_t errors; // entries that are not warnings
    struct kern_arena arena;
};

// Adds an error. [place] may be NULL.
void kern_error(struct kern_diag *diag, enum kern_exit code, const char *place, const char *format,
                ...) __attribute__((format(printf, 4, 5)));

// As kern_error for a broken rule of the contract (KERN_EXIT_MANIFEST) at [order] in the document.
void kern_error_rule(struct kern_diag *diag, const char *rule, uint64_t order, const char *place,
                     const char *format, ...) __attribute__((format(printf, 5, 6)));

// The same with the value false, so that `return kern_fail(…)` reads well. As macros, because then
// compilers and analyzers know the value, and that nothing is used that a failed call left unset.
#define kern_fail(...)                                                                             \
    ({                                                                                             \
        kern_error(__VA_ARGS__);                                                                   \
        false;                                                                                     \
    })
#define kern_fail_rule(...)                                                                        \
    ({                                                                                             \
        kern_error_rule(__VA_ARGS__);                                                              \
        false;                                                                                     \
    })

// Adds a warning: it is printed but changes no exit code. [rule] and [place] may be NULL.
void kern_warn(struct kern_diag *diag, const char *rule, uint64_t order, const char *place,
               const char *format, ...) __attribute__((format(printf, 5, 6)));

// The exit code that the entries ask for: the cause rather than its consequences, so a refused
// command line or manifest outranks a failed device, and a lost peer (which is what the others see
// of any failure) comes last. KERN_EXIT_OK if there are only warnings.
enum kern_exit kern_diag_code(const struct kern_diag *diag);

// Of two exit codes the one that says more about the cause.
enum kern_exit kern_exit_worse(enum kern_exit a, enum kern_exit b);

// Adds copies of [from]'s entries to [to].
void kern_diag_append(struct kern_diag *to, const struct kern_diag *from);

// Sorts the entries by their order in the document.
void kern_diag_sort(struct kern_diag *diag);

// One line for an entry, "error: PLACE: TEXT [RULE]"; the text lives in the diag's arena.
const char *kern_diag_line(struct kern_diag *diag, size_t index);

// Prints every entry on a line of its own, at most [limit] of them, then how many more there are.
void kern_diag_print(struct kern_diag *diag, FILE *file, size_t limit);

// Frees the entries; the diag is empty and usable again.
void kern_diag_clear(struct kern_diag *diag);

#endif
