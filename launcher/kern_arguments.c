// SPDX-License-Identifier: Apache-2.0
//
// The command line of a subcommand, by the table of its options.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "launcher/kern.h"
#include "manifest/suggest.h"

// The letter that is short for an option, or 0.
static char letter_of(const struct kern_command *command, size_t index)
{
    if (!command->letters || command->letters[index] == ' ')
        return '\0';
    return command->letters[index];
}

void kern_command_help(const struct kern_command *command, FILE *file)
{
    fprintf(file, "kern %s: %s\n\n    kern %s %s\n\n", command->name, command->help, command->name,
            command->usage);
    for (size_t i = 0; i < command->n_options; i++) {
        const struct kern_option *option = &command->options[i];
        char left[48], letter = letter_of(command, i);
        snprintf(left, sizeof left, "--%s%s%s%s%c", option->name, option->value ? " " : "",
                 option->value ? option->value : "", letter ? ", -" : "", letter);
        fprintf(file, "  %-18s %s\n", left, option->help);
    }
    fprintf(file, "  %-18s %s\n\n", "--help, -h", "this text");
    if (command->more)
        fprintf(file, "%s\n", command->more);
    fprintf(file, "For example: %s\n", command->example);
    fputs("exit: 0 done, 2 usage, 3 manifest refused, 4 module refused, "
          "5 device or library failed\n",
          file);
}

static bool read_count(const char *text, uint64_t *count)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    *count = number;
    return *text >= '0' && *text <= '9' && !*end && !errno;
}

// The index of the option that [word] begins with, as --name or -n, or the number of options.
static size_t find_option(const struct kern_command *command, const char *word, size_t length)
{
    size_t index = 0;
    for (; index < command->n_options; index++) {
        const char *name = command->options[index].name;
        if (word[1] != '-' ? word[1] == letter_of(command, index) && !word[2]
                           : strlen(name) == length && strncmp(name, word + 2, length) == 0)
            break;
    }
    return index;
}

static bool refuse_option(const struct kern_command *command, const char *word, size_t length,
                          struct kern_diag *diag)
{
    if (word[1] != '-')
        return kern_fail(diag, KERN_EXIT_USAGE, word, "is no option of kern %s", command->name);
    struct kern_arena arena = {0};
    const char *name = kern_arena_copy(&arena, word + 2, length);
    kern_fail(diag, KERN_EXIT_USAGE, word, "is no option of kern %s%s", command->name,
              kern_did_you_mean(&arena, name, command->options, command->n_options,
                                sizeof *command->options));
    kern_arena_free(&arena);
    return false;
}

// Takes the option at argv[*at], and its value, which is behind "=" or the next word.
static bool take_option(const struct kern_command *command, int argc, char **argv, int *at,
                        struct kern_arguments *arguments, struct kern_diag *diag)
{
    const char *word = argv[*at];
    size_t length = strcspn(word + 2, "=");
    size_t index = find_option(command, word, length);
    if (index == command->n_options)
        return refuse_option(command, word, length, diag);
    const struct kern_option *option = &command->options[index];
    struct kern_given *given = &arguments->options[index];
    const char *value = word[2 + length] ? word + 2 + length + 1 : NULL;
    if (given->given && option->kind != KERN_OPTION_LIST)
        return kern_fail(diag, KERN_EXIT_USAGE, word, "is given twice");
    given->given = true;
    if (option->kind == KERN_OPTION_FLAG)
        return !value || kern_fail(diag, KERN_EXIT_USAGE, word, "takes no value");
    if (!value && *at + 1 < argc)
        value = argv[++*at];
    if (!value || !*value)
        return kern_fail(diag, KERN_EXIT_USAGE, word, "needs a value: %s", option->value);
    given->text = value;
    if (option->kind == KERN_OPTION_LIST) {
        kern_reserve(&given->list, &given->list_capacity, given->n_list + 1, sizeof *given->list);
        given->list[given->n_list++] = value;
    }
    return option->kind != KERN_OPTION_COUNT || read_count(value, &given->count) ||
           kern_fail(diag, KERN_EXIT_USAGE, word,
                     "\"%s\" will not do; it takes a whole number, 0 or more", value);
}

static bool check_files(const struct kern_command *command, const char *const *files, size_t count,
                        struct kern_diag *diag)
{
    if (count < command->files_min)
        return kern_fail(diag, KERN_EXIT_USAGE, NULL, "%s; for example: %s",
                         command->files_min == 1 ? "no manifest is named"
                                                 : "too few files are named",
                         command->example);
    if (count > command->files_max)
        return kern_fail(diag, KERN_EXIT_USAGE, NULL, "%zu files are named; kern %s takes %zu",
                         count, command->name, command->files_max);
    size_t inputs = 0;
    for (size_t i = 0; i < count; i++)
        inputs += strcmp(files[i], "-") == 0;
    return inputs <= 1 ||
           kern_fail(diag, KERN_EXIT_USAGE, "-", "is given twice; standard input can be read once");
}

bool kern_arguments_read(const struct kern_command *command, int argc, char **argv,
                         struct kern_arguments *arguments, bool *help, struct kern_diag *diag)
{
    const char **files = kern_calloc((size_t)argc, sizeof *files);
    bool good = true, only_files = false;
    arguments->files = files;
    for (int i = 2; i < argc; i++) {
        if (only_files || argv[i][0] != '-' || !argv[i][1])
            files[arguments->n_files++] = argv[i];
        else if (strcmp(argv[i], "--") == 0)
            only_files = true;
        else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            *help = true;
        else
            good = take_option(command, argc, argv, &i, arguments, diag) && good;
    }
    return good && check_files(command, files, arguments->n_files, diag);
}

void kern_arguments_free(struct kern_arguments *arguments)
{
    for (size_t i = 0; i < KERN_COMMAND_OPTIONS; i++)
        free(arguments->options[i].list);
    free((void *)(uintptr_t)arguments->files);
}
