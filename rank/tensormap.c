// SPDX-License-Identifier: Apache-2.0
//
// Tensor maps: TMA descriptors over the memory that a call binds, encoded once at compile time. The
// manifest was verified: shapes are sound and the call's offset keeps the alignment of the memory.
#include "rank/internal.h"

#include <string.h>

#define DIMS_MAX 5

static const struct {
    CUtensorMapDataType type;
    uint32_t bits;
} types[] = {
    [KERN_TMA_U8] = {CU_TENSOR_MAP_DATA_TYPE_UINT8, 8},
    [KERN_TMA_U16] = {CU_TENSOR_MAP_DATA_TYPE_UINT16, 16},
    [KERN_TMA_U32] = {CU_TENSOR_MAP_DATA_TYPE_UINT32, 32},
    [KERN_TMA_I32] = {CU_TENSOR_MAP_DATA_TYPE_INT32, 32},
    [KERN_TMA_U64] = {CU_TENSOR_MAP_DATA_TYPE_UINT64, 64},
    [KERN_TMA_I64] = {CU_TENSOR_MAP_DATA_TYPE_INT64, 64},
    [KERN_TMA_F16] = {CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 16},
    [KERN_TMA_BF16] = {CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 16},
    [KERN_TMA_F32] = {CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 32},
    [KERN_TMA_TF32] = {CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, 32},
    [KERN_TMA_U4] = {CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B, 4},
    [KERN_TMA_U4PACKED] = {CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B, 4},
};

static CUtensorMapSwizzle swizzle_of(uint32_t bytes)
{
    switch (bytes) {
    case 32:
        return CU_TENSOR_MAP_SWIZZLE_32B;
    case 64:
        return CU_TENSOR_MAP_SWIZZLE_64B;
    case 128:
        return CU_TENSOR_MAP_SWIZZLE_128B;
    default:
        return CU_TENSOR_MAP_SWIZZLE_NONE;
    }
}

static CUtensorMapL2promotion promotion_of(uint32_t bytes)
{
    switch (bytes) {
    case 64:
        return CU_TENSOR_MAP_L2_PROMOTION_L2_64B;
    case 128:
        return CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
    case 256:
        return CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
    default:
        return CU_TENSOR_MAP_L2_PROMOTION_NONE;
    }
}

// How many slices of the outermost dim the memory holds from the pointer on: every slice spans
// what the inner dims span, the last one begins a stride before the end or earlier.
static uint64_t slices_in(const struct kern_tensormap *tensormap, uint64_t bytes_left)
{
    size_t outermost = tensormap->n_dims - 1;
    uint64_t slice = (tensormap->dims[0] * types[tensormap->dtype].bits + 7) / 8;
    for (size_t d = 1; d < outermost; d++) {
        slice += (tensormap->dims[d] - 1) * tensormap->strides[d - 1];
    }
    return bytes_left < slice ? 0 : (bytes_left - slice) / tensormap->strides[outermost - 1] + 1;
}

bool rank_tensormap_encode(const struct kern_rank *rank, const struct kern_tensormap *tensormap,
                           const struct rank_value *value, const char *place, void *to,
                           struct kern_diag *diag)
{
    size_t n_dims = tensormap->n_dims;
    cuuint64_t dims[DIMS_MAX] = {0}, strides[DIMS_MAX] = {0};
    cuuint32_t box[DIMS_MAX] = {0}, element_strides[DIMS_MAX] = {0};
    for (size_t d = 0; d < n_dims; d++) {
        dims[d] = tensormap->dims[d];
        box[d] = tensormap->box[d];
        element_strides[d] = 1;
        if (d > 0) {
            strides[d - 1] = tensormap->strides[d - 1];
        }
    }
    if (dims[n_dims - 1] == 0) {
        dims[n_dims - 1] = slices_in(tensormap, value->bytes_left);
        if (dims[n_dims - 1] == 0) {
            return kern_fail(diag, KERN_EXIT_MANIFEST, place,
                             "a tensormap spans what is bound to param %llu, and the %llu bytes "
                             "there hold not even one of its outermost slices",
                             (unsigned long long)tensormap->param,
                             (unsigned long long)value->bytes_left);
        }
    }
    CUtensorMap map;
    if (!KERN_CU(rank->device, diag, place, cuTensorMapEncodeTiled, &map,
                 types[tensormap->dtype].type, (cuuint32_t)n_dims, (void *)(uintptr_t)value->value,
                 dims, strides, box, element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE,
                 swizzle_of(tensormap->swizzle), promotion_of(tensormap->l2_promotion),
                 tensormap->oob_nan ? CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
                                    : CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)) {
        return false;
    }
    memcpy(to, &map, sizeof(map));
    return true;
}
