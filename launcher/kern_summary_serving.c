// SPDX-License-Identifier: Apache-2.0
//
// The serving projection as people read it.
#include <inttypes.h>

#include "base/table.h"
#include "launcher/kern.h"
#include "manifest/serving.h"

static const char *const axis_names[] = {
    [KERN_AXIS_ROWS] = "rows",
    [KERN_AXIS_GROUPS] = "groups",
    [KERN_AXIS_RANKS] = "ranks",
};

static void add_role(struct kern_table *table, const struct kern_manifest *manifest,
                     const char *role, uint32_t buffer, const char *remark)
{
    if (buffer == KERN_NONE)
        return;
    kern_table_add(table, "%s", role);
    kern_table_add(table, "%s", manifest->buffers[buffer].name);
    kern_table_add(table, "%s", kern_buffer_kind_name(manifest->buffers[buffer].kind));
    kern_table_add(table, "%s", remark);
}

static void add_tables(struct kern_table *table, const struct kern_manifest *manifest,
                       const struct kern_serving *serving)
{
    for (size_t i = 0; i < serving->n_page_tables; i++) {
        const struct kern_page_table *pages = &serving->page_tables[i];
        char remark[128];
        snprintf(remark, sizeof remark, "%" PRIu64 " pages of %" PRIu64 " tokens of %.40s",
                 pages->pages, pages->tokens, manifest->states[pages->state].name);
        add_role(table, manifest, "page table", pages->buffer, remark);
    }
    for (size_t i = 0; i < serving->n_line_tables; i++) {
        const struct kern_line_table *lines = &serving->line_tables[i];
        char remark[128];
        snprintf(remark, sizeof remark, "%" PRIu64 " lines of %" PRIu64 " bytes of %.40s, over %s",
                 lines->lines, lines->bytes, manifest->states[lines->state].name,
                 axis_names[lines->axis]);
        add_role(table, manifest, "line table", lines->buffer, remark);
    }
}

static void print_buffers(const struct kern_manifest *manifest, const struct kern_serving *serving,
                          FILE *file)
{
    struct kern_table table = {.sides = "llll"};
    kern_table_add(&table, "serving role");
    kern_table_add(&table, "buffer");
    kern_table_add(&table, "kind");
    kern_table_add(&table, "%s", "");
    for (enum kern_axis axis = KERN_AXIS_ROWS; axis <= KERN_AXIS_RANKS; axis++) {
        char remark[32];
        snprintf(remark, sizeof remark, "over %s", axis_names[axis]);
        add_role(&table, manifest, "token", serving->token[axis], remark);
    }
    for (enum kern_fill fill = KERN_FILL_POSITION; fill <= KERN_FILL_ERROR; fill++)
        add_role(&table, manifest, kern_fill_name(fill), serving->fills[fill], "");
    add_tables(&table, manifest, serving);
    kern_table_print(&table, file);
}

static const char *name_of(const struct kern_manifest *manifest, uint32_t buffer)
{
    return buffer == KERN_NONE ? "-" : manifest->buffers[buffer].name;
}

static void print_forwards(const struct kern_manifest *manifest, const struct kern_serving *serving,
                           FILE *file)
{
    struct kern_table table = {.sides = "lrrll"};
    kern_table_add(&table, "forward");
    kern_table_add(&table, "sequences");
    kern_table_add(&table, "rows of each");
    kern_table_add(&table, "tokens");
    kern_table_add(&table, "count");
    for (size_t i = 0; i < serving->n_forwards; i++) {
        const struct kern_forward *forward = &serving->forwards[i];
        kern_table_add(&table, "%s", manifest->programs[forward->program].name);
        kern_table_add(&table, "1..%" PRIu64, forward->groups);
        if (forward->rows == KERN_ROWS_VAR)
            kern_table_add(&table, "%s", manifest->vars[serving->axes[KERN_AXIS_ROWS].var].name);
        else
            kern_table_add(&table, "%" PRIu64, forward->rows);
        kern_table_add(&table, "%s", name_of(manifest, forward->tokens));
        kern_table_add(&table, "%s", name_of(manifest, forward->count));
    }
    kern_table_print(&table, file);
    if (serving->context != KERN_NONE)
        fprintf(file, "#  %s is the length of the longest sequence of a call\n",
                manifest->vars[serving->context].name);
}

void kern_summary_serving(const struct kern_manifest *manifest, FILE *file)
{
    struct kern_serving serving;
    struct kern_diag diag = {0};
    fputs("#\n", file);
    if (kern_serving_project(manifest, kern_serving_mode_of(manifest), &serving, &diag)) {
        print_buffers(manifest, &serving, file);
        fputs("#\n", file);
        print_forwards(manifest, &serving, file);
        kern_serving_free(&serving);
    } else {
        fputs("# it cannot be served, which not every manifest needs to be:\n", file);
    }
    for (size_t i = 0; i < diag.count && i < KERN_ERRORS_PRINTED; i++) {
        const struct kern_diag_entry *entry = &diag.entries[i];
        fprintf(file, "#  %s: %s [%s]\n", entry->place, entry->text, entry->rule);
    }
    if (diag.count > KERN_ERRORS_PRINTED)
        fprintf(file, "#  and %zu more\n", diag.count - KERN_ERRORS_PRINTED);
    kern_diag_clear(&diag);
}
