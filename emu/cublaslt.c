// SPDX-License-Identifier: Apache-2.0
//
// cuBLASLt: handles, the heuristic, and the product itself.
#include "emu/cublaslt.h"

#define VERSION 130000
#define WORKSPACE_ALIGNMENT 16

static bool get(cublasLtHandle_t handle, cublasStatus_t *status)
{
    return emu_blas_handle(handle, EMU_CUBLASLT, status) != NULL;
}

size_t cublasLtGetVersion(void)
{
    return VERSION;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    EMU_BLAS_ENTER(emu_blas_enter_gpu(__func__, EMU_PLAIN));
    if (handle == NULL) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (!emu_gemm_load()) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    struct emu_handle *made =
        emu_handle_new(EMU_CUBLASLT, sizeof *made, emu_context_current(), NULL);
    if (made == NULL) {
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    *handle = EMU_HANDLE(cublasLtHandle_t, made);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    EMU_BLAS_ENTER(emu_blas_enter_gpu(__func__, EMU_IGNORE_STICKY));
    cublasStatus_t status;
    struct emu_handle *object = emu_blas_handle(handle, EMU_CUBLASLT, &status);
    if (object == NULL) {
        return status;
    }
    emu_handle_free(object);
    return CUBLAS_STATUS_SUCCESS;
}

static uint64_t least_alignment(const struct emu_matmul_preference *preference)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 4; i++) {
        if (preference->min_alignment[i] < least) {
            least = preference->min_alignment[i];
        }
    }
    return least;
}

cublasStatus_t
cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                               cublasLtMatrixLayout_t a_layout, cublasLtMatrixLayout_t b_layout,
                               cublasLtMatrixLayout_t c_layout, cublasLtMatrixLayout_t d_layout,
                               cublasLtMatmulPreference_t preference_handle, int n_requested,
                               cublasLtMatmulHeuristicResult_t *results, int *n_results)
{
    EMU_BLAS_ENTER(emu_blas_enter_gpu(__func__, EMU_PLAIN));
    cublasStatus_t status;
    if (!get(handle, &status)) {
        return status;
    }
    const struct emu_matmul_preference *preference =
        emu_handle_live(EMU_VALUE(preference_handle), EMU_MATMUL_PREFERENCE);
    if (preference == NULL || n_requested < 1 || results == NULL || n_results == NULL) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    *n_results = 0;
    struct emu_algo_limits limits = {
        .max_workspace_bytes = preference->max_workspace_bytes,
        .reduction_mask = preference->reduction_mask,
        .alignment = least_alignment(preference),
        .max_waves = preference->max_waves,
        .impl_mask = preference->impl_mask,
    };
    if (preference->search_mode == CUBLASLT_SEARCH_LIMITED_BY_ALGO_ID) {
        limits.only_id_of = &results[0].algo;
    } else if (preference->search_mode != CUBLASLT_SEARCH_BEST_FIT) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (limits.only_id_of != NULL && !emu_algo_is_one(limits.only_id_of)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    struct emu_matmul matmul;
    status = emu_matmul_describe(&matmul, desc, a_layout, b_layout, c_layout, d_layout);
    if (status != CUBLAS_STATUS_SUCCESS) {
        return status;
    }
    *n_results = emu_algo_search(&matmul, &limits, results, n_requested);
    return *n_results > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t
cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                        cublasLtMatrixLayout_t a_layout, cublasLtMatrixLayout_t b_layout,
                        cublasLtMatrixLayout_t c_layout, cublasLtMatrixLayout_t d_layout,
                        const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *result)
{
    EMU_BLAS_ENTER(emu_blas_enter_gpu(__func__, EMU_PLAIN));
    cublasStatus_t status;
    if (!get(handle, &status)) {
        return status;
    }
    if (algo == NULL || result == NULL) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    struct emu_matmul matmul;
    struct emu_algo_needs needs;
    status = emu_matmul_describe(&matmul, desc, a_layout, b_layout, c_layout, d_layout);
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = emu_algo_check(algo, &matmul, &needs);
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        *result = (cublasLtMatmulHeuristicResult_t){
            .algo = *algo,
            .workspaceSize = needs.workspace_bytes,
            .state = status,
            .wavesCount = needs.waves,
        };
    }
    return status;
}

// The largest power of two, up to 256, that the product's pointers are multiples of.
static uint64_t pointer_alignment(const struct emu_gemm *gemm)
{
    uint64_t bits =
        256 | (uintptr_t)gemm->a | (uintptr_t)gemm->w | (uintptr_t)gemm->c | (uintptr_t)gemm->d;
    return bits & -bits;
}

// What the algorithm of a product needs: the caller's, or the first that there is.
static cublasStatus_t choose(const struct emu_matmul *matmul, const cublasLtMatmulAlgo_t *algo,
                             size_t workspace_bytes, struct emu_algo_needs *needs)
{
    if (algo != NULL) {
        return emu_algo_check(algo, matmul, needs);
    }
    cublasLtMatmulHeuristicResult_t found;
    const struct emu_algo_limits limits = {
        .max_workspace_bytes = workspace_bytes,
        .reduction_mask = CUBLASLT_REDUCTION_SCHEME_MASK,
        .alignment = pointer_alignment(&matmul->gemm),
        .impl_mask = UINT64_MAX,
    };
    if (emu_algo_search(matmul, &limits, &found, 1) == 0) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    return emu_algo_check(&found.algo, matmul, needs);
}

static bool workspace_ok(const void *workspace, size_t bytes, size_t needed)
{
    return needed == 0 ||
           (bytes >= needed && workspace != NULL &&
            (uintptr_t)workspace % WORKSPACE_ALIGNMENT == 0 &&
            emu_memory_ok(emu_context_current()->device, (uintptr_t)workspace, bytes, true));
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspace_bytes, CUstream stream)
{
    EMU_BLAS_ENTER(emu_blas_enter_gpu(__func__, EMU_PLAIN));
    cublasStatus_t status;
    if (!get(handle, &status)) {
        return status;
    }
    struct emu_matmul matmul;
    status = emu_matmul_describe(&matmul, desc, a_layout, b_layout, c_layout, d_layout);
    if (status != CUBLAS_STATUS_SUCCESS) {
        return status;
    }
    if (alpha == NULL || beta == NULL || a == NULL || b == NULL || d == NULL) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    float factor = *(const float *)alpha, adds = *(const float *)beta;
    struct emu_gemm *gemm = &matmul.gemm;
    gemm->a = b;
    gemm->w = a;
    gemm->d = d;
    gemm->c = adds != 0 ? c : NULL;
    if ((adds != 0 && c == NULL) || (c == d && gemm->ldc != gemm->ldd)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (factor != 1 || (adds != 0 && (adds != 1 || !emu_blas_adds(matmul.types)))) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    struct emu_algo_needs needs;
    status = choose(&matmul, algo, workspace_bytes, &needs);
    if (status != CUBLAS_STATUS_SUCCESS) {
        return status;
    }
    if (pointer_alignment(gemm) < needs.alignment ||
        !workspace_ok(workspace, workspace_bytes, needs.workspace_bytes)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    return emu_blas_submit(__func__, gemm, stream);
}
