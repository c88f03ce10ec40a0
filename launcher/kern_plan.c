// SPDX-License-Identifier: Apache-2.0
//
// kern plan: the memory that each rank will take.
#include <inttypes.h>

#include "base/table.h"
#include "base/text.h"
#include "launcher/kern.h"
#include "launcher/usual.h"
#include "manifest/footprint.h"
#include "manifest/json_writer.h"

enum { CAPACITY, SEQS, LARGEST, JSON };

static const struct kern_option options[] = {
    [CAPACITY] = {"capacity", "N", KERN_OPTION_COUNT,
                  "tokens that paged states hold (" KERN_USUAL_TEXT(KERN_USUAL_CAPACITY) ")"},
    [SEQS] = {"seqs", "N", KERN_OPTION_COUNT,
              "sequences that live at once (" KERN_USUAL_TEXT(KERN_USUAL_SEQS) ")"},
    [LARGEST] = {"largest", "N", KERN_OPTION_COUNT, "so many of the largest are listed (10)"},
    [JSON] = {"json", NULL, KERN_OPTION_FLAG, "print one object with every figure"},
};

static uint64_t count_of(const struct kern_arguments *arguments, int option, uint64_t usual)
{
    const struct kern_given *given = &arguments->options[option];
    return given->given ? given->count : usual;
}

static void print_kinds(const struct kern_footprint *footprint)
{
    struct kern_table table = {.sides = "lrrr"};
    char text[32];
    kern_table_add(&table, "on the device");
    kern_table_add(&table, "number");
    kern_table_add(&table, "bytes");
    kern_table_add(&table, "%s", "");
    for (enum kern_memory_kind kind = 0; kind < KERN_MEMORY_KINDS; kind++) {
        if (footprint->count[kind] == 0)
            continue;
        kern_table_add(&table, "%s", kern_memory_kind_name(kind));
        kern_table_add(&table, "%zu", footprint->count[kind]);
        kern_table_add(&table, "%" PRIu64, footprint->taken[kind]);
        kern_table_add(&table, "%s", kern_bytes_text(footprint->taken[kind], text));
    }
    kern_table_add(&table, "total");
    kern_table_add(&table, "%zu", footprint->n_items);
    kern_table_add(&table, "%" PRIu64, footprint->total);
    kern_table_add(&table, "%s", kern_bytes_text(footprint->total, text));
    kern_table_print(&table, stdout);
}

static void print_others(const struct kern_footprint *footprint)
{
    const struct {
        uint64_t bytes;
        const char *what;
    } others[] = {
        {footprint->exported, "exported, of the total"},
        {footprint->sources, "on the device while weights are loaded: sources"},
        {footprint->staging, "page-locked on the host: inputs and outputs"},
        {footprint->host_weights, "page-locked on the host: weights placed there"},
        {footprint->upload, "page-locked on the host while weights are loaded"},
    };
    struct kern_table table = {.sides = "lrr"};
    char text[32];
    kern_table_add(&table, "besides");
    kern_table_add(&table, "bytes");
    kern_table_add(&table, "%s", "");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (others[i].bytes == 0)
            continue;
        kern_table_add(&table, "%s", others[i].what);
        kern_table_add(&table, "%" PRIu64, others[i].bytes);
        kern_table_add(&table, "%s", kern_bytes_text(others[i].bytes, text));
    }
    puts("#");
    kern_table_print(&table, stdout);
}

static void print_largest(const struct kern_footprint *footprint, uint64_t most)
{
    struct kern_table table = {.sides = "llrrl"};
    kern_table_add(&table, "largest");
    kern_table_add(&table, "kind");
    kern_table_add(&table, "asked for");
    kern_table_add(&table, "taken");
    kern_table_add(&table, "%s", "");
    for (size_t i = 0; i < footprint->n_items && i < most; i++) {
        const struct kern_memory_item *item = &footprint->items[i];
        kern_table_add(&table, "%s%s%s", item->op ? item->op : "", item->op ? "." : "", item->name);
        kern_table_add(&table, "%s", kern_memory_kind_name(item->kind));
        kern_table_add(&table, "%" PRIu64, item->bytes);
        kern_table_add(&table, "%" PRIu64, item->taken);
        kern_table_add(&table, "%s", item->exported ? "exported" : "");
    }
    kern_table_print(&table, stdout);
    if (footprint->n_items > most)
        printf("# and %" PRIu64 " more\n", footprint->n_items - most);
}

static void print_plan(const struct kern_manifest *manifest, const char *path,
                       const struct kern_footprint *footprint, uint64_t most)
{
    const struct kern_provision_plan *provision = &footprint->provision;
    char model[KERN_TEXT_SHOWN];
    printf("# model %s  %s: what each rank takes, vars at their max\n",
           kern_text_shorten(manifest->model, model, sizeof model), path);
    if (manifest->n_states)
        printf("# states: %" PRIu64 " tokens in pages of %" PRIu64 ", %" PRIu64
               " sequence slots (a page and two slots are no sequence's)\n",
               provision->tokens, provision->page, provision->slots);
    puts("#");
    print_kinds(footprint);
    print_others(footprint);
    puts("#");
    print_largest(footprint, most);
    char chunk[32];
    printf("# exported memory and states come in granules of 2 MiB, pages and slots "
           "in chunks of %s\n",
           kern_bytes_text(footprint->chunk, chunk));
}

static void write_count(struct kern_json *json, const char *key, uint64_t count)
{
    kern_json_key(json, key);
    kern_json_u64(json, count);
}

static void write_items(struct kern_json *json, const struct kern_footprint *footprint)
{
    kern_json_key(json, "items");
    kern_json_open(json, '[');
    for (size_t i = 0; i < footprint->n_items; i++) {
        const struct kern_memory_item *item = &footprint->items[i];
        kern_json_open(json, '{');
        kern_json_key(json, "kind");
        kern_json_string(json, kern_memory_kind_name(item->kind));
        if (item->op) {
            kern_json_key(json, "op");
            kern_json_string(json, item->op);
        }
        kern_json_key(json, "name");
        kern_json_string(json, item->name);
        write_count(json, "bytes", item->bytes);
        write_count(json, "taken", item->taken);
        kern_json_key(json, "exported");
        kern_json_bool(json, item->exported);
        kern_json_close(json, '}');
    }
    kern_json_close(json, ']');
}

// The members of memory_bytes are called as in the report of kern-rank --json.
static void write_plan(const struct kern_manifest *manifest, const struct kern_footprint *footprint)
{
    struct kern_json json = {.file = stdout};
    kern_json_open(&json, '{');
    kern_json_key(&json, "model");
    kern_json_string(&json, manifest->model);
    write_count(&json, "page_tokens", footprint->provision.page);
    write_count(&json, "tokens", footprint->provision.tokens);
    write_count(&json, "slots", footprint->provision.slots);
    write_count(&json, "chunk_bytes", footprint->chunk);
    kern_json_key(&json, "memory_bytes");
    kern_json_open(&json, '{');
    for (enum kern_memory_kind kind = 0; kind < KERN_MEMORY_KINDS; kind++)
        write_count(&json, kern_memory_kind_name(kind), footprint->taken[kind]);
    write_count(&json, "exported", footprint->exported);
    kern_json_close(&json, '}');
    write_count(&json, "total_bytes", footprint->total);
    write_count(&json, "source_bytes", footprint->sources);
    write_count(&json, "staging_bytes", footprint->staging);
    write_count(&json, "host_weight_bytes", footprint->host_weights);
    write_count(&json, "upload_bytes", footprint->upload);
    write_items(&json, footprint);
    kern_json_close(&json, '}');
    putchar('\n');
}

static enum kern_exit plan(const struct kern_arguments *arguments)
{
    const char *path = arguments->files[0];
    struct kern_diag diag = {0};
    struct kern_footprint footprint = {0};
    struct kern_manifest *manifest = kern_load(path, &diag);
    bool good = manifest &&
                kern_footprint_plan(manifest, count_of(arguments, CAPACITY, KERN_USUAL_CAPACITY),
                                    count_of(arguments, SEQS, KERN_USUAL_SEQS), &footprint, &diag);
    enum kern_exit code = kern_diag_code(&diag);
    kern_complain(path, &diag);
    if (good && arguments->options[JSON].given)
        write_plan(manifest, &footprint);
    else if (good)
        print_plan(manifest, path, &footprint, count_of(arguments, LARGEST, 10));
    kern_footprint_free(&footprint);
    kern_manifest_destroy(manifest);
    kern_diag_clear(&diag);
    return code;
}

const struct kern_command kern_command_plan = {
    .name = "plan",
    .help = "print the memory that each rank will take",
    .usage = "[options] FILE",
    .example = "kern plan --capacity 65536 --seqs 64 model.json",
    .more = "A FILE - is standard input. What the device itself takes for contexts, code and the\n"
            "libraries is not in it.\n",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .files_min = 1,
    .files_max = 1,
    .run = plan,
};
