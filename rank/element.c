// SPDX-License-Identifier: Apache-2.0
#include "rank/element.h"

#include <math.h>
#include <string.h>

// Floats of a sign bit, an exponent and a mantissa, by their codes without the sign, which are in
// the order of their values.
struct float_format {
    int mantissa_bits;
    int least_exponent; // of normal numbers, and of the subnormal ones
    uint32_t largest;   // code of the largest finite value
    uint32_t beyond;    // what a value beyond that is rounded to
    uint32_t not_a_number;
    uint32_t sign;
};

// IEEE 754 half, bfloat16 and single round beyond their largest value to infinity. e4m3 of the OCP
// 8-bit specification has no infinity and one NaN; here it saturates, as cvt.satfinite does.
static const struct float_format half = {10, -14, 0x7bff, 0x7c00, 0x7e00, 0x8000};
static const struct float_format bfloat = {7, -126, 0x7f7f, 0x7f80, 0x7fc0, 0x8000};
static const struct float_format single = {23,         -126,       0x7f7fffff,
                                           0x7f800000, 0x7fc00000, 0x80000000};
static const struct float_format e4m3 = {3, -6, 0x7e, 0x7e, 0x7f, 0x80};

static const struct float_format *format_of(enum kern_dtype dtype)
{
    switch (dtype) {
    case KERN_F16:
        return &half;
    case KERN_BF16:
        return &bfloat;
    case KERN_F32:
        return &single;
    case KERN_FP8E4M3:
        return &e4m3;
    default:
        return NULL;
    }
}

static double decode(const struct float_format *format, uint32_t code)
{
    uint32_t magnitude = code & (format->sign - 1), hidden = 1u << format->mantissa_bits;
    int exponent = (int)(magnitude >> format->mantissa_bits);
    double value;
    if (magnitude > format->largest)
        value = magnitude == format->beyond ? INFINITY : NAN;
    else if (exponent == 0)
        value = ldexp(magnitude, format->least_exponent - format->mantissa_bits);
    else
        value = ldexp((magnitude & (hidden - 1)) | hidden,
                      exponent - 1 + format->least_exponent - format->mantissa_bits);
    return code & format->sign ? -value : value;
}

static uint32_t encode(const struct float_format *format, double value)
{
    uint32_t sign = signbit(value) ? format->sign : 0;
    if (isnan(value))
        return sign | format->not_a_number;
    if (isinf(value))
        return sign | format->beyond;
    int exponent = value == 0 ? format->least_exponent : ilogb(value);
    if (exponent < format->least_exponent)
        exponent = format->least_exponent;
    // Rounded to whole steps of its exponent, a value that rounds up to the next power of two
    // carries into the exponent, which lies right above the mantissa. Exponents beyond the format's
    // are cut first, so that the code fits.
    int steps_up = exponent - format->least_exponent;
    if (steps_up > (int)(format->largest >> format->mantissa_bits))
        return sign | format->beyond;
    double steps = nearbyint(ldexp(fabs(value), format->mantissa_bits - exponent));
    uint32_t code = ((uint32_t)steps_up << format->mantissa_bits) + (uint32_t)steps;
    return sign | (code > format->largest ? format->beyond : code);
}

// e8m0 of the OCP microscaling specification: a power of two, 2^(code - 127), and 255 for NaN.
static double decode_e8m0(uint8_t code)
{
    return code == 0xff ? NAN : ldexp(1, code - 127);
}

// The nearest power of two in value, a tie to the even code; there is neither zero nor sign.
static uint8_t encode_e8m0(double value)
{
    if (!isfinite(value) || value < 0)
        return 0xff;
    if (value <= 0x1p-127)
        return 0;
    if (value >= 0x1p127)
        return 254;
    int exponent;
    double fraction = frexp(value, &exponent); // in [1/2, 1)
    int code = exponent - 1 + 127;
    return (uint8_t)(code + (fraction > 0.75 || (fraction == 0.75 && code % 2 == 1)));
}

// The bits of the element, in the low bytes; the machines of the contract are little-endian.
static uint64_t load(enum kern_dtype dtype, const void *bytes, size_t index)
{
    uint64_t bits = 0;
    size_t width = kern_dtype_bytes(dtype);
    memcpy(&bits, (const char *)bytes + index * width, width);
    return bits;
}

static void store(enum kern_dtype dtype, void *bytes, size_t index, uint64_t bits)
{
    size_t width = kern_dtype_bytes(dtype);
    memcpy((char *)bytes + index * width, &bits, width);
}

static bool is_signed(enum kern_dtype dtype)
{
    return dtype == KERN_I8 || dtype == KERN_I32 || dtype == KERN_I64;
}

uint64_t kern_element_integer(enum kern_dtype dtype, const void *bytes, size_t index,
                              bool *negative)
{
    uint64_t bits = load(dtype, bytes, index);
    unsigned unused = 64 - 8 * (unsigned)kern_dtype_bytes(dtype);
    *negative = is_signed(dtype) && bits << unused >> 63;
    return *negative ? (0 - bits) << unused >> unused : bits;
}

double kern_element_real(enum kern_dtype dtype, const void *bytes, size_t index)
{
    const struct float_format *format = format_of(dtype);
    if (format)
        return decode(format, (uint32_t)load(dtype, bytes, index));
    if (dtype == KERN_FP8E8M0)
        return decode_e8m0((uint8_t)load(dtype, bytes, index));
    bool negative;
    double magnitude = (double)kern_element_integer(dtype, bytes, index, &negative);
    return negative ? -magnitude : magnitude;
}

static uint64_t truncate_integer(enum kern_dtype dtype, double value)
{
    unsigned unused = 64 - 8 * (unsigned)kern_dtype_bytes(dtype);
    bool negative = value < 0;
    uint64_t most = UINT64_MAX >> unused;
    if (is_signed(dtype))
        most = (most >> 1) + negative;
    else if (negative)
        most = 0;
    double magnitude = fabs(value);
    // (double)most is most or, for 64 bits, the power of two above it, which does not fit either.
    uint64_t result = isnan(value) ? 0 : magnitude >= (double)most ? most : (uint64_t)magnitude;
    return negative ? 0 - result : result;
}

void kern_element_store(enum kern_dtype dtype, void *bytes, size_t index, double value)
{
    const struct float_format *format = format_of(dtype);
    if (format)
        store(dtype, bytes, index, encode(format, value));
    else if (dtype == KERN_FP8E8M0)
        store(dtype, bytes, index, encode_e8m0(value));
    else
        store(dtype, bytes, index, truncate_integer(dtype, value));
}
