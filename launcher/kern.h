// SPDX-License-Identifier: Apache-2.0
//
// The tool `kern`: what can be said of a manifest, and of this machine, without MPI. Each
// subcommand is a file, kern_NAME.c, that defines a struct kern_command; the table of them is in
// kern.c.
#ifndef KERN_LAUNCHER_KERN_H
#define KERN_LAUNCHER_KERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/diag.h"
#include "manifest/manifest.h"

// The most options of a subcommand, and the most errors that are printed of one file.
enum { KERN_COMMAND_OPTIONS = 8, KERN_ERRORS_PRINTED = 200 };

// A list may be given several times, and then has every value.
enum kern_option_kind { KERN_OPTION_FLAG, KERN_OPTION_COUNT, KERN_OPTION_TEXT, KERN_OPTION_LIST };

struct kern_option {
    const char *name;  // without the dashes
    const char *value; // what help calls the value, NULL for a flag
    enum kern_option_kind kind;
    const char *help;
};

// What the command line said of an option.
struct kern_given {
    bool given;
    uint64_t count;    // of a count
    const char *text;  // of a text, borrowed from the command line
    const char **list; // of a list, in order
    size_t n_list, list_capacity;
};

struct kern_arguments {
    struct kern_given options[KERN_COMMAND_OPTIONS]; // in the order of the command's options
    const char *const *files;                        // "-" is standard input
    size_t n_files;
};

struct kern_command {
    const char *name;
    const char *help;    // one line
    const char *usage;   // what comes behind the name: "[options] FILE"
    const char *example; // a whole command line
    const char *more;    // what else --help should tell, lines with a line break each, or NULL
    const struct kern_option *options;
    size_t n_options;
    const char *letters; // for each option the letter that is short for it, or a space; or NULL
    size_t files_min, files_max;
    enum kern_exit (*run)(const struct kern_arguments *arguments);
};

extern const struct kern_command kern_command_verify;
extern const struct kern_command kern_command_show;
extern const struct kern_command kern_command_plan;
extern const struct kern_command kern_command_cut;
extern const struct kern_command kern_command_diff;
extern const struct kern_command kern_command_topo;

// kern_arguments.c: reads argv[2] and on; false, with every mistake in [diag], if it will not do.
// The caller frees what is allocated either way. *[help] is set if --help or -h is among them.
bool kern_arguments_read(const struct kern_command *command, int argc, char **argv,
                         struct kern_arguments *arguments, bool *help, struct kern_diag *diag);
void kern_command_help(const struct kern_command *command, FILE *file);
void kern_arguments_free(struct kern_arguments *arguments);

// kern_common.c: a verified manifest from [path], or NULL with the reasons in [diag].
struct kern_manifest *kern_load(const char *path, struct kern_diag *diag);

// Prints what [diag] has to say of the file at [path] on stderr, in colours on a terminal.
void kern_complain(const char *path, struct kern_diag *diag);

// Whether [file] is a terminal that may be written in colours (https://no-color.org).
bool kern_is_colourful(FILE *file);

// "1.5 MiB", with the unit that leaves a number below 1024.
const char *kern_bytes_text(uint64_t bytes, char text[32]);

// kern_summary.c: prints on a line how many things of each kind there are: "3 vars, 1 group, ...".
void kern_summary_counts(const struct kern_manifest *manifest, FILE *file);

// Prints what stands in a manifest read from [path].
void kern_summary_print(const struct kern_manifest *manifest, const char *path, FILE *file);

// kern_summary_serving.c: prints what a serving loop sees of it, or why it cannot be served.
void kern_summary_serving(const struct kern_manifest *manifest, FILE *file);

#endif
