// SPDX-License-Identifier: Apache-2.0
//
// The part of cuBLAS that this program uses, under its published names, with the types that it
// shares with cuBLASLt. Values are those of cuBLAS 13.0 and hold for cuBLAS 12 as well.
#ifndef KERN_DEVICE_ABI_CUBLAS_H
#define KERN_DEVICE_ABI_CUBLAS_H

#include "device/abi/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

// X(NAME, VALUE) for every status that a cuBLAS or cuBLASLt function can return.
// clang-format off
#define KERN_CUBLAS_STATUSES(X) \
    X(CUBLAS_STATUS_SUCCESS, 0) \
    X(CUBLAS_STATUS_NOT_INITIALIZED, 1) \
    X(CUBLAS_STATUS_ALLOC_FAILED, 3) \
    X(CUBLAS_STATUS_INVALID_VALUE, 7) \
    X(CUBLAS_STATUS_ARCH_MISMATCH, 8) \
    X(CUBLAS_STATUS_MAPPING_ERROR, 11) \
    X(CUBLAS_STATUS_EXECUTION_FAILED, 13) \
    X(CUBLAS_STATUS_INTERNAL_ERROR, 14) \
    X(CUBLAS_STATUS_NOT_SUPPORTED, 15) \
    X(CUBLAS_STATUS_LICENSE_ERROR, 16)
// clang-format on

#define KERN_CUBLAS_STATUS_ENUMERATOR(name, value) name = value,
typedef enum { KERN_CUBLAS_STATUSES(KERN_CUBLAS_STATUS_ENUMERATOR) } cublasStatus_t;
#undef KERN_CUBLAS_STATUS_ENUMERATOR

typedef enum cudaDataType_t {
    CUDA_R_32F = 0,
    CUDA_R_64F = 1,
    CUDA_R_16F = 2,
    CUDA_R_8I = 3,
    CUDA_R_8U = 8,
    CUDA_R_32I = 10,
    CUDA_R_16BF = 14,
    CUDA_R_8F_E4M3 = 28,
    CUDA_R_8F_E5M2 = 29
} cudaDataType_t;
typedef cudaDataType_t cudaDataType;

typedef enum {
    CUBLAS_COMPUTE_16F = 64,
    CUBLAS_COMPUTE_32F = 68,
    CUBLAS_COMPUTE_32F_PEDANTIC = 69,
    CUBLAS_COMPUTE_64F = 70,
    CUBLAS_COMPUTE_32I = 72
} cublasComputeType_t;

typedef enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1, CUBLAS_OP_C = 2 } cublasOperation_t;

typedef enum {
    CUBLAS_DEFAULT_MATH = 0,
    CUBLAS_TENSOR_OP_MATH = 1,
    CUBLAS_PEDANTIC_MATH = 2,
    CUBLAS_TF32_TENSOR_OP_MATH = 3,
    CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16
} cublasMath_t;

// cuBLAS 12 and 13 choose the algorithm themselves: both values mean the same on today's devices.
typedef enum { CUBLAS_GEMM_DEFAULT = -1, CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99 } cublasGemmAlgo_t;

typedef enum { CUBLAS_POINTER_MODE_HOST = 0, CUBLAS_POINTER_MODE_DEVICE = 1 } cublasPointerMode_t;

typedef struct cublasContext *cublasHandle_t;

#ifdef __cplusplus
}
#endif
#endif
