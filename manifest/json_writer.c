// SPDX-License-Identifier: Apache-2.0
#include "manifest/json_writer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static void begin(struct kern_json *json)
{
    if (json->comma)
        fputc(',', json->file);
    json->comma = true;
}

void kern_json_open(struct kern_json *json, char bracket)
{
    begin(json);
    fputc(bracket, json->file);
    json->comma = false;
}

void kern_json_close(struct kern_json *json, char bracket)
{
    fputc(bracket, json->file);
    json->comma = true;
}

static void put_escape(FILE *file, unsigned char c)
{
    static const char controls[] = "\b\f\n\r\t\"\\", letters[] = "bfnrt\"\\";
    const char *found = strchr(controls, c);
    if (found)
        fprintf(file, "\\%c", letters[found - controls]);
    else
        fprintf(file, "\\u%04x", c);
}

static void put_string(FILE *file, const char *text)
{
    fputc('"', file);
    while (*text) {
        size_t length = kern_text_utf8_length(text);
        if (length == 0)
            fputs("\xef\xbf\xbd", file);
        else if (length == 1 && ((unsigned char)*text < 0x20 || *text == '"' || *text == '\\'))
            put_escape(file, (unsigned char)*text);
        else
            fwrite(text, 1, length, file);
        text += length ? length : 1;
    }
    fputc('"', file);
}

void kern_json_key(struct kern_json *json, const char *name)
{
    begin(json);
    put_string(json->file, name);
    fputc(':', json->file);
    json->comma = false;
}

void kern_json_string(struct kern_json *json, const char *text)
{
    begin(json);
    put_string(json->file, text);
}

void kern_json_u64(struct kern_json *json, uint64_t number)
{
    begin(json);
    fprintf(json->file, "%" PRIu64, number);
}

void kern_json_i64(struct kern_json *json, int64_t number)
{
    begin(json);
    fprintf(json->file, "%" PRId64, number);
}

void kern_json_bool(struct kern_json *json, bool truth)
{
    begin(json);
    fputs(truth ? "true" : "false", json->file);
}

void kern_json_null(struct kern_json *json)
{
    begin(json);
    fputs("null", json->file);
}

// Writes what printf's %g made of a number, "1e-05", as short as it can be said, "1e-5". Zero keeps
// its sign, which a reader of integers would lose.
static void put_real(struct kern_json *json, const char *text)
{
    const char *exponent = strchr(text, 'e');
    begin(json);
    if (strcmp(text, "-0") == 0)
        fputs("-0.0", json->file);
    else if (exponent)
        fprintf(json->file, "%.*se%d", (int)(exponent - text), text, atoi(exponent + 1));
    else
        fputs(text, json->file);
}

void kern_json_f32(struct kern_json *json, float number)
{
    char text[32];
    int digits = 0;
    do {
        snprintf(text, sizeof text, "%.*g", ++digits, (double)number);
    } while (digits < 9 && strtof(text, NULL) != number);
    put_real(json, text);
}

void kern_json_f64(struct kern_json *json, double number)
{
    char text[32];
    int digits = 0;
    do {
        snprintf(text, sizeof text, "%.*g", ++digits, number);
    } while (digits < 17 && strtod(text, NULL) != number);
    put_real(json, text);
}
