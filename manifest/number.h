// SPDX-License-Identifier: Apache-2.0
//
// The exact value of a JSON number: 1e3 and 2560.0 are integers, 18446744073709551615.0 is the
// largest of them, and none of it goes through a double.
#ifndef KERN_MANIFEST_NUMBER_H
#define KERN_MANIFEST_NUMBER_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

struct kern_number {
    bool integral; // it has an integer value
    bool fits;     // which has a sign and a magnitude of 64 bits, below
    bool negative;
    uint64_t magnitude;
    double real;      // rounded to nearest; infinite if it is too large
    const char *text; // as written, of a number that json-c keeps as a double; else NULL
};

// The number that [json], an int or a double of json-c, stands for. The text is borrowed from it.
struct kern_number kern_number_of(struct json_object *json);

// The value of the decimal number [text] (RFC 8259 grammar) without its real part.
struct kern_number kern_number_parse(const char *text);

// Rounded to nearest f32, from the text and not from the double, which would round twice.
float kern_number_f32(const struct kern_number *number);

// The number as written, shortened, in [text].
const char *kern_number_text(const struct kern_number *number, char text[48]);

#endif
