// SPDX-License-Identifier: Apache-2.0
//
// What the tests of cuBLASLt of the emulated GPU have in common: a product as the runtime makes it.
#ifndef KERN_TESTS_EMU_CUBLASLT_PRODUCT_H
#define KERN_TESTS_EMU_CUBLASLT_PRODUCT_H

#include "tests/emu_gemm_check.h"

// W is the library's A, transposed, and A is its B.
struct product {
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t w, a, c, d;
};

// Statuses for tables.
#define INVALID CUBLAS_STATUS_INVALID_VALUE
#define UNSUPPORTED CUBLAS_STATUS_NOT_SUPPORTED

cublasLtMatrixLayout_t layout_new(const struct matrix *matrix);

void set_transposes(cublasLtMatmulDesc_t desc, int32_t transa, int32_t transb);

struct product product_new(const struct matrix *a, const struct matrix *w, const struct matrix *c,
                           const struct matrix *d);

void product_free(struct product *product);

// D = A·Wᵀ + beta·C, with the [algo] or, if it is NULL, the library's choice.
cublasStatus_t multiply(const struct product *product, const void *a, const void *w, float beta,
                        const void *c, void *d, const cublasLtMatmulAlgo_t *algo, CUstream stream);

CUstream stream_new(void);

// A sound product of bf16, 128 x 64 x 96, of these matrices, for cases to spoil.
extern struct matrix sound_a, sound_w, sound_d;

struct product sound_product(void);

cublasStatus_t check_sound(const struct product *product, const cublasLtMatmulAlgo_t *algo);

// The algorithm of this number for the product's types.
cublasLtMatmulAlgo_t algo_new(const struct product *product, int id);

#endif
