// SPDX-License-Identifier: Apache-2.0
#include "base/diag.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

static void add(struct kern_diag *diag, enum kern_exit code, const char *rule, uint64_t order,
                const char *place, const char *format, va_list arguments)
{
    kern_reserve(&diag->entries, &diag->capacity, diag->count + 1, sizeof *diag->entries);
    diag->entries[diag->count++] = (struct kern_diag_entry){
        .code = code,
        .rule = rule,
        .place = place ? kern_text_tame(kern_arena_copy(&diag->arena, place, strlen(place))) : NULL,
        .text = kern_text_tame(kern_arena_vprint(&diag->arena, format, arguments)),
        .order = order,
    };
    if (code != KERN_EXIT_OK)
        diag->errors++;
}

void kern_error(struct kern_diag *diag, enum kern_exit code, const char *place, const char *format,
                ...)
{
    va_list arguments;
    va_start(arguments, format);
    add(diag, code, NULL, 0, place, format, arguments);
    va_end(arguments);
}

void kern_error_rule(struct kern_diag *diag, const char *rule, uint64_t order, const char *place,
                     const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add(diag, KERN_EXIT_MANIFEST, rule, order, place, format, arguments);
    va_end(arguments);
}

void kern_warn(struct kern_diag *diag, const char *rule, uint64_t order, const char *place,
               const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add(diag, KERN_EXIT_OK, rule, order, place, format, arguments);
    va_end(arguments);
}

void kern_diag_append(struct kern_diag *to, const struct kern_diag *from)
{
    for (size_t i = 0; i < from->count; i++) {
        const struct kern_diag_entry *entry = &from->entries[i];
        if (entry->code == KERN_EXIT_OK)
            kern_warn(to, entry->rule, entry->order, entry->place, "%s", entry->text);
        else
            kern_fail(to, entry->code, entry->place, "%s", entry->text);
        struct kern_diag_entry *copy = &to->entries[to->count - 1];
        copy->rule = entry->rule;
        copy->order = entry->order;
        copy->library_code = entry->library_code;
    }
}

// Causes before consequences; see kern_diag_code.
static int severity(enum kern_exit code)
{
    static const int severities[] = {
        [KERN_EXIT_OK] = 0,     [KERN_EXIT_PEER] = 1,     [KERN_EXIT_CHECK] = 2,
        [KERN_EXIT_DEVICE] = 3, [KERN_EXIT_ARTIFACT] = 4, [KERN_EXIT_MANIFEST] = 5,
        [KERN_EXIT_USAGE] = 6,
    };
    return severities[code];
}

enum kern_exit kern_exit_worse(enum kern_exit a, enum kern_exit b)
{
    return severity(a) >= severity(b) ? a : b;
}

enum kern_exit kern_diag_code(const struct kern_diag *diag)
{
    enum kern_exit code = KERN_EXIT_OK;
    for (size_t i = 0; i < diag->count; i++)
        code = kern_exit_worse(code, diag->entries[i].code);
    return code;
}

struct placed {
    struct kern_diag_entry entry;
    size_t position;
};

static int by_order(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    if (x->entry.order != y->entry.order)
        return x->entry.order < y->entry.order ? -1 : 1;
    return x->position < y->position ? -1 : 1;
}

void kern_diag_sort(struct kern_diag *diag)
{
    struct placed *placed = kern_calloc(diag->count, sizeof *placed);
    for (size_t i = 0; i < diag->count; i++)
        placed[i] = (struct placed){diag->entries[i], i};
    qsort(placed, diag->count, sizeof *placed, by_order);
    for (size_t i = 0; i < diag->count; i++)
        diag->entries[i] = placed[i].entry;
    free(placed);
}

const char *kern_diag_line(struct kern_diag *diag, size_t index)
{
    const struct kern_diag_entry *entry = &diag->entries[index];
    return kern_arena_print(
        &diag->arena, "%s: %s%s%s%s%s%s", entry->code == KERN_EXIT_OK ? "warning" : "error",
        entry->place ? entry->place : "", entry->place ? ": " : "", entry->text,
        entry->rule ? " [" : "", entry->rule ? entry->rule : "", entry->rule ? "]" : "");
}

void kern_diag_print(struct kern_diag *diag, FILE *file, size_t limit)
{
    for (size_t i = 0; i < diag->count && i < limit; i++)
        fprintf(file, "%s\n", kern_diag_line(diag, i));
    if (diag->count > limit)
        fprintf(file, "and %zu more\n", diag->count - limit);
}

void kern_diag_clear(struct kern_diag *diag)
{
    free(diag->entries);
    kern_arena_free(&diag->arena);
    *diag = (struct kern_diag){0};
}
