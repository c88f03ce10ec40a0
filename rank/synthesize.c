// SPDX-License-Identifier: Apache-2.0
//
// Made-up contents. They are a pure function of the seed, the name and the domain, the same bits on
// every machine: nothing below depends on a rounding that a library or compiler may choose.
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rank/domain.h"
#include "rank/element.h"

// xoshiro256** 1.0 (Blackman and Vigna, https://prng.di.unimi.it).
struct generator {
    uint64_t s[4];
};

static uint64_t rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static uint64_t next(struct generator *generator)
{
    uint64_t *s = generator->s;
    uint64_t result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

// splitmix64, which its authors seed xoshiro with.
static uint64_t split(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

// The name goes in as its 64-bit FNV-1a hash, so that another buffer in the manifest shifts
// nothing.
static struct generator seed_generator(uint64_t seed, const char *name)
{
    uint64_t state = 0xcbf29ce484222325;
    for (; *name; name++)
        state = (state ^ (unsigned char)*name) * 0x100000001b3;
    state ^= split(&seed);
    struct generator generator;
    for (size_t i = 0; i < 4; i++)
        generator.s[i] = split(&state);
    return generator;
}

// Uniform in [0, most]: draws that would make some values likelier are thrown away.
static uint64_t uniform_integer(struct generator *generator, uint64_t most)
{
    if (most == UINT64_MAX)
        return next(generator);
    uint64_t count = most + 1, uneven = (0 - count) % count, draw;
    do
        draw = next(generator);
    while (draw < uneven);
    return draw % count;
}

// Uniform in [lo, hi]. fma rounds once by definition; without it compilers choose.
static double uniform_real(struct generator *generator, double lo, double hi)
{
    double u = (double)(next(generator) >> 11) * 0x1p-53;
    return fma(hi, u, fma(-lo, u, lo));
}

// The sum of twelve uniforms less six: mean 0, deviation 1, within 6, and nearly normal. Added up
// as integers it is exact, where the usual methods need logarithms, which differ between libraries.
static double normal(struct generator *generator)
{
    int64_t sum = 0;
    for (int i = 0; i < 6; i++) {
        uint64_t draw = next(generator);
        sum += (int64_t)(draw >> 32) + (int64_t)(draw & UINT32_MAX);
    }
    return (double)(sum - (6ll << 32)) * 0x1p-32;
}

static bool fail_empty(const struct kern_buffer *buffer, struct kern_diag *diag)
{
    return kern_fail(diag, KERN_EXIT_ARTIFACT, buffer->name, "no %s value lies in its domain",
                     kern_dtype_name(buffer->dtype));
}

// The end of an integer type on the side of [beyond]: a store saturates what does not fit.
static __int128 type_end(enum kern_dtype dtype, double beyond)
{
    uint64_t bits;
    bool negative;
    kern_element_store(dtype, &bits, 0, beyond);
    __int128 magnitude = kern_element_integer(dtype, &bits, 0, &negative);
    return negative ? -magnitude : magnitude;
}

// Integers: uniform between the bounds, or the type's ends where a side is open.
static bool fill_integers(const struct kern_buffer *buffer, const struct kern_range *range,
                          struct generator *generator, char *bytes, size_t count,
                          struct kern_diag *diag)
{
    size_t width = kern_dtype_bytes(buffer->dtype);
    __int128 lo = type_end(buffer->dtype, -DBL_MAX), hi = type_end(buffer->dtype, DBL_MAX);
    if (range->has_lo && range->lo_integer > lo)
        lo = range->lo_integer;
    if (range->has_hi && range->hi_integer < hi)
        hi = range->hi_integer;
    if (lo > hi)
        return fail_empty(buffer, diag);
    for (size_t i = 0; i < count; i++) {
        uint64_t value = (uint64_t)lo + uniform_integer(generator, (uint64_t)(hi - lo));
        memcpy(bytes + i * width, &value, width);
    }
    return true;
}

// The value of [dtype] nearest to [bound] that lies at it or [inward] of it (1: above, -1: below).
// Codes of floats without their sign are in the order of magnitudes, so the next one is one away.
static double round_inward(enum kern_dtype dtype, double bound, int inward)
{
    uint32_t code = 0;
    kern_element_store(dtype, &code, 0, bound);
    double rounded = kern_element_real(dtype, &code, 0);
    if ((rounded - bound) * inward >= 0)
        return rounded;
    bool away_from_zero = (signbit(rounded) != 0) == (inward < 0);
    code = away_from_zero ? code + 1 : code - 1;
    return kern_element_real(dtype, &code, 0);
}

static double draw_real(struct generator *generator, const struct kern_range *range)
{
    if (range->has_lo && range->has_hi)
        return uniform_real(generator, range->lo, range->hi);
    if (range->has_lo)
        return range->lo + fabs(normal(generator));
    if (range->has_hi)
        return range->hi - fabs(normal(generator));
    return normal(generator);
}

static bool fill_reals(const struct kern_buffer *buffer, const struct kern_range *range,
                       struct generator *generator, char *bytes, size_t count,
                       struct kern_diag *diag)
{
    // Rounding to the type may step over a bound, so what is stored is kept between the values of
    // the type that lie inside. The second comparison is also false for a NaN.
    double lo = round_inward(buffer->dtype, range->has_lo ? range->lo : -DBL_MAX, 1);
    double hi = round_inward(buffer->dtype, range->has_hi ? range->hi : DBL_MAX, -1);
    if (!(lo <= hi))
        return fail_empty(buffer, diag);
    for (size_t i = 0; i < count; i++) {
        kern_element_store(buffer->dtype, bytes, i, draw_real(generator, range));
        double stored = kern_element_real(buffer->dtype, bytes, i);
        if (stored < lo || stored > hi)
            kern_element_store(buffer->dtype, bytes, i, stored < lo ? lo : hi);
    }
    return true;
}

// e8m0 holds scales: its exponent is drawn, within the domain or else between 2^-7 and 2^7.
static bool fill_scales(const struct kern_buffer *buffer, const struct kern_range *range,
                        struct generator *generator, char *bytes, size_t count,
                        struct kern_diag *diag)
{
    enum { CODES = 255, USUAL_FIRST = 120, USUAL_LAST = 134 };
    unsigned first = USUAL_FIRST, last = USUAL_LAST;
    if (range->has_lo || range->has_hi) {
        first = 0;
        while (first < CODES && range->has_lo && ldexp(1, (int)first - 127) < range->lo)
            first++;
        last = CODES;
        while (last > first && range->has_hi && ldexp(1, (int)last - 1 - 127) > range->hi)
            last--;
        if (first == last)
            return fail_empty(buffer, diag);
        last--;
    }
    for (size_t i = 0; i < count; i++)
        bytes[i] = (char)(first + uniform_integer(generator, last - first));
    return true;
}

static int by_value(const void *a, const void *b, void *dtype)
{
    enum kern_dtype type = *(const enum kern_dtype *)dtype;
    if (kern_dtype_is_float(type)) {
        double x = kern_element_real(type, a, 0), y = kern_element_real(type, b, 0);
        return (x > y) - (x < y);
    }
    bool x_negative, y_negative;
    uint64_t x = kern_element_integer(type, a, 0, &x_negative);
    uint64_t y = kern_element_integer(type, b, 0, &y_negative);
    if (x_negative != y_negative)
        return x_negative ? -1 : 1;
    return x_negative ? (x < y) - (x > y) : (x > y) - (x < y);
}

// An integer that nobody described is structure, a table or a count, and must not be guessed.
static bool check_described(const struct kern_manifest *manifest, const struct kern_buffer *buffer,
                            const struct kern_range *range, struct kern_diag *diag)
{
    if (kern_dtype_is_float(buffer->dtype))
        return true;
    if (!buffer->domain)
        return kern_fail(diag, KERN_EXIT_ARTIFACT, buffer->name,
                         "a buffer of integers without a domain cannot be made up; declare a "
                         "domain or give the buffer as an input");
    if (buffer->domain->target == KERN_TARGET_STATE && !range->has_hi)
        return kern_fail(diag, KERN_EXIT_ARTIFACT, buffer->name,
                         "it indexes state %s, whose size only its host knows, and cannot be made "
                         "up; give it as an input",
                         manifest->states[buffer->domain->index_into.index].name);
    return true;
}

bool kern_domain_synthesize(const struct kern_manifest *manifest, const struct kern_buffer *buffer,
                            uint64_t seed, const uint64_t *vars,
                            const struct kern_provision *provision, void *bytes, size_t length,
                            struct kern_diag *diag)
{
    size_t width = kern_dtype_bytes(buffer->dtype), count = length / width;
    struct kern_range range;
    if (length % width != 0)
        return kern_fail(diag, KERN_EXIT_ARTIFACT, buffer->name,
                         "%zu bytes are no whole number of %s elements of %zu bytes", length,
                         kern_dtype_name(buffer->dtype), width);
    if (!kern_domain_range(manifest, buffer, vars, provision, &range, diag) ||
        !check_described(manifest, buffer, &range, diag))
        return false;
    struct generator generator = seed_generator(seed, buffer->name);
    bool filled;
    if (buffer->dtype == KERN_FP8E8M0)
        filled = fill_scales(buffer, &range, &generator, bytes, count, diag);
    else if (kern_dtype_is_float(buffer->dtype))
        filled = fill_reals(buffer, &range, &generator, bytes, count, diag);
    else
        filled = fill_integers(buffer, &range, &generator, bytes, count, diag);
    enum kern_dtype dtype = buffer->dtype;
    if (filled && range.monotone && count)
        qsort_r(bytes, count, width, by_value, &dtype);
    return filled;
}
