// SPDX-License-Identifier: Apache-2.0
//
// A compiled program: a flat list of launches whose parameters are finished values, save those that
// depend on vars. Compiling resolves every name and takes all the memory that a step needs.
#ifndef KERN_RANK_LAUNCH_LIST_H
#define KERN_RANK_LAUNCH_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/device.h"
#include "manifest/manifest.h"

// A value that depends on vars, once for many launches of a program that take it, evaluated when
// vars change. A parameter of a launch is the value itself, of which the driver takes the low
// bytes.
struct rank_slot {
    const struct kern_expr *expr;
    uint64_t value;
    bool overflows; // at these vars: the value is none
    bool changed;   // since the vars before
    struct rank_slot *next;
};

// Where a slot's value is stored when it changes: in the [width] bytes, 1 to 8 of them, of a field
// of a pack's image.
struct rank_store {
    const struct rank_slot *slot;
    void *to;
    uint32_t width;
};

// An extent of a grid or the bytes of shared memory: finished, or a slot's.
struct rank_extent {
    const struct rank_slot *slot; // NULL: finished
    uint64_t value;
};

// A value of a launch or an argument of a call: finished, or an expression.
struct rank_value {
    const struct kern_expr *expr; // NULL: finished
    uint64_t value;               // little-endian bit pattern
    uint64_t bytes_left;          // of a pointer: addressable bytes from it on
};

enum rank_launch_kind { RANK_LAUNCH_KERNEL, RANK_LAUNCH_BUILTIN };

struct rank_launch {
    enum rank_launch_kind kind;
    bool fixed;                   // of a kernel: nothing of it depends on vars
    bool fitted;                  // of one that is not: to the present values of its slots
    bool empty;                   // of a kernel: its grid is, at the vars that it is ready for
    bool skipped;                 // at those vars, by its grid or its when
    const struct kern_when *when; // NULL: always
    // Of a kernel: all that it depends on, each once; first those with which it has to be made
    // ready anew, then those that are just parameters.
    const struct rank_slot **slots;
    size_t n_fit_slots, n_slots;
    struct rank_builtin *builtin; // of a built-in (rank/builtin.h), else NULL

    // A kernel. What depends on vars is filled in when they change.
    CUfunction function;
    void **params; // as cuLaunchKernelEx takes them
    CUlaunchConfig config;
    struct rank_extent grid[3];
    struct rank_extent shared;
    uint32_t cluster[3]; // 1 1 1 without one
    uint64_t shared_max; // what the function opted in to

    struct rank_store *stores;
    size_t n_stores;
    const char *place; // "programs.step.calls[2] (dispatch) launch 0 kern_ep_dispatch"
};

struct rank_program {
    const struct kern_program *declared;
    char *place; // "programs.step"
    struct rank_launch *launches;
    size_t n_launches;
    struct rank_slot *slots; // the last one made first
    bool overflows;          // one of them does, at the vars that were evaluated last
    // Where the next launch made lists its slots: all lists lie one after the other, as they are
    // gone through.
    const struct rank_slot **next_slots;
    // Call i has the launches from call_first[i] up to call_first[i + 1]: n_calls + 1 of them.
    size_t *call_first;
    uint64_t *ready_for; // the vars that its launches are ready for, if they are for any
    bool ready;
    bool *reads_var;      // per var: a grid, parameter, field or `when` depends on it
    bool *touches_buffer; // per buffer: an argument of a call
    bool *writes_buffer;
    bool takes;     // something that arrives is an argument: there is one for every slot
    uint32_t *kept; // the outputs that it writes and every item copies out
    size_t n_kept;
    uint32_t *peers; // the peer buffers among those it touches
    size_t n_peers;
    bool *uses_communicator; // per group: a collective over it
};

// What a launch is made from: the op as one call of a program binds it.
struct rank_call_site {
    struct kern_rank *rank;
    struct rank_program *program;
    const struct kern_call *call;
    const struct kern_op *op;
    const struct rank_value *args; // one per interface param
    const CUdeviceptr *scratch;    // one per scratch of the op
    uint32_t slot;                 // of the arrivals
    struct rank_launch *launch;    // the launch being made
};

// compile.c: the value of a launch argument or pack field of any kind but pack and tensormap.
struct rank_value rank_value_of(struct rank_call_site *site, const struct kern_value *source);
// Puts [value] into the [width] bytes of a pack's field at [to], now or, if it depends on vars,
// when they change.
void rank_value_store(struct rank_call_site *site, const struct rank_value *value, void *to,
                      uint32_t width);

// slots.c: the slot of an expression over vars, on which the launch being made depends from now on.
struct rank_slot *rank_slot_take(struct rank_call_site *site, const struct kern_expr *expr);

// builtin.c: makes the launch of a built-in, with everything that a run of it needs.
bool rank_builtin_compile(struct rank_call_site *site, const struct kern_launch *declared,
                          struct kern_diag *diag);

// pack.c: the image of a pack, in the rank's arena; NULL on failure.
void *rank_pack_image(struct rank_call_site *site, const struct kern_pack *pack,
                      struct kern_diag *diag);

// tensormap.c: encodes the descriptor of the memory that [value] points to into 128 bytes at [to].
bool rank_tensormap_encode(const struct kern_rank *rank, const struct kern_tensormap *tensormap,
                           const struct rank_value *value, const char *place, void *to,
                           struct kern_diag *diag);

#endif
