// SPDX-License-Identifier: Apache-2.0
//
// The cuBLASLt functions that this program calls, as in cublas_functions.h: one
// X(RETURNED, NAME, SYMBOL, PARAMETERS) each.
#ifndef KERN_DEVICE_ABI_CUBLASLT_FUNCTIONS_H
#define KERN_DEVICE_ABI_CUBLASLT_FUNCTIONS_H

#include "device/abi/cublaslt.h"

// clang-format off
#define KERN_CUBLASLT_FUNCTIONS(X) \
    X(size_t, cublasLtGetVersion, "cublasLtGetVersion", (void)) \
    X(cublasStatus_t, cublasLtCreate, "cublasLtCreate", (cublasLtHandle_t *handle)) \
    X(cublasStatus_t, cublasLtDestroy, "cublasLtDestroy", (cublasLtHandle_t handle)) \
    X(cublasStatus_t, cublasLtMatmul, "cublasLtMatmul", \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a, \
       cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout, \
       const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d, \
       cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo, void *workspace, \
       size_t workspace_bytes, CUstream stream)) \
    X(cublasStatus_t, cublasLtMatmulDescCreate, "cublasLtMatmulDescCreate", \
      (cublasLtMatmulDesc_t *desc, cublasComputeType_t compute, cudaDataType_t scale_type)) \
    X(cublasStatus_t, cublasLtMatmulDescDestroy, "cublasLtMatmulDescDestroy", \
      (cublasLtMatmulDesc_t desc)) \
    X(cublasStatus_t, cublasLtMatmulDescSetAttribute, "cublasLtMatmulDescSetAttribute", \
      (cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, const void *value, \
       size_t bytes)) \
    X(cublasStatus_t, cublasLtMatrixLayoutCreate, "cublasLtMatrixLayoutCreate", \
      (cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows, uint64_t cols, \
       int64_t ld)) \
    X(cublasStatus_t, cublasLtMatrixLayoutDestroy, "cublasLtMatrixLayoutDestroy", \
      (cublasLtMatrixLayout_t layout)) \
    X(cublasStatus_t, cublasLtMatrixLayoutSetAttribute, "cublasLtMatrixLayoutSetAttribute", \
      (cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, \
       const void *value, size_t bytes)) \
    X(cublasStatus_t, cublasLtMatmulPreferenceCreate, "cublasLtMatmulPreferenceCreate", \
      (cublasLtMatmulPreference_t *preference)) \
    X(cublasStatus_t, cublasLtMatmulPreferenceDestroy, "cublasLtMatmulPreferenceDestroy", \
      (cublasLtMatmulPreference_t preference)) \
    X(cublasStatus_t, cublasLtMatmulPreferenceSetAttribute, \
      "cublasLtMatmulPreferenceSetAttribute", \
      (cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, \
       const void *value, size_t bytes)) \
    X(cublasStatus_t, cublasLtMatmulAlgoGetHeuristic, "cublasLtMatmulAlgoGetHeuristic", \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a_layout, \
       cublasLtMatrixLayout_t b_layout, cublasLtMatrixLayout_t c_layout, \
       cublasLtMatrixLayout_t d_layout, cublasLtMatmulPreference_t preference, int n_requested, \
       cublasLtMatmulHeuristicResult_t *results, int *n_results)) \
    X(cublasStatus_t, cublasLtMatmulAlgoInit, "cublasLtMatmulAlgoInit", \
      (cublasLtHandle_t handle, cublasComputeType_t compute, cudaDataType_t scale_type, \
       cudaDataType_t a_type, cudaDataType_t b_type, cudaDataType_t c_type, \
       cudaDataType_t d_type, int id, cublasLtMatmulAlgo_t *algo)) \
    X(cublasStatus_t, cublasLtMatmulAlgoConfigSetAttribute, \
      "cublasLtMatmulAlgoConfigSetAttribute", \
      (cublasLtMatmulAlgo_t *algo, cublasLtMatmulAlgoConfigAttributes_t attribute, \
       const void *value, size_t bytes)) \
    X(cublasStatus_t, cublasLtMatmulAlgoCheck, "cublasLtMatmulAlgoCheck", \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a_layout, \
       cublasLtMatrixLayout_t b_layout, cublasLtMatrixLayout_t c_layout, \
       cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo, \
       cublasLtMatmulHeuristicResult_t *result))
// clang-format on

#endif
