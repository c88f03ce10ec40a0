// SPDX-License-Identifier: Apache-2.0
//
// Matrix products C[m,n] = A[m,k] W[n,k]^T of row-major matrices. To the libraries, which think in
// columns, the same memory is C'[n,m] = W'^T A' with W' [k,n] and A' [k,m]: W is their A and is
// transposed, A is their B, rows and columns of C change places, and row strides are column
// strides.
#include "rank/builtin.h"

// What cuBLASLt asks of fp8 products: pointers and strides of 16 bytes (cuBLAS documentation,
// cublasLtMatmul, "FP8 data types").
#define FP8_ALIGNMENT 16

static const float one = 1, zero = 0;

static bool is_fp8(const struct rank_builtin *builtin)
{
    return builtin->info->operand == KERN_FP8E4M3;
}

cudaDataType_t rank_gemm_type(const struct rank_builtin *builtin, enum kern_role role)
{
    switch (kern_role_dtype(builtin->info, role)) {
    case KERN_BF16:
        return CUDA_R_16BF;
    case KERN_FP8E4M3:
        return CUDA_R_8F_E4M3;
    default:
        return CUDA_R_32F;
    }
}

uint32_t rank_gemm_alignment(const struct rank_builtin *builtin, enum kern_role role)
{
    uint64_t address = builtin->operands[role].value | 256;
    return (uint32_t)(address & -address);
}

static const char *operand_text(const struct rank_builtin *builtin, enum kern_role role,
                                uint64_t stride, struct kern_arena *arena)
{
    return kern_arena_print(
        arena, "%s %s with row stride %llu at 0x%llx (aligned to %u)", kern_role_name(role),
        kern_dtype_name(kern_role_dtype(builtin->info, role)), (unsigned long long)stride,
        (unsigned long long)builtin->operands[role].value, rank_gemm_alignment(builtin, role));
}

const char *rank_gemm_text(const struct rank_builtin *builtin, const struct rank_gemm_shape *shape,
                           struct kern_arena *arena)
{
    return kern_arena_print(arena, "m %llu, n %llu, k %llu; %s, %s, %s",
                            (unsigned long long)shape->m, (unsigned long long)shape->n,
                            (unsigned long long)shape->k,
                            operand_text(builtin, KERN_ROLE_A, shape->lda, arena),
                            operand_text(builtin, KERN_ROLE_W, shape->k, arena),
                            operand_text(builtin, KERN_ROLE_C, shape->ldc, arena));
}

static bool find_shape(const struct rank_builtin *builtin, const uint64_t *vars,
                       struct rank_gemm_shape *shape, struct kern_diag *diag)
{
    if (!rank_operand_value(builtin, KERN_ROLE_M, vars, &shape->m, diag) ||
        !rank_operand_value(builtin, KERN_ROLE_N, vars, &shape->n, diag) ||
        !rank_operand_value(builtin, KERN_ROLE_K, vars, &shape->k, diag) ||
        !rank_operand_value(builtin, KERN_ROLE_LDC, vars, &shape->ldc, diag) ||
        !rank_operand_value(builtin, KERN_ROLE_LDA, vars, &shape->lda, diag)) {
        return false;
    }
    shape->ldc = builtin->given[KERN_ROLE_LDC] ? shape->ldc : shape->n;
    shape->lda = builtin->given[KERN_ROLE_LDA] ? shape->lda : shape->k;
    return true;
}

static bool is_empty(const struct rank_gemm_shape *shape)
{
    return shape->m == 0 || shape->n == 0 || shape->k == 0;
}

static bool refuse(const struct rank_builtin *builtin, const struct rank_gemm_shape *shape,
                   const char *rule, struct kern_diag *diag)
{
    return kern_fail(diag, KERN_EXIT_MANIFEST, builtin->place, "%s: %s", rule,
                     rank_gemm_text(builtin, shape, &diag->arena));
}

// Whether the memory of [role] holds [rows] rows of [columns] elements that lie [stride] apart.
static bool check_matrix(const struct rank_builtin *builtin, enum kern_role role, uint64_t rows,
                         uint64_t columns, uint64_t stride, const struct rank_gemm_shape *shape,
                         struct kern_diag *diag)
{
    uint64_t elements;
    if (__builtin_mul_overflow(rows - 1, stride, &elements) ||
        __builtin_add_overflow(elements, columns, &elements)) {
        elements = UINT64_MAX;
    }
    return rank_operand_holds(builtin, role, elements) ||
           rank_operand_refuse(builtin, role, elements,
                               rank_gemm_text(builtin, shape, &diag->arena), diag);
}

static bool check_fp8(const struct rank_builtin *builtin, const struct rank_gemm_shape *shape,
                      struct kern_diag *diag)
{
    uint64_t result = kern_dtype_bytes(builtin->info->result);
    if (rank_gemm_alignment(builtin, KERN_ROLE_A) < FP8_ALIGNMENT ||
        rank_gemm_alignment(builtin, KERN_ROLE_W) < FP8_ALIGNMENT ||
        rank_gemm_alignment(builtin, KERN_ROLE_C) < FP8_ALIGNMENT) {
        return refuse(builtin, shape, "the matrices of an fp8 product lie at multiples of 16 bytes",
                      diag);
    }
    // The bytes of a row of at most 2^64 - 1 elements may wrap, and a multiple of 16 stays one.
    if (shape->ldc * result % FP8_ALIGNMENT != 0) {
        return refuse(builtin, shape, "rows of c of an fp8 product are multiples of 16 bytes apart",
                      diag);
    }
    for (enum kern_role role = KERN_ROLE_A_SCALE; role <= KERN_ROLE_W_SCALE; role++) {
        if (!rank_operand_holds(builtin, role, 1)) {
            return rank_operand_refuse(builtin, role, 1, "one scale", diag);
        }
    }
    return true;
}

// cublasGemmEx takes int.
static bool check_int(const struct rank_builtin *builtin, const struct rank_gemm_shape *shape,
                      struct kern_diag *diag)
{
    return (shape->m <= INT32_MAX && shape->n <= INT32_MAX && shape->k <= INT32_MAX &&
            shape->ldc <= INT32_MAX) ||
           refuse(builtin, shape, "m, n, k and ldc of this built-in are at most 2147483647", diag);
}

// Whether the operands are large enough for a [shape] that is not empty, and lie as the library
// wants them.
static bool check_shape(const struct rank_builtin *builtin, const struct rank_gemm_shape *shape,
                        struct kern_diag *diag)
{
    if (shape->k % kern_builtin_k_multiple(builtin->info->builtin) != 0) {
        return refuse(builtin, shape, "k of an fp8 product is a multiple of 16", diag);
    }
    if (shape->ldc < shape->n || shape->lda < shape->k) {
        return refuse(builtin, shape, "a row stride is shorter than a row", diag);
    }
    return check_matrix(builtin, KERN_ROLE_A, shape->m, shape->k, shape->lda, shape, diag) &&
           check_matrix(builtin, KERN_ROLE_W, shape->n, shape->k, shape->k, shape, diag) &&
           check_matrix(builtin, KERN_ROLE_C, shape->m, shape->n, shape->ldc, shape, diag) &&
           (!is_fp8(builtin) || check_fp8(builtin, shape, diag)) &&
           (builtin->gemm != NULL || check_int(builtin, shape, diag));
}

static bool visit_shape(struct kern_rank *rank, const struct rank_builtin *builtin,
                        const uint64_t *vars, struct kern_diag *diag)
{
    struct rank_gemm_shape shape;
    if (!find_shape(builtin, vars, &shape, diag)) {
        return false;
    }
    return is_empty(&shape) ||
           (check_shape(builtin, &shape, diag) &&
            (builtin->gemm == NULL || rank_gemm_plan(rank, builtin, &shape, diag) != NULL));
}

bool rank_gemm_compile(struct rank_call_site *site, const struct kern_launch *declared,
                       struct kern_diag *diag)
{
    struct rank_builtin *builtin = site->launch->builtin;
    if (!rank_blas_open(site->rank, builtin, diag) ||
        (declared->builtin != KERN_BUILTIN_CUBLAS_BF16_TN_F32 &&
         !rank_gemm_prepare(site->rank, builtin, declared->algo, diag))) {
        return false;
    }
    return rank_builtin_visit(site->rank, site->launch, declared->algo != NULL, visit_shape, diag);
}

static bool refused(const struct rank_builtin *builtin, const struct rank_gemm_shape *shape,
                    cublasStatus_t status, const char *function, struct kern_diag *diag)
{
    return kern_fail(diag, KERN_EXIT_DEVICE, builtin->place, "%s failed with %s (%d): %s", function,
                     kern_cublas_status_name(status), (int)status,
                     rank_gemm_text(builtin, shape, &diag->arena));
}

static bool launch_cublas(struct kern_rank *rank, const struct rank_builtin *builtin,
                          const struct rank_gemm_shape *shape, struct kern_diag *diag)
{
    cublasStatus_t status = rank->device->cublas.cublasGemmEx(
        rank->blas.cublas, CUBLAS_OP_T, CUBLAS_OP_N, (int)shape->n, (int)shape->m, (int)shape->k,
        &one, rank_operand_pointer(builtin, KERN_ROLE_W), CUDA_R_16BF, (int)shape->k,
        rank_operand_pointer(builtin, KERN_ROLE_A), CUDA_R_16BF, (int)shape->lda, &zero,
        rank_operand_pointer(builtin, KERN_ROLE_C), CUDA_R_32F, (int)shape->ldc, CUBLAS_COMPUTE_32F,
        CUBLAS_GEMM_DEFAULT);
    return status == CUBLAS_STATUS_SUCCESS || refused(builtin, shape, status, "cublasGemmEx", diag);
}

static bool launch_cublaslt(struct kern_rank *rank, const struct rank_builtin *builtin,
                            const struct rank_gemm_shape *shape, struct kern_diag *diag)
{
    const struct rank_gemm_plan *plan = rank_gemm_plan(rank, builtin, shape, diag);
    if (plan == NULL) {
        return false;
    }
    void *c = rank_operand_pointer(builtin, KERN_ROLE_C);
    cublasStatus_t status = rank->device->cublaslt.cublasLtMatmul(
        rank->blas.lt, builtin->gemm->desc, &one, rank_operand_pointer(builtin, KERN_ROLE_W),
        plan->w, rank_operand_pointer(builtin, KERN_ROLE_A), plan->a,
        builtin->info->accumulates ? &one : &zero, c, plan->c, c, plan->c, &plan->algo,
        (void *)(uintptr_t)rank->blas.workspace, KERN_GEMM_WORKSPACE, rank->stream);
    return status == CUBLAS_STATUS_SUCCESS ||
           refused(builtin, shape, status, "cublasLtMatmul", diag);
}

bool rank_gemm_launch(struct kern_rank *rank, const struct rank_builtin *builtin,
                      const uint64_t *vars, bool *issued, struct kern_diag *diag)
{
    struct rank_gemm_shape shape;
    if (!find_shape(builtin, vars, &shape, diag)) {
        return false;
    }
    if (is_empty(&shape)) {
        return true;
    }
    *issued = check_shape(builtin, &shape, diag) &&
              (builtin->gemm == NULL ? launch_cublas(rank, builtin, &shape, diag)
                                     : launch_cublaslt(rank, builtin, &shape, diag));
    return *issued;
}
