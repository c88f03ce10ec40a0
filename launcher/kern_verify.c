// SPDX-License-Identifier: Apache-2.0
//
// kern verify: whether manifests keep the contract.
#include "launcher/kern.h"
#include "manifest/json_writer.h"

enum { JSON };

static const struct kern_option options[] = {
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

static void write_result(struct kern_json *json, const char *path, const struct kern_diag *diag)
{
    kern_json_open(json, '{');
    write_text(json, "file", path);
    kern_json_key(json, "ok");
    kern_json_bool(json, diag->errors == 0);
    write_entries(json, "errors", diag, false);
    write_entries(json, "warnings", diag, true);
    kern_json_close(json, '}');
}

static enum kern_exit verify(const struct kern_arguments *arguments)
{
    bool as_json = arguments->options[JSON].given;
    struct kern_json json = {.file = stdout};
    enum kern_exit code = KERN_EXIT_OK;
    if (as_json)
        kern_json_open(&json, '[');
    for (size_t i = 0; i < arguments->n_files; i++) {
        const char *path = arguments->files[i];
        struct kern_diag diag = {0};
        struct kern_manifest *manifest = kern_load(path, &diag);
        code = kern_exit_worse(code, kern_diag_code(&diag));
        if (as_json)
            write_result(&json, path, &diag);
        else
            kern_complain(path, &diag);
        if (manifest && !as_json)
            print_accepted(path, manifest);
        kern_manifest_destroy(manifest);
        kern_diag_clear(&diag);
    }
    if (as_json) {
        kern_json_close(&json, ']');
        putchar('\n');
    }
    return code;
}

const struct kern_command kern_command_verify = {
    .name = "verify",
    .help = "check every rule of the contract",
    .usage = "[--json] FILE...",
    .example = "kern verify model.json",
    .more = "A FILE - is standard input. Every violation is printed, in the order of the\n"
            "document, with its place and its rule (docs/rules.md); with --json also those after\n"
            "the 200th. An object has file, ok, errors and warnings; each of these has rule,\n"
            "place, text and order.\n",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .files_min = 1,
    .files_max = SIZE_MAX,
    .run = verify,
};
