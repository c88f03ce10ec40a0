// SPDX-License-Identifier: Apache-2.0
#include <locale.h>
#include <stdlib.h>

#include "base/json.h"

// Exponents are cut off here: no text is long enough for its digits to bring such a number back.
enum { EXPONENT_MAX = 1000000000 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// Reads the exponent, if there is one, and moves *[text] behind it.
static int64_t read_exponent(const char **text)
{
    const char *at = *text;
    if (*at != 'e' && *at != 'E')
        return 0;
    at++;
    bool negative = *at == '-';
    at += *at == '-' || *at == '+';
    int64_t exponent = 0;
    for (; is_digit(*at); at++)
        if (exponent < EXPONENT_MAX)
            exponent = exponent * 10 + (*at - '0');
    *text = at;
    return negative ? -exponent : exponent;
}

// *[value] = *[value] * 10 + [digit]; false if it does not fit.
static bool append_digit(uint64_t *value, unsigned digit)
{
    return !__builtin_mul_overflow(*value, 10u, value) &&
           !__builtin_add_overflow(*value, digit, value);
}

struct kern_json_number kern_json_parse_number(const char *text)
{
    struct kern_json_number number = {.text = text, .negative = *text == '-', .fits = true};
    // The significant digits are those from the first to the last that is not 0; [scale] is the
    // power of ten of the last one, and [zeros] counts those that may yet turn out to lie between.
    int64_t zeros = 0, scale = 0;
    bool point = false, any = false;
    for (text += number.negative; is_digit(*text) || *text == '.'; text++) {
        if (*text == '.') {
            point = true;
            continue;
        }
        scale -= point;
        zeros++;
        if (*text == '0')
            continue;
        for (; any && zeros > 1 && number.fits; zeros--)
            number.fits = append_digit(&number.magnitude, 0);
        number.fits = number.fits && append_digit(&number.magnitude, (unsigned)(*text - '0'));
        any = true;
        zeros = 0;
    }
    scale += zeros + read_exponent(&text);
    number.length = (uint32_t)(text - number.text);
    number.integral = !any || scale >= 0;
    for (; any && scale > 0 && number.fits; scale--)
        number.fits = append_digit(&number.magnitude, 0);
    number.fits = number.fits && number.integral;
    return number;
}

struct kern_json_number kern_json_number(const struct kern_json_document *document,
                                         const struct kern_json_node *node)
{
    return kern_json_parse_number(document->text + node->at);
}

double kern_json_double(const struct kern_json_number *number)
{
    // What fits 64 bits is rounded once by the conversion.
    if (number->fits)
        return number->negative ? -(double)number->magnitude : (double)number->magnitude;
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double value = strtod_l(number->text, NULL, plain);
    freelocale(plain);
    return value;
}

float kern_json_float(const struct kern_json_number *number)
{
    if (number->fits)
        return number->negative ? -(float)number->magnitude : (float)number->magnitude;
    // From the text and not from the double, which would round twice.
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    float value = strtof_l(number->text, NULL, plain);
    freelocale(plain);
    return value;
}
