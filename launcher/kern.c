// SPDX-License-Identifier: Apache-2.0
//
// kern: what can be said of a manifest, and of this machine, without MPI.
#include "launcher/kern.h"

#include <errno.h>
#include <string.h>

#include "manifest/suggest.h"

static const struct kern_command *const commands[] = {
    &kern_command_verify, &kern_command_show, &kern_command_plan,
    &kern_command_cut,    &kern_command_diff, &kern_command_topo,
};

enum { COMMANDS = sizeof commands / sizeof *commands };

static void help(FILE *file)
{
    fputs("kern: look at a manifest or at this machine, without MPI\n\n", file);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(file, "    kern %-8s %s\n", commands[i]->name, commands[i]->help);
    fputs("\nFor example:\n", file);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(file, "    %s\n", commands[i]->example);
    fputs("\nkern COMMAND --help has the options; kern --version the version.\n"
          "exit: 0 done, 2 usage, 3 manifest refused, 4 module refused, "
          "5 device or library failed\n",
          file);
}

static const struct kern_command *find(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

static enum kern_exit refuse(const char *name)
{
    const char *names[COMMANDS];
    struct kern_arena arena = {0};
    for (size_t i = 0; i < COMMANDS; i++)
        names[i] = commands[i]->name;
    fprintf(stderr, "kern: there is no command \"%s\"%s\n", name,
            kern_did_you_mean(&arena, name, names, COMMANDS, sizeof *names));
    fputs("kern --help lists them\n", stderr);
    kern_arena_free(&arena);
    return KERN_EXIT_USAGE;
}

static enum kern_exit run(const struct kern_command *command, int argc, char **argv)
{
    struct kern_diag diag = {0};
    struct kern_arguments arguments = {0};
    enum kern_exit code = KERN_EXIT_OK;
    bool wants_help = false;
    bool good = kern_arguments_read(command, argc, argv, &arguments, &wants_help, &diag);
    if (wants_help) {
        kern_command_help(command, stdout);
    } else if (good) {
        code = command->run(&arguments);
    } else {
        kern_diag_print(&diag, stderr, KERN_ERRORS_PRINTED);
        fprintf(stderr, "usage: kern %s %s\n", command->name, command->usage);
        code = KERN_EXIT_USAGE;
    }
    kern_arguments_free(&arguments);
    kern_diag_clear(&diag);
    return code;
}

int main(int argc, char **argv)
{
    enum kern_exit code = KERN_EXIT_OK;
    const char *first = argc > 1 ? argv[1] : "";
    if (argc < 2) {
        help(stderr);
        return KERN_EXIT_USAGE;
    }
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0)
        help(stdout);
    else if (strcmp(first, "--version") == 0)
        puts("kern " KERN_VERSION);
    else
        code = find(first) ? run(find(first), argc, argv) : refuse(first);
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "kern: standard output cannot be written: %s\n", strerror(errno));
        return KERN_EXIT_DEVICE;
    }
    return (int)code;
}
