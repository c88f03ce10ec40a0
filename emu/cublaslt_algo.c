// SPDX-License-Identifier: Apache-2.0
//
// cuBLASLt's algorithms; emu/cublaslt.h has the rules.
#include "emu/cublaslt.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define MAGIC 0x6b616c67u
#define MULTIPROCESSORS 132 // of the emulated GPU
#define MIN_SPLIT 32        // elements of k in a part

// Of cublasLtNumericalImplFlags_t: tensor cores with f32 sums.
#define IMPL_TENSOR_F32 (0x02ull | 0x02ull << 8)
#define IMPL_INPUT_BF16 (0x02ull << 16)
#define IMPL_INPUT_E4M3 (0x40ull << 16)

// What a cublasLtMatmulAlgo_t holds.
struct algo {
    uint32_t magic;
    int32_t id;
    int32_t operand, result; // cudaDataType_t
    uint32_t tile, stages;
    int32_t split_k;
    uint32_t reduction, swizzle, custom;
    uint16_t inner_shape, cluster_shape;
};

_Static_assert(sizeof(struct algo) <= sizeof(cublasLtMatmulAlgo_t), "an algorithm fits");

struct family {
    int32_t id;
    bool fp8;
    uint64_t alignment;
    uint32_t max_tile_rows, max_tile_cols;
    int32_t max_split_k;
    bool clusters;
};

// In the order in which a search prefers them.
static const struct family families[] = {
    {66, true, 16, 256, 128, 1, true},
    {21, false, 16, 256, 128, 32, false},
    {6, false, 2, 128, 128, 32, false},
};

// By cublasLtMatmulTile_t; 0 is undefined.
static const struct {
    uint32_t rows, cols;
} tiles[] = {{0, 0},    {8, 8},    {8, 16},    {16, 8},   {8, 32},   {16, 16},  {32, 8},
             {8, 64},   {16, 32},  {32, 16},   {64, 8},   {32, 32},  {32, 64},  {64, 32},
             {32, 128}, {64, 64},  {128, 32},  {64, 128}, {128, 64}, {64, 256}, {128, 128},
             {256, 64}, {64, 512}, {128, 256}, {256, 128}};

// The tiles that a search tries, the preferred one first.
static const uint32_t searched_tiles[] = {20 /* 128x128 */, 18 /* 128x64 */, 15 /* 64x64 */};

static const struct family *find_family(int32_t id)
{
    for (size_t i = 0; i < COUNT(families); i++) {
        if (families[i].id == id) {
            return &families[i];
        }
    }
    return NULL;
}

static bool takes(const struct family *family, struct emu_blas_types types)
{
    return emu_blas_computes(EMU_BLAS_LT, types) && (types.operand == CUDA_R_16BF || family->fp8);
}

static struct algo make_algo(const struct family *family, struct emu_blas_types types)
{
    return (struct algo){.magic = MAGIC,
                         .id = family->id,
                         .operand = (int32_t)types.operand,
                         .result = (int32_t)types.result,
                         .split_k = 1};
}

static void store(cublasLtMatmulAlgo_t *to, const struct algo *algo)
{
    memset(to, 0, sizeof *to);
    memcpy(to, algo, sizeof *algo);
}

static struct algo load(const cublasLtMatmulAlgo_t *from)
{
    struct algo algo;
    memcpy(&algo, from, sizeof algo);
    return algo;
}

bool emu_algo_is_one(const cublasLtMatmulAlgo_t *algo)
{
    struct algo loaded = load(algo);
    return loaded.magic == MAGIC && find_family(loaded.id) != NULL;
}

static bool in_range(const struct algo *algo)
{
    bool scheme = algo->reduction == CUBLASLT_REDUCTION_SCHEME_INPLACE ||
                  algo->reduction == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE ||
                  algo->reduction == CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
    bool reduces = algo->reduction != CUBLASLT_REDUCTION_SCHEME_NONE;
    return algo->tile >= 1 && algo->tile < COUNT(tiles) && algo->stages <= 38 &&
           algo->split_k >= 1 && algo->split_k <= 32 && (algo->split_k > 1 ? scheme : !reduces) &&
           algo->swizzle <= 1 && algo->custom <= 7 && algo->inner_shape <= 4 &&
           algo->cluster_shape <= 20 && algo->cluster_shape != 1;
}

static bool family_has(const struct family *family, const struct algo *algo)
{
    return tiles[algo->tile].rows <= family->max_tile_rows &&
           tiles[algo->tile].cols <= family->max_tile_cols &&
           algo->split_k <= family->max_split_k &&
           (family->clusters || algo->cluster_shape == 0 || algo->cluster_shape == 2);
}

static bool tile_fits(uint64_t tile, uint64_t extent)
{
    return tile <= (extent + 63) / 64 * 64 * 2;
}

static uint64_t count_tiles(const struct algo *algo, const struct emu_matmul *matmul)
{
    uint64_t rows = tiles[algo->tile].rows, cols = tiles[algo->tile].cols;
    return ((matmul->m + rows - 1) / rows) * ((matmul->n + cols - 1) / cols);
}

// Extents are below 2^31 and splits at most 32, so nothing overflows.
static size_t workspace_bytes(const struct algo *algo, const struct emu_matmul *matmul)
{
    uint64_t partial = matmul->m * matmul->n;
    switch (algo->reduction) {
    case CUBLASLT_REDUCTION_SCHEME_INPLACE:
        return count_tiles(algo, matmul) * sizeof(uint32_t);
    case CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE:
        return partial > SIZE_MAX / 256 ? SIZE_MAX
                                        : partial * (uint64_t)algo->split_k * sizeof(float);
    case CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE:
        return partial > SIZE_MAX / 256
                   ? SIZE_MAX
                   : partial * (uint64_t)algo->split_k * emu_blas_type_bytes(matmul->types.result);
    default:
        return 0;
    }
}

cublasStatus_t emu_algo_check(const cublasLtMatmulAlgo_t *given, const struct emu_matmul *matmul,
                              struct emu_algo_needs *needs)
{
    struct algo algo = load(given);
    const struct family *family = algo.magic == MAGIC ? find_family(algo.id) : NULL;
    if (family == NULL || algo.operand != (int32_t)matmul->types.operand ||
        algo.result != (int32_t)matmul->types.result || !in_range(&algo)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (!family_has(family, &algo) || matmul->ld_alignment < family->alignment ||
        !tile_fits(tiles[algo.tile].rows, matmul->m) ||
        !tile_fits(tiles[algo.tile].cols, matmul->n) ||
        (algo.split_k > 1 && matmul->k / (uint64_t)algo.split_k < MIN_SPLIT)) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    *needs = (struct emu_algo_needs){
        .workspace_bytes = workspace_bytes(&algo, matmul),
        .alignment = family->alignment,
        .waves = (float)(count_tiles(&algo, matmul) * (uint64_t)algo.split_k) / MULTIPROCESSORS,
    };
    return CUBLAS_STATUS_SUCCESS;
}

// ---------------------------------------------------------------------------------------------
// The search

struct search {
    const struct emu_matmul *matmul;
    const struct emu_algo_limits *limits;
    cublasLtMatmulHeuristicResult_t *results;
    int n, max;
};

static void consider(struct search *search, const struct algo *algo)
{
    const struct emu_algo_limits *limits = search->limits;
    struct emu_algo_needs needs;
    cublasLtMatmulAlgo_t stored;
    store(&stored, algo);
    if (search->n == search->max ||
        emu_algo_check(&stored, search->matmul, &needs) != CUBLAS_STATUS_SUCCESS ||
        needs.workspace_bytes > limits->max_workspace_bytes ||
        needs.alignment > limits->alignment || (algo->reduction & ~limits->reduction_mask) != 0 ||
        (limits->max_waves > 0 && needs.waves > limits->max_waves)) {
        return;
    }
    search->results[search->n++] = (cublasLtMatmulHeuristicResult_t){
        .algo = stored,
        .workspaceSize = needs.workspace_bytes,
        .state = CUBLAS_STATUS_SUCCESS,
        .wavesCount = needs.waves,
    };
}

static void consider_family(struct search *search, const struct family *family)
{
    struct algo algo = make_algo(family, search->matmul->types);
    for (size_t i = 0; i < COUNT(searched_tiles); i++) {
        algo.tile = searched_tiles[i];
        consider(search, &algo);
        // A long sum of a small result keeps more multiprocessors busy in parts.
        struct algo split = algo;
        split.split_k = 4;
        split.reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
        consider(search, &split);
    }
}

int emu_algo_search(const struct emu_matmul *matmul, const struct emu_algo_limits *limits,
                    cublasLtMatmulHeuristicResult_t *results, int max_results)
{
    struct search search = {matmul, limits, results, 0, max_results};
    // [results] may be where the preset id stands.
    int32_t only = limits->only_id_of == NULL ? -1 : load(limits->only_id_of).id;
    uint64_t impl = IMPL_TENSOR_F32 |
                    (matmul->types.operand == CUDA_R_16BF ? IMPL_INPUT_BF16 : IMPL_INPUT_E4M3);
    if ((limits->impl_mask & impl) != impl) {
        return 0;
    }
    for (size_t i = 0; i < COUNT(families); i++) {
        if ((only < 0 || only == families[i].id) && takes(&families[i], matmul->types)) {
            consider_family(&search, &families[i]);
        }
    }
    return search.n;
}

// ---------------------------------------------------------------------------------------------
// Algorithms that the caller makes

cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t handle, cublasComputeType_t compute,
                                      cudaDataType_t scale_type, cudaDataType_t a_type,
                                      cudaDataType_t b_type, cudaDataType_t c_type,
                                      cudaDataType_t d_type, int id, cublasLtMatmulAlgo_t *algo)
{
    EMU_BLAS_ENTER(emu_blas_enter_gpu(__func__, EMU_PLAIN));
    cublasStatus_t status;
    if (emu_blas_handle(handle, EMU_CUBLASLT, &status) == NULL) {
        return status;
    }
    const struct family *family = find_family(id);
    if (algo == NULL || family == NULL) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    struct emu_blas_types types = {a_type, d_type};
    if (compute != CUBLAS_COMPUTE_32F || scale_type != CUDA_R_32F || b_type != a_type ||
        c_type != d_type || !takes(family, types)) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    struct algo made = make_algo(family, types);
    store(algo, &made);
    return CUBLAS_STATUS_SUCCESS;
}

// CONFIG_ID is cublasLtMatmulAlgoInit's to set, and stands in no row.
#define CONFIG(name, member)                                                                       \
    {                                                                                              \
        CUBLASLT_ALGO_CONFIG_##name, offsetof(struct algo, member),                                \
            sizeof(((struct algo *)0)->member)                                                     \
    }
static const struct emu_attribute config_attributes[] = {
    CONFIG(TILE_ID, tile),
    CONFIG(SPLITK_NUM, split_k),
    CONFIG(REDUCTION_SCHEME, reduction),
    CONFIG(CTA_SWIZZLING, swizzle),
    CONFIG(CUSTOM_OPTION, custom),
    CONFIG(STAGES_ID, stages),
    CONFIG(INNER_SHAPE_ID, inner_shape),
    CONFIG(CLUSTER_SHAPE_ID, cluster_shape),
};

cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    const void *value, size_t bytes)
{
    EMU_BLAS_ENTER(emu_blas_enter(__func__));
    if (algo == NULL || !emu_algo_is_one(algo)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    return emu_attribute_set(algo, config_attributes, COUNT(config_attributes), (int)attribute,
                             value, bytes);
}
