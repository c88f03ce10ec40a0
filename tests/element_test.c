// SPDX-License-Identifier: Apache-2.0
//
// The codec of elements: every code of the small types there and back, and the edges of rounding.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <string.h>

#include "rank/element.h"

static double real_of(enum kern_dtype dtype, uint32_t code)
{
    return kern_element_real(dtype, &code, 0);
}

static uint32_t code_of(enum kern_dtype dtype, double value)
{
    uint32_t code = 0;
    kern_element_store(dtype, &code, 0, value);
    return code;
}

// The value of a float code, computed without the codec's shortcuts.
static double value_of(uint32_t code, int exponent_bits, int mantissa_bits)
{
    int bias = (1 << (exponent_bits - 1)) - 1;
    int exponent = (int)(code >> mantissa_bits) & ((1 << exponent_bits) - 1);
    double fraction = (double)(code & ((1u << mantissa_bits) - 1)) * pow(2, -mantissa_bits);
    double value =
        exponent ? (1 + fraction) * pow(2, exponent - bias) : fraction * pow(2, 1 - bias);
    return code >> (exponent_bits + mantissa_bits) ? -value : value;
}

// Every code of a 16-bit float decodes to its value and comes back; a NaN stays one.
static void check_ieee(enum kern_dtype dtype, int exponent_bits, int mantissa_bits)
{
    uint32_t infinity = ((1u << exponent_bits) - 1) << mantissa_bits;
    for (uint32_t code = 0; code < 0x10000; code++) {
        double value = real_of(dtype, code);
        if ((code & 0x7fff) > infinity) {
            assert_true(isnan(value));
            assert_true(isnan(real_of(dtype, code_of(dtype, value))));
            continue;
        }
        if ((code & 0x7fff) == infinity)
            assert_true(value == (code & 0x8000 ? -INFINITY : INFINITY));
        else
            assert_true(value == value_of(code, exponent_bits, mantissa_bits));
        assert_int_equal(code_of(dtype, value), code);
    }
}

// Between every two finite neighbours: below the middle goes down, above it up, the middle itself
// to the even code.
static void check_rounding(enum kern_dtype dtype, uint32_t largest, uint32_t sign)
{
    for (uint32_t code = 0; code < largest; code++) {
        double low = real_of(dtype, code), middle = (low + real_of(dtype, code + 1)) / 2;
        uint32_t even = code % 2 ? code + 1 : code;
        assert_int_equal(code_of(dtype, nextafter(middle, 0)), code);
        assert_int_equal(code_of(dtype, middle), even);
        assert_int_equal(code_of(dtype, nextafter(middle, INFINITY)), code + 1);
        assert_int_equal(code_of(dtype, -middle), even | sign);
    }
}

static void half_is_exact(void **state)
{
    (void)state;
    check_ieee(KERN_F16, 5, 10);
    check_rounding(KERN_F16, 0x7bff, 0x8000);
    assert_int_equal(code_of(KERN_F16, 65504), 0x7bff);
    assert_int_equal(code_of(KERN_F16, nextafter(65520, 0)), 0x7bff);
    assert_int_equal(code_of(KERN_F16, 65520), 0x7c00);
    assert_int_equal(code_of(KERN_F16, -DBL_MAX), 0xfc00);
}

static void bfloat_is_exact(void **state)
{
    (void)state;
    check_ieee(KERN_BF16, 8, 7);
    check_rounding(KERN_BF16, 0x7f7f, 0x8000);
    // A double that float would first round to the middle of two bfloats must not be rounded twice.
    assert_int_equal(code_of(KERN_BF16, 1 + 0x1p-8 + 0x1p-40), 0x3f81);
    assert_int_equal(code_of(KERN_BF16, DBL_MAX), 0x7f80);
    assert_int_equal(code_of(KERN_BF16, -DBL_TRUE_MIN), 0x8000);
}

static void single_is_that_of_the_compiler(void **state)
{
    (void)state;
    uint32_t code = 0;
    for (uint64_t step = 0; step < 400000; step++, code += 10737) {
        float expected;
        memcpy(&expected, &code, sizeof expected);
        double value = real_of(KERN_F32, code);
        if (isnan(expected)) {
            assert_true(isnan(value) && isnan(real_of(KERN_F32, code_of(KERN_F32, value))));
            continue;
        }
        assert_true(value == expected);
        assert_int_equal(code_of(KERN_F32, value), code);
        // A third of the way to some other value has all the bits of a double.
        double other = value * 1.3333333333333333;
        float rounded = (float)other;
        uint32_t rounded_code;
        memcpy(&rounded_code, &rounded, sizeof rounded);
        assert_int_equal(code_of(KERN_F32, other), rounded_code);
    }
    assert_int_equal(code_of(KERN_F32, 1e300), 0x7f800000);
}

static void e4m3_is_exact(void **state)
{
    (void)state;
    for (uint32_t code = 0; code < 0x100; code++) {
        double value = real_of(KERN_FP8E4M3, code);
        if ((code & 0x7f) == 0x7f) {
            assert_true(isnan(value));
            assert_int_equal(code_of(KERN_FP8E4M3, value) & 0x7f, 0x7f);
            continue;
        }
        assert_true(value == value_of(code, 4, 3));
        assert_int_equal(code_of(KERN_FP8E4M3, value), code);
    }
    check_rounding(KERN_FP8E4M3, 0x7e, 0x80);
    assert_true(real_of(KERN_FP8E4M3, 0x7e) == 448);
    assert_int_equal(code_of(KERN_FP8E4M3, 1e9), 0x7e);
    assert_int_equal(code_of(KERN_FP8E4M3, 464), 0x7e);
    assert_int_equal(code_of(KERN_FP8E4M3, INFINITY), 0x7e);
    assert_int_equal(code_of(KERN_FP8E4M3, -INFINITY), 0xfe);
    assert_int_equal(code_of(KERN_FP8E4M3, -0x1p-10), 0x80);
    assert_int_equal(code_of(KERN_FP8E4M3, 0x1.8p-10), 1);
}

static void e8m0_is_exact(void **state)
{
    (void)state;
    for (uint32_t code = 0; code < 0xff; code++) {
        double value = real_of(KERN_FP8E8M0, code);
        assert_true(value == pow(2, (int)code - 127));
        assert_int_equal(code_of(KERN_FP8E8M0, value), code);
        if (code == 0xfe)
            break;
        assert_int_equal(code_of(KERN_FP8E8M0, nextafter(1.5 * value, 0)), code);
        assert_int_equal(code_of(KERN_FP8E8M0, 1.5 * value), code + code % 2);
        assert_int_equal(code_of(KERN_FP8E8M0, nextafter(1.5 * value, INFINITY)), code + 1);
    }
    assert_true(isnan(real_of(KERN_FP8E8M0, 0xff)));
    assert_int_equal(code_of(KERN_FP8E8M0, 0), 0);
    assert_int_equal(code_of(KERN_FP8E8M0, -1), 0xff);
    assert_int_equal(code_of(KERN_FP8E8M0, NAN), 0xff);
    assert_int_equal(code_of(KERN_FP8E8M0, INFINITY), 0xff);
    assert_int_equal(code_of(KERN_FP8E8M0, DBL_MAX), 0xfe);
}

static const struct {
    enum kern_dtype dtype;
    double least, most; // as doubles: the most of 64 bits is rounded up
    uint64_t least_magnitude, most_magnitude;
} integers[] = {
    {KERN_I8, -128, 127, 128, 127},
    {KERN_U8, 0, 255, 0, 255},
    {KERN_I32, -2147483648.0, 2147483647, 2147483648, 2147483647},
    {KERN_U32, 0, 4294967295, 0, 4294967295},
    {KERN_I64, -0x1p63, 0x1p63, 1ull << 63, INT64_MAX},
    {KERN_U64, 0, 0x1p64, 0, UINT64_MAX},
};

static void assert_stored(enum kern_dtype dtype, double value, uint64_t magnitude, bool negative)
{
    // In the middle of a guarded array, so that a store that is too wide shows.
    uint64_t guard = 0xa5a5a5a5a5a5a5a5;
    unsigned char bytes[3 * 8 + 1];
    bool stored_negative;
    memset(bytes, 0xa5, sizeof bytes);
    kern_element_store(dtype, bytes + 1, 1, value);
    assert_int_equal(kern_element_integer(dtype, bytes + 1, 1, &stored_negative), magnitude);
    assert_int_equal(stored_negative, negative);
    size_t width = kern_dtype_bytes(dtype);
    assert_memory_equal(bytes, &guard, 1);
    assert_memory_equal(bytes + 1, &guard, width);
    assert_memory_equal(bytes + 1 + 2 * width, &guard, width);
}

static void integers_are_truncated_and_saturated(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        enum kern_dtype dtype = integers[i].dtype;
        bool is_signed = integers[i].least < 0;
        assert_stored(dtype, 0, 0, false);
        assert_stored(dtype, NAN, 0, false);
        assert_stored(dtype, 99.99, 99, false);
        assert_stored(dtype, -0.99, 0, false);
        assert_stored(dtype, -99.99, is_signed ? 99 : 0, is_signed);
        assert_stored(dtype, integers[i].most, integers[i].most_magnitude, false);
        assert_stored(dtype, integers[i].most * 2, integers[i].most_magnitude, false);
        assert_stored(dtype, INFINITY, integers[i].most_magnitude, false);
        assert_stored(dtype, integers[i].least, integers[i].least_magnitude, is_signed);
        assert_stored(dtype, integers[i].least * 2, integers[i].least_magnitude, is_signed);
        assert_stored(dtype, -INFINITY, integers[i].least_magnitude, is_signed);
    }
    assert_stored(KERN_I64, 0x1p63 - 1024, (1ull << 63) - 1024, false);
    assert_stored(KERN_U64, 0x1p64 - 2048, 0 - 2048ull, false);
}

static void small_integers_go_there_and_back(void **state)
{
    (void)state;
    for (int code = 0; code < 0x100; code++) {
        unsigned char byte = (unsigned char)code;
        assert_true(kern_element_real(KERN_U8, &byte, 0) == code);
        assert_true(kern_element_real(KERN_I8, &byte, 0) == (int8_t)code);
        unsigned char back = 0;
        kern_element_store(KERN_I8, &back, 0, (int8_t)code);
        assert_int_equal(back, byte);
    }
    int64_t least = INT64_MIN;
    assert_true(kern_element_real(KERN_I64, &least, 0) == -0x1p63);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_is_exact),
        cmocka_unit_test(bfloat_is_exact),
        cmocka_unit_test(single_is_that_of_the_compiler),
        cmocka_unit_test(e4m3_is_exact),
        cmocka_unit_test(e8m0_is_exact),
        cmocka_unit_test(integers_are_truncated_and_saturated),
        cmocka_unit_test(small_integers_go_there_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
