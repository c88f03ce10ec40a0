// SPDX-License-Identifier: Apache-2.0
//
// What the files of the cut share. A cut looks once at what the calls of the driven programs touch
// (cut_flow.c), asks whether the points are allowed (cut_refuse.c), and makes each stage
// (cut_stage.c): the calls that it needs of the programs that prepare (cut_slice.c), what those
// name (cut_uses.c), and how what crosses is declared.
#ifndef KERN_MANIFEST_CUT_PARTS_H
#define KERN_MANIFEST_CUT_PARTS_H

#include "manifest/flow.h"
#include "manifest/place.h"

// One argument of one call of a driven program that names memory.
struct kern_cut_access {
    struct kern_access access;
    uint32_t program;
    uint64_t call;
};

// The points from [from] to [to], all of which a buffer crosses: call [writer] of [program] wrote
// it before them, and call [to] needs that: it reads it, or completes an inout, before anything
// writes it whole.
struct kern_cut_span {
    uint32_t program;
    uint32_t buffer;
    uint64_t from;
    uint64_t to;
    uint64_t writer;
};

struct kern_cut_flow {
    const struct kern_manifest *manifest;
    uint64_t shortest;                // calls of the shortest driven program: points are below it
    uint64_t longest;                 // calls of the longest one; 0: no program is driven
    struct kern_cut_access *accesses; // by program, then in call order
    size_t n_accesses, accesses_capacity;
    struct kern_cut_span *spans; // one buffer's of one program do not overlap
    size_t n_spans, spans_capacity;
};

// [manifest] is verified and borrowed.
void kern_cut_flow_open(struct kern_cut_flow *flow, const struct kern_manifest *manifest);
void kern_cut_flow_close(struct kern_cut_flow *flow);

// How the driven calls of a stage touch a buffer.
enum { KERN_CUT_READS = 1, KERN_CUT_WRITES = 2 };

// The flow seen through a set of points.
struct kern_cut_points {
    const struct kern_cut_flow *flow;
    const uint64_t *points;
    size_t count;
    bool *crosses;    // [point * n_buffers + buffer]
    uint8_t *touches; // [stage * n_buffers + buffer], of the flags above
    struct kern_arena arena;
};

// [points] increase, none is 0, and all are below flow->shortest; both arguments are borrowed.
void kern_cut_points_open(struct kern_cut_points *cut, const struct kern_cut_flow *flow,
                          const uint64_t *points, size_t count);
void kern_cut_points_close(struct kern_cut_points *cut);

// The stage that runs call [call]: how many points are not above it.
size_t kern_cut_stage_of(const struct kern_cut_points *cut, uint64_t call);

bool kern_cut_arrives(const struct kern_cut_points *cut, size_t stage, uint32_t buffer);
bool kern_cut_leaves(const struct kern_cut_points *cut, size_t stage, uint32_t buffer);

// Whether [manifest] can be cut at all, wherever.
bool kern_cut_check_manifest(const struct kern_manifest *manifest, struct kern_diag *diag);

// Whether the points are ones, for a manifest that can be cut.
bool kern_cut_check_points(const struct kern_cut_flow *flow, const uint64_t *points, size_t count,
                           struct kern_diag *diag);

// Whether the dataflow allows the cut.
bool kern_cut_check_flow(const struct kern_cut_points *cut, struct kern_diag *diag);

// Fills [regions], which has room for every access, with those to states, sorted by state, offset
// and call; returns how many there are.
size_t kern_cut_regions(const struct kern_cut_flow *flow, struct kern_cut_access *regions);
bool kern_cut_same_region(const struct kern_cut_access *a, const struct kern_cut_access *b);

// The calls of each program that a stage keeps: keep[program][call].
bool **kern_cut_slice(const struct kern_cut_points *cut, size_t stage, struct kern_arena *arena);

// What the kept parts of a manifest name: a flag for each of its things.
struct kern_cut_uses {
    const struct kern_manifest *manifest;
    bool *vars, *states, *buffers, *modules, *ops, *programs;
    bool *written; // buffers that a kept call writes
};

void kern_cut_uses_open(struct kern_cut_uses *uses, const struct kern_manifest *manifest,
                        struct kern_arena *arena);
void kern_cut_use_call(struct kern_cut_uses *uses, const struct kern_call *call);
void kern_cut_use_batch(struct kern_cut_uses *uses, const struct kern_batch *batch);
void kern_cut_use_domain(struct kern_cut_uses *uses, const struct kern_domain *domain);

// The canonical text of stage [stage], which the caller frees; *[length] is without the NUL.
char *kern_cut_stage_text(const struct kern_cut_points *cut, size_t stage, const char *id,
                          size_t *length);

// Flags for the buffers that kern_manifest_weight_bytes counts.
bool *kern_cut_weights(const struct kern_manifest *manifest, struct kern_arena *arena);

#endif
