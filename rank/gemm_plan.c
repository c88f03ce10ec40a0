// SPDX-License-Identifier: Apache-2.0
//
// What cuBLASLt wants to be told of a product, kept per shape: layouts and an algorithm, which is
// the heuristic's first answer or the one that the manifest pins.
#include "rank/builtin.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static bool set_desc(struct kern_rank *rank, const struct rank_builtin *builtin,
                     cublasLtMatmulDescAttributes_t attribute, const void *value, size_t bytes,
                     struct kern_diag *diag)
{
    return RANK_LT(rank, diag, builtin->place, cublasLtMatmulDescSetAttribute, builtin->gemm->desc,
                   attribute, value, bytes);
}

static bool make_desc(struct kern_rank *rank, const struct rank_builtin *builtin,
                      struct kern_diag *diag)
{
    int32_t transposed = CUBLAS_OP_T, plain = CUBLAS_OP_N;
    if (!RANK_LT(rank, diag, builtin->place, cublasLtMatmulDescCreate, &builtin->gemm->desc,
                 CUBLAS_COMPUTE_32F, CUDA_R_32F) ||
        !set_desc(rank, builtin, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed),
                  diag) ||
        !set_desc(rank, builtin, CUBLASLT_MATMUL_DESC_TRANSB, &plain, sizeof(plain), diag)) {
        return false;
    }
    if (!builtin->given[KERN_ROLE_A_SCALE]) {
        return true;
    }
    // W is the library's A.
    void *w_scale = rank_operand_pointer(builtin, KERN_ROLE_W_SCALE);
    void *a_scale = rank_operand_pointer(builtin, KERN_ROLE_A_SCALE);
    return set_desc(rank, builtin, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &w_scale, sizeof(w_scale),
                    diag) &&
           set_desc(rank, builtin, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &a_scale, sizeof(a_scale),
                    diag);
}

static bool prefer(struct kern_rank *rank, const struct rank_builtin *builtin,
                   cublasLtMatmulPreferenceAttributes_t attribute, const void *value, size_t bytes,
                   struct kern_diag *diag)
{
    return RANK_LT(rank, diag, builtin->place, cublasLtMatmulPreferenceSetAttribute,
                   builtin->gemm->preference, attribute, value, bytes);
}

// Partial sums are added in f32, never in the type of the result. The heuristic takes pointers for
// multiples of 256 unless it is told; an offset may leave less.
static bool make_preference(struct kern_rank *rank, const struct rank_builtin *builtin,
                            struct kern_diag *diag)
{
    uint64_t workspace = KERN_GEMM_WORKSPACE;
    uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    uint32_t a = rank_gemm_alignment(builtin, KERN_ROLE_A);
    uint32_t w = rank_gemm_alignment(builtin, KERN_ROLE_W);
    uint32_t c = rank_gemm_alignment(builtin, KERN_ROLE_C);
    return RANK_LT(rank, diag, builtin->place, cublasLtMatmulPreferenceCreate,
                   &builtin->gemm->preference) &&
           prefer(rank, builtin, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                  sizeof(workspace), diag) &&
           prefer(rank, builtin, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reduction,
                  sizeof(reduction), diag) &&
           prefer(rank, builtin, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &w, sizeof(w), diag) &&
           prefer(rank, builtin, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &a, sizeof(a), diag) &&
           prefer(rank, builtin, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &c, sizeof(c), diag) &&
           prefer(rank, builtin, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &c, sizeof(c), diag);
}

// The attributes of a pinned algorithm beside its id: [name] is the manifest's.
static const struct {
    const char *name;
    cublasLtMatmulAlgoConfigAttributes_t attribute;
    size_t offset;
    size_t bytes;
} algo_attributes[] = {
#define ATTRIBUTE(member, which)                                                                   \
    {                                                                                              \
#member, CUBLASLT_ALGO_CONFIG_##which, offsetof(struct kern_gemm_algo, member),            \
            sizeof(((struct kern_gemm_algo *)NULL)->member)                                        \
    }
    ATTRIBUTE(tile, TILE_ID),
    ATTRIBUTE(stages, STAGES_ID),
    ATTRIBUTE(split_k, SPLITK_NUM),
    ATTRIBUTE(reduction, REDUCTION_SCHEME),
    ATTRIBUTE(swizzle, CTA_SWIZZLING),
    ATTRIBUTE(custom, CUSTOM_OPTION),
    ATTRIBUTE(inner_shape, INNER_SHAPE_ID),
    ATTRIBUTE(cluster_shape, CLUSTER_SHAPE_ID),
#undef ATTRIBUTE
};

static const char *algo_text(const struct kern_gemm_algo *algo, struct kern_arena *arena)
{
    return kern_arena_print(arena,
                            "id %d, tile %u, stages %u, split_k %d, reduction %u, swizzle %u, "
                            "custom %u, inner_shape %u, cluster_shape %u",
                            algo->id, algo->tile, algo->stages, algo->split_k, algo->reduction,
                            algo->swizzle, algo->custom, algo->inner_shape, algo->cluster_shape);
}

static bool refuse_attribute(const struct rank_builtin *builtin, const char *name,
                             const struct kern_gemm_algo *algo, cublasStatus_t status,
                             struct kern_diag *diag)
{
    return kern_fail(diag, KERN_EXIT_ARTIFACT, builtin->place,
                     "this cuBLASLt refuses %s of the pinned algorithm (%s) with %s (%d)", name,
                     algo_text(algo, &diag->arena), kern_cublas_status_name(status), (int)status);
}

static bool make_pinned(struct kern_rank *rank, const struct rank_builtin *builtin,
                        const struct kern_gemm_algo *algo, struct kern_diag *diag)
{
    const struct kern_cublaslt *lt = &rank->device->cublaslt;
    cublasLtMatmulAlgo_t *pinned = &builtin->gemm->pinned;
    cudaDataType_t operand = rank_gemm_type(builtin, KERN_ROLE_A);
    cudaDataType_t result = rank_gemm_type(builtin, KERN_ROLE_C);
    cublasStatus_t status =
        lt->cublasLtMatmulAlgoInit(rank->blas.lt, CUBLAS_COMPUTE_32F, CUDA_R_32F, operand, operand,
                                   result, result, algo->id, pinned);
    if (status != CUBLAS_STATUS_SUCCESS) {
        return refuse_attribute(builtin, "id", algo, status, diag);
    }
    for (size_t i = 0; i < sizeof(algo_attributes) / sizeof(*algo_attributes); i++) {
        status = lt->cublasLtMatmulAlgoConfigSetAttribute(
            pinned, algo_attributes[i].attribute, (const char *)algo + algo_attributes[i].offset,
            algo_attributes[i].bytes);
        if (status != CUBLAS_STATUS_SUCCESS) {
            return refuse_attribute(builtin, algo_attributes[i].name, algo, status, diag);
        }
    }
    return true;
}

bool rank_gemm_prepare(struct kern_rank *rank, struct rank_builtin *builtin,
                       const struct kern_gemm_algo *algo, struct kern_diag *diag)
{
    builtin->gemm = kern_arena_alloc(&rank->arena, sizeof(*builtin->gemm));
    builtin->gemm->next = rank->blas.gemms;
    rank->blas.gemms = builtin->gemm;
    return make_desc(rank, builtin, diag) &&
           (algo == NULL ? make_preference(rank, builtin, diag)
                         : make_pinned(rank, builtin, algo, diag));
}

static void free_layouts(struct kern_rank *rank, const struct rank_gemm_plan *plan)
{
    const cublasLtMatrixLayout_t layouts[] = {plan->a, plan->w, plan->c};
    for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++) {
        if (layouts[i] != NULL) {
            rank->device->cublaslt.cublasLtMatrixLayoutDestroy(layouts[i]);
        }
    }
}

static bool make_layouts(struct kern_rank *rank, const struct rank_builtin *builtin,
                         struct rank_gemm_plan *plan, struct kern_diag *diag)
{
    const struct rank_gemm_shape *shape = &plan->shape;
    return RANK_LT(rank, diag, builtin->place, cublasLtMatrixLayoutCreate, &plan->w,
                   rank_gemm_type(builtin, KERN_ROLE_W), shape->k, shape->n, (int64_t)shape->k) &&
           RANK_LT(rank, diag, builtin->place, cublasLtMatrixLayoutCreate, &plan->a,
                   rank_gemm_type(builtin, KERN_ROLE_A), shape->k, shape->m, (int64_t)shape->lda) &&
           RANK_LT(rank, diag, builtin->place, cublasLtMatrixLayoutCreate, &plan->c,
                   rank_gemm_type(builtin, KERN_ROLE_C), shape->n, shape->m, (int64_t)shape->ldc);
}

static bool take_pinned(struct kern_rank *rank, const struct rank_builtin *builtin,
                        struct rank_gemm_plan *plan, struct kern_diag *diag)
{
    cublasLtMatmulHeuristicResult_t result = {.state = CUBLAS_STATUS_SUCCESS};
    plan->algo = builtin->gemm->pinned;
    cublasStatus_t status = rank->device->cublaslt.cublasLtMatmulAlgoCheck(
        rank->blas.lt, builtin->gemm->desc, plan->w, plan->a, plan->c, plan->c, &plan->algo,
        &result);
    status = status == CUBLAS_STATUS_SUCCESS ? result.state : status;
    if (status != CUBLAS_STATUS_SUCCESS) {
        return kern_fail(diag, KERN_EXIT_ARTIFACT, builtin->place,
                         "the pinned algorithm does not fit a shape of this call, "
                         "cublasLtMatmulAlgoCheck says %s (%d): %s",
                         kern_cublas_status_name(status), (int)status,
                         rank_gemm_text(builtin, &plan->shape, &diag->arena));
    }
    return result.workspaceSize <= KERN_GEMM_WORKSPACE ||
           kern_fail(diag, KERN_EXIT_ARTIFACT, builtin->place,
                     "the pinned algorithm needs %zu bytes of workspace for a shape of this call, "
                     "there are %llu: %s",
                     result.workspaceSize, KERN_GEMM_WORKSPACE,
                     rank_gemm_text(builtin, &plan->shape, &diag->arena));
}

static bool ask_heuristic(struct kern_rank *rank, const struct rank_builtin *builtin,
                          struct rank_gemm_plan *plan, struct kern_diag *diag)
{
    cublasLtMatmulHeuristicResult_t result = {.state = CUBLAS_STATUS_SUCCESS};
    int count = 0;
    cublasStatus_t status = rank->device->cublaslt.cublasLtMatmulAlgoGetHeuristic(
        rank->blas.lt, builtin->gemm->desc, plan->w, plan->a, plan->c, plan->c,
        builtin->gemm->preference, 1, &result, &count);
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = count == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : result.state;
    }
    plan->algo = result.algo;
    return status == CUBLAS_STATUS_SUCCESS ||
           kern_fail(diag, KERN_EXIT_DEVICE, builtin->place,
                     "cublasLtMatmulAlgoGetHeuristic finds no algorithm, %s (%d): %s",
                     kern_cublas_status_name(status), (int)status,
                     rank_gemm_text(builtin, &plan->shape, &diag->arena));
}

// Where a new plan goes: at the end, or where the one lies that was used longest ago.
static struct rank_gemm_plan *make_room(struct kern_rank *rank, struct rank_gemm *gemm)
{
    if (gemm->n_plans < RANK_SHAPES_MAX) {
        kern_reserve(&gemm->plans, &gemm->capacity, gemm->n_plans + 1, sizeof(*gemm->plans));
        return &gemm->plans[gemm->n_plans++];
    }
    struct rank_gemm_plan *oldest = gemm->plans;
    for (size_t i = 1; i < gemm->n_plans; i++) {
        oldest = gemm->plans[i].last_use < oldest->last_use ? &gemm->plans[i] : oldest;
    }
    free_layouts(rank, oldest);
    return oldest;
}

const struct rank_gemm_plan *rank_gemm_plan(struct kern_rank *rank,
                                            const struct rank_builtin *builtin,
                                            const struct rank_gemm_shape *shape,
                                            struct kern_diag *diag)
{
    struct rank_gemm *gemm = builtin->gemm;
    gemm->uses++;
    for (size_t i = 0; i < gemm->n_plans; i++) {
        if (memcmp(&gemm->plans[i].shape, shape, sizeof(*shape)) == 0) {
            gemm->plans[i].last_use = gemm->uses;
            return &gemm->plans[i];
        }
    }
    struct rank_gemm_plan plan = {.shape = *shape, .last_use = gemm->uses};
    if (!make_layouts(rank, builtin, &plan, diag) ||
        !(gemm->preference == NULL ? take_pinned(rank, builtin, &plan, diag)
                                   : ask_heuristic(rank, builtin, &plan, diag))) {
        free_layouts(rank, &plan);
        return NULL;
    }
    struct rank_gemm_plan *room = make_room(rank, gemm);
    *room = plan;
    return room;
}

void rank_gemms_free(struct kern_rank *rank)
{
    const struct kern_cublaslt *lt = &rank->device->cublaslt;
    for (struct rank_gemm *gemm = rank->blas.gemms; gemm != NULL; gemm = gemm->next) {
        for (size_t i = 0; i < gemm->n_plans; i++) {
            free_layouts(rank, &gemm->plans[i]);
        }
        free(gemm->plans);
        if (gemm->preference != NULL) {
            lt->cublasLtMatmulPreferenceDestroy(gemm->preference);
        }
        if (gemm->desc != NULL) {
            lt->cublasLtMatmulDescDestroy(gemm->desc);
        }
    }
    rank->blas.gemms = NULL;
}
