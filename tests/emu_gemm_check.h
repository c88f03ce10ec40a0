// SPDX-License-Identifier: Apache-2.0
//
// What the tests of matrix products of the emulated GPU have in common: matrices in device memory,
// which the test reads and writes where they lie, and a reference in float64. Row-major, as the
// runtime has them: C[m,n] = A[m,k]·W[n,k]ᵀ.
#ifndef KERN_TESTS_EMU_GEMM_CHECK_H
#define KERN_TESTS_EMU_GEMM_CHECK_H

#include "emu/libraries.h"
#include "tests/emu_check.h"

#include <math.h>
#include <stdbool.h>

#define BLAS_EXPECT(wanted, call)                                                                  \
    blas_expect((call), CUBLAS_STATUS_##wanted, #call, __FILE__, __LINE__)
#define BLAS_OK(call) BLAS_EXPECT(SUCCESS, call)

static inline void blas_expect(cublasStatus_t got, cublasStatus_t wanted, const char *call,
                               const char *file, int line)
{
    if (got != wanted) {
        fprintf(stderr, "%s:%d: %s: status %d instead of %d\n", file, line, call, (int)got,
                (int)wanted);
        _exit(1);
    }
}

static inline float bf16_to_float(uint16_t value)
{
    uint32_t bits = (uint32_t)value << 16;
    float result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

// For values that bf16 holds.
static inline uint16_t exact_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    CHECK((bits & 0xffff) == 0);
    return (uint16_t)(bits >> 16);
}

// By the definition of the format and not by a trick of bits.
static inline double e4m3_to_double(uint8_t value)
{
    int exponent = value >> 3 & 15, fraction = value & 7;
    double magnitude = exponent == 0 ? ldexp(fraction, -9) : ldexp(8 + fraction, exponent - 10);
    if ((value & 0x7f) == 0x7f) {
        magnitude = NAN;
    }
    return value & 0x80 ? -magnitude : magnitude;
}

static inline void *device_bytes(size_t bytes)
{
    CUdeviceptr p;
    OK(cuMemAlloc(&p, bytes));
    memset((void *)(uintptr_t)p, 0, bytes);
    return (void *)(uintptr_t)p;
}

static inline void device_free(void *p)
{
    OK(cuMemFree((uintptr_t)p));
}

static inline uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

// From -1 to 1, in steps of 1/128, so that bf16 holds them.
static inline uint16_t random_bf16(uint64_t *state)
{
    return exact_bf16((float)((int)(next_random(state) % 257) - 128) / 128);
}

static inline uint8_t random_e4m3(uint64_t *state)
{
    return (uint8_t)((next_random(state) & 0x80) | next_random(state) % 0x48); // up to 2
}

enum { KIND_BF16, KIND_E4M3, KIND_F32 };

static inline size_t kind_bytes(int kind)
{
    return kind == KIND_BF16 ? 2 : kind == KIND_E4M3 ? 1 : 4;
}

struct matrix {
    int kind;
    size_t rows, cols, stride;
    void *data;
};

static inline double matrix_at(const struct matrix *matrix, size_t row, size_t col)
{
    size_t i = row * matrix->stride + col;
    switch (matrix->kind) {
    case KIND_BF16:
        return bf16_to_float(((const uint16_t *)matrix->data)[i]);
    case KIND_E4M3:
        return e4m3_to_double(((const uint8_t *)matrix->data)[i]);
    default:
        return ((const float *)matrix->data)[i];
    }
}

// Exactly as large as its elements need, all bytes 0xff, which is NaN in every kind: what lies
// between the rows must not be read, and is checked not to be written.
static inline struct matrix matrix_new(int kind, size_t rows, size_t cols, size_t stride)
{
    size_t bytes = ((rows - 1) * stride + cols) * kind_bytes(kind);
    struct matrix matrix = {kind, rows, cols, stride, device_bytes(bytes)};
    memset(matrix.data, 0xff, bytes);
    return matrix;
}

static inline void matrix_fill(struct matrix *matrix, uint64_t *state)
{
    for (size_t row = 0; row < matrix->rows; row++) {
        for (size_t col = 0; col < matrix->cols; col++) {
            size_t i = row * matrix->stride + col;
            if (matrix->kind == KIND_BF16) {
                ((uint16_t *)matrix->data)[i] = random_bf16(state);
            } else if (matrix->kind == KIND_E4M3) {
                ((uint8_t *)matrix->data)[i] = random_e4m3(state);
            } else {
                ((float *)matrix->data)[i] = bf16_to_float(random_bf16(state));
            }
        }
    }
}

static inline void matrix_check_gaps(const struct matrix *matrix)
{
    const unsigned char *bytes = matrix->data;
    size_t width = kind_bytes(matrix->kind);
    for (size_t row = 0; row + 1 < matrix->rows; row++) {
        for (size_t i = (row * matrix->stride + matrix->cols) * width;
             i < (row + 1) * matrix->stride * width; i++) {
            CHECK(bytes[i] == 0xff);
        }
    }
}

// Each element of [d] against scale · A·Wᵀ + [c] (NULL: none; it is a copy if D was written over
// it). The bound: k + 3 roundings to f32 of partial sums, each at most of the sum of magnitudes,
// and one rounding, of half a unit in the last place, to the result's type.
static inline void matrix_check_product(const struct matrix *d, const struct matrix *a,
                                        const struct matrix *w, const struct matrix *c,
                                        double scale)
{
    size_t k = a->cols;
    for (size_t i = 0; i < d->rows; i++) {
        for (size_t j = 0; j < d->cols; j++) {
            double sum = 0, magnitude = 0;
            for (size_t l = 0; l < k; l++) {
                double term = matrix_at(a, i, l) * matrix_at(w, j, l) * scale;
                sum += term;
                magnitude += fabs(term);
            }
            double addend = c == NULL ? 0 : matrix_at(c, i, j);
            double wanted = sum + addend, got = matrix_at(d, i, j);
            double bound = (double)(k + 3) * 0x1p-24 * (magnitude + fabs(addend)) + 1e-30;
            bound += ldexp(1, ilogb(fabs(wanted) + bound) - (d->kind == KIND_BF16 ? 8 : 24));
            if (!(fabs(got - wanted) <= bound)) {
                fprintf(stderr, "m %zu n %zu k %zu: [%zu,%zu] is %.9g instead of %.9g +- %.3g\n",
                        d->rows, d->cols, k, i, j, got, wanted, bound);
                _exit(1);
            }
        }
    }
    matrix_check_gaps(d);
}

#endif
