// SPDX-License-Identifier: Apache-2.0
//
// V-CALL for built-ins: the operands that a call gives are large enough for the shape that it
// gives, with the vars at their max (strides against extents also with the vars at their least).
#include <inttypes.h>

#include "manifest/builtin.h"
#include "manifest/verify.h"

// What a call and a launch together give for one role.
struct operand {
    bool known;
    const struct kern_value *value; // NULL: the role is left out
    uint64_t low;                   // an integer at the corners; [high] of the rank: group members
    uint64_t high;
    uint64_t room; // of a pointer: bytes from it to the end of the memory
    bool forwarded;
    uint64_t arg; // forwarded: of the call
};

struct site {
    struct kern_verify *verify;
    const struct kern_call_at *at;
    const struct kern_builtin_info *info;
    struct operand operands[KERN_ROLES];
};

__attribute__((format(printf, 3, 4))) static bool fail(const struct site *site, enum kern_role role,
                                                       const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *text = kern_arena_vprint(&site->verify->arena, format, arguments);
    va_end(arguments);
    const struct operand *operand = &site->operands[role];
    struct kern_place arg = kern_place_numbered(site->at->place, "arg", operand->arg);
    return kern_place_fail(site->verify->diag, "V-CALL",
                           operand->forwarded ? operand->value->order : site->at->call->order,
                           operand->forwarded ? &arg : site->at->place, "%s of %s %s",
                           kern_role_name(role), site->info->name, text);
}

// Memory of another type than the built-in's is refused elsewhere, and its size means nothing here.
static void read_pointer(struct site *site, struct operand *operand, enum kern_role role)
{
    const struct kern_value *value = operand->value;
    enum kern_dtype dtype = KERN_U8;
    uint64_t bytes = 0;
    uint64_t offset = 0;
    if (value->ref.index == KERN_NONE)
        return;
    if (value->kind == KERN_VALUE_BUFFER) {
        dtype = site->verify->manifest->buffers[value->ref.index].dtype;
        bytes = site->verify->manifest->buffers[value->ref.index].bytes;
        offset = value->offset;
    } else if (value->kind == KERN_VALUE_SCRATCH) {
        dtype = site->at->op->scratch[value->ref.index].dtype;
        bytes = site->at->op->scratch[value->ref.index].bytes;
    }
    operand->known = offset < bytes && dtype == kern_role_dtype(site->info, role);
    operand->room = operand->known ? bytes - offset : 0;
}

static void read_integer(struct site *site, struct operand *operand, enum kern_role role)
{
    const struct kern_value *value = operand->value;
    const struct kern_verify *verify = site->verify;
    if (value->kind == KERN_VALUE_I32 || value->kind == KERN_VALUE_I64) {
        operand->known = value->integer >= 0;
        operand->low = operand->high = operand->known ? (uint64_t)value->integer : 0;
        if (!operand->known)
            fail(site, role, "is %" PRId64 "; it must not be negative", value->integer);
    } else if (value->kind == KERN_VALUE_EXPR) {
        operand->known = kern_expr_high_quiet(verify, value->expr, &operand->high);
        operand->low = operand->known ? kern_expr_low(verify, value->expr) : 0;
    } else if (value->kind == KERN_VALUE_VAR && value->ref.index != KERN_NONE) {
        operand->known = true;
        operand->low = verify->low[value->ref.index];
        operand->high = verify->high[value->ref.index];
    } else if (value->kind == KERN_VALUE_RANK && value->ref.index != KERN_NONE) {
        operand->known = role == KERN_ROLE_RANK;
        operand->high = verify->manifest->groups[value->ref.index].size;
    }
}

// Reads what the launch gives for each role; [launch] has as many args as params.
static void read_operands(struct site *site, const struct kern_launch *launch)
{
    for (size_t i = 0; i < launch->n_args; i++) {
        enum kern_role role = site->info->signature->roles[i];
        struct operand *operand = &site->operands[role];
        operand->value = &launch->args[i];
        if (operand->value->kind == KERN_VALUE_PARAM) {
            uint64_t param = operand->value->param;
            if (param >= site->at->op->n_params)
                continue;
            operand->forwarded = true;
            operand->arg = param;
            operand->value = &site->at->call->args[param];
        }
        if (role < KERN_ROLE_M)
            read_pointer(site, operand, role);
        else
            read_integer(site, operand, role);
    }
}

static bool is_known(const struct site *site, enum kern_role role)
{
    return site->operands[role].known;
}

// Says so if the operand [role] has fewer than [elements] of [dtype], or if their bytes overflow.
static void need(const struct site *site, enum kern_role role, enum kern_dtype dtype, bool overflow,
                 uint64_t elements)
{
    uint64_t bytes;
    if (!is_known(site, role))
        return;
    if (__builtin_mul_overflow(elements, kern_dtype_bytes(dtype), &bytes) || overflow)
        fail(site, role, "needs more than 64 bits of bytes with the vars at their max");
    else if (bytes > site->operands[role].room)
        fail(site, role,
             "needs %" PRIu64 " bytes with the vars at their max; there are %" PRIu64
             " past the offset",
             bytes, site->operands[role].room);
}

// As need, for a matrix of [rows] by [columns] elements whose rows lie [stride] apart.
static void need_matrix(const struct site *site, enum kern_role role, enum kern_dtype dtype,
                        uint64_t rows, uint64_t columns, uint64_t stride)
{
    uint64_t elements;
    bool overflow = __builtin_mul_overflow(rows - 1, stride, &elements);
    overflow = __builtin_add_overflow(elements, columns, &elements) || overflow;
    need(site, role, dtype, overflow, elements);
}

// The row stride of [role], [extent] elements if it is not given; false if it is not known or is
// shorter than a row at either corner.
static bool row_stride(const struct site *site, enum kern_role role, enum kern_role extent,
                       uint64_t *stride)
{
    const struct operand *given = &site->operands[role];
    const struct operand *row = &site->operands[extent];
    *stride = given->value ? given->high : row->high;
    if (!given->value)
        return true;
    if (!given->known)
        return false;
    bool at_least = given->low < row->low;
    if (at_least || given->high < row->high)
        return fail(site, role,
                    "is %" PRIu64 " with the vars at their %s; a row has %s = %" PRIu64 " elements",
                    at_least ? given->low : given->high, at_least ? "least" : "max",
                    kern_role_name(extent), at_least ? row->low : row->high);
    return true;
}

static void check_gemm(const struct site *site)
{
    const struct operand *operands = site->operands;
    const struct kern_builtin_info *info = site->info;
    if (!is_known(site, KERN_ROLE_M) || !is_known(site, KERN_ROLE_N) ||
        !is_known(site, KERN_ROLE_K))
        return;
    uint64_t m = operands[KERN_ROLE_M].high;
    uint64_t n = operands[KERN_ROLE_N].high;
    uint64_t k = operands[KERN_ROLE_K].high;
    uint64_t multiple = kern_builtin_k_multiple(info->builtin);
    if (k % multiple != 0 || operands[KERN_ROLE_K].low % multiple != 0) {
        fail(site, KERN_ROLE_K, "is %" PRIu64 "; it must be a multiple of %" PRIu64,
             k % multiple ? k : operands[KERN_ROLE_K].low, multiple);
        return;
    }
    uint64_t ldc;
    uint64_t lda;
    bool has_ldc = row_stride(site, KERN_ROLE_LDC, KERN_ROLE_N, &ldc);
    bool has_lda = row_stride(site, KERN_ROLE_LDA, KERN_ROLE_K, &lda);
    if (m == 0 || n == 0 || k == 0)
        return;
    if (has_lda)
        need_matrix(site, KERN_ROLE_A, info->operand, m, k, lda);
    need_matrix(site, KERN_ROLE_W, info->operand, n, k, k);
    if (has_ldc)
        need_matrix(site, KERN_ROLE_C, info->result, m, n, ldc);
    need(site, KERN_ROLE_A_SCALE, KERN_F32, false, 1);
    need(site, KERN_ROLE_W_SCALE, KERN_F32, false, 1);
}

static void check_collective(const struct site *site)
{
    enum kern_builtin which = site->info->builtin;
    if (!is_known(site, KERN_ROLE_COUNT))
        return;
    uint64_t count = site->operands[KERN_ROLE_COUNT].high;
    bool has_members = is_known(site, KERN_ROLE_RANK);
    uint64_t all;
    bool overflow = __builtin_mul_overflow(count, site->operands[KERN_ROLE_RANK].high, &all);
    if (which != KERN_BUILTIN_NCCL_REDUCESCATTER)
        need(site, KERN_ROLE_SEND, site->info->operand, false, count);
    else if (has_members)
        need(site, KERN_ROLE_SEND, site->info->operand, overflow, all);
    if (which != KERN_BUILTIN_NCCL_ALLGATHER)
        need(site, KERN_ROLE_RECV, site->info->operand, false, count);
    else if (has_members)
        need(site, KERN_ROLE_RECV, site->info->operand, overflow, all);
}

static void check_launch(struct kern_verify *verify, const struct kern_call_at *at,
                         const struct kern_launch *launch)
{
    const struct kern_builtin_info *info = kern_builtin_find(launch->entry);
    if (!info || launch->n_args != launch->n_params || launch->n_args < info->signature->required ||
        launch->n_args > info->signature->count || !kern_corners_enter(verify, launch))
        return;
    struct site site = {.verify = verify, .at = at, .info = info};
    read_operands(&site, launch);
    if (kern_builtin_is_collective(info->builtin))
        check_collective(&site);
    else
        check_gemm(&site);
    kern_corners_leave(verify, launch);
}

static void check_call(struct kern_verify *verify, const struct kern_call_at *at)
{
    if (!at->whole || !at->facts->has_extern)
        return;
    for (size_t i = 0; i < at->op->n_launches; i++)
        if (at->op->launches[i].is_extern)
            check_launch(verify, at, &at->op->launches[i]);
}

void kern_rules_operand(struct kern_verify *verify)
{
    kern_each_call(verify, check_call, NULL);
}
