// SPDX-License-Identifier: Apache-2.0
//
// Text in columns that are as wide as their widest cell, in the manner of nccl-tests.
#ifndef KERN_BASE_TABLE_H
#define KERN_BASE_TABLE_H

#include <stddef.h>
#include <stdio.h>

#include "base/arena.h"

// Set [sides] only: a letter per column, 'l' or 'r', the side that its cells are aligned to.
struct kern_table {
    const char *sides;
    const char **cells;
    size_t count, capacity;
    struct kern_arena arena;
};

// Adds the next cell, row by row; the first row is the heading. Control characters become question
// marks: a cell may come from a manifest, and must not break its row or steer a terminal.
void kern_table_add(struct kern_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// Prints the rows, the heading after a "#", and frees the cells; the table is empty and usable
// again. Cells are counted in characters, of one column each.
void kern_table_print(struct kern_table *table, FILE *file);

#endif
