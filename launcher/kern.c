// SPDX-License-Identifier: Apache-2.0
//
// kern: what can be said of a manifest without a device and without MPI.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "manifest/manifest.h"

enum { ERRORS_PRINTED = 200 };

static void help(FILE *file)
{
    fputs("kern: look at a manifest\n\n"
          "    kern verify FILE…    check every rule of the contract; - is standard input\n"
          "    kern --version\n\n"
          "For example: kern verify model.json\n"
          "exit: 0 accepted, 2 usage, 3 refused\n",
          file);
}

static enum kern_exit verify(const char *path)
{
    struct kern_diag diag = {0};
    size_t length;
    char *text = kern_file_read(path, KERN_MANIFEST_BYTES_MAX, &length, KERN_EXIT_USAGE, &diag);
    struct kern_manifest *manifest = text ? kern_manifest_parse(text, length, path, &diag) : NULL;
    if (manifest)
        kern_manifest_verify(manifest, &diag);
    enum kern_exit code = kern_diag_code(&diag);
    if (diag.count)
        fprintf(stderr, "%s: %zu error%s\n", path, diag.errors, diag.errors == 1 ? "" : "s");
    kern_diag_print(&diag, stderr, ERRORS_PRINTED);
    if (code == KERN_EXIT_OK)
        printf("%s: ok, %u programs, %u ops, %u buffers, %u states, %u modules\n", path,
               manifest->n_programs, manifest->n_ops, manifest->n_buffers, manifest->n_states,
               manifest->n_modules);
    kern_manifest_destroy(manifest);
    free(text);
    kern_diag_clear(&diag);
    return code;
}

int main(int argc, char **argv)
{
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        help(stdout);
        return KERN_EXIT_OK;
    }
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        puts("kern " KERN_VERSION);
        return KERN_EXIT_OK;
    }
    if (argc < 3 || strcmp(argv[1], "verify") != 0) {
        help(stderr);
        return KERN_EXIT_USAGE;
    }
    enum kern_exit code = KERN_EXIT_OK;
    for (int i = 2; i < argc; i++)
        code = kern_exit_worse(code, verify(argv[i]));
    return (int)code;
}
