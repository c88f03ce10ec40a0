// SPDX-License-Identifier: Apache-2.0
#include "manifest/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Exponents are cut off here: no text is long enough for its digits to bring such a number back.
enum { EXPONENT_MAX = 1000000000 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int64_t parse_exponent(const char *text)
{
    if (*text != 'e' && *text != 'E')
        return 0;
    text++;
    bool negative = *text == '-';
    text += *text == '-' || *text == '+';
    int64_t exponent = 0;
    for (; is_digit(*text); text++)
        if (exponent < EXPONENT_MAX)
            exponent = exponent * 10 + (*text - '0');
    return negative ? -exponent : exponent;
}

// *[value] = *[value] * 10 + [digit]; false if it does not fit.
static bool append_digit(uint64_t *value, unsigned digit)
{
    return !__builtin_mul_overflow(*value, 10u, value) &&
           !__builtin_add_overflow(*value, digit, value);
}

struct kern_number kern_number_parse(const char *text)
{
    struct kern_number number = {.text = text, .negative = *text == '-'};
    // The significant digits are those from the first to the last that is not 0; [scale] is the
    // power of ten of the last one, and [zeros] counts those that may yet turn out to lie between.
    int64_t zeros = 0, scale = 0;
    bool point = false, any = false;
    number.fits = true;
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
    if (!any) {
        number.integral = true;
        return number;
    }
    scale += zeros + parse_exponent(text);
    number.integral = scale >= 0;
    for (; scale > 0 && number.fits; scale--)
        number.fits = append_digit(&number.magnitude, 0);
    number.fits = number.fits && number.integral;
    return number;
}

struct kern_number kern_number_of(struct json_object *json)
{
    if (json_object_is_type(json, json_type_double)) {
        // json-c documents that a double made from text keeps the text as its user data.
        struct kern_number number = kern_number_parse(json_object_get_userdata(json));
        number.real = json_object_get_double(json);
        return number;
    }
    int64_t value = json_object_get_int64(json);
    bool negative = value < 0;
    // 0 - (uint64_t)value is the magnitude of INT64_MIN too.
    uint64_t magnitude = negative ? 0 - (uint64_t)value : json_object_get_uint64(json);
    return (struct kern_number){
        .integral = true,
        .fits = true,
        .negative = negative,
        .magnitude = magnitude,
        .real = negative ? (double)value : (double)magnitude,
    };
}

float kern_number_f32(const struct kern_number *number)
{
    if (number->text)
        return strtof(number->text, NULL);
    float magnitude = (float)number->magnitude;
    return number->negative ? -magnitude : magnitude;
}

const char *kern_number_text(const struct kern_number *number, char text[48])
{
    if (!number->text) {
        snprintf(text, 48, "%s%" PRIu64, number->negative ? "-" : "", number->magnitude);
        return text;
    }
    int length = (int)strnlen(number->text, 48);
    // "e0" is mostly not in the document but added to keep a large integer, see scan.h.
    if (length < 48 && length > 2 && strcmp(number->text + length - 2, "e0") == 0)
        length -= 2;
    snprintf(text, 48, length < 44 ? "%.*s" : "%.*s...", length < 44 ? length : 40, number->text);
    return text;
}
