// SPDX-License-Identifier: Apache-2.0
//
// The root of the text, its maps, and what of them is short.
#include "manifest/write.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "manifest/json_layout.h"
#include "manifest/write_parts.h"

static void write_var(struct kern_json *json, const struct kern_var *var)
{
    kern_json_open(json, '{');
    kern_json_key(json, "max");
    kern_json_u64(json, var->max);
    if (var->axis != KERN_AXIS_NONE)
        kern_write_word(json, "axis", &kern_axis_words, var->axis);
    kern_json_close(json, '}');
}

static void write_group(struct kern_json *json, const struct kern_group *group)
{
    kern_json_u64(json, group->size);
}

static void write_host(struct kern_json *json, const struct kern_host_layout *host)
{
    kern_json_key(json, "host");
    kern_json_open(json, '{');
    kern_write_word(json, "dtype", &kern_dtype_words, host->dtype);
    kern_json_key(json, "shape");
    kern_write_u64s(json, host->shape, host->rank);
    kern_json_key(json, "strides");
    kern_write_u64s(json, host->strides, host->n_strides);
    kern_json_close(json, '}');
}

static void write_shard(struct kern_json *json, const struct kern_shard *shard)
{
    kern_json_key(json, "shard");
    kern_json_open(json, '{');
    kern_write_word(json, "by", &kern_shard_words, shard->by);
    kern_write_text(json, "group", shard->group.name);
    if (shard->by == KERN_SHARD_BY_HEADS) {
        kern_json_key(json, "segments");
        kern_write_pairs(json, shard->segments, shard->n_segments);
    }
    kern_json_close(json, '}');
}

static void write_state(struct kern_json *json, const struct kern_state *state)
{
    kern_json_open(json, '{');
    kern_write_number(json, "bytes_per_token", state->bytes_per_token, 0);
    kern_write_number(json, "bytes_per_seq", state->bytes_per_seq, 0);
    kern_write_number(json, "bytes", state->bytes, 0);
    if (state->host)
        write_host(json, state->host);
    if (state->shard)
        write_shard(json, state->shard);
    kern_json_close(json, '}');
}

static void write_module(struct kern_json *json, const struct kern_module *module)
{
    kern_json_open(json, '{');
    kern_write_text(json, "source", module->source);
    kern_write_text(json, "sha256", module->sha256);
    kern_json_close(json, '}');
}

static void write_batch(struct kern_json *json, const struct kern_batch *batch)
{
    kern_json_key(json, "batch");
    kern_json_open(json, '{');
    kern_json_key(json, "groups");
    kern_json_u64(json, batch->groups);
    kern_json_key(json, "rows");
    kern_write_dim(json, &batch->rows);
    kern_write_text(json, "context", batch->context.name);
    kern_json_close(json, '}');
}

static void write_program(struct kern_json *json, const struct kern_program *program)
{
    kern_json_open(json, '{');
    if (program->batch)
        write_batch(json, program->batch);
    kern_write_flag(json, "once", program->once);
    kern_write_flag(json, "derive", program->derive);
    kern_write_flag(json, "graph", program->graph);
    kern_json_key(json, "calls");
    kern_json_open(json, '[');
    for (size_t i = 0; i < program->n_calls; i++) {
        const struct kern_call *call = &program->calls[i];
        kern_json_open(json, '{');
        kern_write_text(json, "op", call->op.name);
        kern_write_text(json, "label", call->label);
        kern_json_key(json, "args");
        kern_write_values(json, call->args, call->n_args);
        kern_json_close(json, '}');
    }
    kern_json_close(json, ']');
    kern_json_close(json, '}');
}

// Defines write_KINDs, which writes the map of all things of a [kind], each with [write_one].
#define WRITE_MAP(kind, write_one)                                                                 \
    static void write_##kind##s(struct kern_json *json, const struct kern_manifest *manifest)      \
    {                                                                                              \
        kern_json_key(json, #kind "s");                                                            \
        kern_json_open(json, '{');                                                                 \
        for (uint32_t i = 0; i < manifest->n_##kind##s; i++) {                                     \
            kern_json_key(json, manifest->kind##s[i].name);                                        \
            write_one(json, &manifest->kind##s[i]);                                                \
        }                                                                                          \
        kern_json_close(json, '}');                                                                \
    }

WRITE_MAP(var, write_var)
WRITE_MAP(group, write_group)
WRITE_MAP(state, write_state)
WRITE_MAP(buffer, kern_write_buffer)
WRITE_MAP(module, write_module)
WRITE_MAP(op, kern_write_op)
WRITE_MAP(program, write_program)

static void write_cut(struct kern_json *json, const struct kern_cut *cut)
{
    kern_json_key(json, "cut");
    kern_json_open(json, '{');
    kern_write_text(json, "id", cut->id);
    kern_json_key(json, "stage");
    kern_json_u64(json, cut->stage);
    kern_json_key(json, "stages");
    kern_json_u64(json, cut->stages);
    kern_json_close(json, '}');
}

static void write_root(struct kern_json *json, const struct kern_manifest *manifest)
{
    kern_json_open(json, '{');
    kern_json_key(json, "schema_version");
    kern_json_u64(json, 7);
    kern_write_text(json, "model", manifest->model);
    if (manifest->n_vars)
        write_vars(json, manifest);
    if (manifest->has_topology) {
        kern_json_key(json, "topology");
        kern_json_open(json, '{');
        write_groups(json, manifest);
        kern_json_close(json, '}');
    }
    if (manifest->cut)
        write_cut(json, manifest->cut);
    if (manifest->has_chat) {
        kern_json_key(json, "chat");
        kern_json_open(json, '{');
        kern_write_text(json, "tool_parser", manifest->tool_parser);
        kern_json_close(json, '}');
    }
    if (manifest->n_states)
        write_states(json, manifest);
    write_buffers(json, manifest);
    write_modules(json, manifest);
    write_ops(json, manifest);
    write_programs(json, manifest);
    kern_json_close(json, '}');
}

// A file in memory, whose bytes are at *[text] once it is closed.
static FILE *open_text(char **text, size_t *length)
{
    FILE *file = open_memstream(text, length);
    if (!file)
        kern_out_of_memory(BUFSIZ);
    return file;
}

static void close_text(FILE *file, size_t length)
{
    bool failed = ferror(file);
    if (fclose(file) || failed)
        kern_out_of_memory(length);
}

char *kern_manifest_write(const struct kern_manifest *manifest, size_t *length)
{
    // Numbers are written with a point, whatever the locale of the process says.
    locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    locale_t before = uselocale(plain);
    char *compact = NULL, *text = NULL;
    size_t compact_length = 0;
    struct kern_json json = {.file = open_text(&compact, &compact_length)};
    write_root(&json, manifest);
    close_text(json.file, compact_length);
    uselocale(before);
    freelocale(plain);

    FILE *file = open_text(&text, length);
    kern_json_layout(compact, file);
    close_text(file, *length);
    free(compact);
    return text;
}
