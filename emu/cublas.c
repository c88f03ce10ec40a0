// SPDX-License-Identifier: Apache-2.0
//
// cuBLAS: a handle with a stream and a workspace, and cublasGemmEx. The emulated GPU needs no
// workspace of its own, so whichever the caller gives is checked and kept, and not used.
#include "emu/cublas_common.h"

#include <limits.h>

#define WORKSPACE_ALIGNMENT ((uintptr_t)256)

struct cublas {
    struct emu_handle handle;
    CUstream stream;
};

static struct cublas *get(cublasHandle_t handle, cublasStatus_t *status)
{
    return emu_blas_handle(handle, EMU_CUBLAS, status);
}

cublasStatus_t cublasCreate(cublasHandle_t *handle)
{
    EMU_BLAS_ENTER(emu_blas_enter_gpu(__func__, EMU_UNSAFE_IN_CAPTURE));
    if (handle == NULL) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (!emu_gemm_load()) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    struct cublas *cublas = emu_handle_new(EMU_CUBLAS, sizeof *cublas, emu_context_current(), NULL);
    if (cublas == NULL) {
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    *handle = EMU_HANDLE(cublasHandle_t, cublas);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle)
{
    EMU_BLAS_ENTER(emu_blas_enter_gpu(__func__, EMU_IGNORE_STICKY));
    cublasStatus_t status;
    struct cublas *cublas = get(handle, &status);
    if (cublas == NULL) {
        return status;
    }
    emu_handle_free(cublas);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, CUstream stream)
{
    EMU_BLAS_ENTER(emu_blas_enter_gpu(__func__, EMU_PLAIN));
    cublasStatus_t status;
    struct cublas *cublas = get(handle, &status);
    if (cublas == NULL) {
        return status;
    }
    struct emu_handle *object = emu_handle_live(EMU_VALUE(stream), EMU_STREAM);
    bool legacy = stream == NULL || stream == CU_STREAM_LEGACY;
    if (!legacy && (object == NULL || object->context != cublas->handle.context)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    cublas->stream = stream;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void *workspace, size_t bytes)
{
    EMU_BLAS_ENTER(emu_blas_enter_gpu(__func__, EMU_PLAIN));
    cublasStatus_t status;
    struct cublas *cublas = get(handle, &status);
    if (cublas == NULL) {
        return status;
    }
    if ((uintptr_t)workspace % WORKSPACE_ALIGNMENT != 0 || (workspace == NULL && bytes != 0) ||
        !emu_memory_ok(cublas->handle.context->device, (uintptr_t)workspace, bytes, true)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode)
{
    EMU_BLAS_ENTER(emu_blas_enter_gpu(__func__, EMU_PLAIN));
    cublasStatus_t status;
    if (get(handle, &status) == NULL) {
        return status;
    }
    // Sums are f32 in every mode, so it need not be kept.
    switch ((int)mode & ~CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION) {
    case CUBLAS_DEFAULT_MATH:
    case CUBLAS_TENSOR_OP_MATH:
    case CUBLAS_PEDANTIC_MATH:
    case CUBLAS_TF32_TENSOR_OP_MATH:
        return CUBLAS_STATUS_SUCCESS;
    default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
}

static bool is_operation(cublasOperation_t operation)
{
    return operation == CUBLAS_OP_N || operation == CUBLAS_OP_T || operation == CUBLAS_OP_C;
}

static int at_least_1(int value)
{
    return value < 1 ? 1 : value;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa,
                            cublasOperation_t transb, int m, int n, int k, const void *alpha,
                            const void *a, cudaDataType a_type, int lda, const void *b,
                            cudaDataType b_type, int ldb, const void *beta, void *c,
                            cudaDataType c_type, int ldc, cublasComputeType_t compute,
                            cublasGemmAlgo_t algo)
{
    EMU_BLAS_ENTER(emu_blas_enter_gpu(__func__, EMU_PLAIN));
    cublasStatus_t status;
    struct cublas *cublas = get(handle, &status);
    if (cublas == NULL) {
        return status;
    }
    if (m < 0 || n < 0 || k < 0 || !is_operation(transa) || !is_operation(transb) ||
        lda < at_least_1(transa == CUBLAS_OP_N ? m : k) ||
        ldb < at_least_1(transb == CUBLAS_OP_N ? k : n) || ldc < at_least_1(m) || alpha == NULL ||
        beta == NULL) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (algo != CUBLAS_GEMM_DEFAULT && algo != CUBLAS_GEMM_DEFAULT_TENSOR_OP) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    struct emu_blas_types types = {a_type, c_type};
    if (transa != CUBLAS_OP_T || transb != CUBLAS_OP_N || b_type != a_type ||
        compute != CUBLAS_COMPUTE_32F || !emu_blas_computes(EMU_BLAS_GEMM_EX, types) ||
        *(const float *)alpha != 1 || *(const float *)beta != 0) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (m == 0 || n == 0) {
        return CUBLAS_STATUS_SUCCESS;
    }
    if (k == 0) { // an empty sum: a result of zeros that no caller asks for
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    const struct emu_gemm gemm = {
        .m = (size_t)n,
        .n = (size_t)m,
        .k = (size_t)k,
        .a = b,
        .lda = (size_t)ldb,
        .w = a,
        .ldw = (size_t)lda,
        .d = c,
        .ldd = (size_t)ldc,
        .operand = emu_blas_element(a_type),
        .result = emu_blas_element(c_type),
    };
    return emu_blas_submit(__func__, &gemm, cublas->stream);
}
