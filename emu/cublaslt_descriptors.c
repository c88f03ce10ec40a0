// SPDX-License-Identifier: Apache-2.0
//
// cuBLASLt's descriptors: layouts, operations and preferences. As in the library, what an attribute
// says is judged when the descriptor is used, and setting it checks the size of the value alone.
#include "emu/cublaslt.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define FILL_MODE_FULL 2 // CUBLAS_FILL_MODE_FULL

cublasStatus_t emu_attribute_set(void *object, const struct emu_attribute *table, size_t n,
                                 int attribute, const void *value, size_t bytes)
{
    for (size_t i = 0; i < n; i++) {
        if (table[i].attribute == attribute) {
            if (value == NULL || bytes != table[i].bytes) {
                return CUBLAS_STATUS_INVALID_VALUE;
            }
            memcpy((char *)object + table[i].offset, value, bytes);
            return CUBLAS_STATUS_SUCCESS;
        }
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

static cublasStatus_t set(const void *handle, enum emu_kind kind, const struct emu_attribute *table,
                          size_t n, int attribute, const void *value, size_t bytes)
{
    void *object = emu_handle_live(EMU_VALUE(handle), kind);
    return object == NULL ? CUBLAS_STATUS_INVALID_VALUE
                          : emu_attribute_set(object, table, n, attribute, value, bytes);
}

static cublasStatus_t destroy(const void *handle, enum emu_kind kind)
{
    void *object = emu_handle_live(EMU_VALUE(handle), kind);
    if (object == NULL) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    emu_handle_free(object);
    return CUBLAS_STATUS_SUCCESS;
}

#define ATTRIBUTE(object, name, member)                                                            \
    {                                                                                              \
        name, offsetof(struct object, member), sizeof(((struct object *)0)->member)                \
    }

#define LAYOUT(name, member) ATTRIBUTE(emu_matrix_layout, CUBLASLT_MATRIX_LAYOUT_##name, member)
static const struct emu_attribute layout_attributes[] = {
    LAYOUT(TYPE, type),
    LAYOUT(ORDER, order),
    LAYOUT(ROWS, rows),
    LAYOUT(COLS, cols),
    LAYOUT(LD, ld),
    LAYOUT(BATCH_COUNT, batch_count),
    LAYOUT(STRIDED_BATCH_OFFSET, batch_offset),
};

#define DESC(name, member) ATTRIBUTE(emu_matmul_desc, CUBLASLT_MATMUL_DESC_##name, member)
static const struct emu_attribute desc_attributes[] = {
    DESC(COMPUTE_TYPE, compute),
    DESC(SCALE_TYPE, scale_type),
    DESC(POINTER_MODE, pointer_mode),
    DESC(TRANSA, transa),
    DESC(TRANSB, transb),
    DESC(TRANSC, transc),
    DESC(FILL_MODE, fill_mode),
    DESC(EPILOGUE, epilogue),
    DESC(BIAS_POINTER, bias),
    DESC(SM_COUNT_TARGET, sm_count_target),
    DESC(A_SCALE_POINTER, a_scale),
    DESC(B_SCALE_POINTER, b_scale),
    DESC(C_SCALE_POINTER, c_scale),
    DESC(D_SCALE_POINTER, d_scale),
    DESC(AMAX_D_POINTER, amax),
    DESC(FAST_ACCUM, fast_accumulation),
    DESC(BIAS_DATA_TYPE, bias_type),
};

#define PREF(name, member) ATTRIBUTE(emu_matmul_preference, CUBLASLT_MATMUL_PREF_##name, member)
static const struct emu_attribute preference_attributes[] = {
    PREF(SEARCH_MODE, search_mode),
    PREF(MAX_WORKSPACE_BYTES, max_workspace_bytes),
    PREF(REDUCTION_SCHEME_MASK, reduction_mask),
    PREF(MIN_ALIGNMENT_A_BYTES, min_alignment[0]),
    PREF(MIN_ALIGNMENT_B_BYTES, min_alignment[1]),
    PREF(MIN_ALIGNMENT_C_BYTES, min_alignment[2]),
    PREF(MIN_ALIGNMENT_D_BYTES, min_alignment[3]),
    PREF(MAX_WAVES_COUNT, max_waves),
    PREF(IMPL_MASK, impl_mask),
};

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld)
{
    EMU_BLAS_ENTER(emu_blas_enter(__func__));
    if (layout == NULL) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    struct emu_matrix_layout *made = emu_handle_new(EMU_MATRIX_LAYOUT, sizeof *made, NULL, NULL);
    if (made == NULL) {
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    made->type = (int32_t)type;
    made->order = CUBLASLT_ORDER_COL;
    made->rows = rows;
    made->cols = cols;
    made->ld = ld;
    made->batch_count = 1;
    *layout = EMU_HANDLE(cublasLtMatrixLayout_t, made);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    EMU_BLAS_ENTER(emu_blas_enter(__func__));
    return destroy(layout, EMU_MATRIX_LAYOUT);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *value, size_t bytes)
{
    EMU_BLAS_ENTER(emu_blas_enter(__func__));
    return set(layout, EMU_MATRIX_LAYOUT, layout_attributes, COUNT(layout_attributes),
               (int)attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                        cudaDataType_t scale_type)
{
    EMU_BLAS_ENTER(emu_blas_enter(__func__));
    if (desc == NULL) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    struct emu_matmul_desc *made = emu_handle_new(EMU_MATMUL_DESC, sizeof *made, NULL, NULL);
    if (made == NULL) {
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    made->compute = (int32_t)compute;
    made->scale_type = (int32_t)scale_type;
    made->fill_mode = FILL_MODE_FULL;
    made->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    made->bias_type = -1;
    *desc = EMU_HANDLE(cublasLtMatmulDesc_t, made);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    EMU_BLAS_ENTER(emu_blas_enter(__func__));
    return destroy(desc, EMU_MATMUL_DESC);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes)
{
    EMU_BLAS_ENTER(emu_blas_enter(__func__));
    return set(desc, EMU_MATMUL_DESC, desc_attributes, COUNT(desc_attributes), (int)attribute,
               value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    EMU_BLAS_ENTER(emu_blas_enter(__func__));
    if (preference == NULL) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    struct emu_matmul_preference *made =
        emu_handle_new(EMU_MATMUL_PREFERENCE, sizeof *made, NULL, NULL);
    if (made == NULL) {
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    made->reduction_mask = CUBLASLT_REDUCTION_SCHEME_MASK;
    for (size_t i = 0; i < COUNT(made->min_alignment); i++) {
        made->min_alignment[i] = 256;
    }
    made->impl_mask = UINT64_MAX;
    *preference = EMU_HANDLE(cublasLtMatmulPreference_t, made);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    EMU_BLAS_ENTER(emu_blas_enter(__func__));
    return destroy(preference, EMU_MATMUL_PREFERENCE);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t bytes)
{
    EMU_BLAS_ENTER(emu_blas_enter(__func__));
    return set(preference, EMU_MATMUL_PREFERENCE, preference_attributes,
               COUNT(preference_attributes), (int)attribute, value, bytes);
}

// ---------------------------------------------------------------------------------------------
// What the descriptors of a product say together

static bool layout_is_sound(const struct emu_matrix_layout *layout)
{
    uint64_t line = layout->order == CUBLASLT_ORDER_COL ? layout->rows : layout->cols;
    return emu_blas_type_bytes((cudaDataType_t)layout->type) != 0 &&
           (layout->order == CUBLASLT_ORDER_COL || layout->order == CUBLASLT_ORDER_ROW) &&
           layout->rows > 0 && layout->cols > 0 && layout->ld >= 0 &&
           (uint64_t)layout->ld >= line && layout->batch_count >= 1;
}

static bool layout_is_supported(const struct emu_matrix_layout *layout)
{
    return layout->order == CUBLASLT_ORDER_COL && layout->batch_count == 1 &&
           layout->rows <= INT32_MAX && layout->cols <= INT32_MAX;
}

static bool is_operation(int32_t operation)
{
    return operation >= CUBLAS_OP_N && operation <= CUBLAS_OP_C;
}

// Whether the shapes of the four matrices fit together.
static bool shapes_fit(const struct emu_matmul *matmul, const struct emu_matmul_desc *desc,
                       const struct emu_matrix_layout *const layouts[4])
{
    const struct emu_matrix_layout *a = layouts[0], *b = layouts[1], *c = layouts[2];
    uint64_t a_rows = desc->transa == CUBLAS_OP_N ? a->rows : a->cols;
    uint64_t b_rows = desc->transb == CUBLAS_OP_N ? b->rows : b->cols;
    uint64_t b_cols = desc->transb == CUBLAS_OP_N ? b->cols : b->rows;
    return a_rows == matmul->m && b_rows == matmul->k && b_cols == matmul->n &&
           c->rows == matmul->m && c->cols == matmul->n;
}

static bool desc_is_supported(const struct emu_matmul_desc *desc)
{
    return desc->compute == CUBLAS_COMPUTE_32F && desc->scale_type == CUDA_R_32F &&
           desc->pointer_mode == CUBLAS_POINTER_MODE_HOST && desc->transa == CUBLAS_OP_T &&
           desc->transb == CUBLAS_OP_N && desc->transc == CUBLAS_OP_N &&
           desc->fill_mode == FILL_MODE_FULL && desc->epilogue == CUBLASLT_EPILOGUE_DEFAULT &&
           desc->bias == NULL && desc->sm_count_target >= 0;
}

// The largest power of two, up to 256, that every leading dimension is a multiple of, in bytes.
// That of a single column is used by nobody.
static uint64_t common_alignment(const struct emu_matrix_layout *const layouts[4])
{
    uint64_t bits = 256;
    for (int i = 0; i < 4; i++) {
        if (layouts[i]->cols > 1) {
            bits |=
                (uint64_t)layouts[i]->ld * emu_blas_type_bytes((cudaDataType_t)layouts[i]->type);
        }
    }
    return bits & -bits;
}

cublasStatus_t emu_matmul_describe(struct emu_matmul *matmul, cublasLtMatmulDesc_t desc_handle,
                                   cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                   cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d)
{
    const struct emu_matmul_desc *desc = emu_handle_live(EMU_VALUE(desc_handle), EMU_MATMUL_DESC);
    const struct emu_matrix_layout *const layouts[4] = {
        emu_handle_live(EMU_VALUE(a), EMU_MATRIX_LAYOUT),
        emu_handle_live(EMU_VALUE(b), EMU_MATRIX_LAYOUT),
        emu_handle_live(EMU_VALUE(c), EMU_MATRIX_LAYOUT),
        emu_handle_live(EMU_VALUE(d), EMU_MATRIX_LAYOUT),
    };
    bool sound = desc != NULL && is_operation(desc->transa) && is_operation(desc->transb) &&
                 is_operation(desc->transc);
    bool supported = sound && desc_is_supported(desc);
    for (int i = 0; i < 4 && sound; i++) {
        sound = layouts[i] != NULL && layout_is_sound(layouts[i]);
        supported = sound && supported && layout_is_supported(layouts[i]);
    }
    if (!sound) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    matmul->m = layouts[3]->rows;
    matmul->n = layouts[3]->cols;
    matmul->k = desc->transa == CUBLAS_OP_N ? layouts[0]->cols : layouts[0]->rows;
    matmul->types =
        (struct emu_blas_types){(cudaDataType_t)layouts[0]->type, (cudaDataType_t)layouts[3]->type};
    bool fp8 = matmul->types.operand == CUDA_R_8F_E4M3;
    if (!shapes_fit(matmul, desc, layouts) || desc->c_scale != NULL || desc->d_scale != NULL ||
        desc->amax != NULL || (!fp8 && (desc->a_scale != NULL || desc->b_scale != NULL))) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    matmul->ld_alignment = common_alignment(layouts);
    if (!supported || layouts[1]->type != layouts[0]->type ||
        layouts[2]->type != layouts[3]->type || !emu_blas_computes(EMU_BLAS_LT, matmul->types) ||
        (fp8 && matmul->k % 16 != 0)) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    matmul->gemm = (struct emu_gemm){
        .m = matmul->n,
        .n = matmul->m,
        .k = matmul->k,
        .lda = (size_t)layouts[1]->ld,
        .ldw = (size_t)layouts[0]->ld,
        .ldc = (size_t)layouts[2]->ld,
        .ldd = (size_t)layouts[3]->ld,
        .operand = emu_blas_element(matmul->types.operand),
        .result = emu_blas_element(matmul->types.result),
        .a_scale = desc->b_scale,
        .w_scale = desc->a_scale,
    };
    return CUBLAS_STATUS_SUCCESS;
}
