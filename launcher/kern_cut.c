// SPDX-License-Identifier: Apache-2.0
//
// kern cut: a manifest as the stages of a pipeline.
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/table.h"
#include "base/text.h"
#include "launcher/kern.h"
#include "launcher/points.h"
#include "manifest/cut.h"
#include "manifest/write.h"

enum { AT, BALANCE, OUT, FORCE };

static const struct kern_option options[] = {
    [AT] = {"at", "I,J", KERN_OPTION_TEXT, "the first call of each stage but the first"},
    [BALANCE] = {"balance", "N", KERN_OPTION_COUNT, "N stages that read as many weights each"},
    [OUT] = {"out", "DIR", KERN_OPTION_TEXT, "write the stages to DIR/stage0.json and on"},
    [FORCE] = {"force", NULL, KERN_OPTION_FLAG, "over files that hold something else"},
};

static bool find_points(const struct kern_arguments *arguments,
                        const struct kern_manifest *manifest, struct kern_points *points,
                        struct kern_diag *diag)
{
    const struct kern_given *at = &arguments->options[AT], *balance = &arguments->options[BALANCE];
    if (at->given == balance->given)
        return kern_fail(diag, KERN_EXIT_USAGE, NULL,
                         "%s; say where to cut with --at I,J, or into how many stages with "
                         "--balance N",
                         at->given ? "--at and --balance are both given" : "no point is given");
    if (at->given)
        return kern_points_read(at->text, "--at", points, diag);
    // More stages than calls are refused below; the array need not be larger for them.
    size_t most = 1;
    for (uint32_t i = 0; i < manifest->n_programs; i++)
        most += manifest->programs[i].n_calls;
    points->count = balance->count > most ? most : balance->count ? balance->count - 1 : 0;
    points->values = kern_calloc(points->count, sizeof *points->values);
    return kern_manifest_balance(manifest, points->count + 1, points->values, diag);
}

static const char *calls_text(const struct kern_manifest *stage, struct kern_arena *arena)
{
    const char *text = "";
    for (uint32_t i = 0; i < stage->n_programs; i++)
        text = kern_arena_print(arena, "%s%s%s %zu", text, *text ? ", " : "",
                                stage->programs[i].name, stage->programs[i].n_calls);
    return text;
}

static const char *states_text(const struct kern_manifest *stage, struct kern_arena *arena)
{
    enum { NAMED = 4 };
    const char *text = "";
    for (uint32_t i = 0; i < stage->n_states && i < NAMED; i++)
        text = kern_arena_print(arena, "%s%s%s", text, i ? ", " : "", stage->states[i].name);
    if (stage->n_states > NAMED)
        text = kern_arena_print(arena, "%s and %u more", text, stage->n_states - NAMED);
    return text;
}

static void print_stages(struct kern_manifest *const *stages, size_t count)
{
    struct kern_table table = {.sides = "rlrrl"};
    char text[32];
    kern_table_add(&table, "stage");
    kern_table_add(&table, "calls");
    kern_table_add(&table, "bytes of weights");
    kern_table_add(&table, "%s", "");
    kern_table_add(&table, "states");
    for (size_t i = 0; i < count; i++) {
        uint64_t bytes = UINT64_MAX;
        kern_manifest_weight_bytes(stages[i], &bytes);
        kern_table_add(&table, "%zu", i);
        kern_table_add(&table, "%s", calls_text(stages[i], &table.arena));
        kern_table_add(&table, "%" PRIu64, bytes);
        kern_table_add(&table, "%s", kern_bytes_text(bytes, text));
        kern_table_add(&table, "%s", states_text(stages[i], &table.arena));
    }
    kern_table_print(&table, stdout);
}

static void print_edges(struct kern_manifest *const *stages, size_t count)
{
    struct kern_table table = {.sides = "llrrl"};
    char text[32];
    kern_table_add(&table, "edge");
    kern_table_add(&table, "buffer");
    kern_table_add(&table, "bytes at most");
    kern_table_add(&table, "%s", "");
    kern_table_add(&table, "arrives as");
    for (size_t i = 1; i < count; i++) {
        for (uint32_t j = 0; j < stages[i]->n_buffers; j++) {
            const struct kern_buffer *buffer = &stages[i]->buffers[j];
            if (!kern_manifest_arrives(stages[i], buffer))
                continue;
            kern_table_add(&table, "%zu to %zu", i - 1, i);
            kern_table_add(&table, "%s", buffer->name);
            kern_table_add(&table, "%" PRIu64, buffer->bytes);
            kern_table_add(&table, "%s", kern_bytes_text(buffer->bytes, text));
            kern_table_add(&table, "%s", kern_buffer_kind_name(buffer->kind));
        }
    }
    kern_table_print(&table, stdout);
}

static void print_cut(struct kern_manifest *const *stages, const struct kern_points *points,
                      const char *path)
{
    char model[KERN_TEXT_SHOWN];
    printf("# model %s  %s: cut at ", kern_text_shorten(stages[0]->model, model, sizeof model),
           path);
    for (size_t i = 0; i < points->count; i++)
        printf("%s%" PRIu64, i ? "," : "", points->values[i]);
    printf(", id %s\n#\n", stages[0]->cut->id);
    print_stages(stages, points->count + 1);
    puts("#");
    print_edges(stages, points->count + 1);
}

// The stages' texts and where they go.
struct output {
    char *path;
    char *text;
    size_t length;
    bool is_there; // the file exists and holds the text
};

// Whether [output] may be written: there is no such file, it holds the same, or it may be lost.
static bool check_output(struct output *output, bool force, struct kern_diag *diag)
{
    size_t length;
    if (access(output->path, F_OK) != 0)
        return true;
    char *text =
        kern_file_read(output->path, KERN_MANIFEST_BYTES_MAX, &length, KERN_EXIT_USAGE, diag);
    if (!text)
        return false;
    output->is_there = length == output->length && memcmp(text, output->text, length) == 0;
    free(text);
    return output->is_there || force ||
           kern_fail(diag, KERN_EXIT_USAGE, output->path,
                     "holds something else already; --force writes over it");
}

// Either all files may be written or none is.
static bool write_outputs(struct output *outputs, size_t count, bool force, struct kern_diag *diag)
{
    bool good = true;
    for (size_t i = 0; i < count; i++)
        good = check_output(&outputs[i], force, diag) && good;
    for (size_t i = 0; i < count && good; i++)
        if (!outputs[i].is_there)
            good = kern_file_write(outputs[i].path, outputs[i].text, outputs[i].length, diag);
    return good;
}

static bool write_stages(struct kern_manifest *const *stages, size_t count, const char *directory,
                         bool force, struct kern_diag *diag)
{
    if (mkdir(directory, 0777) != 0 && errno != EEXIST)
        return kern_fail(diag, KERN_EXIT_USAGE, directory, "cannot be made: %s", strerror(errno));
    struct kern_arena arena = {0};
    struct output *outputs = kern_arena_array(&arena, count, sizeof *outputs);
    for (size_t i = 0; i < count; i++) {
        outputs[i].path = kern_arena_print(&arena, "%s/stage%zu.json", directory, i);
        outputs[i].text = kern_manifest_write(stages[i], &outputs[i].length);
    }
    bool good = write_outputs(outputs, count, force, diag);
    for (size_t i = 0; i < count; i++)
        free(outputs[i].text);
    kern_arena_free(&arena);
    return good;
}

static enum kern_exit cut(const struct kern_arguments *arguments)
{
    const char *path = arguments->files[0];
    const struct kern_given *out = &arguments->options[OUT];
    struct kern_diag diag = {0};
    struct kern_points points = {0};
    struct kern_manifest **stages = NULL;
    struct kern_manifest *manifest = kern_load(path, &diag);
    if (manifest && find_points(arguments, manifest, &points, &diag))
        stages = kern_manifest_cut(manifest, points.values, points.count, &diag);
    bool good = stages && (!out->given || write_stages(stages, points.count + 1, out->text,
                                                       arguments->options[FORCE].given, &diag));
    enum kern_exit code = kern_diag_code(&diag);
    kern_complain(path, &diag);
    if (good)
        print_cut(stages, &points, path);
    kern_manifest_stages_destroy(stages, points.count + 1);
    kern_manifest_destroy(manifest);
    free(points.values);
    kern_diag_clear(&diag);
    return code;
}

const struct kern_command kern_command_cut = {
    .name = "cut",
    .help = "cut a manifest into the stages of a pipeline",
    .usage = "--at I,J | --balance N [--out DIR [--force]] FILE",
    .example = "kern cut --balance 2 --out stages model.json",
    .more = "A FILE - is standard input. Without --out it only prints what the stages would be.\n"
            "A point is the index of a call, the same in every program with a batch. Bytes are\n"
            "those with every var at its max.\n",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .letters = "  o ",
    .files_min = 1,
    .files_max = 1,
    .run = cut,
};
