// SPDX-License-Identifier: Apache-2.0
//
// oneDNN's products, prepared once per shape and thread.
#ifndef KERN_EMU_GEMM_PLAN_H
#define KERN_EMU_GEMM_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// D[m,n] = A[m,k]·W[n,k]ᵀ as in emu/gemm.h, nothing added or scaled.
struct emu_gemm_shape {
    uint64_t m, n, k, lda, ldw, ldd;
    uint32_t f32_operands; // else bf16
    uint32_t bf16_result;  // else f32; with bf16 operands only
};

// Loads oneDNN, once in the process; see emu_gemm_load.
bool emu_gemm_plan_load(void);

// Whether oneDNN multiplies bf16 on this CPU. Where it does not, operands are widened to f32.
bool emu_gemm_plan_has_bf16(void);

// False if oneDNN fails, after a line on stderr.
bool emu_gemm_plan_run(const struct emu_gemm_shape *shape, const void *a, const void *w, void *d);

// Working memory of the calling thread, aligned for any vector, kept from call to call. NULL: none
// left.
enum emu_gemm_scratch { EMU_SCRATCH_A, EMU_SCRATCH_W, EMU_SCRATCH_D, EMU_SCRATCH_ONEDNN };
enum { EMU_SCRATCHES = EMU_SCRATCH_ONEDNN + 1 };
void *emu_gemm_scratch(enum emu_gemm_scratch which, size_t bytes);

#endif
