// SPDX-License-Identifier: Apache-2.0
//
// kern verify: whether manifests keep the contract, and their artifacts what the manifests say.
#include "base/table.h"
#include "launcher/kern.h"
#include "manifest/json_writer.h"
#include "rank/inspect.h"

enum { JSON, KERNELS };

static const struct kern_option options[] = {
    [KERNELS] = {"kernels", "DIR", KERN_OPTION_LIST,
                 "also check the modules in this folder (repeatable)"},
    [JSON] = {"json", NULL, KERN_OPTION_FLAG, "print an array with an object per file"},
};

static void print_accepted(const char *path, const struct kern_manifest *manifest)
{
    bool colours = kern_is_colourful(stdout);
    printf("%s: %sok%s, ", path, colours ? "\033[1;32m" : "", colours ? "\033[0m" : "");
    kern_summary_counts(manifest, stdout);
}

static void write_text(struct kern_json *json, const char *key, const char *text)
{
    kern_json_key(json, key);
    if (text)
        kern_json_string(json, text);
    else
        kern_json_null(json);
}

// The errors, or the warnings, among the entries.
static void write_entries(struct kern_json *json, const char *key, const struct kern_diag *diag,
                          bool warnings)
{
    kern_json_key(json, key);
    kern_json_open(json, '[');
    for (size_t i = 0; i < diag->count; i++) {
        const struct kern_diag_entry *entry = &diag->entries[i];
        if ((entry->code == KERN_EXIT_OK) != warnings)
            continue;
        kern_json_open(json, '{');
        write_text(json, "rule", entry->rule);
        write_text(json, "place", entry->place);
        write_text(json, "text", entry->text);
        kern_json_key(json, "order");
        kern_json_u64(json, entry->order);
        kern_json_close(json, '}');
    }
    kern_json_close(json, ']');
}

static void write_kernels(struct kern_json *json, const struct kern_inspection *inspection)
{
    kern_json_key(json, "kernels");
    kern_json_open(json, '[');
    for (size_t i = 0; i < inspection->count; i++) {
        const struct kern_inspected *item = &inspection->items[i];
        kern_json_open(json, '{');
        write_text(json, "module", item->module);
        write_text(json, "artifact", item->path);
        write_text(json, "entry", item->entry);
        write_text(json, "checked", item->checked);
        write_text(json, "absent", item->absent);
        write_text(json, "unread", item->unread);
        kern_json_close(json, '}');
    }
    kern_json_close(json, ']');
}

// [inspection] may be NULL: the artifacts were not asked for.
static void write_result(struct kern_json *json, const char *path, const struct kern_diag *diag,
                         const struct kern_inspection *inspection)
{
    kern_json_open(json, '{');
    write_text(json, "file", path);
    kern_json_key(json, "ok");
    kern_json_bool(json, diag->errors == 0);
    write_entries(json, "errors", diag, false);
    write_entries(json, "warnings", diag, true);
    if (inspection)
        write_kernels(json, inspection);
    kern_json_close(json, '}');
}

// The entries and where they were checked: a table below the line of the manifest.
static void print_kernels(const struct kern_inspection *inspection)
{
    struct kern_table table = {.sides = "lllll"};
    kern_table_add(&table, "module");
    kern_table_add(&table, "entry");
    kern_table_add(&table, "checked in");
    kern_table_add(&table, "not in");
    kern_table_add(&table, "not readable");
    for (size_t i = 0; i < inspection->count; i++) {
        const struct kern_inspected *item = &inspection->items[i];
        kern_table_add(&table, "%s", item->module);
        kern_table_add(&table, "%s", item->entry);
        kern_table_add(&table, "%s", item->checked ? item->checked : "-");
        kern_table_add(&table, "%s", item->absent ? item->absent : "-");
        kern_table_add(&table, "%s", item->unread ? item->unread : "-");
    }
    kern_table_print(&table, stdout);
}

// What is verified, with the files looked at so far.
struct verification {
    const struct kern_given *kernels;
    struct kern_digests digests;
    struct kern_json *json; // NULL: for people
};

static enum kern_exit verify_file(struct verification *verification, const char *path)
{
    struct kern_diag diag = {0};
    struct kern_inspection inspection = {0};
    struct kern_manifest *manifest = kern_load(path, &diag);
    bool inspects = manifest && verification->kernels->given;
    if (inspects)
        kern_inspect(manifest, verification->kernels->list, verification->kernels->n_list,
                     &verification->digests, &inspection, &diag);
    enum kern_exit code = kern_diag_code(&diag);
    if (verification->json) {
        write_result(verification->json, path, &diag, inspects ? &inspection : NULL);
    } else {
        kern_complain(path, &diag);
        if (manifest && code == KERN_EXIT_OK)
            print_accepted(path, manifest);
        if (inspection.count)
            print_kernels(&inspection);
    }
    kern_inspection_free(&inspection);
    kern_manifest_destroy(manifest);
    kern_diag_clear(&diag);
    return code;
}

static enum kern_exit verify(const struct kern_arguments *arguments)
{
    struct kern_json json = {.file = stdout};
    bool as_json = arguments->options[JSON].given;
    struct verification verification = {.kernels = &arguments->options[KERNELS],
                                        .json = as_json ? &json : NULL};
    enum kern_exit code = KERN_EXIT_OK;
    if (as_json)
        kern_json_open(&json, '[');
    for (size_t i = 0; i < arguments->n_files; i++)
        code = kern_exit_worse(code, verify_file(&verification, arguments->files[i]));
    if (as_json) {
        kern_json_close(&json, ']');
        putchar('\n');
    }
    kern_digests_free(&verification.digests);
    return code;
}

const struct kern_command kern_command_verify = {
    .name = "verify",
    .help = "check every rule of the contract",
    .usage = "[options] FILE...",
    .example = "kern verify --kernels build/kernels model.json",
    .more = "A FILE - is standard input. Every violation is printed, in the order of the\n"
            "document, with its place and its rule (docs/rules.md); with --json also those after\n"
            "the 200th. An object has file, ok, errors and warnings; each of these has rule,\n"
            "place, text and order. With --kernels the artifacts of the modules are looked for by\n"
            "their sha256, their entries by name, and what is declared of their parameters is\n"
            "compared with what stands in cubins, PTX and the host half; nothing is run.\n",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .files_min = 1,
    .files_max = SIZE_MAX,
    .run = verify,
};
