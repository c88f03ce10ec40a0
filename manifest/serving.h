// SPDX-License-Identifier: Apache-2.0
//
// What a serving loop sees of a manifest: which buffers it fills and reads, which programs step
// sequences, and in calls of what shape. A loop looks at no name of a buffer, var or program but
// through this. A manifest may well have nothing of the kind; nothing else needs it.
//
// A call of a forward covers b sequences and R rows of them together: the var of the rows axis is
// R, that of the groups axis is b, that of the ranks axis, if there is one, is the rows of all
// members of the rank group, and [context], if there is one, is the length of the longest of the
// sequences once its rows are in the state. Other vars are the caller's.
#ifndef KERN_MANIFEST_SERVING_H
#define KERN_MANIFEST_SERVING_H

#include "manifest/manifest.h"

// The rows of a forward whose row count is that of the call: the var of the rows axis.
#define KERN_ROWS_VAR 0

// The var of an axis and its max; an axis that the manifest does not have has var KERN_NONE, max 0.
struct kern_serving_axis {
    uint32_t var;
    uint64_t max;
};

// An i32 input [groups, pages]: row s holds the pages, of [tokens] token slots each, of the paged
// state that sequence s has.
struct kern_page_table {
    uint32_t buffer;
    uint32_t state;
    uint64_t pages;
    uint64_t tokens;
};

// An i32 input [lines, axis] or [lines, axis, width]: the lines, of [bytes] bytes each, of the
// per-sequence state that belong to each sequence. Line l of a sequence's slot is number
// slot * (bytes_per_seq / bytes) + l.
struct kern_line_table {
    uint32_t buffer;
    uint32_t state;
    uint64_t lines;
    uint64_t width;      // 1 where the shape has none
    enum kern_axis axis; // groups or ranks
    uint64_t bytes;
};

// A program with a batch: up to [groups] sequences of [rows] rows each.
struct kern_forward {
    uint32_t program;
    uint64_t groups;
    uint64_t rows;         // KERN_ROWS_VAR or exactly so many
    uint32_t tokens;       // the buffer with the tokens it produces, or KERN_NONE
    uint64_t tokens_width; // tokens per sequence in it
    uint32_t count;        // the buffer that says how many of them to take, or KERN_NONE: one
};

struct kern_serving {
    struct kern_serving_axis axes[KERN_AXIS_RANKS + 1]; // by enum kern_axis
    // The buffer of each role, or KERN_NONE. Tokens may be produced in several, see kern_forward;
    // those that are fed stand in [token], by their axis: a token per row (rows or ranks) or the
    // first of each sequence (groups).
    uint32_t fills[KERN_FILL_ERROR + 1];
    uint32_t token[KERN_AXIS_RANKS + 1];
    uint32_t context; // the var of the context's length, or KERN_NONE
    const struct kern_page_table *page_tables;
    const struct kern_line_table *line_tables;
    const struct kern_forward *forwards; // in byte-wise order of the programs' names
    size_t n_page_tables, n_line_tables, n_forwards;
    struct kern_arena arena;
};

// Whether some forward must produce tokens, or the loop samples them itself, as it does for all
// stages of a pipeline but the last.
enum kern_serving_mode { KERN_SERVING_SAMPLED, KERN_SERVING_UNSAMPLED };

// The mode for a stage of a pipeline, or for a whole manifest.
enum kern_serving_mode kern_serving_mode_of(const struct kern_manifest *manifest);

// Fills [serving] from a verified manifest. False, with every reason in [diag] under its rule (P1
// to P24, docs/kern.md), and [serving] empty, if there is no serving it.
bool kern_serving_project(const struct kern_manifest *manifest, enum kern_serving_mode mode,
                          struct kern_serving *serving, struct kern_diag *diag);

// The forward with the least bound that takes [groups] sequences of [rows] rows (KERN_ROWS_VAR: of
// as many as there are), or NULL.
const struct kern_forward *kern_serving_forward(const struct kern_serving *serving, uint64_t groups,
                                                uint64_t rows);

void kern_serving_free(struct kern_serving *serving);

#endif
