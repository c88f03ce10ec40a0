// SPDX-License-Identifier: Apache-2.0
//
// cuBLASLt of the emulated GPU: what it refuses, and faults on demand.
#include "tests/emu_cublaslt_product.h"

enum which { DESC, LAYOUT_W, LAYOUT_A, LAYOUT_C, LAYOUT_D };

struct spoiler {
    enum which which;
    int attribute;
    uint64_t value; // little-endian, of [bytes] bytes
    size_t bytes;
    cublasStatus_t wanted;
};

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
        blas_expect(cublasLtMatmul(p.handle, p.desc, cases[i].alpha, sound_w.data, p.w,
                                   sound_a.data, p.a, cases[i].beta, sound_d.data, p.c,
                                   sound_d.data, p.d, NULL, NULL, 0, NULL),
                    cases[i].wanted, "a factor", __FILE__, __LINE__);
    }
    // C is read only if something is added, and then it must be there.
    BLAS_OK(multiply(&p, sound_a.data, sound_w.data, 0, NULL, sound_d.data, NULL, NULL));
    BLAS_EXPECT(INVALID_VALUE,
                multiply(&p, sound_a.data, sound_w.data, 1, NULL, sound_d.data, NULL, NULL));
    BLAS_EXPECT(INVALID_VALUE, multiply(&p, NULL, sound_w.data, 0, NULL, sound_d.data, NULL, NULL));
    BLAS_EXPECT(INVALID_VALUE, multiply(&p, sound_a.data, NULL, 0, NULL, sound_d.data, NULL, NULL));
    BLAS_EXPECT(INVALID_VALUE, multiply(&p, sound_a.data, sound_w.data, 0, NULL, NULL, NULL, NULL));
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
    BLAS_EXPECT(INVALID_VALUE, multiply(&product, sound_a.data, sound_w.data, 0, sound_d.data,
                                        sound_d.data, NULL, stream));
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
    device_free(sound_d.data);
    BLAS_EXPECT(INVALID_VALUE, check_sound(&p, NULL));
    OK(cuStreamSynchronize(NULL));
}
EMU_TEST(memory_that_goes_away)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_contradicts_or_is_not_computed),
        cmocka_unit_test(factors),
        cmocka_unit_test(what_e4m3_demands),
        cmocka_unit_test(memory_is_checked_to_the_byte),
        cmocka_unit_test(handles),
        cmocka_unit_test(faults),
        cmocka_unit_test(memory_that_goes_away),
    };
    return cmocka_run_group_tests_name("emu cublaslt refusals", tests, NULL, NULL);
}
