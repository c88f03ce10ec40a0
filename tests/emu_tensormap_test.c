// SPDX-License-Identifier: Apache-2.0
//
// emu: cuTensorMapEncodeTiled, rule by rule of the text at that function in CUDA's header.
#include "emu/tensormap.h"
#include "tests/emu_check.h"

struct arguments {
    CUtensorMapDataType type;
    cuuint32_t rank;
    uintptr_t address;
    cuuint64_t dims[5];
    cuuint64_t strides[4];
    cuuint32_t box[5];
    cuuint32_t element_strides[5];
    CUtensorMapInterleave interleave;
    CUtensorMapSwizzle swizzle;
    CUtensorMapL2promotion promotion;
    CUtensorMapFloatOOBfill fill;
};

// A good three-dimensional bf16 map.
static const struct arguments base = {
    .type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
    .rank = 3,
    .address = 0x10000,
    .dims = {64, 32, 16, 1, 1},
    .strides = {128, 4096, 65536, 65536},
    .box = {64, 8, 2, 1, 1},
    .element_strides = {1, 1, 1, 1, 1},
    .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
};

static CUtensorMap map;

static CUresult encode(const struct arguments *a)
{
    return cuTensorMapEncodeTiled(&map, a->type, a->rank, (void *)a->address, a->dims, a->strides,
                                  a->box, a->element_strides, a->interleave, a->swizzle,
                                  a->promotion, a->fill);
}

// The base with one thing changed, or several, must answer CUDA_##wanted.
#define ROW(wanted, ...)                                                                           \
    do {                                                                                           \
        struct arguments a = base;                                                                 \
        __VA_ARGS__;                                                                               \
        emu_expect(encode(&a), CUDA_##wanted, #__VA_ARGS__, __FILE__, __LINE__);                   \
    } while (0)
#define GOOD(...) ROW(SUCCESS, __VA_ARGS__)
#define BAD(...) ROW(ERROR_INVALID_VALUE, __VA_ARGS__)

static void make_u4(struct arguments *a)
{
    a->type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B;
    a->dims[0] = 256;
    a->box[0] = 128;
}

static void make_u6(struct arguments *a)
{
    make_u4(a);
    a->type = CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B;
}

static void make_interleaved(struct arguments *a)
{
    a->interleave = CU_TENSOR_MAP_INTERLEAVE_32B;
    a->swizzle = CU_TENSOR_MAP_SWIZZLE_32B;
}

static void in_general_rules(void)
{
    emu_begin();
    GOOD((void)a);
    BAD(a.type = (CUtensorMapDataType)16);
    BAD(a.rank = 0);
    BAD(a.rank = 6);
    GOOD(a.rank = 1);
    GOOD(a.rank = 5);
    BAD(a.address += 8);
    GOOD(a.address += 16);
    BAD(a.swizzle = (CUtensorMapSwizzle)7);
    BAD(a.interleave = (CUtensorMapInterleave)3);
    BAD(a.promotion = (CUtensorMapL2promotion)4);
    GOOD(a.promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
    BAD(a.fill = (CUtensorMapFloatOOBfill)2);
    GOOD(a.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);
    BAD(a.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA,
        a.type = CU_TENSOR_MAP_DATA_TYPE_UINT16);
}
EMU_TEST(general_rules)

static void in_extents(void)
{
    emu_begin();
    for (int i = 0; i < 3; i++) {
        BAD(a.dims[i] = 0);
        GOOD(a.dims[i] = (cuuint64_t)1 << 32);
        BAD(a.dims[i] = ((cuuint64_t)1 << 32) + 1);
        BAD(a.box[i] = 0);
        BAD(a.box[i] = 257);
    }
    GOOD(a.box[1] = 256);
    for (int i = 0; i < 2; i++) {
        BAD(a.strides[i] = 136);
        GOOD(a.strides[i] = ((cuuint64_t)1 << 40) - 16);
        BAD(a.strides[i] = (cuuint64_t)1 << 40);
    }
    GOOD(a.strides[2] = 1); // of a dimension that is not there
    for (int i = 1; i < 3; i++) {
        BAD(a.element_strides[i] = 0);
        GOOD(a.element_strides[i] = 8);
        BAD(a.element_strides[i] = 9);
    }
    GOOD(a.element_strides[0] = 0); // ignored without interleave
}
EMU_TEST(extents)

static void in_inner_box_and_swizzle(void)
{
    emu_begin();
    BAD(a.box[0] = 4); // 8 bytes
    GOOD(a.box[0] = 8);
    BAD(a.box[0] = 72); // 144 bytes in a span of 128
    GOOD(a.box[0] = 256, a.swizzle = CU_TENSOR_MAP_SWIZZLE_NONE);
    GOOD(a.box[0] = 16, a.swizzle = CU_TENSOR_MAP_SWIZZLE_32B);
    BAD(a.box[0] = 24, a.swizzle = CU_TENSOR_MAP_SWIZZLE_32B);
    GOOD(a.box[0] = 32, a.swizzle = CU_TENSOR_MAP_SWIZZLE_64B);
    BAD(a.box[0] = 40, a.swizzle = CU_TENSOR_MAP_SWIZZLE_64B);
    GOOD(a.swizzle = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B);
    BAD(a.swizzle = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B, a.box[0] = 72);
}
EMU_TEST(inner_box_and_swizzle)

static void in_interleave(void)
{
    emu_begin();
    GOOD(make_interleaved(&a));
    BAD(make_interleaved(&a), a.swizzle = CU_TENSOR_MAP_SWIZZLE_NONE);
    BAD(make_interleaved(&a), a.rank = 2);
    BAD(make_interleaved(&a), a.address += 16);
    BAD(make_interleaved(&a), a.strides[0] = 144);
    BAD(make_interleaved(&a), a.element_strides[0] = 0);
    GOOD(make_interleaved(&a), a.box[0] = 3); // only without interleave a multiple of 16 bytes
    GOOD(a.interleave = CU_TENSOR_MAP_INTERLEAVE_16B, a.swizzle = CU_TENSOR_MAP_SWIZZLE_NONE);
}
EMU_TEST(interleave)

static void in_packed_types(void)
{
    emu_begin();
    GOOD(make_u4(&a));
    BAD(make_u4(&a), a.dims[0] = 192);
    BAD(make_u4(&a), a.box[0] = 64);
    BAD(make_u4(&a), a.address += 16);
    BAD(make_u4(&a), a.strides[1] = 4112);
    BAD(make_u4(&a), a.swizzle = CU_TENSOR_MAP_SWIZZLE_64B);
    BAD(make_u4(&a), a.swizzle = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B);
    GOOD(make_u4(&a), a.swizzle = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B);
    BAD(make_u4(&a), a.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);
    GOOD(make_u6(&a));
    GOOD(make_u6(&a), a.swizzle = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B);
    BAD(make_u6(&a), a.swizzle = CU_TENSOR_MAP_SWIZZLE_32B);
    BAD(make_u6(&a), a.interleave = CU_TENSOR_MAP_INTERLEAVE_16B);
    GOOD(a.type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B, a.dims[0] = 62);
    BAD(a.type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B, a.dims[0] = 63);
    BAD(a.type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B, a.box[0] = 48); // 24 bytes
}
EMU_TEST(packed_types)

static void in_pointers(void)
{
    const struct arguments *b = &base;
    static char room[256] __attribute__((aligned(128)));
    EXPECT(ERROR_NOT_INITIALIZED, encode(b));
    OK(cuInit(0));
    EXPECT(ERROR_INVALID_CONTEXT, encode(b));
    emu_begin();
#define ENCODE(map, dims, strides, box, element_strides)                                           \
    cuTensorMapEncodeTiled(map, b->type, 2, (void *)b->address, dims, strides, box,                \
                           element_strides, b->interleave, b->swizzle, b->promotion, b->fill)
    EXPECT(ERROR_INVALID_VALUE, ENCODE(NULL, b->dims, b->strides, b->box, b->element_strides));
    EXPECT(ERROR_INVALID_VALUE, ENCODE(&map, NULL, b->strides, b->box, b->element_strides));
    EXPECT(ERROR_INVALID_VALUE, ENCODE(&map, b->dims, NULL, b->box, b->element_strides));
    EXPECT(ERROR_INVALID_VALUE, ENCODE(&map, b->dims, b->strides, NULL, b->element_strides));
    EXPECT(ERROR_INVALID_VALUE, ENCODE(&map, b->dims, b->strides, b->box, NULL));
    OK(ENCODE((void *)(room + 64), b->dims, b->strides, b->box, b->element_strides));
    EXPECT(ERROR_INVALID_VALUE,
           ENCODE((void *)(room + 32), b->dims, b->strides, b->box, b->element_strides));
#undef ENCODE
}
EMU_TEST(pointers)

// What the host half of a kernel finds in the 128 bytes.
static void in_layout(void)
{
    emu_begin();
    GOOD(a.element_strides[0] = 5, a.element_strides[2] = 2);
    struct kern_emu_tensor_map m;
    memcpy(&m, &map, sizeof m);
    CHECK(m.magic == KERN_EMU_TENSOR_MAP_MAGIC && m.data_type == base.type && m.rank == 3);
    CHECK(m.swizzle == base.swizzle && m.interleave == 0 && m.fill == 0 && m.element_bits == 16);
    CHECK(m.address == 0x10000);
    for (int i = 0; i < 5; i++) {
        CHECK(m.dims[i] == base.dims[i] && m.box[i] == base.box[i]);
        CHECK(m.element_strides[i] == (i == 2 ? 2 : 1));
    }
    CHECK(m.strides[0] == 128 && m.strides[1] == 4096 && m.strides[2] == 0 && m.strides[3] == 0);
    for (size_t i = 0; i < sizeof m.zero; i++) {
        CHECK(m.zero[i] == 0);
    }
}
EMU_TEST(layout)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(general_rules),
        cmocka_unit_test(extents),
        cmocka_unit_test(inner_box_and_swizzle),
        cmocka_unit_test(interleave),
        cmocka_unit_test(packed_types),
        cmocka_unit_test(pointers),
        cmocka_unit_test(layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
