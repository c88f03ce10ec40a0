// SPDX-License-Identifier: Apache-2.0
//
// cuTensorMapEncodeTiled: refuses what the text at that function in CUDA's header refuses, and
// writes what emu/tensormap.h describes.
#include "emu/tensormap.h"
#include "emu/internal.h"

#include <string.h>

_Static_assert(sizeof(struct kern_emu_tensor_map) == sizeof(CUtensorMap), "128 bytes");

enum {
    MAX_ELEMENT_STRIDE = 8,
    MAX_BOX = 256,
    PACKED_MULTIPLE = 128, // of dims[0], and what box[0] must be, for the 16-byte aligned ones
};

#define MAX_DIM ((uint64_t)1 << 32)
#define MAX_STRIDE ((uint64_t)1 << 40) // exclusive

struct data_type {
    uint8_t bits;
    bool is_float;     // may be filled with NaN
    bool is_packed16;  // 16 values in 16 aligned bytes: 16U4_ALIGN16B and 16U6_ALIGN16B
    unsigned swizzles; // which CUtensorMapSwizzle it takes, a bit each
};

#define SWIZZLE_BIT(name) (1u << CU_TENSOR_MAP_SWIZZLE_##name)
#define ALL_SWIZZLES (SWIZZLE_BIT(128B_ATOM_64B) * 2 - 1)
#define U4_SWIZZLES (SWIZZLE_BIT(NONE) | SWIZZLE_BIT(128B) | SWIZZLE_BIT(128B_ATOM_32B))
#define U6_SWIZZLES (U4_SWIZZLES | SWIZZLE_BIT(128B_ATOM_64B))

static const struct data_type data_types[] = {
    [CU_TENSOR_MAP_DATA_TYPE_UINT8] = {8, false, false, ALL_SWIZZLES},
    [CU_TENSOR_MAP_DATA_TYPE_UINT16] = {16, false, false, ALL_SWIZZLES},
    [CU_TENSOR_MAP_DATA_TYPE_UINT32] = {32, false, false, ALL_SWIZZLES},
    [CU_TENSOR_MAP_DATA_TYPE_INT32] = {32, false, false, ALL_SWIZZLES},
    [CU_TENSOR_MAP_DATA_TYPE_UINT64] = {64, false, false, ALL_SWIZZLES},
    [CU_TENSOR_MAP_DATA_TYPE_INT64] = {64, false, false, ALL_SWIZZLES},
    [CU_TENSOR_MAP_DATA_TYPE_FLOAT16] = {16, true, false, ALL_SWIZZLES},
    [CU_TENSOR_MAP_DATA_TYPE_FLOAT32] = {32, true, false, ALL_SWIZZLES},
    [CU_TENSOR_MAP_DATA_TYPE_FLOAT64] = {64, true, false, ALL_SWIZZLES},
    [CU_TENSOR_MAP_DATA_TYPE_BFLOAT16] = {16, true, false, ALL_SWIZZLES},
    [CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ] = {32, true, false, ALL_SWIZZLES},
    [CU_TENSOR_MAP_DATA_TYPE_TFLOAT32] = {32, true, false, ALL_SWIZZLES},
    [CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ] = {32, true, false, ALL_SWIZZLES},
    [CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B] = {4, false, false, ALL_SWIZZLES},
    [CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B] = {4, false, true, U4_SWIZZLES},
    [CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B] = {6, false, true, U6_SWIZZLES},
};

// The bytes that the box's inner dimension may span, by CUtensorMapSwizzle; 0: no limit.
static const unsigned swizzle_spans[] = {0, 32, 64, 128, 128, 128, 128};

// The arguments of one call.
struct request {
    CUtensorMapDataType type;
    const struct data_type *data;
    cuuint32_t rank;
    uintptr_t address;
    const cuuint64_t *dims;
    const cuuint64_t *strides;
    const cuuint32_t *box;
    const cuuint32_t *element_strides;
    CUtensorMapInterleave interleave;
    CUtensorMapSwizzle swizzle;
    CUtensorMapL2promotion promotion;
    CUtensorMapFloatOOBfill fill;
};

// Addresses and strides are multiples of this.
static uint64_t required_alignment(const struct request *request)
{
    return request->interleave == CU_TENSOR_MAP_INTERLEAVE_32B || request->data->is_packed16 ? 32
                                                                                             : 16;
}

static bool check_enumerators(const struct request *request)
{
    return (unsigned)request->interleave <= CU_TENSOR_MAP_INTERLEAVE_32B &&
           (unsigned)request->swizzle <= CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B &&
           (unsigned)request->promotion <= CU_TENSOR_MAP_L2_PROMOTION_L2_256B &&
           (unsigned)request->fill <= CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
}

static bool check_rank(const struct request *request)
{
    cuuint32_t least = request->interleave == CU_TENSOR_MAP_INTERLEAVE_NONE ? 1 : 3;
    return request->rank >= least && request->rank <= KERN_EMU_TENSOR_MAP_RANK;
}

static bool check_dims(const struct request *request)
{
    for (cuuint32_t i = 0; i < request->rank; i++) {
        if (request->dims[i] == 0 || request->dims[i] > MAX_DIM) {
            return false;
        }
    }
    uint64_t multiple = 1;
    if (request->data->is_packed16) {
        multiple = PACKED_MULTIPLE;
    } else if (request->type == CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B) {
        multiple = 2;
    }
    return request->dims[0] % multiple == 0;
}

static bool check_strides(const struct request *request)
{
    if (request->rank > 1 && request->strides == NULL) {
        return false;
    }
    for (cuuint32_t i = 0; i + 1 < request->rank; i++) {
        if (request->strides[i] % required_alignment(request) != 0 ||
            request->strides[i] >= MAX_STRIDE) {
            return false;
        }
    }
    return true;
}

static bool check_box(const struct request *request)
{
    for (cuuint32_t i = 0; i < request->rank; i++) {
        if (request->box[i] == 0 || request->box[i] > MAX_BOX) {
            return false;
        }
    }
    if (request->data->is_packed16 && request->box[0] != PACKED_MULTIPLE) {
        return false;
    }
    if (request->interleave != CU_TENSOR_MAP_INTERLEAVE_NONE) {
        return true;
    }
    unsigned bits = request->box[0] * request->data->bits;
    unsigned span = swizzle_spans[request->swizzle];
    return bits % (16 * 8) == 0 && (span == 0 || bits <= span * 8);
}

static bool check_element_strides(const struct request *request)
{
    // Without interleave the first one is ignored, whatever it is.
    cuuint32_t first = request->interleave == CU_TENSOR_MAP_INTERLEAVE_NONE;
    for (cuuint32_t i = first; i < request->rank; i++) {
        if (request->element_strides[i] == 0 || request->element_strides[i] > MAX_ELEMENT_STRIDE) {
            return false;
        }
    }
    return true;
}

static bool check_modes(const struct request *request)
{
    if (request->interleave == CU_TENSOR_MAP_INTERLEAVE_32B &&
        request->swizzle != CU_TENSOR_MAP_SWIZZLE_32B) {
        return false;
    }
    if (request->type == CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B &&
        request->interleave != CU_TENSOR_MAP_INTERLEAVE_NONE) {
        return false;
    }
    if (!(request->data->swizzles & 1u << request->swizzle)) {
        return false;
    }
    return request->fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE || request->data->is_float;
}

static bool check_request(const struct request *request)
{
    return check_enumerators(request) && check_rank(request) && request->dims != NULL &&
           request->box != NULL && request->element_strides != NULL &&
           request->address % required_alignment(request) == 0 && check_dims(request) &&
           check_strides(request) && check_box(request) && check_element_strides(request) &&
           check_modes(request);
}

static struct kern_emu_tensor_map encode(const struct request *request)
{
    struct kern_emu_tensor_map map = {
        .magic = KERN_EMU_TENSOR_MAP_MAGIC,
        .data_type = (uint8_t)request->type,
        .rank = (uint8_t)request->rank,
        .interleave = (uint8_t)request->interleave,
        .swizzle = (uint8_t)request->swizzle,
        .promotion = (uint8_t)request->promotion,
        .fill = (uint8_t)request->fill,
        .element_bits = request->data->bits,
        .address = request->address,
    };
    for (cuuint32_t i = 0; i < KERN_EMU_TENSOR_MAP_RANK; i++) {
        bool used = i < request->rank;
        bool strided = used && (i > 0 || request->interleave != CU_TENSOR_MAP_INTERLEAVE_NONE);
        map.dims[i] = used ? request->dims[i] : 1;
        map.box[i] = (uint16_t)(used ? request->box[i] : 1);
        map.element_strides[i] = (uint8_t)(strided ? request->element_strides[i] : 1);
    }
    for (cuuint32_t i = 0; i + 1 < request->rank; i++) {
        map.strides[i] = request->strides[i];
    }
    return map;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                void *address, const cuuint64_t *dims, const cuuint64_t *strides,
                                const cuuint32_t *box, const cuuint32_t *element_strides,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT);
    if (map == NULL || (uintptr_t)map % 64 != 0 ||
        (size_t)type >= sizeof data_types / sizeof data_types[0]) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const struct request request = {
        type,       &data_types[type], rank,      (uintptr_t)address,
        dims,       strides,           box,       element_strides,
        interleave, swizzle,           promotion, fill,
    };
    if (!check_request(&request)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const struct kern_emu_tensor_map encoded = encode(&request);
    memcpy(map, &encoded, sizeof encoded);
    return CUDA_SUCCESS;
}
