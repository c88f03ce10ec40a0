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

// A value that depends on vars: evaluated before each launch and stored in the low [width] bytes,
// 1 to 8 of them, at [to], which is a parameter or a field of a pack's image.
struct rank_store {
    const struct kern_expr *expr;
    void *to;
    uint32_t width;
};

enum rank_launch_kind { RANK_LAUNCH_KERNEL };

struct rank_launch {
    enum rank_launch_kind kind;
    const char *place;            // "programs.step.calls[2] (dispatch) launch 0 kern_ep_dispatch"
    const struct kern_when *when; // NULL: always
    struct rank_store *stores;
    size_t n_stores;

    // A kernel.
    CUfunction function;
    const struct kern_expr *grid[3];
    const struct kern_expr *shared; // NULL: none
    uint32_t block[3];
    uint32_t cluster[3]; // 1 1 1 without one
    CUlaunchAttribute attributes[2];
    unsigned int n_attributes;
    uint64_t shared_max; // what the function opted in to
    void **params;       // as cuLaunchKernelEx takes them
};

struct rank_program {
    const struct kern_program *declared;
    char *place; // "programs.step"
    struct rank_launch *launches;
    size_t n_launches;
    // Call i has the launches from call_first[i] up to call_first[i + 1]: n_calls + 1 of them.
    size_t *call_first;
    bool *reads_var;      // per var: a grid, parameter, field or `when` depends on it
    bool *touches_buffer; // per buffer: an argument of a call
    bool *writes_buffer;
    uint32_t *peers; // the peer buffers among those it touches
    size_t n_peers;
};

// An argument of a call, or what a launch makes of it: finished, or an expression.
struct rank_value {
    const struct kern_expr *expr; // NULL: finished
    uint64_t value;               // little-endian bit pattern
    uint64_t bytes_left;          // of a pointer: addressable bytes from it on
};

// What a launch is made from: the op as one call of a program binds it.
struct rank_call_site {
    struct kern_rank *rank;
    struct rank_program *program;
    const struct kern_op *op;
    const struct rank_value *args; // one per interface param
    const CUdeviceptr *scratch;    // one per scratch of the op
    struct rank_launch *launch;    // the launch being made
};

// compile.c: the value of a launch argument or pack field of any kind but pack and tensormap.
struct rank_value rank_value_of(struct rank_call_site *site, const struct kern_value *source);
// Puts [value] into the low [width] bytes at [to], now or, if it depends on vars, before each
// launch.
void rank_value_place(struct rank_call_site *site, const struct rank_value *value, void *to,
                      uint32_t width);

// pack.c: the image of a pack, in the rank's arena; NULL on failure.
void *rank_pack_image(struct rank_call_site *site, const struct kern_pack *pack,
                      struct kern_diag *diag);

// tensormap.c: encodes the descriptor of the memory that [value] points to into 128 bytes at [to].
bool rank_tensormap_encode(const struct kern_rank *rank, const struct kern_tensormap *tensormap,
                           const struct rank_value *value, const char *place, void *to,
                           struct kern_diag *diag);

#endif
