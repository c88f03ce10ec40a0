// SPDX-License-Identifier: Apache-2.0
#include "base/table.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

void kern_table_add(struct kern_table *table, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    kern_reserve(&table->cells, &table->capacity, table->count + 1, sizeof *table->cells);
    table->cells[table->count++] =
        kern_text_tame(kern_arena_vprint(&table->arena, format, arguments));
    va_end(arguments);
}

// Characters of UTF-8: the bytes that continue one are not counted.
static size_t width_of(const char *text)
{
    size_t width = 0;
    for (; *text; text++)
        width += (*text & 0xc0) != 0x80;
    return width;
}

static void print_row(const struct kern_table *table, size_t row, const size_t *widths, FILE *file)
{
    size_t columns = strlen(table->sides), used = columns;
    const char **cells = &table->cells[row * columns];
    // Nothing is printed behind the last text of a row.
    while (used > 0 && !*cells[used - 1])
        used--;
    fputs(row ? " " : "#", file);
    for (size_t c = 0; c < used; c++) {
        int pad = (int)(widths[c] - width_of(cells[c]));
        if (table->sides[c] == 'r')
            fprintf(file, "  %*s%s", pad, "", cells[c]);
        else
            fprintf(file, "  %s%*s", cells[c], c + 1 == used ? 0 : pad, "");
    }
    fputc('\n', file);
}

void kern_table_print(struct kern_table *table, FILE *file)
{
    size_t columns = strlen(table->sides);
    size_t *widths = kern_calloc(columns, sizeof *widths);
    for (size_t i = 0; i < table->count; i++)
        if (width_of(table->cells[i]) > widths[i % columns])
            widths[i % columns] = width_of(table->cells[i]);
    for (size_t row = 0; row < table->count / columns; row++)
        print_row(table, row, widths, file);
    free(widths);
    free(table->cells);
    kern_arena_free(&table->arena);
    *table = (struct kern_table){.sides = table->sides};
}
