// SPDX-License-Identifier: Apache-2.0
//
// cuBLASLt of the emulated GPU: results against float64, in the order of the stream.
#include "tests/emu_cublaslt_product.h"

struct shape {
    size_t m, n, k, lda, ldw, ldd;
};

static const struct shape shapes[] = {
    {1, 1, 1, 1, 1, 1},
    {1, 1, 1, 3, 2, 5},
    {1, 64, 64, 64, 64, 64},
    {1, 512, 333, 333, 333, 512},
    {64, 1, 64, 64, 64, 1},
    {33, 1, 1, 1, 1, 1},
    {5, 1, 7, 9, 8, 3},
    {7, 9, 1, 4, 3, 11},
    {2, 3, 5, 5, 5, 3},
    {17, 31, 63, 70, 65, 40},
    {64, 96, 128, 128, 128, 96},
    {129, 65, 257, 257, 300, 65},
    {16, 16, 4096, 4096, 4096, 16},
    {3, 520, 72, 72, 80, 528},
    {530, 20, 40, 48, 40, 24},
};

static void check_bf16(const struct shape *s, bool adds, bool in_place, CUstream stream)
{
    uint64_t random = s->m * 31 + s->n * 7 + s->k;
    struct matrix a = matrix_new(KIND_BF16, s->m, s->k, s->lda);
    struct matrix w = matrix_new(KIND_BF16, s->n, s->k, s->ldw);
    struct matrix c = matrix_new(KIND_BF16, s->m, s->n, in_place ? s->ldd : s->ldd + 3);
    struct matrix d = in_place ? c : matrix_new(KIND_BF16, s->m, s->n, s->ldd);
    matrix_fill(&a, &random);
    matrix_fill(&w, &random);
    if (adds) { // else what it holds is NaN and must not matter
        matrix_fill(&c, &random);
    }
    size_t bytes = ((s->m - 1) * c.stride + s->n) * 2;
    struct matrix before = c;
    before.data = malloc(bytes);
    memcpy(before.data, c.data, bytes);

    struct product product = product_new(&a, &w, &c, &d);
    BLAS_OK(multiply(&product, a.data, w.data, adds, c.data, d.data, NULL, stream));
    product_free(&product); // pending work does not need it
    OK(cuStreamSynchronize(stream));
    matrix_check_product(&d, &a, &w, adds ? &before : NULL, 1);

    free(before.data);
    device_free(a.data);
    device_free(w.data);
    device_free(c.data);
    if (!in_place) {
        device_free(d.data);
    }
}

static void in_products_of_bf16(void)
{
    emu_begin();
    CUstream stream = stream_new();
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        check_bf16(&shapes[i], false, true, stream);
        check_bf16(&shapes[i], false, false, stream);
        check_bf16(&shapes[i], true, true, stream);
        check_bf16(&shapes[i], true, false, stream);
    }
}
EMU_TEST(products_of_bf16)

static void check_fp8(const struct shape *s, int result, float a_scale, float w_scale,
                      CUstream stream)
{
    uint64_t random = s->m * 131 + s->n * 17 + s->k;
    struct matrix a = matrix_new(KIND_E4M3, s->m, s->k, s->lda);
    struct matrix w = matrix_new(KIND_E4M3, s->n, s->k, s->ldw);
    struct matrix d = matrix_new(result, s->m, s->n, s->ldd);
    float *scales = device_bytes(2 * sizeof *scales);
    matrix_fill(&a, &random);
    matrix_fill(&w, &random);
    struct product product = product_new(&a, &w, &d, &d);
    const float *pointers[] = {scales, scales + 1};
    BLAS_OK(cublasLtMatmulDescSetAttribute(product.desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
                                           &pointers[1], 8));
    BLAS_OK(cublasLtMatmulDescSetAttribute(product.desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
                                           &pointers[0], 8));

    // The scales are read when the product runs: here, behind the copies that set them.
    uint32_t bits[2];
    memcpy(bits, (float[]){a_scale, w_scale}, sizeof bits);
    OK(cuMemsetD32Async((uintptr_t)&scales[0], bits[0], 1, stream));
    OK(cuMemsetD32Async((uintptr_t)&scales[1], bits[1], 1, stream));
    BLAS_OK(multiply(&product, a.data, w.data, 0, d.data, d.data, NULL, stream));
    OK(cuStreamSynchronize(stream));
    matrix_check_product(&d, &a, &w, NULL, (double)a_scale * w_scale);

    product_free(&product);
    device_free(a.data);
    device_free(w.data);
    device_free(d.data);
    device_free(scales);
}

static void in_products_of_e4m3(void)
{
    static const struct shape fp8_shapes[] = {
        {1, 8, 16, 16, 16, 8},          {1, 3, 16, 16, 16, 8},         {5, 24, 48, 64, 48, 32},
        {33, 7, 32, 32, 48, 16},        {64, 520, 128, 128, 128, 520}, {530, 16, 64, 64, 64, 16},
        {16, 16, 2048, 2048, 2048, 16},
    };
    emu_begin();
    CUstream stream = stream_new();
    for (size_t i = 0; i < sizeof fp8_shapes / sizeof fp8_shapes[0]; i++) {
        check_fp8(&fp8_shapes[i], KIND_BF16, 1, 1, stream);
        check_fp8(&fp8_shapes[i], KIND_BF16, 0.3f, 17, stream);
        check_fp8(&fp8_shapes[i], KIND_F32, 0.25f, -3, stream);
    }
}
EMU_TEST(products_of_e4m3)

// One code per row against ones: every value comes out as it is, and both NaNs as NaN.
static void in_every_code_of_e4m3(void)
{
    emu_begin();
    struct matrix a = matrix_new(KIND_E4M3, 256, 16, 16);
    struct matrix w = matrix_new(KIND_E4M3, 4, 16, 16);
    struct matrix d = matrix_new(KIND_F32, 256, 4, 4);
    memset(a.data, 0, sizeof(uint8_t[256][16]));
    memset(w.data, 0x38, sizeof(uint8_t[4][16])); // 1
    for (int code = 0; code < 256; code++) {
        ((uint8_t *)a.data)[code * 16 + code % 16] = (uint8_t)code;
    }
    struct product product = product_new(&a, &w, &d, &d);
    BLAS_OK(multiply(&product, a.data, w.data, 0, d.data, d.data, NULL, NULL));
    OK(cuStreamSynchronize(NULL));
    for (int code = 0; code < 256; code++) {
        double wanted = e4m3_to_double((uint8_t)code), got = matrix_at(&d, (size_t)code, 3);
        CHECK(isnan(wanted) ? isnan(got) : got == wanted);
    }
}
EMU_TEST(every_code_of_e4m3)

// The same where oneDNN has no product of bf16.
static void without_bf16_in_the_cpu(void **state)
{
    (void)state;
    EMU_CHILD(in_products_of_bf16, "ONEDNN_MAX_CPU_ISA=AVX2");
    EMU_CHILD(in_products_of_e4m3, "ONEDNN_MAX_CPU_ISA=AVX2");
    EMU_CHILD(in_every_code_of_e4m3, "ONEDNN_MAX_CPU_ISA=AVX2");
}

static void in_nan_and_infinity(void)
{
    emu_begin();
    struct matrix a = matrix_new(KIND_BF16, 4, 40, 40);
    struct matrix w = matrix_new(KIND_BF16, 3, 40, 40);
    struct matrix d = matrix_new(KIND_BF16, 4, 3, 3);
    uint16_t *x = a.data, *y = w.data;
    for (int i = 0; i < 4 * 40; i++) {
        x[i] = exact_bf16(1);
    }
    for (int i = 0; i < 3 * 40; i++) {
        y[i] = exact_bf16(0.5f);
    }
    x[0 * 40 + 7] = 0x7fc1;  // NaN
    x[1 * 40 + 39] = 0xff80; // -infinity
    y[2 * 40 + 39] = 0;      // infinity times 0 is NaN
    x[2 * 40 + 1] = 0x7f7f;  // the largest finite value, three times, is infinity in bf16
    x[2 * 40 + 2] = 0x7f7f;
    x[2 * 40 + 3] = 0x7f7f;
    struct product product = product_new(&a, &w, &d, &d);
    BLAS_OK(multiply(&product, a.data, w.data, 0, d.data, d.data, NULL, NULL));
    OK(cuStreamSynchronize(NULL));
    for (size_t j = 0; j < 3; j++) {
        CHECK(isnan(matrix_at(&d, 0, j)));
        CHECK(j == 2 ? isnan(matrix_at(&d, 1, j)) : matrix_at(&d, 1, j) == (double)-INFINITY);
        CHECK(matrix_at(&d, 2, j) == (double)INFINITY);
        CHECK(matrix_at(&d, 3, j) == (j == 2 ? 19.5 : 20));
    }
}
EMU_TEST(nan_and_infinity)

// 1 + 2^-8 lies between two values of bf16 and would be rounded to 1 if the product were rounded
// before the addition; with 2^-20 more it is rounded up.
static void in_a_sum_is_rounded_once(void)
{
    emu_begin();
    struct matrix a = matrix_new(KIND_BF16, 1, 2, 2);
    struct matrix w = matrix_new(KIND_BF16, 1, 2, 2);
    struct matrix d = matrix_new(KIND_BF16, 1, 1, 1);
    memcpy(a.data, (uint16_t[]){exact_bf16(1), exact_bf16(0x1p-8f)}, 4);
    memcpy(w.data, (uint16_t[]){exact_bf16(1), exact_bf16(1)}, 4);
    *(uint16_t *)d.data = exact_bf16(0x1p-20f);
    struct product product = product_new(&a, &w, &d, &d);
    BLAS_OK(multiply(&product, a.data, w.data, 1, d.data, d.data, NULL, NULL));
    OK(cuStreamSynchronize(NULL));
    CHECK(matrix_at(&d, 0, 0) == 1 + 0x1p-7);
    BLAS_OK(multiply(&product, a.data, w.data, 0, d.data, d.data, NULL, NULL));
    OK(cuStreamSynchronize(NULL));
    CHECK(matrix_at(&d, 0, 0) == 1); // the tie goes to the even one
}
EMU_TEST(a_sum_is_rounded_once)

static void in_the_same_shape_gives_the_same_bits(void)
{
    enum { TIMES = 6 };
    const size_t m = 48, n = 200, k = 1111;
    emu_begin();
    uint64_t random = 3;
    struct matrix a = matrix_new(KIND_BF16, m, k, k);
    struct matrix w = matrix_new(KIND_BF16, n, k, k);
    struct matrix d[TIMES];
    matrix_fill(&a, &random);
    matrix_fill(&w, &random);
    for (int i = 0; i < TIMES; i++) {
        d[i] = matrix_new(KIND_BF16, m, n, n);
        struct product product = product_new(&a, &w, &d[i], &d[i]);
        CUstream stream = stream_new(); // and so another thread
        BLAS_OK(multiply(&product, a.data, w.data, 0, d[i].data, d[i].data, NULL, stream));
        OK(cuStreamSynchronize(stream));
        CHECK(memcmp(d[i].data, d[0].data, m * n * 2) == 0);
        OK(cuStreamDestroy(stream));
        product_free(&product);
    }
    matrix_check_product(&d[0], &a, &w, NULL, 1);
}

static void the_same_shape_gives_the_same_bits(void **state)
{
    (void)state;
    EMU_CHILD(in_the_same_shape_gives_the_same_bits);
    EMU_CHILD(in_the_same_shape_gives_the_same_bits, "OMP_NUM_THREADS=2");
}

static void in_stream_order(void)
{
    emu_begin();
    CUstream stream = stream_new();
    struct matrix a = matrix_new(KIND_BF16, 8, 64, 64);
    struct matrix w = matrix_new(KIND_BF16, 8, 64, 64);
    struct matrix d = matrix_new(KIND_BF16, 8, 8, 8);
    const size_t operand = sizeof(uint16_t[8][64]), result = sizeof(uint16_t[8][8]);
    uint16_t *copy = device_bytes(result);
    struct product product = product_new(&a, &w, &d, &d);
    for (int round = 1; round <= 20; round++) {
        uint16_t value = exact_bf16((float)round);
        OK(cuMemsetD32Async((uintptr_t)a.data, value | (uint32_t)value << 16, operand / 4, stream));
        OK(cuMemsetD32Async((uintptr_t)w.data, 0x3f803f80, operand / 4, stream));
        BLAS_OK(multiply(&product, a.data, w.data, 0, d.data, d.data, NULL, stream));
        OK(cuMemcpyDtoDAsync((uintptr_t)copy, (uintptr_t)d.data, result, stream));
        OK(cuMemsetD8Async((uintptr_t)d.data, 0, result, stream));
        OK(cuStreamSynchronize(stream));
        CHECK(bf16_to_float(copy[63]) == 64 * (float)round);
    }
}

static void runs_in_stream_order(void **state)
{
    (void)state;
    EMU_CHILD(in_stream_order, "KERN_EMU_DELAY_US_MAX=300");
}

// A graph keeps pointers, not values: the scale of a replay is that of the replay.
static void in_a_graph_reads_the_scale_at_each_launch(void)
{
    emu_begin();
    CUstream stream = stream_new();
    struct matrix a = matrix_new(KIND_E4M3, 4, 16, 16);
    struct matrix w = matrix_new(KIND_E4M3, 8, 16, 16);
    struct matrix d = matrix_new(KIND_F32, 4, 8, 8);
    float *scale = device_bytes(sizeof *scale);
    uint64_t random = 1;
    matrix_fill(&a, &random);
    matrix_fill(&w, &random);
    struct product product = product_new(&a, &w, &d, &d);
    BLAS_OK(cublasLtMatmulDescSetAttribute(product.desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
                                           &scale, 8));
    CUgraph graph;
    CUgraphExec exec;
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    BLAS_OK(multiply(&product, a.data, w.data, 0, d.data, d.data, NULL, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    product_free(&product);
    for (int i = 1; i <= 3; i++) {
        *scale = (float)i / 4;
        OK(cuGraphLaunch(exec, stream));
        OK(cuStreamSynchronize(stream));
        matrix_check_product(&d, &a, &w, NULL, *scale);
    }
}
EMU_TEST(a_graph_reads_the_scale_at_each_launch)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_bf16),
        cmocka_unit_test(products_of_e4m3),
        cmocka_unit_test(every_code_of_e4m3),
        cmocka_unit_test(without_bf16_in_the_cpu),
        cmocka_unit_test(nan_and_infinity),
        cmocka_unit_test(a_sum_is_rounded_once),
        cmocka_unit_test(the_same_shape_gives_the_same_bits),
        cmocka_unit_test(runs_in_stream_order),
        cmocka_unit_test(a_graph_reads_the_scale_at_each_launch),
    };
    return cmocka_run_group_tests_name("emu cublaslt", tests, NULL, NULL);
}
