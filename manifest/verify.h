// SPDX-License-Identifier: Apache-2.0
//
// What the files of the verification share. A verification resolves every reference (resolve.c),
// then runs the families of rules (rules_*.c) in the order of the table in verify.c. A family
// judges what the earlier ones left sound and skips the rest, so that one mistake gives one
// message.
#ifndef KERN_MANIFEST_VERIFY_H
#define KERN_MANIFEST_VERIFY_H

#include "manifest/manifest.h"
#include "manifest/place.h"

// The kinds of things that are referred to by name.
enum kern_space {
    KERN_SPACE_VAR,
    KERN_SPACE_GROUP,
    KERN_SPACE_STATE,
    KERN_SPACE_BUFFER,
    KERN_SPACE_MODULE,
    KERN_SPACE_OP,
    KERN_SPACES,
};

struct kern_named {
    const char *what; // "var"
    const struct kern_names *names;
    const void *items; // each begins with its name
    uint32_t count;
    size_t stride;
    bool *used;    // a flag per item: something counts as a use of it
    bool dangling; // a reference names none of them, so what is unused cannot be judged
};

// What the launches of an op ask of the argument that a call gives for a param.
struct kern_demand {
    uint64_t bytes;     // the furthest that a tensormap reaches past the pointer
    uint32_t alignment; // of the offset, for tensormaps; 0: none
    bool group;         // it names the group of a collective
};

// A field that takes a scalar param in fewer bytes than the param has.
struct kern_narrow {
    const struct kern_narrow *next;
    const struct kern_launch *launch;
    uint64_t param;
    uint32_t width;
};

struct kern_op_facts {
    bool has_extern;
    bool has_collective;
    struct kern_demand *demands; // one per param
    const struct kern_narrow *narrow;
};

struct kern_verify {
    struct kern_manifest *manifest;
    struct kern_diag *diag;
    struct kern_arena arena; // working memory, freed at the end
    // The corners: values of the vars, all at 1 and all at their max. Between kern_corners_enter
    // and _leave the var of a launch's `when` is clamped into the launch's range.
    uint64_t *low;
    uint64_t *high;
    struct kern_named named[KERN_SPACES];
    struct kern_op_facts *op_facts; // one per op
    unsigned suggestions;           // how many more may be searched for
};

// What a parse made is const for everybody but the verification, which fills in what it finds out.
// This is the one place where that is said.
static inline void *kern_rewrite(const void *parsed)
{
    return (void *)(uintptr_t)parsed;
}

// Resolves [ref], an absent one to nothing, and counts a use of what it names. An unknown name is
// an error of [rule] at [place].
bool kern_resolve_ref(struct kern_verify *verify, enum kern_space space, const struct kern_ref *ref,
                      const char *rule, uint64_t order, const struct kern_place *place);

// The end of a message about an unknown [name]: `; did you mean "NAME"?`, or "". The candidates are
// as for kern_suggest (manifest/suggest.h).
const char *kern_verify_near(struct kern_verify *verify, const char *name, const void *items,
                             size_t count, size_t stride);

// Clamps the corners to the range that [launch] runs in. False, and nothing to leave, where that
// range is empty or its `when` is broken: the launch is then not judged at corners.
bool kern_corners_enter(struct kern_verify *verify, const struct kern_launch *launch);
void kern_corners_leave(struct kern_verify *verify, const struct kern_launch *launch);

// The value of [expr] at the high corner. False for one that is broken, and for one that overflows,
// which is an error of V-EXPR at [place].
bool kern_expr_high(struct kern_verify *verify, const struct kern_expr *expr, uint64_t order,
                    const struct kern_place *place, uint64_t *value);

// The same without a word, where another check speaks of it.
bool kern_expr_high_quiet(const struct kern_verify *verify, const struct kern_expr *expr,
                          uint64_t *value);

// The value of [expr], which has one at the high corner, at the low corner.
uint64_t kern_expr_low(const struct kern_verify *verify, const struct kern_expr *expr);

// A launch or call on a walk through all of them, with what it belongs to.
struct kern_launch_at {
    const struct kern_op *op;
    struct kern_op_facts *facts;
    const struct kern_launch *launch;
    const struct kern_place *place;
};

struct kern_call_at {
    const struct kern_program *program;
    const struct kern_call *call;
    const struct kern_op *op; // NULL: the op is unknown
    const struct kern_op_facts *facts;
    bool whole; // the op is known and takes as many arguments
    const struct kern_place *place;
    void *data; // what the walk was given
};

void kern_each_launch(struct kern_verify *verify,
                      void (*visit)(struct kern_verify *verify, const struct kern_launch_at *at));
void kern_each_call(struct kern_verify *verify,
                    void (*visit)(struct kern_verify *verify, const struct kern_call_at *at),
                    void *data);

// The fields of the packs among the arguments of one launch.
void kern_each_field(struct kern_verify *verify, const struct kern_launch_at *at,
                     void (*visit)(struct kern_verify *verify, const struct kern_launch_at *at,
                                   const struct kern_field *field, const struct kern_place *place));

// Whether a value from [low] to [high] fits [width] bytes, signed or unsigned. A negative [low] is
// given as such; the high one is unsigned.
static inline bool kern_fits(int64_t low, uint64_t high, uint32_t width)
{
    if (width >= 8)
        return true;
    return high >> (8 * width) == 0 && low >= -(INT64_C(1) << (8 * width - 1));
}

// How many arguments of its own [launch] has. Those that it leaves to the op are all params, and
// one array of them serves all launches of the op: looking through it for each would take the
// square of the manifest's size.
static inline size_t kern_own_args(const struct kern_launch *launch)
{
    return launch->args_given ? launch->n_args : 0;
}

static inline bool kern_param_is_scalar(const struct kern_param *param)
{
    return param->kind <= KERN_PARAM_U8;
}

static inline bool kern_param_is_pointer(const struct kern_param *param)
{
    return param->kind == KERN_PARAM_BUFFER || param->kind == KERN_PARAM_STATE;
}

// "1 entry", "2 entries": the ending of a counted word.
static inline const char *kern_plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

// The families. Those that fill in what others use say so.
void kern_resolve(struct kern_verify *verify);           // every index; built-ins; widths of fields
void kern_rules_declaration(struct kern_verify *verify); // V-VAR V-MODULE V-TOPO V-CUT
void kern_rules_shape(struct kern_verify *verify);       // V-SHAPE; bytes of buffers and scratch
void kern_rules_state(struct kern_verify *verify);       // V-STATE V-SHARD
void kern_rules_bind(struct kern_verify *verify);        // V-BIND V-PLACE
void kern_rules_buffer(struct kern_verify *verify);      // V-EXPORT V-FILL V-PEER
void kern_rules_domain(struct kern_verify *verify);      // V-DOMAIN
void kern_rules_launch(struct kern_verify *verify);      // V-OP V-LAUNCH-KERNEL V-WHEN
void kern_rules_extern(struct kern_verify *verify);  // V-LAUNCH-EXTERN; facts, demands of groups
void kern_rules_args(struct kern_verify *verify);    // V-ARGS
void kern_rules_pack(struct kern_verify *verify);    // V-PACK; narrow fields
void kern_rules_tma(struct kern_verify *verify);     // V-TMA; demands of bytes and alignment
void kern_rules_program(struct kern_verify *verify); // V-PROGRAM
void kern_rules_call(struct kern_verify *verify);    // V-CALL, and what launches demand
void kern_rules_operand(struct kern_verify *verify); // V-CALL of built-ins
void kern_rules_reach(struct kern_verify *verify);   // V-SOURCE V-DERIVE V-EXTERN-PEER V-ONCE
void kern_rules_flow(struct kern_verify *verify);    // V-FLOW
void kern_rules_unused(struct kern_verify *verify);  // V-UNUSED, and V-TOPO of groups

#endif
