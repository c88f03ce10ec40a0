// SPDX-License-Identifier: Apache-2.0
//
// The pieces of code in an artifact, each for one kind of device, as a driver chooses among them.
#ifndef KERN_RANK_CODES_H
#define KERN_RANK_CODES_H

#include "rank/layout.h"

enum rank_code_kind { RANK_CODE_CUBIN, RANK_CODE_PTX, RANK_CODE_HOST, RANK_CODE_OTHER };

struct rank_code {
    enum rank_code_kind kind;
    const uint8_t *bytes; // in the artifact
    size_t length;
    size_t target;      // index of it
    const char *closed; // NULL, or why nothing can be read of it: "compressed"
};

// More kinds of device than there are.
enum { RANK_TARGETS_MAX = 64 };

struct rank_codes {
    struct rank_code *items;
    size_t count, capacity;
    const char *targets[RANK_TARGETS_MAX]; // "sm_90", "compute_90" for PTX, "host half"
    size_t n_targets;
};

// Lists the code of an artifact's [length] bytes; [place] names it in a message, and texts live in
// [arena]. It is an error if there is none, or if something does not lie where a header says.
bool rank_codes_list(const uint8_t *bytes, size_t length, const char *place,
                     struct kern_arena *arena, struct rank_codes *codes, struct kern_diag *diag);
void rank_codes_free(struct rank_codes *codes);

// rank_layout_of_… of the code's kind.
enum rank_lookup rank_code_layout(const struct rank_code *code, const char *entry,
                                  struct rank_layout *layout, const char **why);

#endif
