// SPDX-License-Identifier: Apache-2.0
//
// kern diff: what differs between two manifests.
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "launcher/kern.h"
#include "manifest/diff.h"
#include "manifest/json_writer.h"

enum { JSON };

// Values that are longer end in an ellipsis in the text; --json has them whole.
enum { VALUE_SHOWN = 120 };

static const struct kern_option options[] = {
    [JSON] = {"json", NULL, KERN_OPTION_FLAG, "print one object with every value in full"},
};

// A manifest as it is parsed: what breaks a rule can be compared too. On failure *[code] says why.
static struct kern_manifest *load(const char *path, enum kern_exit *code)
{
    struct kern_diag diag = {0};
    size_t length;
    char *text = kern_file_read(path, KERN_MANIFEST_BYTES_MAX, &length, KERN_EXIT_USAGE, &diag);
    struct kern_manifest *manifest = text ? kern_manifest_parse(text, length, path, &diag) : NULL;
    kern_complain(path, &diag);
    *code = kern_exit_worse(*code, kern_diag_code(&diag));
    free(text);
    kern_diag_clear(&diag);
    return manifest;
}

static void print_value(const char *text)
{
    size_t shown = strlen(text);
    if (shown > VALUE_SHOWN) {
        // Not within a character of several bytes.
        for (shown = VALUE_SHOWN; (text[shown] & 0xc0) == 0x80; shown--)
            continue;
    }
    printf("%.*s%s", (int)shown, text, text[shown] ? "…" : "");
}

static void print_difference(const struct kern_difference *difference, bool colours)
{
    static const char *const signs[] = {"+", "-", "~"};
    static const char *const inks[] = {"\033[32m", "\033[31m", "\033[33m"};
    printf("%s%s %s%s: ", colours ? inks[difference->change] : "", signs[difference->change],
           difference->place, colours ? "\033[0m" : "");
    if (difference->before)
        print_value(difference->before);
    if (difference->change == KERN_CHANGE_CHANGED)
        fputs(" -> ", stdout);
    if (difference->after)
        print_value(difference->after);
    putchar('\n');
}

static void print_differences(const struct kern_differences *found)
{
    const char *section = "";
    bool colours = kern_is_colourful(stdout);
    for (size_t i = 0; i < found->count; i++) {
        if (strcmp(section, found->items[i].section) != 0)
            printf("# %s\n", found->items[i].section);
        section = found->items[i].section;
        print_difference(&found->items[i], colours);
    }
}

// A member whose value is JSON text already.
static void write_text(struct kern_json *json, const char *key, const char *text)
{
    if (!text)
        return;
    kern_json_key(json, key);
    fputs(text, json->file);
    json->comma = true;
}

static void write_string(struct kern_json *json, const char *key, const char *text)
{
    kern_json_key(json, key);
    kern_json_string(json, text);
}

static void write_differences(const struct kern_differences *found)
{
    static const char *const changes[] = {"added", "removed", "changed"};
    struct kern_json json = {.file = stdout};
    kern_json_open(&json, '{');
    kern_json_key(&json, "differences");
    kern_json_open(&json, '[');
    for (size_t i = 0; i < found->count; i++) {
        const struct kern_difference *difference = &found->items[i];
        kern_json_open(&json, '{');
        write_string(&json, "change", changes[difference->change]);
        write_string(&json, "section", difference->section);
        write_string(&json, "place", difference->place);
        write_text(&json, "before", difference->before);
        write_text(&json, "after", difference->after);
        kern_json_close(&json, '}');
    }
    kern_json_close(&json, ']');
    kern_json_close(&json, '}');
    putchar('\n');
}

static enum kern_exit diff(const struct kern_arguments *arguments)
{
    struct kern_differences found = {0};
    enum kern_exit code = KERN_EXIT_OK;
    struct kern_manifest *before = load(arguments->files[0], &code);
    struct kern_manifest *after = load(arguments->files[1], &code);
    if (before && after) {
        kern_manifest_diff(before, after, &found);
        code = found.count ? KERN_EXIT_CHECK : KERN_EXIT_OK;
        if (arguments->options[JSON].given)
            write_differences(&found);
        else
            print_differences(&found);
    }
    kern_differences_clear(&found);
    kern_manifest_destroy(before);
    kern_manifest_destroy(after);
    return code;
}

const struct kern_command kern_command_diff = {
    .name = "diff",
    .help = "print what differs between two manifests",
    .usage = "[--json] FILE FILE",
    .example = "kern diff old.json new.json",
    .more =
        "What counts is what they mean: not the order of maps, constants or members at their\n"
        "default. The manifests need not keep the rules. + is only in the second, - only in the\n"
        "first, ~ in both. Exit 1 if anything differs.\n",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .files_min = 2,
    .files_max = 2,
    .run = diff,
};
