// SPDX-License-Identifier: Apache-2.0
//
// What stands in a manifest: its counts, programs, memory and libraries.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/table.h"
#include "base/text.h"
#include "launcher/kern.h"

static const char *axis_name(enum kern_axis axis)
{
    static const char *const names[] = {
        [KERN_AXIS_NONE] = "-",
        [KERN_AXIS_ROWS] = "rows",
        [KERN_AXIS_GROUPS] = "groups",
        [KERN_AXIS_RANKS] = "ranks",
    };
    return names[axis];
}

void kern_summary_counts(const struct kern_manifest *manifest, FILE *file)
{
    const struct {
        uint32_t count;
        const char *what;
    } counts[] = {
        {manifest->n_vars, "var"},         {manifest->n_groups, "group"},
        {manifest->n_states, "state"},     {manifest->n_buffers, "buffer"},
        {manifest->n_modules, "module"},   {manifest->n_ops, "op"},
        {manifest->n_programs, "program"},
    };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        fprintf(file, "%s%u %s%s", i ? ", " : "", counts[i].count, counts[i].what,
                counts[i].count == 1 ? "" : "s");
    fputc('\n', file);
}

static void print_head(const struct kern_manifest *manifest, const char *path, FILE *file)
{
    char hex[KERN_SHA256_HEX + 1], text[KERN_TEXT_SHOWN];
    kern_sha256_to_hex(manifest->digest, hex);
    fprintf(file, "# model %s  %s (sha256 %.12s)\n",
            kern_text_shorten(manifest->model, text, sizeof text), path, hex);
    if (manifest->cut)
        fprintf(file, "# stage %" PRIu64 " of %" PRIu64 " of the cut %s\n", manifest->cut->stage,
                manifest->cut->stages, kern_text_shorten(manifest->cut->id, text, sizeof text));
    fputs("# ", file);
    kern_summary_counts(manifest, file);
}

static void print_vars(const struct kern_manifest *manifest, FILE *file)
{
    struct kern_table table = {.sides = "lrl"};
    if (manifest->n_vars == 0)
        return;
    fputs("#\n", file);
    kern_table_add(&table, "var");
    kern_table_add(&table, "max");
    kern_table_add(&table, "axis");
    for (uint32_t v = 0; v < manifest->n_vars; v++) {
        kern_table_add(&table, "%s", manifest->vars[v].name);
        kern_table_add(&table, "%" PRIu64, manifest->vars[v].max);
        kern_table_add(&table, "%s", axis_name(manifest->vars[v].axis));
    }
    kern_table_print(&table, file);
}

static size_t peers_of(const struct kern_manifest *manifest, uint32_t group)
{
    size_t count = 0;
    for (uint32_t b = 0; b < manifest->n_buffers; b++)
        count += manifest->buffers[b].group.name && manifest->buffers[b].group.index == group;
    return count;
}

static void print_groups(const struct kern_manifest *manifest, FILE *file)
{
    struct kern_table table = {.sides = "lrr"};
    if (manifest->n_groups == 0)
        return;
    fputs("#\n", file);
    kern_table_add(&table, "group");
    kern_table_add(&table, "members");
    kern_table_add(&table, "peer buffers");
    for (uint32_t g = 0; g < manifest->n_groups; g++) {
        kern_table_add(&table, "%s", manifest->groups[g].name);
        kern_table_add(&table, "%" PRIu64, manifest->groups[g].size);
        kern_table_add(&table, "%zu", peers_of(manifest, g));
    }
    kern_table_print(&table, file);
}

static void add_purpose(struct kern_table *table, const struct kern_program *program)
{
    const struct kern_batch *batch = program->batch;
    if (!batch)
        kern_table_add(table, "%s", program->once ? "once" : program->derive ? "derive" : "-");
    else if (batch->rows.var.name)
        kern_table_add(table, "batch %" PRIu64 " x %s%s", batch->groups, batch->rows.var.name,
                       program->graph ? ", graph" : "");
    else
        kern_table_add(table, "batch %" PRIu64 " x %" PRIu64 "%s", batch->groups,
                       batch->rows.extent, program->graph ? ", graph" : "");
}

static void print_programs(const struct kern_manifest *manifest, FILE *file)
{
    struct kern_table table = {.sides = "llrrr"};
    fputs("#\n", file);
    kern_table_add(&table, "program");
    kern_table_add(&table, "run as");
    kern_table_add(&table, "calls");
    kern_table_add(&table, "launches");
    kern_table_add(&table, "extern");
    for (uint32_t p = 0; p < manifest->n_programs; p++) {
        const struct kern_program *program = &manifest->programs[p];
        size_t launches = 0, externs = 0;
        for (size_t c = 0; c < program->n_calls; c++) {
            const struct kern_op *op = &manifest->ops[program->calls[c].op.index];
            launches += op->n_launches;
            for (size_t l = 0; l < op->n_launches; l++)
                externs += op->launches[l].is_extern;
        }
        kern_table_add(&table, "%s", program->name);
        add_purpose(&table, program);
        kern_table_add(&table, "%zu", program->n_calls);
        kern_table_add(&table, "%zu", launches);
        kern_table_add(&table, "%zu", externs);
    }
    kern_table_print(&table, file);
}

static void print_buffers(const struct kern_manifest *manifest, FILE *file)
{
    uint64_t bytes[KERN_PEER + 1] = {0}, exported[KERN_PEER + 1] = {0};
    size_t count[KERN_PEER + 1] = {0};
    struct kern_table table = {.sides = "lrrrr"};
    char text[32];
    if (manifest->n_buffers == 0)
        return;
    // Each fits 64 bits; a sum that does not is shown as the largest number there is.
    for (uint32_t b = 0; b < manifest->n_buffers; b++) {
        const struct kern_buffer *buffer = &manifest->buffers[b];
        uint64_t *sum = &bytes[buffer->kind];
        if (__builtin_add_overflow(*sum, buffer->bytes, sum))
            *sum = UINT64_MAX;
        count[buffer->kind]++;
        exported[buffer->kind] += buffer->exported;
    }
    fputs("#\n", file);
    kern_table_add(&table, "kind");
    kern_table_add(&table, "buffers");
    kern_table_add(&table, "exported");
    kern_table_add(&table, "bytes");
    kern_table_add(&table, "%s", "");
    for (enum kern_buffer_kind kind = 0; kind <= KERN_PEER; kind++) {
        if (count[kind] == 0)
            continue;
        kern_table_add(&table, "%s", kern_buffer_kind_name(kind));
        kern_table_add(&table, "%zu", count[kind]);
        kern_table_add(&table, "%" PRIu64, exported[kind]);
        kern_table_add(&table, "%" PRIu64, bytes[kind]);
        kern_table_add(&table, "%s", kern_bytes_text(bytes[kind], text));
    }
    kern_table_print(&table, file);
    if (manifest->n_vars)
        fputs("#  bytes with the vars at their max; kern plan has what a rank takes\n", file);
}

static void print_states(const struct kern_manifest *manifest, FILE *file)
{
    struct kern_table table = {.sides = "lrll"};
    if (manifest->n_states == 0)
        return;
    fputs("#\n", file);
    kern_table_add(&table, "state");
    kern_table_add(&table, "bytes");
    kern_table_add(&table, "per");
    kern_table_add(&table, "sharded");
    for (uint32_t s = 0; s < manifest->n_states; s++) {
        const struct kern_state *state = &manifest->states[s];
        const struct kern_shard *shard = state->shard;
        kern_table_add(&table, "%s", state->name);
        kern_table_add(&table, "%" PRIu64,
                       state->bytes_per_token + state->bytes_per_seq + state->bytes);
        kern_table_add(&table, "%s",
                       state->host              ? "host"
                       : state->bytes_per_token ? "token"
                       : state->bytes_per_seq   ? "sequence"
                                                : "-");
        if (shard)
            kern_table_add(&table, "by %s over %s",
                           shard->by == KERN_SHARD_BY_HEADS ? "heads" : "position",
                           shard->group.name);
        else
            kern_table_add(&table, "-");
    }
    kern_table_print(&table, file);
}

struct use {
    const char *entry;
    size_t calls;
};

static int by_entry(const void *a, const void *b)
{
    return strcmp(((const struct use *)a)->entry, ((const struct use *)b)->entry);
}

// Notes each launch of a built-in with the number of calls of its op, and returns their number.
static size_t find_externs(const struct kern_manifest *manifest, const size_t *calls,
                           struct use **uses)
{
    size_t count = 0, capacity = 0;
    for (uint32_t o = 0; o < manifest->n_ops; o++) {
        const struct kern_op *op = &manifest->ops[o];
        for (size_t l = 0; l < op->n_launches; l++) {
            if (!op->launches[l].is_extern)
                continue;
            kern_reserve(uses, &capacity, count + 1, sizeof **uses);
            (*uses)[count++] = (struct use){op->launches[l].entry, calls[o]};
        }
    }
    if (count)
        qsort(*uses, count, sizeof **uses, by_entry);
    return count;
}

static void print_externs(const struct kern_manifest *manifest, FILE *file)
{
    struct kern_table table = {.sides = "lr"};
    size_t *calls = kern_calloc(manifest->n_ops, sizeof *calls);
    struct use *uses = NULL;
    for (uint32_t p = 0; p < manifest->n_programs; p++)
        for (size_t c = 0; c < manifest->programs[p].n_calls; c++)
            calls[manifest->programs[p].calls[c].op.index]++;
    size_t count = find_externs(manifest, calls, &uses);
    if (count) {
        fputs("#\n", file);
        kern_table_add(&table, "built-in");
        kern_table_add(&table, "launches");
    }
    for (size_t i = 0; i < count;) {
        size_t first = i, launches = 0;
        for (; i < count && strcmp(uses[i].entry, uses[first].entry) == 0; i++)
            launches += uses[i].calls;
        kern_table_add(&table, "%s", uses[first].entry);
        kern_table_add(&table, "%zu", launches);
    }
    if (count)
        kern_table_print(&table, file);
    free(uses);
    free(calls);
}

static void print_modules(const struct kern_manifest *manifest, FILE *file)
{
    struct kern_table table = {.sides = "lll"};
    if (manifest->n_modules == 0)
        return;
    fputs("#\n", file);
    kern_table_add(&table, "module");
    kern_table_add(&table, "sha256");
    kern_table_add(&table, "source");
    for (uint32_t m = 0; m < manifest->n_modules; m++) {
        kern_table_add(&table, "%s", manifest->modules[m].name);
        kern_table_add(&table, "%.12s", manifest->modules[m].sha256);
        kern_table_add(&table, "%s", manifest->modules[m].source);
    }
    kern_table_print(&table, file);
}

void kern_summary_print(const struct kern_manifest *manifest, const char *path, FILE *file)
{
    print_head(manifest, path, file);
    print_vars(manifest, file);
    print_groups(manifest, file);
    print_programs(manifest, file);
    print_buffers(manifest, file);
    print_states(manifest, file);
    print_externs(manifest, file);
    print_modules(manifest, file);
    kern_summary_serving(manifest, file);
}
