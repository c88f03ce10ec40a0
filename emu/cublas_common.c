// SPDX-License-Identifier: Apache-2.0
#include "emu/cublas_common.h"
#include "emu/work.h"

static const struct {
    enum emu_blas blas;
    struct emu_blas_types types;
    bool adds;
} computed[] = {
    {EMU_BLAS_LT, {CUDA_R_16BF, CUDA_R_16BF}, true},
    {EMU_BLAS_LT, {CUDA_R_8F_E4M3, CUDA_R_16BF}, false},
    {EMU_BLAS_LT, {CUDA_R_8F_E4M3, CUDA_R_32F}, false},
    {EMU_BLAS_GEMM_EX, {CUDA_R_16BF, CUDA_R_32F}, false},
};

bool emu_blas_computes(enum emu_blas blas, struct emu_blas_types types)
{
    for (size_t i = 0; i < sizeof computed / sizeof computed[0]; i++) {
        if (computed[i].blas == blas && computed[i].types.operand == types.operand &&
            computed[i].types.result == types.result) {
            return true;
        }
    }
    return false;
}

bool emu_blas_adds(struct emu_blas_types types)
{
    for (size_t i = 0; i < sizeof computed / sizeof computed[0]; i++) {
        if (computed[i].adds && computed[i].types.operand == types.operand &&
            computed[i].types.result == types.result) {
            return true;
        }
    }
    return false;
}

size_t emu_blas_type_bytes(cudaDataType_t type)
{
    switch (type) {
    case CUDA_R_64F:
        return 8;
    case CUDA_R_32F:
    case CUDA_R_32I:
        return 4;
    case CUDA_R_16F:
    case CUDA_R_16BF:
        return 2;
    case CUDA_R_8I:
    case CUDA_R_8U:
    case CUDA_R_8F_E4M3:
    case CUDA_R_8F_E5M2:
        return 1;
    default:
        return 0;
    }
}

enum emu_element emu_blas_element(cudaDataType_t type)
{
    return type == CUDA_R_16BF ? EMU_BF16 : type == CUDA_R_8F_E4M3 ? EMU_E4M3 : EMU_F32;
}

cublasStatus_t emu_blas_enter(const char *function)
{
    return (cublasStatus_t)emu_fault_next(function);
}

static cublasStatus_t status_of(CUresult result)
{
    switch (result) {
    case CUDA_SUCCESS:
        return CUBLAS_STATUS_SUCCESS;
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
        return CUBLAS_STATUS_NOT_INITIALIZED;
    case CUDA_ERROR_OUT_OF_MEMORY:
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: // what an allocation in a capture answers
        return CUBLAS_STATUS_ALLOC_FAILED;
    case CUDA_ERROR_INVALID_HANDLE:
        return CUBLAS_STATUS_INVALID_VALUE;
    default:
        return CUBLAS_STATUS_EXECUTION_FAILED;
    }
}

cublasStatus_t emu_blas_enter_gpu(const char *function, unsigned flags)
{
    cublasStatus_t status = status_of(emu_ready(EMU_NEEDS_CONTEXT | flags));
    return status == CUBLAS_STATUS_SUCCESS ? emu_blas_enter(function) : status;
}

void *emu_blas_handle(const void *handle, enum emu_kind kind, cublasStatus_t *status)
{
    struct emu_handle *object = emu_handle_live(EMU_VALUE(handle), kind);
    if (object == NULL) {
        *status = CUBLAS_STATUS_NOT_INITIALIZED;
        return NULL;
    }
    if (object->context != emu_context_current()) {
        *status = CUBLAS_STATUS_INVALID_VALUE;
        return NULL;
    }
    return object;
}

static CUresult check_stream(CUstream handle)
{
    CUresult result;
    struct emu_stream *stream = emu_stream_get(handle, &result);
    if (stream == NULL) {
        return result;
    }
    bool own = stream->handle.context == emu_context_current();
    emu_handle_put(stream);
    return own ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

cublasStatus_t emu_blas_submit(const char *function, const struct emu_gemm *gemm, CUstream stream)
{
    CUresult result = check_stream(stream);
    if (result != CUDA_SUCCESS) {
        return status_of(result);
    }
    if (!emu_gemm_check_memory(emu_context_current()->device, function, gemm)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    return status_of(emu_submit_call(stream, function, emu_gemm_run, gemm, sizeof *gemm));
}
