// SPDX-License-Identifier: Apache-2.0
//
// The cuBLAS functions that this program calls, as in cuda_functions.h with the type returned in
// front: one X(RETURNED, NAME, SYMBOL, PARAMETERS) each.
#ifndef KERN_DEVICE_ABI_CUBLAS_FUNCTIONS_H
#define KERN_DEVICE_ABI_CUBLAS_FUNCTIONS_H

#include "device/abi/cublas.h"

// clang-format off
#define KERN_CUBLAS_FUNCTIONS(X) \
    X(cublasStatus_t, cublasCreate, "cublasCreate_v2", (cublasHandle_t *handle)) \
    X(cublasStatus_t, cublasDestroy, "cublasDestroy_v2", (cublasHandle_t handle)) \
    X(cublasStatus_t, cublasSetStream, "cublasSetStream_v2", \
      (cublasHandle_t handle, CUstream stream)) \
    X(cublasStatus_t, cublasSetWorkspace, "cublasSetWorkspace_v2", \
      (cublasHandle_t handle, void *workspace, size_t bytes)) \
    X(cublasStatus_t, cublasSetMathMode, "cublasSetMathMode", \
      (cublasHandle_t handle, cublasMath_t mode)) \
    X(cublasStatus_t, cublasGemmEx, "cublasGemmEx", \
      (cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, \
       int k, const void *alpha, const void *a, cudaDataType a_type, int lda, const void *b, \
       cudaDataType b_type, int ldb, const void *beta, void *c, cudaDataType c_type, int ldc, \
       cublasComputeType_t compute, cublasGemmAlgo_t algo))
// clang-format on

#endif
