// SPDX-License-Identifier: Apache-2.0
//
// cuBLASLt of the emulated GPU: results against float64, and what it refuses.
#include "tests/emu_gemm_check.h"

// A product as the runtime makes it: W is the library's A, transposed, and A is its B.
struct product {
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t w, a, c, d;
};

static cudaDataType type_of(int kind)
{
    return kind == KIND_BF16 ? CUDA_R_16BF : kind == KIND_E4M3 ? CUDA_R_8F_E4M3 : CUDA_R_32F;
}

static cublasLtMatrixLayout_t layout_new(const struct matrix *matrix)
{
    cublasLtMatrixLayout_t layout;
    BLAS_OK(cublasLtMatrixLayoutCreate(&layout, type_of(matrix->kind), matrix->cols, matrix->rows,
                                       (int64_t)matrix->stride));
    return layout;
}

static void set_transposes(cublasLtMatmulDesc_t desc, int32_t transa, int32_t transb)
{
    BLAS_OK(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &transa, 4));
    BLAS_OK(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSB, &transb, 4));
}

static struct product product_new(const struct matrix *a, const struct matrix *w,
                                  const struct matrix *c, const struct matrix *d)
{
    struct product product = {
        .w = layout_new(w), .a = layout_new(a), .c = layout_new(c), .d = layout_new(d)};
    BLAS_OK(cublasLtCreate(&product.handle));
    BLAS_OK(cublasLtMatmulDescCreate(&product.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set_transposes(product.desc, CUBLAS_OP_T, CUBLAS_OP_N);
    return product;
}

static void product_free(struct product *product)
{
    BLAS_OK(cublasLtMatrixLayoutDestroy(product->w));
    BLAS_OK(cublasLtMatrixLayoutDestroy(product->a));
    BLAS_OK(cublasLtMatrixLayoutDestroy(product->c));
    BLAS_OK(cublasLtMatrixLayoutDestroy(product->d));
    BLAS_OK(cublasLtMatmulDescDestroy(product->desc));
    BLAS_OK(cublasLtDestroy(product->handle));
}

static cublasStatus_t multiply(const struct product *product, const void *a, const void *w,
                               float beta, const void *c, void *d, const cublasLtMatmulAlgo_t *algo,
                               CUstream stream)
{
    const float one = 1;
    return cublasLtMatmul(product->handle, product->desc, &one, w, product->w, a, product->a, &beta,
                          c, product->c, d, product->d, algo, NULL, 0, stream);
}

static CUstream stream_new(void)
{
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

// ---------------------------------------------------------------------------------------------
// Results

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
    memset(a.data, 0, 256 * 16);
    memset(w.data, 0x38, 4 * 16); // 1
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
    enum { M = 48, N = 200, K = 1111, TIMES = 6 };
    emu_begin();
    uint64_t random = 3;
    struct matrix a = matrix_new(KIND_BF16, M, K, K);
    struct matrix w = matrix_new(KIND_BF16, N, K, K);
    struct matrix d[TIMES];
    matrix_fill(&a, &random);
    matrix_fill(&w, &random);
    for (int i = 0; i < TIMES; i++) {
        d[i] = matrix_new(KIND_BF16, M, N, N);
        struct product product = product_new(&a, &w, &d[i], &d[i]);
        CUstream stream = stream_new(); // and so another thread
        BLAS_OK(multiply(&product, a.data, w.data, 0, d[i].data, d[i].data, NULL, stream));
        OK(cuStreamSynchronize(stream));
        CHECK(memcmp(d[i].data, d[0].data, M * N * 2) == 0);
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

// ---------------------------------------------------------------------------------------------
// Order

static void in_stream_order(void)
{
    emu_begin();
    CUstream stream = stream_new();
    struct matrix a = matrix_new(KIND_BF16, 8, 64, 64);
    struct matrix w = matrix_new(KIND_BF16, 8, 64, 64);
    struct matrix d = matrix_new(KIND_BF16, 8, 8, 8);
    uint16_t *copy = device_bytes(8 * 8 * 2);
    struct product product = product_new(&a, &w, &d, &d);
    for (int round = 1; round <= 20; round++) {
        uint16_t value = exact_bf16((float)round);
        OK(cuMemsetD32Async((uintptr_t)a.data, value | (uint32_t)value << 16, 8 * 32, stream));
        OK(cuMemsetD32Async((uintptr_t)w.data, 0x3f803f80, 8 * 32, stream));
        BLAS_OK(multiply(&product, a.data, w.data, 0, d.data, d.data, NULL, stream));
        OK(cuMemcpyDtoDAsync((uintptr_t)copy, (uintptr_t)d.data, 8 * 8 * 2, stream));
        OK(cuMemsetD8Async((uintptr_t)d.data, 0, 8 * 8 * 2, stream));
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

// ---------------------------------------------------------------------------------------------
// Refusals

// A sound product of bf16, 128 x 64 x 96, for the cases to spoil.
static struct matrix spoil_a, spoil_w, spoil_d;

static struct product sound_product(void)
{
    spoil_a = matrix_new(KIND_BF16, 64, 96, 96);
    spoil_w = matrix_new(KIND_BF16, 128, 96, 96);
    spoil_d = matrix_new(KIND_BF16, 64, 128, 128);
    return product_new(&spoil_a, &spoil_w, &spoil_d, &spoil_d);
}

static cublasStatus_t check_sound(const struct product *product, const cublasLtMatmulAlgo_t *algo)
{
    return multiply(product, spoil_a.data, spoil_w.data, 0, spoil_d.data, spoil_d.data, algo, NULL);
}

enum which { DESC, LAYOUT_W, LAYOUT_A, LAYOUT_C, LAYOUT_D };

struct spoiler {
    enum which which;
    int attribute;
    uint64_t value; // little-endian, of [bytes] bytes
    size_t bytes;
    cublasStatus_t wanted;
};

#define INVALID CUBLAS_STATUS_INVALID_VALUE
#define UNSUPPORTED CUBLAS_STATUS_NOT_SUPPORTED

static const struct spoiler spoilers[] = {
    {DESC, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, CUBLAS_COMPUTE_16F, 4, UNSUPPORTED},
    {DESC, CUBLASLT_MATMUL_DESC_SCALE_TYPE, CUDA_R_16F, 4, UNSUPPORTED},
    {DESC, CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLAS_POINTER_MODE_DEVICE, 4, UNSUPPORTED},
    {DESC, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_N, 4, INVALID}, // 96 x 128 does not fit
    {DESC, CUBLASLT_MATMUL_DESC_TRANSA, 3, 4, INVALID},
    {DESC, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_C, 4, UNSUPPORTED},
    {DESC, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_T, 4, INVALID},
    {DESC, CUBLASLT_MATMUL_DESC_TRANSC, CUBLAS_OP_T, 4, UNSUPPORTED},
    {DESC, CUBLASLT_MATMUL_DESC_FILL_MODE, 0, 4, UNSUPPORTED},
    {DESC, CUBLASLT_MATMUL_DESC_EPILOGUE, 2, 4, UNSUPPORTED},
    {DESC, CUBLASLT_MATMUL_DESC_BIAS_POINTER, 256, 8, UNSUPPORTED},
    {DESC, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, 256, 8, INVALID},
    {DESC, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, 256, 8, INVALID},
    {DESC, CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, 256, 8, INVALID},
    {DESC, CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, 256, 8, INVALID},
    {DESC, CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, 256, 8, INVALID},
    {DESC, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, 64, 4, CUBLAS_STATUS_SUCCESS},
    {DESC, CUBLASLT_MATMUL_DESC_FAST_ACCUM, 1, 1, CUBLAS_STATUS_SUCCESS},
    {LAYOUT_W, CUBLASLT_MATRIX_LAYOUT_TYPE, CUDA_R_16F, 4, UNSUPPORTED},
    {LAYOUT_W, CUBLASLT_MATRIX_LAYOUT_TYPE, 77, 4, INVALID},
    {LAYOUT_W, CUBLASLT_MATRIX_LAYOUT_ORDER, CUBLASLT_ORDER_ROW, 4, INVALID}, // ld < cols
    {LAYOUT_A, CUBLASLT_MATRIX_LAYOUT_ORDER, CUBLASLT_ORDER_ROW, 4, UNSUPPORTED},
    {LAYOUT_A, CUBLASLT_MATRIX_LAYOUT_ORDER, 9, 4, INVALID},
    {LAYOUT_A, CUBLASLT_MATRIX_LAYOUT_ROWS, 95, 8, INVALID},
    {LAYOUT_A, CUBLASLT_MATRIX_LAYOUT_ROWS, 0, 8, INVALID},
    {LAYOUT_A, CUBLASLT_MATRIX_LAYOUT_COLS, 63, 8, INVALID},
    {LAYOUT_A, CUBLASLT_MATRIX_LAYOUT_LD, 95, 8, INVALID},
    {LAYOUT_A, CUBLASLT_MATRIX_LAYOUT_LD, UINT64_MAX, 8, INVALID},
    {LAYOUT_A, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 2, 4, UNSUPPORTED},
    {LAYOUT_A, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 0, 4, INVALID},
    {LAYOUT_A, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 4096, 8, CUBLAS_STATUS_SUCCESS},
    {LAYOUT_C, CUBLASLT_MATRIX_LAYOUT_COLS, 65, 8, INVALID},
    {LAYOUT_C, CUBLASLT_MATRIX_LAYOUT_LD, 136, 8, INVALID}, // in place with another layout
    {LAYOUT_C, CUBLASLT_MATRIX_LAYOUT_TYPE, CUDA_R_32F, 4, UNSUPPORTED},
    {LAYOUT_D, CUBLASLT_MATRIX_LAYOUT_ROWS, 127, 8, INVALID},
    {LAYOUT_D, CUBLASLT_MATRIX_LAYOUT_TYPE, CUDA_R_32F, 4, UNSUPPORTED},
};

static cublasStatus_t set(const struct product *product, enum which which, int attribute,
                          const void *value, size_t bytes)
{
    const cublasLtMatrixLayout_t layouts[] = {[LAYOUT_W] = product->w,
                                              [LAYOUT_A] = product->a,
                                              [LAYOUT_C] = product->c,
                                              [LAYOUT_D] = product->d};
    return which == DESC
               ? cublasLtMatmulDescSetAttribute(
                     product->desc, (cublasLtMatmulDescAttributes_t)attribute, value, bytes)
               : cublasLtMatrixLayoutSetAttribute(
                     layouts[which], (cublasLtMatrixLayoutAttribute_t)attribute, value, bytes);
}

static void in_what_contradicts_or_is_not_computed(void)
{
    emu_begin();
    for (size_t i = 0; i < sizeof spoilers / sizeof spoilers[0]; i++) {
        const struct spoiler *s = &spoilers[i];
        struct product product = sound_product();
        BLAS_EXPECT(INVALID_VALUE, set(&product, s->which, s->attribute, &s->value, s->bytes + 1));
        BLAS_EXPECT(INVALID_VALUE, set(&product, s->which, s->attribute, NULL, s->bytes));
        BLAS_EXPECT(INVALID_VALUE, set(&product, s->which, 500, &s->value, 4));
        BLAS_OK(check_sound(&product, NULL));
        BLAS_OK(set(&product, s->which, s->attribute, &s->value, s->bytes));
        cublasStatus_t status = check_sound(&product, NULL);
        if (status != s->wanted) {
            fprintf(stderr, "spoiler %zu: status %d instead of %d\n", i, (int)status,
                    (int)s->wanted);
            _exit(1);
        }
        product_free(&product);
    }
}
EMU_TEST(what_contradicts_or_is_not_computed)

static void in_factors(void)
{
    emu_begin();
    struct product p = sound_product();
    const float zero = 0, one = 1, half = 0.5f;
    struct {
        const float *alpha, *beta;
        cublasStatus_t wanted;
    } cases[] = {{NULL, &zero, INVALID},      {&one, NULL, INVALID},
                 {&half, &zero, UNSUPPORTED}, {&zero, &zero, UNSUPPORTED},
                 {&one, &half, UNSUPPORTED},  {&one, &one, CUBLAS_STATUS_SUCCESS}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        blas_expect(cublasLtMatmul(p.handle, p.desc, cases[i].alpha, spoil_w.data, p.w,
                                   spoil_a.data, p.a, cases[i].beta, spoil_d.data, p.c,
                                   spoil_d.data, p.d, NULL, NULL, 0, NULL),
                    cases[i].wanted, "a factor", __FILE__, __LINE__);
    }
    // C is read only if something is added, and then it must be there.
    BLAS_OK(multiply(&p, spoil_a.data, spoil_w.data, 0, NULL, spoil_d.data, NULL, NULL));
    BLAS_EXPECT(INVALID_VALUE,
                multiply(&p, spoil_a.data, spoil_w.data, 1, NULL, spoil_d.data, NULL, NULL));
    BLAS_EXPECT(INVALID_VALUE, multiply(&p, NULL, spoil_w.data, 0, NULL, spoil_d.data, NULL, NULL));
    BLAS_EXPECT(INVALID_VALUE, multiply(&p, spoil_a.data, NULL, 0, NULL, spoil_d.data, NULL, NULL));
    BLAS_EXPECT(INVALID_VALUE, multiply(&p, spoil_a.data, spoil_w.data, 0, NULL, NULL, NULL, NULL));
}
EMU_TEST(factors)

// fp8 wants 16-byte alignment everywhere, k a multiple of 16, and nothing added.
static void in_what_e4m3_demands(void)
{
    static const struct {
        size_t k, lda, ldd, shift;
        float beta;
        cublasStatus_t wanted;
    } cases[] = {
        {32, 32, 16, 0, 0, CUBLAS_STATUS_SUCCESS}, {24, 32, 16, 0, 0, UNSUPPORTED},
        {32, 40, 16, 0, 0, UNSUPPORTED},           {32, 32, 18, 0, 0, UNSUPPORTED},
        {32, 32, 16, 0, 1, UNSUPPORTED},           {32, 32, 16, 8, 0, UNSUPPORTED},
    };
    emu_begin();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct matrix a = matrix_new(KIND_E4M3, 8, cases[i].k, cases[i].lda + cases[i].shift);
        struct matrix w = matrix_new(KIND_E4M3, 16, cases[i].k, 32);
        struct matrix d = matrix_new(KIND_BF16, 8, 16, cases[i].ldd);
        a.stride = cases[i].lda;
        struct product product = product_new(&a, &w, &d, &d);
        blas_expect(multiply(&product, (char *)a.data + cases[i].shift, w.data, cases[i].beta,
                             d.data, d.data, NULL, NULL),
                    cases[i].wanted, "fp8", __FILE__, __LINE__);
    }
}
EMU_TEST(what_e4m3_demands)

// Not one byte may be missing of what a product touches, and the result stands alone.
static void in_memory_is_checked_to_the_byte(void)
{
    emu_begin();
    struct matrix a = matrix_new(KIND_BF16, 4, 8, 16);
    struct matrix w = matrix_new(KIND_BF16, 8, 8, 8);
    struct matrix d = matrix_new(KIND_BF16, 4, 8, 24);
    struct product p = product_new(&a, &w, &d, &d);
    char *as = a.data, *ws = w.data, *ds = d.data;
    static uint16_t host[256];
    BLAS_OK(multiply(&p, as, ws, 0, ds, ds, NULL, NULL));
    BLAS_EXPECT(INVALID_VALUE, multiply(&p, as + 2, ws, 0, ds, ds, NULL, NULL));
    BLAS_EXPECT(INVALID_VALUE, multiply(&p, as, ws + 2, 0, ds, ds, NULL, NULL));
    BLAS_EXPECT(INVALID_VALUE, multiply(&p, as, ws, 0, ds + 2, ds + 2, NULL, NULL));
    BLAS_EXPECT(INVALID_VALUE, multiply(&p, host, ws, 0, ds, ds, NULL, NULL));
    BLAS_EXPECT(INVALID_VALUE, multiply(&p, as, ws, 0, host, host, NULL, NULL));
    BLAS_EXPECT(NOT_SUPPORTED, multiply(&p, as - 1, ws, 0, ds, ds, NULL, NULL));

    // A and D as bands of one matrix, and A and D where they meet.
    struct matrix both = matrix_new(KIND_BF16, 4, 24, 24);
    int64_t pitch = 24;
    BLAS_OK(cublasLtMatrixLayoutSetAttribute(p.a, CUBLASLT_MATRIX_LAYOUT_LD, &pitch, 8));
    char *bs = both.data;
    BLAS_OK(multiply(&p, bs, ws, 0, bs + 16, bs + 16, NULL, NULL));
    BLAS_OK(multiply(&p, bs + 32, ws, 0, bs, bs, NULL, NULL));
    BLAS_EXPECT(INVALID_VALUE, multiply(&p, bs, ws, 0, bs + 14, bs + 14, NULL, NULL));
    BLAS_EXPECT(INVALID_VALUE, multiply(&p, bs, ws, 0, bs, bs, NULL, NULL));
}
EMU_TEST(memory_is_checked_to_the_byte)

static void in_handles(void)
{
    cublasLtHandle_t handle;
    BLAS_EXPECT(NOT_INITIALIZED, cublasLtCreate(&handle)); // before cuInit
    OK(cuInit(0));
    BLAS_EXPECT(NOT_INITIALIZED, cublasLtCreate(&handle)); // without a context
    emu_begin();
    BLAS_EXPECT(INVALID_VALUE, cublasLtCreate(NULL));
    CHECK(cublasLtGetVersion() / 10000 == 13);
    struct product product = sound_product();
    struct product other = product;
    other.handle = (cublasLtHandle_t)(uintptr_t)0x1234;
    BLAS_EXPECT(NOT_INITIALIZED, check_sound(&other, NULL));
    other = product;
    other.desc = NULL;
    BLAS_EXPECT(INVALID_VALUE, check_sound(&other, NULL));
    other = product;
    other.a = (cublasLtMatrixLayout_t)(uintptr_t)product.desc;
    BLAS_EXPECT(INVALID_VALUE, check_sound(&other, NULL));
    CUstream stream = stream_new();
    OK(cuStreamDestroy(stream));
    BLAS_EXPECT(INVALID_VALUE, multiply(&product, spoil_a.data, spoil_w.data, 0, spoil_d.data,
                                        spoil_d.data, NULL, stream));
    product_free(&product);
    BLAS_EXPECT(NOT_INITIALIZED, cublasLtDestroy(product.handle));
    BLAS_EXPECT(INVALID_VALUE, cublasLtMatmulDescDestroy(product.desc));
    BLAS_EXPECT(INVALID_VALUE, cublasLtMatrixLayoutDestroy(product.a));
    BLAS_EXPECT(INVALID_VALUE, cublasLtMatmulPreferenceDestroy(NULL));
    BLAS_EXPECT(INVALID_VALUE, cublasLtMatrixLayoutCreate(NULL, CUDA_R_16BF, 1, 1, 1));
    BLAS_EXPECT(INVALID_VALUE, cublasLtMatmulDescCreate(NULL, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    BLAS_EXPECT(INVALID_VALUE, cublasLtMatmulPreferenceCreate(NULL));
}
EMU_TEST(handles)

// ---------------------------------------------------------------------------------------------
// Algorithms

static cublasLtMatmulAlgo_t algo_new(const struct product *product, int id)
{
    cublasLtMatmulAlgo_t algo;
    BLAS_OK(cublasLtMatmulAlgoInit(product->handle, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF,
                                   CUDA_R_16BF, CUDA_R_16BF, CUDA_R_16BF, id, &algo));
    return algo;
}

struct config {
    int id;
    uint32_t tile;
    int32_t split_k;
    uint32_t reduction, swizzle, custom, stages;
    uint16_t inner, cluster;
    size_t m, n, k; // row-major
    cublasStatus_t wanted;
    size_t workspace;
};

static const struct config configs[] = {
    {66, 20, 1, 0, 0, 0, 4, 0, 3, 64, 128, 96, CUBLAS_STATUS_SUCCESS, 0},
    {21, 20, 1, 0, 1, 7, 38, 4, 2, 64, 128, 96, CUBLAS_STATUS_SUCCESS, 0},
    {6, 15, 1, 0, 0, 0, 0, 0, 0, 1, 128, 97, CUBLAS_STATUS_SUCCESS, 0}, // odd k
    {21, 15, 1, 0, 0, 0, 0, 0, 0, 1, 128, 97, UNSUPPORTED, 0},
    {66, 15, 1, 0, 0, 0, 0, 0, 0, 2, 129, 96, UNSUPPORTED, 0}, // D's rows are not aligned
    {6, 0, 1, 0, 0, 0, 0, 0, 0, 64, 128, 96, INVALID, 0},      // no tile
    {6, 25, 1, 0, 0, 0, 0, 0, 0, 64, 128, 96, INVALID, 0},
    {6, 24, 1, 0, 0, 0, 0, 0, 0, 256, 256, 96, UNSUPPORTED, 0}, // 256x128: not of id 6
    {66, 24, 1, 0, 0, 0, 0, 0, 0, 256, 256, 96, CUBLAS_STATUS_SUCCESS, 0},
    {66, 24, 1, 0, 0, 0, 0, 0, 0, 256, 64, 96, UNSUPPORTED, 0}, // 256 rows for 64
    {66, 20, 1, 0, 0, 0, 0, 0, 0, 1, 64, 96, CUBLAS_STATUS_SUCCESS, 0},
    {66, 20, 2, 2, 0, 0, 0, 0, 0, 64, 128, 96, UNSUPPORTED, 0}, // no split in id 66
    {21, 20, 2, 2, 0, 0, 0, 0, 0, 64, 128, 96, CUBLAS_STATUS_SUCCESS, 2 * 64 * 128 * 4},
    {21, 20, 2, 4, 0, 0, 0, 0, 0, 64, 128, 96, CUBLAS_STATUS_SUCCESS, 2 * 64 * 128 * 2},
    {21, 15, 2, 1, 0, 0, 0, 0, 0, 64, 128, 96, CUBLAS_STATUS_SUCCESS, 2 * 4},
    {21, 20, 2, 0, 0, 0, 0, 0, 0, 64, 128, 96, INVALID, 0}, // split, and no way to reduce
    {21, 20, 2, 3, 0, 0, 0, 0, 0, 64, 128, 96, INVALID, 0}, // two ways
    {21, 20, 1, 2, 0, 0, 0, 0, 0, 64, 128, 96, INVALID, 0},
    {21, 20, 4, 2, 0, 0, 0, 0, 0, 64, 128, 96, UNSUPPORTED, 0}, // 24 of k in a part
    {21, 20, 33, 2, 0, 0, 0, 0, 0, 64, 128, 4096, INVALID, 0},
    {21, 20, 0, 0, 0, 0, 0, 0, 0, 64, 128, 96, INVALID, 0},
    {21, 20, 1, 0, 2, 0, 0, 0, 0, 64, 128, 96, INVALID, 0},
    {21, 20, 1, 0, 0, 8, 0, 0, 0, 64, 128, 96, INVALID, 0},
    {21, 20, 1, 0, 0, 0, 39, 0, 0, 64, 128, 96, INVALID, 0},
    {21, 20, 1, 0, 0, 0, 0, 5, 0, 64, 128, 96, INVALID, 0},
    {66, 20, 1, 0, 0, 0, 0, 0, 1, 64, 128, 96, INVALID, 0},
    {66, 20, 1, 0, 0, 0, 0, 0, 21, 64, 128, 96, INVALID, 0},
    {21, 20, 1, 0, 0, 0, 0, 0, 3, 64, 128, 96, UNSUPPORTED, 0}, // no clusters in id 21
};

static cublasLtMatmulAlgo_t algo_of(const struct product *product, const struct config *c)
{
    cublasLtMatmulAlgo_t algo = algo_new(product, c->id);
    const struct {
        cublasLtMatmulAlgoConfigAttributes_t attribute;
        const void *value;
        size_t bytes;
    } members[] = {
        {CUBLASLT_ALGO_CONFIG_TILE_ID, &c->tile, 4},
        {CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &c->split_k, 4},
        {CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &c->reduction, 4},
        {CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, &c->swizzle, 4},
        {CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, &c->custom, 4},
        {CUBLASLT_ALGO_CONFIG_STAGES_ID, &c->stages, 4},
        {CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, &c->inner, 2},
        {CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, &c->cluster, 2},
    };
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        BLAS_EXPECT(INVALID_VALUE,
                    cublasLtMatmulAlgoConfigSetAttribute(&algo, members[i].attribute,
                                                         members[i].value, members[i].bytes + 2));
        BLAS_OK(cublasLtMatmulAlgoConfigSetAttribute(&algo, members[i].attribute, members[i].value,
                                                     members[i].bytes));
    }
    return algo;
}

// What is accepted also computes, with its workspace and not with a byte less.
static void in_pinned_algorithms(void)
{
    emu_begin();
    const float one = 1, zero = 0;
    char *workspace = device_bytes((size_t)1 << 20);
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        const struct config *c = &configs[i];
        struct matrix a = matrix_new(KIND_BF16, c->m, c->k, c->k);
        struct matrix w = matrix_new(KIND_BF16, c->n, c->k, c->k);
        struct matrix d = matrix_new(KIND_BF16, c->m, c->n, c->n);
        uint64_t random = i;
        matrix_fill(&a, &random);
        matrix_fill(&w, &random);
        struct product p = product_new(&a, &w, &d, &d);
        cublasLtMatmulAlgo_t algo = algo_of(&p, c);
        cublasLtMatmulHeuristicResult_t result;
        cublasStatus_t status =
            cublasLtMatmulAlgoCheck(p.handle, p.desc, p.w, p.a, p.c, p.d, &algo, &result);
        if (status != c->wanted) {
            fprintf(stderr, "config %zu: status %d instead of %d\n", i, (int)status,
                    (int)c->wanted);
            _exit(1);
        }
#define WITH(workspace, bytes)                                                                     \
    cublasLtMatmul(p.handle, p.desc, &one, w.data, p.w, a.data, p.a, &zero, d.data, p.c, d.data,   \
                   p.d, &algo, workspace, bytes, NULL)
        blas_expect(WITH(workspace, (size_t)1 << 20), c->wanted, "pinned", __FILE__, __LINE__);
        if (status == CUBLAS_STATUS_SUCCESS) {
            OK(cuStreamSynchronize(NULL));
            matrix_check_product(&d, &a, &w, NULL, 1);
            CHECK(result.workspaceSize == c->workspace);
            CHECK(result.state == CUBLAS_STATUS_SUCCESS && result.wavesCount > 0);
        }
        if (c->workspace > 0) {
            BLAS_OK(WITH(workspace, c->workspace));
            BLAS_EXPECT(INVALID_VALUE, WITH(workspace, c->workspace - 1));
            BLAS_EXPECT(INVALID_VALUE, WITH(workspace + 8, c->workspace));
            BLAS_EXPECT(INVALID_VALUE, WITH(NULL, c->workspace));
            BLAS_EXPECT(INVALID_VALUE, WITH(workspace + ((size_t)1 << 20) - 16, c->workspace * 9));
        }
#undef WITH
        product_free(&p);
    }
}
EMU_TEST(pinned_algorithms)

static void in_algorithms_that_are_none(void)
{
    emu_begin();
    struct product p = sound_product();
    cublasLtMatmulAlgo_t algo;
    const int32_t id = 21;
    cublasLtMatmulHeuristicResult_t result;
#define INIT(compute, scale, a, b, c, d, id)                                                       \
    cublasLtMatmulAlgoInit(p.handle, CUBLAS_COMPUTE_##compute, CUDA_R_##scale, CUDA_R_##a,         \
                           CUDA_R_##b, CUDA_R_##c, CUDA_R_##d, id, &algo)
    BLAS_EXPECT(INVALID_VALUE, INIT(32F, 32F, 16BF, 16BF, 16BF, 16BF, 7));
    BLAS_EXPECT(INVALID_VALUE, INIT(32F, 32F, 16BF, 16BF, 16BF, 16BF, -1));
    BLAS_EXPECT(NOT_SUPPORTED, INIT(16F, 32F, 16BF, 16BF, 16BF, 16BF, 21));
    BLAS_EXPECT(NOT_SUPPORTED, INIT(32F, 64F, 16BF, 16BF, 16BF, 16BF, 21));
    BLAS_EXPECT(NOT_SUPPORTED, INIT(32F, 32F, 16BF, 16F, 16BF, 16BF, 21));
    BLAS_EXPECT(NOT_SUPPORTED, INIT(32F, 32F, 16BF, 16BF, 32F, 16BF, 21));
    BLAS_EXPECT(NOT_SUPPORTED, INIT(32F, 32F, 8F_E4M3, 8F_E4M3, 16BF, 16BF, 21));
    BLAS_OK(INIT(32F, 32F, 8F_E4M3, 8F_E4M3, 16BF, 16BF, 66));
    // One for other types than the product's, one of no making, none.
    BLAS_EXPECT(INVALID_VALUE, check_sound(&p, &algo));
    memset(&algo, 0, sizeof algo);
    BLAS_EXPECT(INVALID_VALUE, check_sound(&p, &algo));
    BLAS_EXPECT(INVALID_VALUE,
                cublasLtMatmulAlgoConfigSetAttribute(&algo, CUBLASLT_ALGO_CONFIG_TILE_ID, &id, 4));
    BLAS_EXPECT(INVALID_VALUE,
                cublasLtMatmulAlgoCheck(p.handle, p.desc, p.w, p.a, p.c, p.d, NULL, &result));
    algo = algo_new(&p, 21);
    BLAS_EXPECT(INVALID_VALUE,
                cublasLtMatmulAlgoConfigSetAttribute(&algo, CUBLASLT_ALGO_CONFIG_ID, &id, 4));
    BLAS_EXPECT(INVALID_VALUE,
                cublasLtMatmulAlgoCheck(p.handle, p.desc, p.w, p.a, p.c, p.d, &algo, NULL));
}
EMU_TEST(algorithms_that_are_none)

static cublasLtMatmulPreference_t preference_new(void)
{
    cublasLtMatmulPreference_t preference;
    BLAS_OK(cublasLtMatmulPreferenceCreate(&preference));
    return preference;
}

static cublasStatus_t prefer(cublasLtMatmulPreference_t preference, int attribute,
                             const void *value, size_t bytes)
{
    return cublasLtMatmulPreferenceSetAttribute(
        preference, (cublasLtMatmulPreferenceAttributes_t)attribute, value, bytes);
}

static void in_the_heuristic(void)
{
    enum { MAX = 32 };
    emu_begin();
    struct product p = sound_product();
    cublasLtMatmulHeuristicResult_t results[MAX];
    int n = -1;
#define ASK(preference, max, results, n)                                                           \
    cublasLtMatmulAlgoGetHeuristic(p.handle, p.desc, p.w, p.a, p.c, p.d, preference, max, results, \
                                   n)
    // Without a workspace no k is split; with one, every answer keeps to it and computes.
    cublasLtMatmulPreference_t preference = preference_new();
    BLAS_OK(ASK(preference, MAX, results, &n));
    CHECK(n > 1);
    int without = n;
    uint64_t workspace = (uint64_t)32 << 20;
    BLAS_OK(prefer(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, 8));
    BLAS_EXPECT(INVALID_VALUE,
                prefer(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, 4));
    BLAS_OK(ASK(preference, MAX, results, &n));
    CHECK(n >= without);
    for (int i = 0; i < n; i++) {
        CHECK(results[i].state == CUBLAS_STATUS_SUCCESS);
        CHECK(results[i].workspaceSize <= workspace);
        cublasLtMatmulHeuristicResult_t checked;
        BLAS_OK(cublasLtMatmulAlgoCheck(p.handle, p.desc, p.w, p.a, p.c, p.d, &results[i].algo,
                                        &checked));
        CHECK(checked.workspaceSize == results[i].workspaceSize);
    }
    BLAS_OK(ASK(preference, 1, results, &n));
    CHECK(n == 1);
    BLAS_OK(check_sound(&p, &results[0].algo));

    // Only what works with pointers of 2 bytes, only of one id, and nothing at all.
    uint32_t alignment = 2, limited = CUBLASLT_SEARCH_LIMITED_BY_ALGO_ID, odd = 7, best = 0;
    BLAS_OK(prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &alignment, 4));
    BLAS_OK(ASK(preference, 1, results, &n));
    BLAS_OK(multiply(&p, spoil_a.data, spoil_w.data, 0, spoil_d.data, spoil_d.data,
                     &results[0].algo, NULL));
    results[0].algo = algo_new(&p, 66);
    BLAS_OK(prefer(preference, CUBLASLT_MATMUL_PREF_SEARCH_MODE, &limited, 4));
    BLAS_EXPECT(NOT_SUPPORTED, ASK(preference, 1, results, &n));
    CHECK(n == 0);
    memset(&results[0].algo, 0, sizeof results[0].algo);
    BLAS_EXPECT(INVALID_VALUE, ASK(preference, 1, results, &n));
    BLAS_OK(prefer(preference, CUBLASLT_MATMUL_PREF_SEARCH_MODE, &odd, 4));
    BLAS_EXPECT(INVALID_VALUE, ASK(preference, 1, results, &n));
    BLAS_OK(prefer(preference, CUBLASLT_MATMUL_PREF_SEARCH_MODE, &best, 4));
    uint64_t no_tensor_cores = 1;
    BLAS_OK(prefer(preference, CUBLASLT_MATMUL_PREF_IMPL_MASK, &no_tensor_cores, 8));
    BLAS_EXPECT(NOT_SUPPORTED, ASK(preference, 1, results, &n));

    BLAS_EXPECT(INVALID_VALUE, ASK(preference, 0, results, &n));
    BLAS_EXPECT(INVALID_VALUE, ASK(preference, 1, NULL, &n));
    BLAS_EXPECT(INVALID_VALUE, ASK(preference, 1, results, NULL));
    BLAS_EXPECT(INVALID_VALUE, ASK(NULL, 1, results, &n));
#undef ASK
}
EMU_TEST(the_heuristic)

// ---------------------------------------------------------------------------------------------
// Faults

static void in_the_second_product_fails(void)
{
    emu_begin();
    struct product p = sound_product();
    BLAS_OK(check_sound(&p, NULL));
    BLAS_EXPECT(NOT_SUPPORTED, check_sound(&p, NULL));
    BLAS_OK(check_sound(&p, NULL));
    cublasLtMatmulPreference_t preference;
    BLAS_EXPECT(INTERNAL_ERROR, cublasLtMatmulPreferenceCreate(&preference));
}

static void in_init_is_refused(void)
{
    EXPECT(ERROR_INVALID_VALUE, cuInit(0));
}

static void faults(void **state)
{
    (void)state;
    EMU_CHILD(in_the_second_product_fails, "KERN_EMU_FAIL=cublasLtMatmul:2:CUBLAS_STATUS_NOT_"
                                           "SUPPORTED,cublasLtMatmulPreferenceCreate:*");
    EMU_CHILD(in_init_is_refused, "KERN_EMU_FAIL=cublasLtMatmul:2:CUDA_ERROR_UNKNOWN");
    EMU_CHILD(in_init_is_refused, "KERN_EMU_FAIL=cublasLtMatmulX:2");
}

// Memory that was freed is no operand any more, and asking for it does no harm to the device.
static void in_memory_that_goes_away(void)
{
    emu_begin();
    struct product p = sound_product();
    BLAS_OK(check_sound(&p, NULL));
    OK(cuStreamSynchronize(NULL));
    device_free(spoil_d.data);
    BLAS_EXPECT(INVALID_VALUE, check_sound(&p, NULL));
    OK(cuStreamSynchronize(NULL));
}
EMU_TEST(memory_that_goes_away)

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
        cmocka_unit_test(what_contradicts_or_is_not_computed),
        cmocka_unit_test(factors),
        cmocka_unit_test(what_e4m3_demands),
        cmocka_unit_test(memory_is_checked_to_the_byte),
        cmocka_unit_test(handles),
        cmocka_unit_test(pinned_algorithms),
        cmocka_unit_test(algorithms_that_are_none),
        cmocka_unit_test(the_heuristic),
        cmocka_unit_test(faults),
        cmocka_unit_test(memory_that_goes_away),
    };
    return cmocka_run_group_tests_name("emu cublaslt", tests, NULL, NULL);
}
