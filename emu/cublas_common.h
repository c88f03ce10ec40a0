// SPDX-License-Identifier: Apache-2.0
//
// What cuBLAS and cuBLASLt of the emulated GPU have in common. Which products they compute is the
// table in emu/cublas_common.c; every other one is CUBLAS_STATUS_NOT_SUPPORTED.
#ifndef KERN_EMU_CUBLAS_COMMON_H
#define KERN_EMU_CUBLAS_COMMON_H

#include "emu/gemm.h"
#include "emu/internal.h"
#include "emu/libraries.h"

enum emu_blas { EMU_BLAS_GEMM_EX, EMU_BLAS_LT };

// Column-major, as the libraries have it: D[m,n] = op(A)[m,k]·op(B)[k,n] + beta·C[m,n].
struct emu_blas_types {
    cudaDataType_t operand; // of A and B
    cudaDataType_t result;  // of C and D
};

// Whether [blas] computes the product with op(A) = Aᵀ and op(B) = B; [beta] is 0 or 1.
bool emu_blas_computes(enum emu_blas blas, struct emu_blas_types types);
bool emu_blas_adds(struct emu_blas_types types);

// Bytes of an element; 0 for a type that the libraries do not have.
size_t emu_blas_type_bytes(cudaDataType_t type);
enum emu_element emu_blas_element(cudaDataType_t type);

// A function that needs no GPU: only a fault may end it.
cublasStatus_t emu_blas_enter(const char *function);

// A function that needs one: see emu_ready for [flags].
cublasStatus_t emu_blas_enter_gpu(const char *function, unsigned flags);

// The object of a handle that a GPU's context owns, if that context is current.
void *emu_blas_handle(const void *handle, enum emu_kind kind, cublasStatus_t *status);

// Submits a product whose memory is checked here.
cublasStatus_t emu_blas_submit(const char *function, const struct emu_gemm *gemm, CUstream stream);

#define EMU_BLAS_ENTER(entered)                                                                    \
    do {                                                                                           \
        cublasStatus_t entered_ = (entered);                                                       \
        if (entered_ != CUBLAS_STATUS_SUCCESS) {                                                   \
            return entered_;                                                                       \
        }                                                                                          \
    } while (0)

#endif
