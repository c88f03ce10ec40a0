// SPDX-License-Identifier: Apache-2.0
//
// cuBLASLt of the emulated GPU: its algorithms, and which of them it would take.
#include "tests/emu_cublaslt_product.h"

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
    {21, 20, 2, 2, 0, 0, 0, 0, 0, 64, 128, 96, CUBLAS_STATUS_SUCCESS, 64 << 10},
    {21, 20, 2, 4, 0, 0, 0, 0, 0, 64, 128, 96, CUBLAS_STATUS_SUCCESS, 32 << 10},
    {21, 15, 2, 1, 0, 0, 0, 0, 0, 64, 128, 96, CUBLAS_STATUS_SUCCESS, 8},
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
    BLAS_OK(multiply(&p, sound_a.data, sound_w.data, 0, sound_d.data, sound_d.data,
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pinned_algorithms),
        cmocka_unit_test(algorithms_that_are_none),
        cmocka_unit_test(the_heuristic),
    };
    return cmocka_run_group_tests_name("emu cublaslt algorithms", tests, NULL, NULL);
}
