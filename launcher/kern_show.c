// SPDX-License-Identifier: Apache-2.0
//
// kern show: a manifest in its canonical text, or what stands in it.
#include <stdlib.h>

#include "launcher/kern.h"
#include "manifest/write.h"

enum { SUMMARY };

static const struct kern_option options[] = {
    [SUMMARY] = {"summary", NULL, KERN_OPTION_FLAG, "what stands in it, in tables, not its text"},
};

static enum kern_exit show(const struct kern_arguments *arguments)
{
    const char *path = arguments->files[0];
    struct kern_diag diag = {0};
    struct kern_manifest *manifest = kern_load(path, &diag);
    enum kern_exit code = kern_diag_code(&diag);
    kern_complain(path, &diag);
    if (manifest && arguments->options[SUMMARY].given) {
        kern_summary_print(manifest, path, stdout);
    } else if (manifest) {
        size_t length;
        char *text = kern_manifest_write(manifest, &length);
        fwrite(text, 1, length, stdout);
        free(text);
    }
    kern_manifest_destroy(manifest);
    kern_diag_clear(&diag);
    return code;
}

const struct kern_command kern_command_show = {
    .name = "show",
    .help = "print a manifest in its canonical text, or a summary of it",
    .usage = "[--summary] FILE",
    .example = "kern show --summary model.json",
    .more = "A FILE - is standard input. In the canonical text constants are replaced by their\n"
            "numbers, maps are sorted and members at their default are left out; it means the\n"
            "same and is its own canonical text.\n",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .files_min = 1,
    .files_max = 1,
    .run = show,
};
