// SPDX-License-Identifier: Apache-2.0
#include "manifest/json_layout.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

// Elements of at most SHORT characters stand side by side in an array.
enum { COLUMNS = 100, INDENT = 2, SHORT = 32 };

// An array or object, in the order of their opening brackets.
struct box {
    size_t width;  // characters on one line
    size_t length; // bytes of its text
    size_t boxes;  // it and those in it
    size_t widest; // characters of the widest element
};

struct layout {
    const char *text;      // what is left of it
    const struct box *box; // the next to be opened
    FILE *file;
    size_t column;
};

// The bytes of the string that [text] begins with.
static size_t string_length(const char *text)
{
    size_t length = 1;
    while (text[length] != '"')
        length += text[length] == '\\' ? 2 : 1;
    return length + 1;
}

static bool opens(char c)
{
    return c == '[' || c == '{';
}

static bool closes(char c)
{
    return c == ']' || c == '}';
}

// Bytes up to the end of the scalar, or of the string, that [text] begins with.
static size_t scalar_length(const char *text)
{
    return *text == '"' ? string_length(text) : strcspn(text, ",]}");
}

// Characters among [length] bytes of UTF-8.
static size_t width_of(const char *text, size_t length)
{
    size_t width = 0;
    for (size_t i = 0; i < length; i++)
        width += (text[i] & 0xc0) != 0x80;
    return width;
}

// Adds the boxes of the value at [text], and returns its bytes; *[width] grows by its characters.
static size_t measure(const char *text, struct box **boxes, size_t *count, size_t *capacity,
                      size_t *width)
{
    if (!opens(*text)) {
        size_t length = scalar_length(text);
        *width += width_of(text, length);
        return length;
    }
    kern_reserve(boxes, capacity, *count + 1, sizeof **boxes);
    size_t index = (*count)++, length = 1, own = 2, widest = 0;
    while (!closes(text[length])) {
        if (text[length] == ',' || text[length] == ':') {
            length++;
            own += 2; // it and a space
            continue;
        }
        size_t before = own;
        length += measure(text + length, boxes, count, capacity, &own);
        widest = own - before > widest ? own - before : widest;
    }
    length++;
    (*boxes)[index] =
        (struct box){.width = own, .length = length, .boxes = *count - index, .widest = widest};
    *width += own;
    return length;
}

// Puts the next [length] bytes on the line, with a space after each comma and colon.
static void put_flat(struct layout *layout, size_t length)
{
    const char *end = layout->text + length;
    while (layout->text < end) {
        size_t piece = *layout->text == '"' ? string_length(layout->text) : 1;
        fwrite(layout->text, 1, piece, layout->file);
        layout->column += width_of(layout->text, piece);
        if (*layout->text == ',' || *layout->text == ':') {
            fputc(' ', layout->file);
            layout->column++;
        }
        layout->text += piece;
    }
}

static void put_line(struct layout *layout, size_t depth)
{
    fprintf(layout->file, "\n%*s", (int)(depth * INDENT), "");
    layout->column = depth * INDENT;
}

static void put_value(struct layout *layout, size_t depth);

static void put_byte(struct layout *layout)
{
    fputc(*layout->text++, layout->file);
    layout->column++;
}

// Characters of the value that comes next on one line.
static size_t next_width(const struct layout *layout)
{
    if (opens(*layout->text))
        return layout->box->width;
    return width_of(layout->text, scalar_length(layout->text));
}

// Each element begins a line, unless the array is filled and it fits behind the one before.
static void put_elements(struct layout *layout, size_t depth, bool fills)
{
    bool first = true;
    while (!closes(*layout->text)) {
        if (*layout->text == ',')
            put_byte(layout);
        // A space comes before it and a comma behind.
        if (fills && !first && layout->column + next_width(layout) + 2 <= COLUMNS) {
            fputc(' ', layout->file);
            layout->column++;
        } else {
            put_line(layout, depth);
        }
        first = false;
        if (*layout->text == '"' && layout->text[string_length(layout->text)] == ':')
            put_flat(layout, string_length(layout->text) + 1);
        put_value(layout, depth);
    }
}

static bool fits(const struct layout *layout, size_t depth)
{
    const struct box *box = layout->box;
    // "[]" and "{}"; the comma or bracket after it takes a column, too.
    return box->length == 2 || (depth > 0 && (depth > 1 || box->boxes == 1) &&
                                layout->column + box->width + 1 <= COLUMNS);
}

// [depth] is the number of boxes around the value.
static void put_value(struct layout *layout, size_t depth)
{
    if (!opens(*layout->text)) {
        put_flat(layout, scalar_length(layout->text));
        return;
    }
    if (fits(layout, depth)) {
        const struct box *box = layout->box;
        layout->box += box->boxes;
        put_flat(layout, box->length);
        return;
    }
    bool fills = *layout->text == '[' && layout->box->widest <= SHORT;
    layout->box++;
    put_byte(layout);
    put_elements(layout, depth + 1, fills);
    put_line(layout, depth);
    put_byte(layout);
}

void kern_json_layout(const char *text, FILE *file)
{
    struct box *boxes = NULL;
    size_t count = 0, capacity = 0, width = 0;
    measure(text, &boxes, &count, &capacity, &width);
    struct layout layout = {.text = text, .box = boxes, .file = file};
    put_value(&layout, 0);
    fputc('\n', file);
    free(boxes);
}
