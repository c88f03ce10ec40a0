// SPDX-License-Identifier: Apache-2.0
//
// V-OP, V-WHEN and V-LAUNCH-KERNEL: ops, and the geometry of kernel launches.
#include <inttypes.h>
#include <string.h>

#include "manifest/builtin.h"
#include "manifest/verify.h"

// Limits of CUDA ("CUDA C++ Programming Guide", technical specifications per compute capability);
// 227 KiB of dynamic shared memory is what a block may opt in to from 9.0 on, and clusters of more
// than 16 blocks exist nowhere.
enum {
    BLOCK_THREADS_MAX = 1024,
    BLOCK_Z_MAX = 64,
    SHARED_MEM_MAX = 232448,
    CLUSTER_MAX = 16,
};
static const uint64_t grid_max[3] = {INT32_MAX, UINT16_MAX, UINT16_MAX};
static const char axis_names[3] = {'x', 'y', 'z'};

static void check_ops(struct kern_verify *verify)
{
    const struct kern_manifest *manifest = verify->manifest;
    struct kern_place ops = kern_place_member(NULL, "ops");
    for (uint32_t i = 0; i < manifest->n_ops; i++) {
        const struct kern_op *op = &manifest->ops[i];
        struct kern_place place = kern_place_member(&ops, op->name);
        struct kern_place params = kern_place_member(&place, "params");
        struct kern_place impl = kern_place_member(&place, "impl");
        struct kern_place launches = kern_place_member(&impl, "launches");
        for (size_t j = 0; j < op->n_params; j++) {
            struct kern_place param = kern_place_element(&params, j);
            if (op->params[j].kind == KERN_PARAM_BYTES)
                kern_place_fail(verify->diag, "V-OP", op->order, &param,
                                "an interface has no bytes<%" PRIu32
                                ">; a launch packs such an image itself",
                                op->params[j].bytes);
        }
        if (op->n_launches == 0)
            kern_place_fail(verify->diag, "V-OP", op->order, &launches,
                            "the op launches nothing; it needs at least one launch");
    }
}

static void check_when(struct kern_verify *verify, const struct kern_launch_at *at)
{
    const struct kern_when *when = at->launch->when;
    struct kern_place place = kern_place_member(at->place, "when");
    if (when->has_min && when->has_max && when->min > when->max)
        kern_place_fail(verify->diag, "V-WHEN", at->launch->order, &place,
                        "min %" PRIu64 " is above max %" PRIu64 "; nothing is in the range",
                        when->min, when->max);
}

// Multiplies three extents, none of them 0; the product of 32-bit numbers is kept from overflowing
// by stopping at the first that is too large.
static uint64_t product(const uint32_t extents[3])
{
    uint64_t all = extents[0];
    for (size_t i = 1; i < 3 && all <= UINT32_MAX; i++)
        all *= extents[i];
    return all;
}

static bool has_zero(const uint32_t extents[3])
{
    return extents[0] == 0 || extents[1] == 0 || extents[2] == 0;
}

static void check_block(struct kern_verify *verify, const struct kern_launch_at *at)
{
    const uint32_t *block = at->launch->block;
    struct kern_place place = kern_place_member(at->place, "block");
    if (has_zero(block))
        kern_place_fail(verify->diag, "V-LAUNCH-KERNEL", at->launch->order, &place,
                        "a block of [%" PRIu32 ", %" PRIu32 ", %" PRIu32
                        "] has no threads; every extent must be at least 1",
                        block[0], block[1], block[2]);
    else if (product(block) > BLOCK_THREADS_MAX)
        kern_place_fail(verify->diag, "V-LAUNCH-KERNEL", at->launch->order, &place,
                        "a block of [%" PRIu32 ", %" PRIu32 ", %" PRIu32
                        "] has more than %d threads",
                        block[0], block[1], block[2], BLOCK_THREADS_MAX);
    else if (block[2] > BLOCK_Z_MAX)
        kern_place_fail(verify->diag, "V-LAUNCH-KERNEL", at->launch->order, &place,
                        "the block is %" PRIu32 " deep; z must be at most %d", block[2],
                        BLOCK_Z_MAX);
}

static bool has_clamp(const struct kern_expr *expr)
{
    return expr->kind == KERN_EXPR_CLAMP || (expr->a && has_clamp(expr->a)) ||
           (expr->b && has_clamp(expr->b));
}

// A grid of 0 at the low corner launches nothing there. A clamp says that this is meant (a later
// tile of a call with few rows); anything else is a mistake.
static bool check_grid_axis(struct kern_verify *verify, const struct kern_launch_at *at,
                            size_t axis, const struct kern_place *place, uint64_t corners[2])
{
    const struct kern_expr *expr = at->launch->grid[axis];
    if (!kern_expr_high(verify, expr, at->launch->order, place, &corners[1]))
        return false;
    corners[0] = kern_expr_low(verify, expr);
    if (corners[1] > grid_max[axis])
        return kern_place_fail(verify->diag, "V-LAUNCH-KERNEL", at->launch->order, place,
                               "the grid is %" PRIu64
                               " blocks with the vars at their max; %c must be at most %" PRIu64,
                               corners[1], axis_names[axis], grid_max[axis]);
    if (corners[0] == 0 && !has_clamp(expr))
        return kern_place_fail(verify->diag, "V-LAUNCH-KERNEL", at->launch->order, place,
                               "the grid is 0 blocks with the vars at their least; it must be at "
                               "least 1, or a clamp or a when say where it is nothing");
    return true;
}

static bool check_cluster(struct kern_verify *verify, const struct kern_launch_at *at)
{
    const uint32_t *cluster = at->launch->cluster;
    struct kern_place place = kern_place_member(at->place, "cluster");
    if (!at->launch->has_cluster)
        return false;
    if (has_zero(cluster))
        return kern_place_fail(verify->diag, "V-LAUNCH-KERNEL", at->launch->order, &place,
                               "a cluster of [%" PRIu32 ", %" PRIu32 ", %" PRIu32
                               "] has no blocks; every extent must be at least 1",
                               cluster[0], cluster[1], cluster[2]);
    if (product(cluster) > CLUSTER_MAX)
        return kern_place_fail(verify->diag, "V-LAUNCH-KERNEL", at->launch->order, &place,
                               "a cluster of [%" PRIu32 ", %" PRIu32 ", %" PRIu32
                               "] has more than %d blocks",
                               cluster[0], cluster[1], cluster[2], CLUSTER_MAX);
    return true;
}

static void check_grid(struct kern_verify *verify, const struct kern_launch_at *at)
{
    bool clustered = check_cluster(verify, at);
    struct kern_place grid = kern_place_member(at->place, "grid");
    for (size_t i = 0; i < 3; i++) {
        struct kern_place place = kern_place_element(&grid, i);
        uint64_t corners[2];
        if (!check_grid_axis(verify, at, i, &place, corners) || !clustered)
            continue;
        uint32_t cluster = at->launch->cluster[i];
        size_t corner = corners[0] % cluster ? 0 : 1;
        if (corners[corner] % cluster)
            kern_place_fail(verify->diag, "V-LAUNCH-KERNEL", at->launch->order, &place,
                            "the grid is %" PRIu64 " blocks with the vars at their %s; it must be "
                            "a multiple of the cluster's %" PRIu32,
                            corners[corner], corner ? "max" : "least", cluster);
    }
}

static void check_shared_mem(struct kern_verify *verify, const struct kern_launch_at *at)
{
    struct kern_place place = kern_place_member(at->place, "shared_mem");
    uint64_t bytes;
    if (at->launch->shared_mem &&
        kern_expr_high(verify, at->launch->shared_mem, at->launch->order, &place, &bytes) &&
        bytes > SHARED_MEM_MAX)
        kern_place_fail(verify->diag, "V-LAUNCH-KERNEL", at->launch->order, &place,
                        "%" PRIu64 " bytes of shared memory with the vars at their max; a block "
                        "has at most %d",
                        bytes, SHARED_MEM_MAX);
}

static void check_entry(struct kern_verify *verify, const struct kern_launch_at *at)
{
    const char *entry = at->launch->entry;
    struct kern_place place = kern_place_member(at->place, "entry");
    if (!*entry)
        kern_place_fail(verify->diag, "V-LAUNCH-KERNEL", at->launch->order, &place,
                        "the entry is empty; it names a kernel of the module");
    else if (strncmp(entry, KERN_EXTERN_PREFIX, strlen(KERN_EXTERN_PREFIX)) == 0)
        kern_place_fail(verify->diag, "V-LAUNCH-KERNEL", at->launch->order, &place,
                        "\"%s\" is a built-in and lies in no module; drop module, block and grid",
                        entry);
}

static void check_launch(struct kern_verify *verify, const struct kern_launch_at *at)
{
    if (at->launch->when)
        check_when(verify, at);
    if (at->launch->is_extern)
        return;
    check_entry(verify, at);
    check_block(verify, at);
    if (!kern_corners_enter(verify, at->launch))
        return;
    check_grid(verify, at);
    check_shared_mem(verify, at);
    kern_corners_leave(verify, at->launch);
}

void kern_rules_launch(struct kern_verify *verify)
{
    check_ops(verify);
    kern_each_launch(verify, check_launch);
}
