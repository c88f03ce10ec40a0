// SPDX-License-Identifier: Apache-2.0
//
// Results of the matrix products against sums in double precision: odd shapes, strides, offsets,
// accumulation, scales, launched and as graphs. What lies between and behind the rows of C must
// stay as it was.
//
// The bound: each of the k products and sums in f32 is off by at most 2^-24 of what it adds, which
// is below the sum of the magnitudes; the result is rounded once, by half a unit of its last place
// (bf16 2^-9, f32 2^-24, relative). Twice that is allowed.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rank/element.h"
#include "tests/rank_gemm.h"

struct matrices {
    uint8_t *a, *w, *before, *after;
    size_t a_elements, w_elements, c_elements;
};

static double element(const struct product *p, const uint8_t *bytes, uint64_t index)
{
    return kern_element_real(p->operand, bytes, index);
}

// Values of three bits and a sign: exact in every type, so only sums and the result are rounded.
static uint8_t *make_values(enum kern_dtype dtype, size_t count, uint32_t seed)
{
    uint8_t *bytes = calloc(count, kern_dtype_bytes(dtype));
    assert_non_null(bytes);
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525 + 1013904223;
        kern_element_store(dtype, bytes, i, ((int)(seed >> 24) % 17 - 8) / 8.0);
    }
    return bytes;
}

static size_t elements_of(const struct rank_fixture *fixture, const char *name)
{
    const struct kern_buffer *buffer = &fixture->manifest->buffers[fixture_buffer(fixture, name)];
    return buffer->bytes / kern_dtype_bytes(buffer->dtype);
}

static void write_all(struct rank_fixture *fixture, const struct product *p, struct matrices *x)
{
    x->a_elements = elements_of(fixture, "a");
    x->w_elements = elements_of(fixture, "w");
    x->c_elements = elements_of(fixture, "c");
    x->a = make_values(p->operand, x->a_elements, 1);
    x->w = make_values(p->operand, x->w_elements, 2);
    x->before = make_values(p->result, x->c_elements, 3);
    x->after = calloc(x->c_elements, kern_dtype_bytes(p->result));
    fixture_write(fixture, "a", x->a, x->a_elements * kern_dtype_bytes(p->operand));
    fixture_write(fixture, "w", x->w, x->w_elements * kern_dtype_bytes(p->operand));
}

static void free_all(struct matrices *x)
{
    free(x->a);
    free(x->w);
    free(x->before);
    free(x->after);
}

static void run(struct rank_fixture *fixture, const struct product *p, struct matrices *x)
{
    size_t bytes = x->c_elements * kern_dtype_bytes(p->result);
    fixture_write(fixture, "c", x->before, bytes);
    fixture_run(fixture, "p");
    fixture_read(fixture, "c", x->after, bytes);
}

static void check_element(const struct product *p, const struct matrices *x, uint64_t i, uint64_t j,
                          double scale)
{
    double sum = 0, magnitude = 0;
    uint64_t at = p->c_at + i * product_ldc(p) + j;
    for (uint64_t l = 0; l < p->k; l++) {
        double term = scale * element(p, x->a, p->a_at + i * product_lda(p) + l) *
                      element(p, x->w, p->w_at + j * p->k + l);
        sum += term;
        magnitude += fabs(term);
    }
    if (p->accumulates) {
        sum += kern_element_real(p->result, x->before, at);
    }
    double rounding = p->result == KERN_BF16 ? 0x1p-9 : 0x1p-24;
    double bound = 2 * (rounding * fabs(sum) + (double)(p->k + 2) * 0x1p-24 * magnitude);
    double found = kern_element_real(p->result, x->after, at);
    if (!(fabs(found - sum) <= bound)) {
        fail_msg("%s m<=%d n=%d k=%d: C[%d,%d] is %.9g, not %.9g within %.3g", p->entry,
                 (int)p->m_max, (int)p->n, (int)p->k, (int)i, (int)j, found, sum, bound);
    }
}

// [m] rows are the product and everything else is what it was.
static void check(const struct product *p, const struct matrices *x, uint64_t m, double scale)
{
    size_t width = kern_dtype_bytes(p->result);
    for (size_t at = 0; at < x->c_elements; at++) {
        uint64_t i = (at - p->c_at) / product_ldc(p), j = (at - p->c_at) % product_ldc(p);
        if (at >= p->c_at && i < m && j < p->n) {
            check_element(p, x, i, j, scale);
        } else {
            assert_memory_equal(x->after + at * width, x->before + at * width, width);
        }
    }
}

static const struct product bf16_products[] = {
    {.entry = "cublaslt_bf16_tn", .m_max = 1, .n = 1, .k = 1},
    {.entry = "cublaslt_bf16_tn", .m_max = 64, .n = 96, .k = 128},
    {.entry = "cublaslt_bf16_tn", .m_max = 7, .n = 13, .k = 5},
    {.entry = "cublaslt_bf16_tn", .m_max = 33, .n = 24, .k = 40, .ldc = 64},
    {.entry = "cublaslt_bf16_tn", .m_max = 17, .n = 9, .k = 31, .ldc = 11, .lda = 37},
    {.entry = "cublaslt_bf16_tn",
     .m_max = 5,
     .n = 8,
     .k = 16,
     .ldc = 24,
     .lda = 48,
     .a_at = 16,
     .w_at = 64,
     .c_at = 8,
     .a_elements = 400,
     .w_elements = 300,
     .c_elements = 200},
    {.entry = "cublaslt_bf16_tn",
     .m_max = 4,
     .n = 3,
     .k = 7,
     .ldc = 5,
     .lda = 9,
     .a_at = 3,
     .w_at = 1,
     .c_at = 7,
     .a_elements = 50,
     .w_elements = 40,
     .c_elements = 40},
    {.entry = "cublaslt_bf16_tn_acc", .m_max = 9, .n = 16, .k = 64, .accumulates = true},
    {.entry = "cublaslt_bf16_tn_acc",
     .m_max = 6,
     .n = 11,
     .k = 19,
     .ldc = 13,
     .lda = 23,
     .accumulates = true},
};

static const struct product f32_products[] = {
    {.entry = "cublas_bf16_tn_f32", .m_max = 1, .n = 1, .k = 1},
    {.entry = "cublas_bf16_tn_f32", .m_max = 12, .n = 33, .k = 65},
    {.entry = "cublas_bf16_tn_f32",
     .m_max = 5,
     .n = 7,
     .k = 300,
     .ldc = 19,
     .c_at = 3,
     .c_elements = 120},
};

static const struct product fp8_products[] = {
    {.entry = "cublaslt_fp8_tn", .result = KERN_BF16, .m_max = 1, .n = 8, .k = 16},
    {.entry = "cublaslt_fp8_tn", .result = KERN_BF16, .m_max = 21, .n = 40, .k = 144},
    {.entry = "cublaslt_fp8_tn",
     .result = KERN_BF16,
     .m_max = 3,
     .n = 16,
     .k = 32,
     .ldc = 24,
     .a_at = 16,
     .w_at = 32,
     .c_at = 8,
     .c_elements = 100},
    {.entry = "cublaslt_fp8_tn_f32", .result = KERN_F32, .m_max = 10, .n = 20, .k = 48},
    {.entry = "cublaslt_fp8_tn_f32", .result = KERN_F32, .m_max = 2, .n = 12, .k = 16, .ldc = 16},
};

// Runs the product with every row, with one, and with about half of them.
static void run_product_with(const struct product *p, enum kern_graphs graphs)
{
    char *text = product_manifest(p);
    struct rank_fixture fixture = {.graphs = graphs};
    fixture_open(&fixture, text);
    free(text);
    struct matrices x;
    write_all(&fixture, p, &x);
    const float scales[] = {0.75f, -2.5f};
    bool scaled = p->operand == KERN_FP8E4M3;
    if (scaled) {
        fixture_write(&fixture, "a_scale", &scales[0], sizeof(float));
        fixture_write(&fixture, "w_scale", &scales[1], sizeof(float));
    }
    const uint64_t rows[] = {p->m_max, 1, (p->m_max + 1) / 2};
    for (size_t r = 0; r < sizeof(rows) / sizeof(*rows); r++) {
        fixture_set_var(&fixture, "m", rows[r]);
        run(&fixture, p, &x);
        check(p, &x, rows[r], scaled ? (double)scales[0] * scales[1] : 1);
    }
    free_all(&x);
    fixture_close(&fixture);
}

static void run_product(const struct product *p)
{
    run_product_with(p, KERN_GRAPHS_OFF);
    run_product_with(p, KERN_GRAPHS_ON);
}

static void bf16_products_are_right(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bf16_products) / sizeof(*bf16_products); i++) {
        struct product p = bf16_products[i];
        p.operand = p.result = KERN_BF16;
        run_product(&p);
    }
}

static void f32_results_are_right(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(f32_products) / sizeof(*f32_products); i++) {
        struct product p = f32_products[i];
        p.operand = KERN_BF16;
        p.result = KERN_F32;
        run_product(&p);
    }
}

static void fp8_products_are_right(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(fp8_products) / sizeof(*fp8_products); i++) {
        struct product p = fp8_products[i];
        p.operand = KERN_FP8E4M3;
        run_product(&p);
    }
}

// Scales are read on the device when the product runs.
static void scales_are_read_at_each_run(void **state)
{
    (void)state;
    const struct product p = {.entry = "cublaslt_fp8_tn_f32",
                              .operand = KERN_FP8E4M3,
                              .result = KERN_F32,
                              .m_max = 3,
                              .n = 4,
                              .k = 16};
    char *text = product_manifest(&p);
    struct rank_fixture fixture = {0};
    fixture_open(&fixture, text);
    free(text);
    struct matrices x;
    write_all(&fixture, &p, &x);
    fixture_set_var(&fixture, "m", 3);
    const float pairs[][2] = {{1, 1}, {2, 1}, {1, 0.5f}, {0, 1}};
    for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
        fixture_write(&fixture, "a_scale", &pairs[i][0], sizeof(float));
        fixture_write(&fixture, "w_scale", &pairs[i][1], sizeof(float));
        run(&fixture, &p, &x);
        check(&p, &x, 3, (double)pairs[i][0] * pairs[i][1]);
    }
    free_all(&x);
    fixture_close(&fixture);
}

// An extent of 0 does nothing, also where the result would be 0.
static void an_empty_product_leaves_c_alone(void **state)
{
    (void)state;
    const struct product p = {.entry = "cublaslt_bf16_tn",
                              .operand = KERN_BF16,
                              .result = KERN_BF16,
                              .m_max = 3,
                              .n = 4,
                              .k = 8,
                              .m = "{'expr': {'clamp': ['m', 1, 2]}}"};
    char *text = product_manifest(&p);
    struct rank_fixture fixture = {0};
    fixture_open(&fixture, text);
    free(text);
    struct matrices x;
    write_all(&fixture, &p, &x);
    for (uint64_t m = 1; m <= 3; m++) {
        fixture_set_var(&fixture, "m", m);
        run(&fixture, &p, &x);
        check(&p, &x, m - 1, 1);
    }
    free_all(&x);
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bf16_products_are_right),
        cmocka_unit_test(f32_results_are_right),
        cmocka_unit_test(fp8_products_are_right),
        cmocka_unit_test(scales_are_read_at_each_run),
        cmocka_unit_test(an_empty_product_leaves_c_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
