// SPDX-License-Identifier: Apache-2.0
#include "manifest/builtin.h"

#include <string.h>

#include "manifest/suggest.h"

static const struct kern_signature gemm_lt = {
    .required = 6,
    .count = 8,
    .roles = {KERN_ROLE_A, KERN_ROLE_W, KERN_ROLE_C, KERN_ROLE_M, KERN_ROLE_N, KERN_ROLE_K,
              KERN_ROLE_LDC, KERN_ROLE_LDA},
};
static const struct kern_signature gemm_f32 = {
    .required = 6,
    .count = 7,
    .roles = {KERN_ROLE_A, KERN_ROLE_W, KERN_ROLE_C, KERN_ROLE_M, KERN_ROLE_N, KERN_ROLE_K,
              KERN_ROLE_LDC},
};
static const struct kern_signature gemm_fp8 = {
    .required = 8,
    .count = 9,
    .roles = {KERN_ROLE_A, KERN_ROLE_W, KERN_ROLE_C, KERN_ROLE_A_SCALE, KERN_ROLE_W_SCALE,
              KERN_ROLE_M, KERN_ROLE_N, KERN_ROLE_K, KERN_ROLE_LDC},
};
static const struct kern_signature collective = {
    .required = 4,
    .count = 4,
    .roles = {KERN_ROLE_SEND, KERN_ROLE_RECV, KERN_ROLE_COUNT, KERN_ROLE_RANK},
};

#define COLLECTIVE(text, which, dtype)                                                             \
    {                                                                                              \
        KERN_EXTERN_PREFIX "nccl_" text, KERN_BUILTIN_NCCL_##which, &collective, dtype, dtype,     \
            false, false                                                                           \
    }

// The names carry the prefix, so that a suggestion can be printed as it is.
static const struct kern_builtin_info builtins[] = {
    {"extern:cublaslt_bf16_tn", KERN_BUILTIN_CUBLASLT_BF16_TN, &gemm_lt, KERN_BF16, KERN_BF16,
     false, true},
    {"extern:cublaslt_bf16_tn_acc", KERN_BUILTIN_CUBLASLT_BF16_TN_ACC, &gemm_lt, KERN_BF16,
     KERN_BF16, true, true},
    {"extern:cublas_bf16_tn_f32", KERN_BUILTIN_CUBLAS_BF16_TN_F32, &gemm_f32, KERN_BF16, KERN_F32,
     false, false},
    {"extern:cublaslt_fp8_tn", KERN_BUILTIN_CUBLASLT_FP8_TN, &gemm_fp8, KERN_FP8E4M3, KERN_BF16,
     false, false},
    {"extern:cublaslt_fp8_tn_f32", KERN_BUILTIN_CUBLASLT_FP8_TN_F32, &gemm_fp8, KERN_FP8E4M3,
     KERN_F32, false, false},
    COLLECTIVE("allreduce_f32", ALLREDUCE, KERN_F32),
    COLLECTIVE("allreduce_bf16", ALLREDUCE, KERN_BF16),
    COLLECTIVE("allreduce_i32", ALLREDUCE, KERN_I32),
    COLLECTIVE("allreduce_u8", ALLREDUCE, KERN_U8),
    COLLECTIVE("allgather_f32", ALLGATHER, KERN_F32),
    COLLECTIVE("allgather_bf16", ALLGATHER, KERN_BF16),
    COLLECTIVE("allgather_i32", ALLGATHER, KERN_I32),
    COLLECTIVE("allgather_u8", ALLGATHER, KERN_U8),
    COLLECTIVE("reducescatter_f32", REDUCESCATTER, KERN_F32),
    COLLECTIVE("reducescatter_bf16", REDUCESCATTER, KERN_BF16),
    COLLECTIVE("reducescatter_i32", REDUCESCATTER, KERN_I32),
    COLLECTIVE("reducescatter_u8", REDUCESCATTER, KERN_U8),
};

const struct kern_builtin_info *kern_builtin_find(const char *entry)
{
    for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++)
        if (strcmp(builtins[i].name, entry) == 0)
            return &builtins[i];
    return NULL;
}

const char *kern_builtin_suggest(const char *entry)
{
    return kern_suggest(entry, builtins, sizeof builtins / sizeof *builtins, sizeof *builtins);
}

const char *kern_role_name(enum kern_role role)
{
    static const char *const names[KERN_ROLES] = {
        [KERN_ROLE_A] = "a",
        [KERN_ROLE_W] = "w",
        [KERN_ROLE_C] = "c",
        [KERN_ROLE_A_SCALE] = "a_scale",
        [KERN_ROLE_W_SCALE] = "w_scale",
        [KERN_ROLE_SEND] = "send",
        [KERN_ROLE_RECV] = "recv",
        [KERN_ROLE_M] = "m",
        [KERN_ROLE_N] = "n",
        [KERN_ROLE_K] = "k",
        [KERN_ROLE_LDC] = "ldc",
        [KERN_ROLE_LDA] = "lda",
        [KERN_ROLE_COUNT] = "count",
        [KERN_ROLE_RANK] = "rank",
    };
    return names[role];
}

enum kern_dtype kern_role_dtype(const struct kern_builtin_info *info, enum kern_role role)
{
    if (role == KERN_ROLE_A_SCALE || role == KERN_ROLE_W_SCALE)
        return KERN_F32;
    return role == KERN_ROLE_C || role == KERN_ROLE_RECV ? info->result : info->operand;
}

uint64_t kern_builtin_k_multiple(enum kern_builtin builtin)
{
    bool fp8 =
        builtin == KERN_BUILTIN_CUBLASLT_FP8_TN || builtin == KERN_BUILTIN_CUBLASLT_FP8_TN_F32;
    return fp8 ? 16 : 1;
}

bool kern_builtin_is_collective(enum kern_builtin builtin)
{
    return builtin == KERN_BUILTIN_NCCL_ALLREDUCE || builtin == KERN_BUILTIN_NCCL_ALLGATHER ||
           builtin == KERN_BUILTIN_NCCL_REDUCESCATTER;
}
