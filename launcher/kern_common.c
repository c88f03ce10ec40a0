// SPDX-License-Identifier: Apache-2.0
//
// What the subcommands of kern share: reading a manifest and saying what is wrong with it.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "launcher/kern.h"

struct kern_manifest *kern_load(const char *path, struct kern_diag *diag)
{
    size_t length;
    char *text = kern_file_read(path, KERN_MANIFEST_BYTES_MAX, &length, KERN_EXIT_USAGE, diag);
    struct kern_manifest *manifest = text ? kern_manifest_parse(text, length, path, diag) : NULL;
    free(text);
    if (!manifest || kern_manifest_verify(manifest, diag))
        return manifest;
    kern_manifest_destroy(manifest);
    return NULL;
}

bool kern_is_colourful(FILE *file)
{
    const char *no = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return isatty(fileno(file)) && !(no && *no) && !(terminal && strcmp(terminal, "dumb") == 0);
}

static void print_line(const char *line, bool colours)
{
    // "error: …" or "warning: …"
    int word = (int)strcspn(line, ":");
    const char *colour = line[0] == 'e' ? "\033[1;31m" : "\033[1;35m";
    fprintf(stderr, "%s%.*s%s%s\n", colours ? colour : "", word, line, colours ? "\033[0m" : "",
            line + word);
}

// What stands in the file is wrong, and not another file or an option.
static bool is_of_content(const struct kern_diag *diag)
{
    enum kern_exit code = kern_diag_code(diag);
    return code == KERN_EXIT_OK || code == KERN_EXIT_MANIFEST || code == KERN_EXIT_ARTIFACT;
}

static void print_head(const char *path, const struct kern_diag *diag, bool colours)
{
    size_t warnings = diag->count - diag->errors;
    fprintf(stderr, "%s%s%s: ", colours ? "\033[1m" : "", path, colours ? "\033[0m" : "");
    if (diag->errors)
        fprintf(stderr, "%zu error%s%s", diag->errors, diag->errors == 1 ? "" : "s",
                warnings ? ", " : "\n");
    if (warnings)
        fprintf(stderr, "%zu warning%s\n", warnings, warnings == 1 ? "" : "s");
}

void kern_complain(const char *path, struct kern_diag *diag)
{
    if (diag->count == 0)
        return;
    bool colours = kern_is_colourful(stderr);
    if (is_of_content(diag))
        print_head(path, diag, colours);
    for (size_t i = 0; i < diag->count && i < KERN_ERRORS_PRINTED; i++)
        print_line(kern_diag_line(diag, i), colours);
    if (diag->count > KERN_ERRORS_PRINTED)
        fprintf(stderr, "and %zu more\n", diag->count - KERN_ERRORS_PRINTED);
}

const char *kern_bytes_text(uint64_t bytes, char text[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double number = (double)bytes;
    size_t unit = 0;
    for (; number >= 1024; unit++)
        number /= 1024;
    snprintf(text, 32, unit ? "%.1f %s" : "%.0f %s", number, units[unit]);
    return text;
}
