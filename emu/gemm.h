// SPDX-License-Identifier: Apache-2.0
//
// Matrix products of the emulated GPU: D[m,n] = A[m,k]·W[n,k]ᵀ (+ C[m,n]), row-major, strides in
// elements. Operands are bf16 or e4m3 (widened to bf16, which holds every value of e4m3), sums are
// f32, and a result is rounded once, at its end. NaN and infinity propagate. Each product runs on
// the one thread that asks for it, so the same shape on the same CPU always gives the same bits.
#ifndef KERN_EMU_GEMM_H
#define KERN_EMU_GEMM_H

#include "emu/api.h"

#include <stdbool.h>
#include <stddef.h>

enum emu_element { EMU_BF16, EMU_E4M3, EMU_F32 };

struct emu_gemm {
    size_t m, n, k; // none of them 0
    const void *a;  // its strides are at least the width of a row, as all strides are
    size_t lda;
    const void *w;
    size_t ldw;
    const void *c; // of the result's type; NULL: nothing is added
    size_t ldc;
    void *d; // may be [c], with the same stride
    size_t ldd;
    enum emu_element operand;       // EMU_BF16 or EMU_E4M3
    enum emu_element result;        // EMU_BF16 or EMU_F32
    const float *a_scale, *w_scale; // one factor each, in device memory; NULL: 1
};

size_t emu_element_bytes(enum emu_element element);

// Loads oneDNN, once in the process. On failure says why on stderr and returns false.
bool emu_gemm_load(void);

// Whether [device] may touch every byte that the product will touch, and D overlaps neither A nor W
// nor, unless it is the same matrix, C. On failure says on stderr which operand of [function] is
// wrong.
bool emu_gemm_check_memory(int device, const char *function, const struct emu_gemm *gemm);

// Computes a struct emu_gemm, as an emu_call (work.h). After emu_gemm_load.
CUresult emu_gemm_run(const void *arguments);

#endif
