// SPDX-License-Identifier: Apache-2.0
//
// A product of bf16 that nothing is added to is oneDNN's in one piece. Every other one is computed
// in panels: operands are converted to what oneDNN multiplies on this CPU, the panel's product is
// left in f32, and scaled, added to and rounded into the result.
#include "emu/gemm.h"
#include "emu/bf16.h"
#include "emu/gemm_plan.h"
#include "emu/internal.h"

#include <stdio.h>

#define PANEL_ROWS ((size_t)512)
#define PANEL_BYTES ((size_t)32 << 20) // of one converted operand, more or less

size_t emu_element_bytes(enum emu_element element)
{
    static const size_t bytes[] = {[EMU_BF16] = 2, [EMU_E4M3] = 1, [EMU_F32] = 4};
    return bytes[element];
}

// Sign, 4 bits of exponent with bias 7, 3 of fraction; no infinities, and all ones is NaN. Without
// a branch, and without subnormal floats, which many processors are slow with.
static inline uint32_t float_bits_of_e4m3(uint8_t value)
{
    uint32_t sign = (uint32_t)(value & 0x80) << 24;
    uint32_t magnitude = value & 0x7f;
    uint32_t normal = (magnitude << 20) + ((127 - 7) << 23);
    uint32_t subnormal = emu_bits_of_float((float)(int32_t)magnitude * 0x1p-9f);
    uint32_t finite = magnitude < 8 ? subnormal : normal;
    return sign | (magnitude == 0x7f ? 0x7fc00000 : finite);
}

static void widen_e4m3_to_bf16(uint16_t *restrict to, const uint8_t *restrict from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[i] = (uint16_t)(float_bits_of_e4m3(from[i]) >> 16);
    }
}

static void widen_e4m3_to_f32(float *restrict to, const uint8_t *restrict from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[i] = emu_float_of_bits(float_bits_of_e4m3(from[i]));
    }
}

static void widen_bf16_to_f32(float *restrict to, const uint16_t *restrict from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[i] = emu_float_of_bf16(from[i]);
    }
}

// Some rows of an operand as oneDNN gets them.
struct operand {
    const void *data;
    size_t stride;
};

// Rows [first, first + rows) of the operand at [data], converted into scratch if they must be. NULL
// data: no memory left.
static struct operand prepare(const struct emu_gemm *gemm, enum emu_gemm_scratch scratch,
                              const void *data, size_t stride, size_t first, size_t rows)
{
    bool f32 = !emu_gemm_plan_has_bf16();
    size_t bytes = emu_element_bytes(gemm->operand);
    const char *from = (const char *)data + first * stride * bytes;
    if (gemm->operand == EMU_BF16 && !f32) {
        return (struct operand){from, stride};
    }
    size_t wide = emu_element_bytes(f32 ? EMU_F32 : EMU_BF16);
    char *to = emu_gemm_scratch(scratch, rows * gemm->k * wide);
    for (size_t row = 0; to != NULL && row < rows; row++) {
        const void *in = from + row * stride * bytes;
        void *out = to + row * gemm->k * wide;
        if (!f32) {
            widen_e4m3_to_bf16(out, in, gemm->k);
        } else if (gemm->operand == EMU_E4M3) {
            widen_e4m3_to_f32(out, in, gemm->k);
        } else {
            widen_bf16_to_f32(out, in, gemm->k);
        }
    }
    return (struct operand){to, gemm->k};
}

struct panel {
    size_t row, rows; // of D
    size_t col, cols;
};

// D = scale · sums (+ C) on a panel, each element rounded once if it is bf16.
static void finish(const struct emu_gemm *gemm, const struct panel *panel, const float *sums,
                   float scale)
{
    for (size_t i = 0; i < panel->rows; i++) {
        const float *sum = sums + i * panel->cols;
        size_t at_c = (panel->row + i) * gemm->ldc + panel->col;
        size_t at_d = (panel->row + i) * gemm->ldd + panel->col;
        if (gemm->result == EMU_F32) {
            const float *c = gemm->c;
            float *d = gemm->d;
            for (size_t j = 0; j < panel->cols; j++) {
                d[at_d + j] = scale * sum[j] + (c == NULL ? 0 : c[at_c + j]);
            }
        } else {
            const uint16_t *c = gemm->c;
            uint16_t *d = gemm->d;
            for (size_t j = 0; j < panel->cols; j++) {
                float addend = c == NULL ? 0 : emu_float_of_bf16(c[at_c + j]);
                d[at_d + j] = emu_bf16_of_float(scale * sum[j] + addend);
            }
        }
    }
}

static bool run_panel(const struct emu_gemm *gemm, const struct panel *panel, struct operand a,
                      float scale)
{
    struct operand w = prepare(gemm, EMU_SCRATCH_W, gemm->w, gemm->ldw, panel->col, panel->cols);
    float *sums = emu_gemm_scratch(EMU_SCRATCH_D, panel->rows * panel->cols * sizeof *sums);
    const struct emu_gemm_shape shape = {
        .m = panel->rows,
        .n = panel->cols,
        .k = gemm->k,
        .lda = a.stride,
        .ldw = w.stride,
        .ldd = panel->cols,
        .f32_operands = !emu_gemm_plan_has_bf16(),
    };
    if (w.data == NULL || sums == NULL || !emu_gemm_plan_run(&shape, a.data, w.data, sums)) {
        return false;
    }
    finish(gemm, panel, sums, scale);
    return true;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool run_panels(const struct emu_gemm *gemm)
{
    float scale =
        (gemm->a_scale == NULL ? 1 : *gemm->a_scale) * (gemm->w_scale == NULL ? 1 : *gemm->w_scale);
    size_t step = smaller(PANEL_ROWS, PANEL_BYTES / (gemm->k * sizeof(float)) + 1);
    for (size_t row = 0; row < gemm->m; row += step) {
        size_t rows = smaller(step, gemm->m - row);
        struct operand a = prepare(gemm, EMU_SCRATCH_A, gemm->a, gemm->lda, row, rows);
        if (a.data == NULL) {
            return false;
        }
        for (size_t col = 0; col < gemm->n; col += step) {
            const struct panel panel = {row, rows, col, smaller(step, gemm->n - col)};
            if (!run_panel(gemm, &panel, a, scale)) {
                return false;
            }
        }
    }
    return true;
}

CUresult emu_gemm_run(const void *arguments)
{
    const struct emu_gemm *gemm = arguments;
    bool whole = gemm->operand == EMU_BF16 && emu_gemm_plan_has_bf16() && gemm->c == NULL &&
                 gemm->a_scale == NULL && gemm->w_scale == NULL;
    if (!whole) {
        return run_panels(gemm) ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;
    }
    const struct emu_gemm_shape shape = {
        .m = gemm->m,
        .n = gemm->n,
        .k = gemm->k,
        .lda = gemm->lda,
        .ldw = gemm->ldw,
        .ldd = gemm->ldd,
        .bf16_result = gemm->result == EMU_BF16,
    };
    return emu_gemm_plan_run(&shape, gemm->a, gemm->w, gemm->d) ? CUDA_SUCCESS
                                                                : CUDA_ERROR_LAUNCH_FAILED;
}

bool emu_gemm_load(void)
{
    return emu_gemm_plan_load();
}

// A matrix as bytes: rows of [width], [pitch] apart, from [begin] to [end].
struct footprint {
    const char *name;
    uintptr_t begin, end;
    size_t width, pitch;
    bool write;
};

static bool measure(struct footprint *footprint, const void *data, size_t rows, size_t cols,
                    size_t stride, enum emu_element element)
{
    size_t bytes;
    footprint->begin = (uintptr_t)data;
    if (__builtin_mul_overflow(cols, emu_element_bytes(element), &footprint->width) ||
        __builtin_mul_overflow(stride, emu_element_bytes(element), &footprint->pitch) ||
        __builtin_mul_overflow(rows - 1, footprint->pitch, &bytes) ||
        __builtin_add_overflow(bytes, footprint->width, &bytes) ||
        __builtin_add_overflow(footprint->begin, bytes, &footprint->end)) {
        return false;
    }
    if (rows == 1) {
        footprint->pitch = footprint->width;
    }
    return true;
}

// Bands of one larger matrix lie between each other's rows. Matrices of different pitch that may do
// so get the benefit of the doubt.
static bool overlap(const struct footprint *x, const struct footprint *y)
{
    if (x->begin >= y->end || y->begin >= x->end) {
        return false;
    }
    if (x->pitch == x->width && y->pitch == y->width) {
        return true;
    }
    if (x->pitch != y->pitch) {
        return false;
    }
    size_t pitch = x->pitch;
    size_t shift = y->begin >= x->begin ? (y->begin - x->begin) % pitch
                                        : pitch - 1 - (x->begin - y->begin - 1) % pitch;
    return shift < x->width || shift + y->width > pitch;
}

static bool refuse(const char *function, const struct footprint *footprint, const char *why)
{
    fprintf(stderr, "kern-emu: %s: %s, [%#llx, %#llx), %s\n", function, footprint->name,
            (unsigned long long)footprint->begin, (unsigned long long)footprint->end, why);
    return false;
}

bool emu_gemm_check_memory(int device, const char *function, const struct emu_gemm *gemm)
{
    enum { D, A, W, C, A_SCALE, W_SCALE, FOOTPRINTS };
    struct footprint f[FOOTPRINTS] = {
        [D] = {.name = "the result", .write = true},
        [A] = {.name = "the operand with a row per row of the result"},
        [W] = {.name = "the operand with a row per column of the result"},
        [C] = {.name = "the addend"},
        [A_SCALE] = {.name = "the scale of the first of them"},
        [W_SCALE] = {.name = "the scale of the second of them"},
    };
    bool fits =
        measure(&f[D], gemm->d, gemm->m, gemm->n, gemm->ldd, gemm->result) &&
        measure(&f[A], gemm->a, gemm->m, gemm->k, gemm->lda, gemm->operand) &&
        measure(&f[W], gemm->w, gemm->n, gemm->k, gemm->ldw, gemm->operand) &&
        (gemm->c == NULL || measure(&f[C], gemm->c, gemm->m, gemm->n, gemm->ldc, gemm->result)) &&
        (gemm->a_scale == NULL || measure(&f[A_SCALE], gemm->a_scale, 1, 1, 1, EMU_F32)) &&
        (gemm->w_scale == NULL || measure(&f[W_SCALE], gemm->w_scale, 1, 1, 1, EMU_F32));
    if (!fits) {
        fprintf(stderr, "kern-emu: %s: a matrix is larger than the address space\n", function);
        return false;
    }
    for (int i = 0; i < FOOTPRINTS; i++) {
        if (!emu_memory_ok(device, f[i].begin, f[i].end - f[i].begin, f[i].write)) {
            return refuse(function, &f[i], "is not memory that the device may use so");
        }
        bool in_place = i == C && gemm->c == gemm->d && gemm->ldc == gemm->ldd;
        if (i != D && !in_place && overlap(&f[i], &f[D])) {
            return refuse(function, &f[i], "overlaps the result");
        }
    }
    return true;
}
