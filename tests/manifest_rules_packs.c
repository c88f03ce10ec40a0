// SPDX-License-Identifier: Apache-2.0
//
// V-PACK and V-TMA: the images that kernels take as one parameter, and the tensormaps in them.
#include "tests/manifest_rules_case.h"

#define PACK "ops.f.impl.launches[0] arg 0.pack"

// An op whose launch takes all that it gets in one image.
#define PACKED                                                                                     \
    RULES_HEAD                                                                                     \
    "'vars': {'n': {'max': 300}}, 'topology': {'groups': {'tp': 300}}, "                           \
    "'states': {'s': {'bytes': 64}}, 'buffers': {"                                                 \
    "'a': {'dtype': 'u8', 'shape': [512], 'kind': 'input'}, "                                      \
    "'b': {'dtype': 'bf16', 'shape': ['n', 8], 'kind': 'output'}}, " RULES_MODULE                  \
    "'ops': {'f': {'params': ['in buffer<u8>', 'out buffer<bf16>', 'in state', 'i32', "            \
    "'i64', 'f32', 'u8'], 'impl': {'scratch': {'t': {'dtype': 'f32', 'shape': ['n']}}, "           \
    "'launches': [{'module': 'k', 'entry': 'g', 'block': [1, 1, 1], 'grid': [1, 1, 1], "           \
    "'params': ['bytes<128>'], 'args': [{'pack': {'size': 128, 'fields': ["                        \
    "{'at': 0, 'param': 0}, {'at': 8, 'param': 1}, {'at': 16, 'param': 2}, "                       \
    "{'at': 24, 'param': 3}, {'at': 28, 'param': 5}, {'at': 32, 'param': 4}, "                     \
    "{'at': 40, 'param': 6}, {'at': 41, 'u8': 255}, {'at': 44, 'i32': -7}, "                       \
    "{'at': 48, 'scratch': 't'}, {'at': 56, 'i64': -8}, {'at': 64, 'f32': 1.5}, "                  \
    "{'at': 68, 'var': 'n'}, {'at': 72, 'expr': {'mul': ['n', 2]}}, "                              \
    "{'at': 76, 'rank': 'tp'}]}}]}]}}}, "                                                          \
    "'programs': {'p': {'calls': [{'op': 'f', 'args': [{'buf': 'a'}, {'buf': 'b'}, "               \
    "{'state': 's'}, {'i32': 300}, {'i64': -300}, {'f32': 0.5}, {'u8': 255}]}]}}}"

static const struct rules_case images[] = {
    ACCEPTED("a field of each kind"),
    REFUSED("an image of another size", "V-PACK", "ops.f.impl.launches[0] arg 0",
            {"'bytes<128>'", "'bytes<136>'"}),
    REFUSED("an image for a scalar", "V-PACK", "ops.f.impl.launches[0] arg 0",
            {"'bytes<128>'", "'i64'"}),
    REFUSED("a literal for an image", "V-ARGS", "ops.f.impl.launches[0] arg 1",
            {"['bytes<128>'], 'args': [", "['bytes<128>', 'bytes<8>'], 'args': ["},
            {"{'at': 76, 'rank': 'tp'}]}}]", "{'at': 76, 'rank': 'tp'}]}}, {'i64': 1}]"}),
    REFUSED("a param for an image", "V-ARGS", "ops.f.impl.launches[0] arg 1",
            {"['bytes<128>'], 'args': [", "['bytes<128>', 'bytes<8>'], 'args': ["},
            {"{'at': 76, 'rank': 'tp'}]}}]", "{'at': 76, 'rank': 'tp'}]}}, {'param': 4}]"}),
    ACCEPTED("a field at the end", {"{'at': 76, 'rank'", "{'at': 124, 'rank'"}),
    REFUSED("a field past the end", "V-PACK", PACK " field 14",
            {"{'at': 76, 'rank'", "{'at': 125, 'rank'"}),
    REFUSED("a field far past the end", "V-PACK", PACK " field 14",
            {"{'at': 76, 'rank'", "{'at': 4294967295, 'rank'"}),
    REFUSED("two fields in one place", "V-PACK", PACK " field 13",
            {"{'at': 72, 'expr'", "{'at': 68, 'expr'"}),
    REFUSED("two fields that touch", "V-PACK", PACK " field 13",
            {"{'at': 72, 'expr'", "{'at': 71, 'expr'"}),
    REFUSED("a field before one", "V-PACK", PACK " field 11",
            {"{'at': 64, 'f32'", "{'at': 66, 'f32'"},
            {"{'at': 68, 'var'", "{'at': 63, 'width': 4, 'var'"},
            {"{'at': 56, 'i64'", "{'at': 80, 'i64'"}),
    ACCEPTED("fields out of order", {"{'at': 68, 'var'", "{'at': 72, 'var'"},
             {"{'at': 72, 'expr'", "{'at': 68, 'expr'"}),
};

static const struct rules_case widths[] = {
    REFUSED("a pointer of 4", "V-PACK", PACK " field 0",
            {"{'at': 0, 'param': 0}", "{'at': 0, 'width': 4, 'param': 0}"}),
    ACCEPTED("a pointer of 8", {"{'at': 0, 'param': 0}", "{'at': 0, 'width': 8, 'param': 0}"}),
    REFUSED("a state of 4", "V-PACK", PACK " field 2",
            {"{'at': 16, 'param': 2}", "{'at': 16, 'width': 4, 'param': 2}"}),
    REFUSED("a scratch of 4", "V-PACK", PACK " field 9",
            {"{'at': 48, 'scratch'", "{'at': 48, 'width': 4, 'scratch'"}),
    REFUSED("a width of 0", "V-PACK", PACK " field 8",
            {"{'at': 44, 'i32'", "{'at': 44, 'width': 0, 'i32'"}),
    REFUSED("a width of 3", "V-PACK", PACK " field 8",
            {"{'at': 44, 'i32'", "{'at': 44, 'width': 3, 'i32'"}),
    REFUSED("a width of 16", "V-PACK", PACK " field 14",
            {"{'at': 76, 'rank'", "{'at': 80, 'width': 16, 'rank'"}),
    ACCEPTED("a literal of 8", {"{'at': 44, 'i32'", "{'at': 80, 'width': 8, 'i32'"}),
    ACCEPTED("a negative literal of 1", {"{'at': 44, 'i32'", "{'at': 44, 'width': 1, 'i32'"}),
    ACCEPTED("an unsigned literal of 1",
             {"{'at': 56, 'i64': -8}", "{'at': 56, 'width': 1, 'i64': 255}"}),
    REFUSED("a literal too large for 1", "V-PACK", PACK " field 10",
            {"{'at': 56, 'i64': -8}", "{'at': 56, 'width': 1, 'i64': 256}"}),
    REFUSED("a literal too negative for 1", "V-PACK", PACK " field 10",
            {"{'at': 56, 'i64': -8}", "{'at': 56, 'width': 1, 'i64': -129}"}),
    REFUSED("a literal too large for 4", "V-PACK", PACK " field 10",
            {"{'at': 56, 'i64': -8}", "{'at': 56, 'width': 4, 'i64': 4294967296}"}),
    REFUSED("an f32 of 2", "V-PACK", PACK " field 11",
            {"{'at': 64, 'f32'", "{'at': 64, 'width': 2, 'f32'"}),
    REFUSED("an f32 param of 2", "V-PACK", PACK " field 4",
            {"{'at': 28, 'param'", "{'at': 28, 'width': 2, 'param'"}),
    ACCEPTED("a var of 2", {"{'at': 68, 'var'", "{'at': 68, 'width': 2, 'var'"}),
    REFUSED("a var too large for 1", "V-PACK", PACK " field 12",
            {"{'at': 68, 'var'", "{'at': 68, 'width': 1, 'var'"}),
    ACCEPTED("a var of 1 where the launch runs",
             {"{'at': 68, 'var'", "{'at': 68, 'width': 1, 'var'"},
             {"'entry': 'g'", "'entry': 'g', 'when': {'var': 'n', 'max': 255}"}),
    REFUSED("a var too large for its own 4", "V-PACK", PACK " field 12",
            {"'max': 300", "'max': 4294967296"}, {"{'mul': ['n', 2]}", "{'clamp': ['n', 0, 2]}"}),
    REFUSED("an expression too large for 1", "V-PACK", PACK " field 13",
            {"{'at': 72, 'expr'", "{'at': 72, 'width': 1, 'expr'"}),
    REFUSED("an expression past 64 bits", "V-EXPR", PACK " field 13",
            {"{'mul': ['n', 2]}", "{'mul': ['n', 4611686018427387904]}"}),
    REFUSED("a rank too large for 1", "V-PACK", PACK " field 14",
            {"{'at': 76, 'rank'", "{'at': 76, 'width': 1, 'rank'"}),
    ACCEPTED("a rank of 1", {"{'at': 76, 'rank'", "{'at': 76, 'width': 1, 'rank'"},
             {"'tp': 300", "'tp': 256"}),
    ACCEPTED("an i32 param of 2 that fits",
             {"{'at': 24, 'param'", "{'at': 24, 'width': 2, 'param'"}),
    REFUSED("an i32 param of 1 that does not fit", "V-PACK", "programs.p.calls[0] arg 3",
            {"{'at': 24, 'param'", "{'at': 24, 'width': 1, 'param'"}),
    REFUSED("an i64 param of 1 that does not fit", "V-PACK", "programs.p.calls[0] arg 4",
            {"{'at': 32, 'param'", "{'at': 32, 'width': 1, 'param'"}),
    REFUSED("a var in an i32 param of 1", "V-PACK", "programs.p.calls[0] arg 3",
            {"{'at': 24, 'param'", "{'at': 24, 'width': 1, 'param'"},
            {"{'i32': 300}", "{'var': 'n'}"}),
    ACCEPTED("a var in an i32 param of 1 where the launch runs",
             {"{'at': 24, 'param'", "{'at': 24, 'width': 1, 'param'"},
             {"{'i32': 300}", "{'var': 'n'}"},
             {"'entry': 'g'", "'entry': 'g', 'when': {'var': 'n', 'max': 255}"}),
    REFUSED("a rank in an i32 param of 1", "V-PACK", "programs.p.calls[0] arg 3",
            {"{'at': 24, 'param'", "{'at': 24, 'width': 1, 'param'"},
            {"{'i32': 300}", "{'rank': 'tp'}"}),
    ACCEPTED("a rank in an i32 param of 2",
             {"{'at': 24, 'param'", "{'at': 24, 'width': 2, 'param'"},
             {"{'i32': 300}", "{'rank': 'tp'}"}),
    REFUSED("an expression in an i32 param of 2", "V-PACK", "programs.p.calls[0] arg 3",
            {"{'at': 24, 'param'", "{'at': 24, 'width': 2, 'param'"},
            {"{'i32': 300}", "{'expr': {'mul': ['n', 300]}}"}),
    REFUSED_SAYING("an expression past 64 bits in a narrow param", "V-EXPR",
                   "programs.p.calls[0] arg 3", "64 bits",
                   {"{'at': 24, 'param'", "{'at': 24, 'width': 2, 'param'"},
                   {"{'i32': 300}", "{'expr': {'mul': ['n', 4611686018427387904]}}"}),
    ACCEPTED("a narrow param of a launch that never runs",
             {"{'at': 24, 'param'", "{'at': 24, 'width': 1, 'param'"},
             {"'entry': 'g'", "'entry': 'g', 'when': {'var': 'n', 'min': 301}"}),
};

static const struct rules_case fields[] = {
    REFUSED("a param that is not there", "V-PACK", PACK " field 3",
            {"{'at': 24, 'param': 3}", "{'at': 24, 'param': 7}"}),
    REFUSED("a scratch that is not there", "V-PACK", PACK " field 9",
            {"'scratch': 't'}", "'scratch': 'u'}"}),
    REFUSED("an unknown var", "V-PACK", PACK " field 12",
            {"{'at': 68, 'var': 'n'}", "{'at': 68, 'var': 'q'}"}),
    REFUSED("an unknown var of an expression", "V-EXPR", PACK " field 13",
            {"{'mul': ['n', 2]}", "{'mul': ['q', 2]}"}),
    REFUSED("a rank of nothing", "V-PACK", PACK " field 14", {"'rank': 'tp'", "'rank': 'ep'"}),
    REFUSED("a pointer to an out param that no field hands over", "V-ARGS", "ops.f.params[1]",
            {"{'at': 8, 'param': 1}", "{'at': 8, 'param': 0}"}),
};

// An op with a tensormap, over 512 bytes of u8.
#define MAPPED                                                                                     \
    RULES_HEAD                                                                                     \
    "'states': {'s': {'bytes': 64}}, 'buffers': {"                                                 \
    "'a': {'dtype': 'u8', 'shape': [512], 'kind': 'input'}, "                                      \
    "'b': {'dtype': 'u8', 'shape': [512], 'kind': 'output'}}, " RULES_MODULE                       \
    "'ops': {'f': {'params': ['in buffer<u8>', 'out buffer<u8>', 'in state', 'i32'], "             \
    "'impl': {'launches': [{'module': 'k', 'entry': 'g', 'block': [1, 1, 1], "                     \
    "'grid': [1, 1, 1], 'params': ['bytes<192>', 'out buffer<u8>', 'in state', 'i32'], "           \
    "'args': [{'pack': {'size': 192, 'fields': [{'at': 64, 'tensormap': {"                         \
    "'param': 0, 'dtype': 'u8', 'dims': [128, 4], 'strides': [128], 'box': [128, 4]}}]}}, "        \
    "{'param': 1}, {'param': 2}, {'param': 3}]}]}}}, "                                             \
    "'programs': {'p': {'calls': [{'op': 'f', 'args': [{'buf': 'a'}, {'buf': 'b'}, "               \
    "{'state': 's'}, {'i32': 0}]}]}}}"

#define MAP PACK " field 0.tensormap"
#define DIMS(dims)                                                                                 \
    {                                                                                              \
        "'dims': [128, 4]", "'dims': " dims                                                        \
    }
#define STRIDES(strides)                                                                           \
    {                                                                                              \
        "'strides': [128]", "'strides': " strides                                                  \
    }
#define BOX(box)                                                                                   \
    {                                                                                              \
        "'box': [128, 4]", "'box': " box                                                           \
    }
#define MORE(more)                                                                                 \
    {                                                                                              \
        "'param': 0, 'dtype'", more ", 'param': 0, 'dtype'"                                        \
    }
#define DTYPE(dtype)                                                                               \
    {                                                                                              \
        "'dtype': 'u8', 'dims'", "'dtype': '" dtype "', 'dims'"                                    \
    }
#define U4 DTYPE("u4")

static const struct rules_case maps[] = {
    ACCEPTED("a map"),
    REFUSED("a map at 32", "V-PACK", PACK " field 0", {"{'at': 64", "{'at': 32"}),
    REFUSED("a map of 64 bytes", "V-PACK", PACK " field 0",
            {"{'at': 64", "{'width': 64, 'at': 64"}),
    ACCEPTED("a map of 128 bytes", {"{'at': 64", "{'width': 128, 'at': 64"}),
    REFUSED("a map past the image", "V-PACK", PACK " field 0", {"{'at': 64", "{'at': 128"}),
    REFUSED("a param that is not there", "V-TMA", MAP ".param",
            {"'param': 0, 'dtype'", "'param': 4, 'dtype'"}),
    REFUSED("a map over a scalar", "V-TMA", MAP ".param",
            {"'param': 0, 'dtype'", "'param': 3, 'dtype'"}),
    ACCEPTED("a map over a state", {"'param': 0, 'dtype'", "'param': 2, 'dtype'"}),
    ACCEPTED("a map over an out param writes it", {"'param': 0, 'dtype'", "'param': 1, 'dtype'"},
             {"'bytes<192>', 'out buffer<u8>'", "'bytes<192>', 'in buffer<u8>'"}),

    REFUSED("no dims", "V-TMA", MAP ".dims", DIMS("[]"), STRIDES("[]"), BOX("[]")),
    REFUSED("six dims", "V-TMA", MAP ".dims", DIMS("[16, 1, 1, 1, 1, 1]"),
            STRIDES("[16, 16, 16, 16, 16]"), BOX("[16, 1, 1, 1, 1, 1]")),
    ACCEPTED("five dims", DIMS("[16, 1, 1, 1, 1]"), STRIDES("[16, 16, 16, 16]"),
             BOX("[16, 1, 1, 1, 1]")),
    ACCEPTED("one dim", DIMS("[512]"), STRIDES("[]"), BOX("[256]")),
    REFUSED("a stride too few", "V-TMA", MAP ".strides", STRIDES("[]")),
    REFUSED("an extent too few", "V-TMA", MAP ".box", BOX("[128]")),
    REFUSED("an inner dim of 0", "V-TMA", MAP ".dims", DIMS("[0, 4]")),
    REFUSED("one dim of 0", "V-TMA", MAP ".dims", DIMS("[0]"), STRIDES("[]"), BOX("[16]")),
    ACCEPTED("an outermost dim of 0", DIMS("[128, 0]")),
    REFUSED("a middle dim of 0", "V-TMA", MAP ".dims", DIMS("[16, 0, 2]"), STRIDES("[16, 16]"),
            BOX("[16, 1, 1]")),
    REFUSED("a dim past 2^32", "V-TMA", MAP ".dims", DIMS("[128, 4294967297]")),
    REFUSED("dims that span no 16 bytes", "V-TMA", MAP ".dims", DIMS("[120, 4]"), BOX("[16, 4]")),

    REFUSED("a box of 257", "V-TMA", MAP ".box", BOX("[128, 257]")),
    REFUSED("a box of 0", "V-TMA", MAP ".box", BOX("[128, 0]")),
    ACCEPTED("a box of 256", BOX("[128, 256]")),
    REFUSED("a box that spans no 16 bytes", "V-TMA", MAP ".box", BOX("[120, 4]")),
    ACCEPTED("a box of 16 bytes in 2", DTYPE("u16"), DIMS("[64, 4]"), BOX("[8, 4]")),
    REFUSED("a box of 8 bytes in 2", "V-TMA", MAP ".box", DTYPE("u16"), DIMS("[64, 4]"),
            BOX("[4, 4]")),

    REFUSED("a stride of 120", "V-TMA", MAP ".strides", STRIDES("[120]")),
    REFUSED("a stride of 0", "V-TMA", MAP ".strides", STRIDES("[0]")),
    REFUSED("a stride of 2^40", "V-TMA", MAP ".strides", STRIDES("[1099511627776]"),
            DIMS("[128, 0]")),
    ACCEPTED("a stride below 2^40", STRIDES("[1099511627760]"), DIMS("[128, 0]")),

    ACCEPTED("a swizzle of 128", MORE("'swizzle': 128")),
    REFUSED("a box wider than the swizzle", "V-TMA", MAP ".box", MORE("'swizzle': 64")),
    REFUSED("a swizzle of 16", "V-TMA", MAP ".swizzle", MORE("'swizzle': 16"), BOX("[16, 4]")),
    ACCEPTED("a swizzle of 32", MORE("'swizzle': 32"), BOX("[32, 4]")),
    ACCEPTED("a promotion of 256", MORE("'l2_promotion': 256")),
    REFUSED("a promotion of 32", "V-TMA", MAP ".l2_promotion", MORE("'l2_promotion': 32")),
    REFUSED("NaN for bytes", "V-TMA", MAP ".oob_nan", MORE("'oob_nan': true")),
    ACCEPTED("NaN for tf32", MORE("'oob_nan': true"), DTYPE("tf32"), DIMS("[32, 4]"),
             BOX("[32, 4]")),

    ACCEPTED("u4", U4, DIMS("[128, 8]"), STRIDES("[64]")),
    REFUSED("u4 dims", "V-TMA", MAP ".dims", U4, DIMS("[64, 8]"), STRIDES("[64]")),
    REFUSED("a u4 box", "V-TMA", MAP ".box", U4, STRIDES("[64]"), BOX("[64, 4]")),
    REFUSED("a u4 stride", "V-TMA", MAP ".strides", U4, STRIDES("[80]")),
    REFUSED("a u4 swizzle", "V-TMA", MAP ".swizzle", U4, STRIDES("[64]"), MORE("'swizzle': 64")),
    ACCEPTED("a u4 swizzle of 128", U4, STRIDES("[64]"), MORE("'swizzle': 128")),
    REFUSED("a u4 base", "V-TMA", "programs.p.calls[0] arg 0", U4, STRIDES("[64]"),
            {"{'buf': 'a'}", "{'buf': 'a', 'offset': 16}"}),
    ACCEPTED("a u4 base at 32", U4, STRIDES("[64]"),
             {"{'buf': 'a'}", "{'buf': 'a', 'offset': 32}"}),
    ACCEPTED("packed u4", DTYPE("u4packed"), DIMS("[32, 4]"), BOX("[32, 4]")),

    REFUSED("a map past the buffer", "V-TMA", "programs.p.calls[0] arg 0", DIMS("[128, 5]")),
    REFUSED("a map past the offset", "V-TMA", "programs.p.calls[0] arg 0",
            {"{'buf': 'a'}", "{'buf': 'a', 'offset': 16}"}),
    ACCEPTED("a map up to the end", DIMS("[128, 3]"),
             {"{'buf': 'a'}", "{'buf': 'a', 'offset': 128}"}),
    ACCEPTED("an open map past an offset", DIMS("[128, 0]"),
             {"{'buf': 'a'}", "{'buf': 'a', 'offset': 496}"}),
    REFUSED("a base of no 16 bytes", "V-TMA", "programs.p.calls[0] arg 0", DIMS("[128, 3]"),
            {"{'buf': 'a'}", "{'buf': 'a', 'offset': 8}"}),
    REFUSED("a base in a state of no 16 bytes", "V-TMA", "programs.p.calls[0] arg 2",
            {"'param': 0, 'dtype'", "'param': 2, 'dtype'"},
            {"{'state': 's'}", "{'state': 's', 'offset': 8}"}),
    ACCEPTED("a map that wraps", MORE("'wrap': true"), DIMS("[128, 2147483648]"),
             STRIDES("[1099511627776]")),
    REFUSED("a map that says it wraps", "V-TMA", MAP ".wrap", MORE("'wrap': true")),
    REFUSED("a map that does not say so", "V-TMA", MAP ".strides",
            DIMS("[128, 4294967296, 4294967296, 4294967296, 4294967296]"),
            STRIDES("[1099511627760, 1099511627760, 1099511627760, 1099511627760]"),
            BOX("[128, 1, 1, 1, 1]")),
};

int rules_of_packs(void)
{
    const struct CMUnitTest tests[] = {
        RULES_TEST(PACKED, images),
        RULES_TEST(PACKED, widths),
        RULES_TEST(PACKED, fields),
        RULES_TEST(MAPPED, maps),
    };
    return cmocka_run_group_tests_name("packs", tests, NULL, NULL);
}
