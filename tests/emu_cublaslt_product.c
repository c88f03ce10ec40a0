// SPDX-License-Identifier: Apache-2.0
#include "tests/emu_cublaslt_product.h"

static cudaDataType type_of(int kind)
{
    return kind == KIND_BF16 ? CUDA_R_16BF : kind == KIND_E4M3 ? CUDA_R_8F_E4M3 : CUDA_R_32F;
}

cublasLtMatrixLayout_t layout_new(const struct matrix *matrix)
{
    cublasLtMatrixLayout_t layout;
    BLAS_OK(cublasLtMatrixLayoutCreate(&layout, type_of(matrix->kind), matrix->cols, matrix->rows,
                                       (int64_t)matrix->stride));
    return layout;
}

void set_transposes(cublasLtMatmulDesc_t desc, int32_t transa, int32_t transb)
{
    BLAS_OK(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &transa, 4));
    BLAS_OK(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSB, &transb, 4));
}

struct product product_new(const struct matrix *a, const struct matrix *w, const struct matrix *c,
                           const struct matrix *d)
{
    struct product product = {
        .w = layout_new(w), .a = layout_new(a), .c = layout_new(c), .d = layout_new(d)};
    BLAS_OK(cublasLtCreate(&product.handle));
    BLAS_OK(cublasLtMatmulDescCreate(&product.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set_transposes(product.desc, CUBLAS_OP_T, CUBLAS_OP_N);
    return product;
}

void product_free(struct product *product)
{
    BLAS_OK(cublasLtMatrixLayoutDestroy(product->w));
    BLAS_OK(cublasLtMatrixLayoutDestroy(product->a));
    BLAS_OK(cublasLtMatrixLayoutDestroy(product->c));
    BLAS_OK(cublasLtMatrixLayoutDestroy(product->d));
    BLAS_OK(cublasLtMatmulDescDestroy(product->desc));
    BLAS_OK(cublasLtDestroy(product->handle));
}

cublasStatus_t multiply(const struct product *product, const void *a, const void *w, float beta,
                        const void *c, void *d, const cublasLtMatmulAlgo_t *algo, CUstream stream)
{
    const float one = 1;
    return cublasLtMatmul(product->handle, product->desc, &one, w, product->w, a, product->a, &beta,
                          c, product->c, d, product->d, algo, NULL, 0, stream);
}

CUstream stream_new(void)
{
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

struct matrix sound_a, sound_w, sound_d;

struct product sound_product(void)
{
    sound_a = matrix_new(KIND_BF16, 64, 96, 96);
    sound_w = matrix_new(KIND_BF16, 128, 96, 96);
    sound_d = matrix_new(KIND_BF16, 64, 128, 128);
    return product_new(&sound_a, &sound_w, &sound_d, &sound_d);
}

cublasStatus_t check_sound(const struct product *product, const cublasLtMatmulAlgo_t *algo)
{
    return multiply(product, sound_a.data, sound_w.data, 0, sound_d.data, sound_d.data, algo, NULL);
}

cublasLtMatmulAlgo_t algo_new(const struct product *product, int id)
{
    cublasLtMatmulAlgo_t algo;
    BLAS_OK(cublasLtMatmulAlgoInit(product->handle, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF,
                                   CUDA_R_16BF, CUDA_R_16BF, CUDA_R_16BF, id, &algo));
    return algo;
}
