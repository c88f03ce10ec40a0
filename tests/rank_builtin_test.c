// SPDX-License-Identifier: Apache-2.0
//
// What the built-ins ask of their libraries and when, and what is refused with which figures. The
// functions of cuBLASLt are those of emu with counters and refusals in front of them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/rank_gemm.h"

#define ALGO                                                                                       \
    "'algo': {'id': 6, 'tile': 15, 'stages': 9, 'split_k': 1, 'reduction': 0, 'swizzle': 0,"       \
    " 'custom': 0, 'inner_shape': 0, 'cluster_shape': 0}"

static struct {
    struct kern_cublaslt real;
    int asked, checked, layouts;    // heuristics, pinned algorithms, layouts alive
    uint64_t refused_rows;          // m for which a pinned algorithm is refused; 0: none
    int refused_attribute;          // of a pinned algorithm; -1: none
    cublasLtMatrixLayout_t refused; // C of that product
    uint64_t scale_pointers[2];     // of the library's A and B
    int32_t trans[2];
} spy;

static cublasStatus_t spy_heuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                    cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                    cublasLtMatmulPreference_t preference, int n_requested,
                                    cublasLtMatmulHeuristicResult_t *results, int *n_results)
{
    spy.asked++;
    return spy.real.cublasLtMatmulAlgoGetHeuristic(handle, desc, a, b, c, d, preference,
                                                   n_requested, results, n_results);
}

static cublasStatus_t spy_check(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                const cublasLtMatmulAlgo_t *algo,
                                cublasLtMatmulHeuristicResult_t *result)
{
    spy.checked++;
    if (c == spy.refused) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    return spy.real.cublasLtMatmulAlgoCheck(handle, desc, a, b, c, d, algo, result);
}

// C has as many columns as the product has rows, and is made after A, which has as many.
static cublasStatus_t spy_layout(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
                                 uint64_t cols, int64_t ld)
{
    cublasStatus_t status = spy.real.cublasLtMatrixLayoutCreate(layout, type, rows, cols, ld);
    spy.layouts += status == CUBLAS_STATUS_SUCCESS;
    if (spy.refused_rows != 0 && cols == spy.refused_rows) {
        spy.refused = *layout;
    }
    return status;
}

static cublasStatus_t spy_layout_gone(cublasLtMatrixLayout_t layout)
{
    spy.layouts--;
    return spy.real.cublasLtMatrixLayoutDestroy(layout);
}

static cublasStatus_t spy_attribute(cublasLtMatmulAlgo_t *algo,
                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                    const void *value, size_t bytes)
{
    if ((int)attribute == spy.refused_attribute) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    return spy.real.cublasLtMatmulAlgoConfigSetAttribute(algo, attribute, value, bytes);
}

static cublasStatus_t spy_desc(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                               const void *value, size_t bytes)
{
    if (attribute == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER) {
        memcpy(&spy.scale_pointers[0], value, sizeof(uint64_t));
    } else if (attribute == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER) {
        memcpy(&spy.scale_pointers[1], value, sizeof(uint64_t));
    } else if (attribute == CUBLASLT_MATMUL_DESC_TRANSA) {
        memcpy(&spy.trans[0], value, sizeof(int32_t));
    } else if (attribute == CUBLASLT_MATMUL_DESC_TRANSB) {
        memcpy(&spy.trans[1], value, sizeof(int32_t));
    }
    return spy.real.cublasLtMatmulDescSetAttribute(desc, attribute, value, bytes);
}

// A fixture whose cuBLASLt is watched.
static void watch(struct rank_fixture *fixture)
{
    memset(&spy, 0, sizeof(spy));
    spy.refused_attribute = -1;
    fixture->device = kern_device_open(KERN_DEVICE_WANT_EMU, KERN_BUILD_DIR "/lib/libkern-emu.so",
                                       &fixture->diag);
    assert_non_null(fixture->device);
    assert_true(kern_device_need_cublaslt(fixture->device, &fixture->diag));
    struct kern_cublaslt *lt = &fixture->device->cublaslt;
    spy.real = *lt;
    lt->cublasLtMatmulAlgoGetHeuristic = spy_heuristic;
    lt->cublasLtMatmulAlgoCheck = spy_check;
    lt->cublasLtMatrixLayoutCreate = spy_layout;
    lt->cublasLtMatrixLayoutDestroy = spy_layout_gone;
    lt->cublasLtMatmulAlgoConfigSetAttribute = spy_attribute;
    lt->cublasLtMatmulDescSetAttribute = spy_desc;
}

static bool try_product(struct rank_fixture *fixture, const struct product *product)
{
    char *text = product_manifest(product);
    bool ok = fixture_try(fixture, text);
    free(text);
    return ok;
}

static void open_product(struct rank_fixture *fixture, const struct product *product)
{
    if (!try_product(fixture, product)) {
        kern_diag_print(&fixture->diag, stderr, 5);
        fail_msg("the product was refused");
    }
}

static void run_rows(struct rank_fixture *fixture, uint64_t m)
{
    fixture_set_var(fixture, "m", m);
    fixture_run(fixture, "p");
}

#define BF16 .operand = KERN_BF16, .result = KERN_BF16
#define FP8 .operand = KERN_FP8E4M3, .result = KERN_BF16

static void a_heuristic_is_asked_once_per_shape(void **state)
{
    (void)state;
    const struct product p = {.entry = "cublaslt_bf16_tn", BF16, .m_max = 1000, .n = 8, .k = 16};
    struct rank_fixture fixture = {0};
    watch(&fixture);
    open_product(&fixture, &p);
    assert_int_equal(spy.asked, 2); // the corners
    for (int round = 0; round < 3; round++) {
        run_rows(&fixture, 1);
        run_rows(&fixture, 1000);
        run_rows(&fixture, 37);
    }
    assert_int_equal(spy.asked, 3);
    // However many shapes there are, 64 of three layouts are kept, those used last.
    for (uint64_t m = 100; m < 300; m++) {
        run_rows(&fixture, m);
    }
    assert_int_equal(spy.asked, 203);
    assert_int_equal(spy.layouts, 3 * 64);
    for (uint64_t m = 236; m < 300; m++) {
        run_rows(&fixture, m);
    }
    assert_int_equal(spy.asked, 203);
    fixture_close(&fixture);
    assert_int_equal(spy.layouts, 0);
}

static void a_constant_shape_is_prepared_at_load(void **state)
{
    (void)state;
    const struct product p = {.entry = "cublaslt_bf16_tn",
                              BF16,
                              .m_max = 4,
                              .n = 8,
                              .k = 16,
                              .m = "{'i32': 4}",
                              .more = ", 'when': {'var': 'm', 'max': 3}"};
    struct rank_fixture fixture = {0};
    watch(&fixture);
    open_product(&fixture, &p);
    assert_int_equal(spy.asked, 1);
    run_rows(&fixture, 2);
    assert_int_equal(spy.asked, 1);
    fixture_close(&fixture);
}

static void w_is_the_first_operand_with_its_scale(void **state)
{
    (void)state;
    const struct product p = {.entry = "cublaslt_fp8_tn", FP8, .m_max = 4, .n = 8, .k = 16};
    struct rank_fixture fixture = {0};
    watch(&fixture);
    open_product(&fixture, &p);
    const float a_scale = 3, w_scale = 5;
    float found[2] = {0};
    fixture_write(&fixture, "a_scale", &a_scale, sizeof(float));
    fixture_write(&fixture, "w_scale", &w_scale, sizeof(float));
    for (int i = 0; i < 2; i++) {
        assert_true(kern_rank_peek(fixture.rank, spy.scale_pointers[i], &found[i], sizeof(float),
                                   &fixture.diag));
    }
    assert_true(found[0] == w_scale && found[1] == a_scale);
    assert_int_equal(spy.trans[0], CUBLAS_OP_T);
    assert_int_equal(spy.trans[1], CUBLAS_OP_N);
    fixture_close(&fixture);
}

static void a_pinned_algorithm_is_checked_for_every_shape(void **state)
{
    (void)state;
    struct product p = {.entry = "cublaslt_bf16_tn",
                        BF16,
                        .m_max = 100,
                        .n = 8,
                        .k = 16,
                        .more = ", 'when': {'var': 'm', 'min': 20, 'max': 83}, " ALGO};
    struct rank_fixture fixture = {0};
    watch(&fixture);
    open_product(&fixture, &p);
    assert_int_equal(spy.checked, 64);
    run_rows(&fixture, 20);
    run_rows(&fixture, 83);
    assert_int_equal(spy.checked, 64);
    assert_int_equal(spy.asked, 0);
    fixture_close(&fixture);

    // One more value, and only the corners are checked at load, the others when they run.
    p.more = ", 'when': {'var': 'm', 'min': 20, 'max': 84}, " ALGO;
    watch(&fixture);
    spy.refused_rows = 50;
    open_product(&fixture, &p);
    assert_int_equal(spy.checked, 2);
    run_rows(&fixture, 51);
    assert_int_equal(spy.checked, 3);
    fixture_set_var(&fixture, "m", 50);
    assert_false(kern_rank_issue(fixture.rank, 0, fixture.vars, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_ARTIFACT, "pinned algorithm", "m 50, n 8, k 16", NULL);
    assert_true(kern_rank_wait(fixture.rank, KERN_NO_DEADLINE, NULL, &fixture.diag));
    assert_int_equal(spy.asked, 0); // nothing else was tried
    fixture_close(&fixture);
    assert_int_equal(spy.layouts, 0);
}

static void a_pinned_algorithm_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    const struct product p = {.entry = "cublaslt_bf16_tn_acc",
                              BF16,
                              .accumulates = true,
                              .m_max = 9,
                              .n = 8,
                              .k = 16,
                              .more = ", " ALGO};
    struct rank_fixture fixture = {0};
    watch(&fixture);
    spy.refused_rows = 5; // between the corners
    assert_false(try_product(&fixture, &p));
    fixture_expect(&fixture, KERN_EXIT_ARTIFACT, "programs.p.calls[0]", "m 5, n 8, k 16",
                   "CUBLAS_STATUS_NOT_SUPPORTED", NULL);
    fixture_close(&fixture);
    assert_int_equal(spy.layouts, 0);

    static const char *const names[] = {"tile",   "split_k", "reduction",   "swizzle",
                                        "custom", "stages",  "inner_shape", "cluster_shape"};
    for (int attribute = CUBLASLT_ALGO_CONFIG_TILE_ID;
         attribute <= CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID; attribute++) {
        char text[64];
        snprintf(text, sizeof(text), "refuses %s of the pinned", names[attribute - 1]);
        watch(&fixture);
        spy.refused_attribute = attribute;
        assert_false(try_product(&fixture, &p));
        fixture_expect(&fixture, KERN_EXIT_ARTIFACT, text, "CUBLAS_STATUS_INVALID_VALUE", NULL);
        fixture_close(&fixture);
    }
}

static void an_unknown_algorithm_is_refused(void **state)
{
    (void)state;
    const struct product p = {
        .entry = "cublaslt_bf16_tn",
        BF16,
        .m_max = 2,
        .n = 8,
        .k = 16,
        .more = ", 'algo': {'id': 12345, 'tile': 15, 'stages': 9, 'split_k': 1, 'reduction': 0,"
                " 'swizzle': 0, 'custom': 0, 'inner_shape': 0, 'cluster_shape': 0}"};
    struct rank_fixture fixture = {0};
    assert_false(try_product(&fixture, &p));
    fixture_expect(&fixture, KERN_EXIT_ARTIFACT, "refuses id of the pinned", "id 12345", NULL);
    fixture_close(&fixture);
}

static void fp8_matrices_are_aligned(void **state)
{
    (void)state;
    const struct product misplaced[] = {
        {.entry = "cublaslt_fp8_tn", FP8, .m_max = 4, .n = 8, .k = 16, .a_at = 8},
        {.entry = "cublaslt_fp8_tn", FP8, .m_max = 4, .n = 8, .k = 16, .w_at = 4},
        {.entry = "cublaslt_fp8_tn", FP8, .m_max = 4, .n = 8, .k = 16, .c_at = 2},
    };
    static const char *const found[] = {"(aligned to 8)", "(aligned to 4)", "(aligned to 4)"};
    struct rank_fixture fixture = {0};
    for (size_t i = 0; i < sizeof(found) / sizeof(*found); i++) {
        assert_false(try_product(&fixture, &misplaced[i]));
        fixture_expect(&fixture, KERN_EXIT_MANIFEST, "multiples of 16 bytes", "m 1, n 8, k 16",
                       "fp8e4m3 with row stride 16 at 0x", "bf16 with row stride 8", found[i],
                       NULL);
        fixture_close(&fixture);
    }
    const struct product strided = {
        .entry = "cublaslt_fp8_tn", FP8, .m_max = 4, .n = 8, .k = 16, .ldc = 12};
    assert_false(try_product(&fixture, &strided));
    fixture_expect(&fixture, KERN_EXIT_MANIFEST, "rows of c", "bf16 with row stride 12", NULL);
    fixture_close(&fixture);
}

// A stride that is long enough at both corners and too short between them passes verification.
static void a_short_stride_is_refused_when_it_runs(void **state)
{
    (void)state;
    const struct product p = {
        .entry = "cublaslt_bf16_tn",
        BF16,
        .m_max = 16,
        .n = 8,
        .k = 16,
        .c_elements = 200,
        .w_elements = 256,
        .m = "{'i32': 1}",
        .n_text = "{'var': 'm'}",
        .ldc_text = "{'expr': {'add': [1, {'mul': [{'clamp': ['m', 12, 100]}, 4]}]}}"};
    struct rank_fixture fixture = {0};
    open_product(&fixture, &p);
    run_rows(&fixture, 1);
    run_rows(&fixture, 16);
    fixture_set_var(&fixture, "m", 8);
    assert_false(kern_rank_issue(fixture.rank, 0, fixture.vars, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_MANIFEST, "shorter than a row", "m 1, n 8, k 16",
                   "row stride 1 at", NULL);
    assert_true(kern_rank_wait(fixture.rank, KERN_NO_DEADLINE, NULL, &fixture.diag));
    fixture_close(&fixture);
}

// What the verifier refuses is refused at load as well, for manifests that did not pass it.
static struct kern_manifest *unverified(struct rank_fixture *fixture, const struct product *p)
{
    char *text = product_manifest(p);
    assert_true(fixture_create(fixture, text));
    free(text);
    return fixture->manifest;
}

static bool finish(struct rank_fixture *fixture)
{
    return kern_rank_load_modules(fixture->rank, &fixture->diag) &&
           kern_rank_allocate(fixture->rank, KERN_HANDLE_FABRIC, &fixture->diag) &&
           kern_rank_compile(fixture->rank, &fixture->diag);
}

static void operands_that_are_too_small_are_refused(void **state)
{
    (void)state;
    const struct product p = {.entry = "cublas_bf16_tn_f32",
                              .operand = KERN_BF16,
                              .result = KERN_F32,
                              .m_max = 4,
                              .n = 8,
                              .k = 16,
                              .ldc = 10,
                              .c_at = 2};
    static const struct {
        const char *buffer;
        uint64_t needed;   // the offset comes on top
        const char *shape; // W is too small for any m, so that shows at the first corner
    } cases[] = {
        {"a", 128, "m 4, n 8, k 16"}, {"w", 256, "m 1, n 8, k 16"}, {"c", 152, "m 4, n 8, k 16"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct rank_fixture fixture = {0};
        struct kern_manifest *manifest = unverified(&fixture, &p);
        struct kern_buffer *buffer =
            (struct kern_buffer *)&manifest->buffers[fixture_buffer(&fixture, cases[i].buffer)];
        buffer->bytes -= 4;
        assert_false(finish(&fixture));
        char needs[64], has[64];
        snprintf(needs, sizeof(needs), "%s needs %llu bytes", cases[i].buffer,
                 (unsigned long long)cases[i].needed);
        snprintf(has, sizeof(has), "has %llu from", (unsigned long long)cases[i].needed - 4);
        fixture_expect(&fixture, KERN_EXIT_MANIFEST, needs, has, cases[i].shape, NULL);
        fixture_close(&fixture);
    }
}

static void a_negative_extent_does_not_wrap(void **state)
{
    (void)state;
    const struct product p = {.entry = "cublaslt_bf16_tn", BF16, .m_max = 4, .n = 8, .k = 16};
    struct rank_fixture fixture = {0};
    struct kern_manifest *manifest = unverified(&fixture, &p);
    struct kern_value *n = (struct kern_value *)&manifest->programs[0].calls[0].args[4];
    assert_int_equal(n->integer, 8);
    n->integer = -8;
    assert_false(finish(&fixture));
    fixture_expect(&fixture, KERN_EXIT_MANIFEST, "n is -8", NULL);
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_heuristic_is_asked_once_per_shape),
        cmocka_unit_test(a_constant_shape_is_prepared_at_load),
        cmocka_unit_test(w_is_the_first_operand_with_its_scale),
        cmocka_unit_test(a_pinned_algorithm_is_checked_for_every_shape),
        cmocka_unit_test(a_pinned_algorithm_that_does_not_fit_is_refused),
        cmocka_unit_test(an_unknown_algorithm_is_refused),
        cmocka_unit_test(fp8_matrices_are_aligned),
        cmocka_unit_test(a_short_stride_is_refused_when_it_runs),
        cmocka_unit_test(operands_that_are_too_small_are_refused),
        cmocka_unit_test(a_negative_extent_does_not_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
