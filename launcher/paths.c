// SPDX-License-Identifier: Apache-2.0
//
// What a run may write to: not over what it reads, and nothing twice.
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "launcher/report.h"

static bool is_file(const struct stat *file, const char *path)
{
    struct stat other;
    return stat(path, &other) == 0 && file->st_dev == other.st_dev && file->st_ino == other.st_ino;
}

static bool same_file(const char *a, const char *b)
{
    struct stat file;
    return stat(a, &file) == 0 && is_file(&file, b);
}

// Whether the weights at [weights], a file or a directory with some, come from [file].
static bool are_weights(const struct stat *file, const char *weights, struct kern_arena *arena)
{
    if (is_file(file, weights))
        return true;
    DIR *entries = opendir(weights);
    bool found = false;
    for (struct dirent *entry; entries && !found && (entry = readdir(entries));)
        found = strstr(entry->d_name, ".safetensors") &&
                is_file(file, kern_arena_print(arena, "%s/%s", weights, entry->d_name));
    if (entries)
        closedir(entries);
    return found;
}

// A target that is not there yet, the usual case, is none of the files that are read: no
// checkpoint's shards are looked at for it, which every rank of a job would do.
static bool is_read(const struct kern_run *run, const char *path, struct kern_arena *arena)
{
    struct stat file;
    if (stat(path, &file) != 0)
        return false;
    const struct kern_options *options = &run->options;
    const char *const inputs[] = {options->input,   options->check, options->groups_file,
                                  options->compare, options->vocab, options->check_ids};
    bool found = false;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        found = found || (inputs[i] && is_file(&file, kern_run_path(run, inputs[i], arena)));
    for (size_t i = 0; i < options->manifests.count; i++)
        found = found || is_file(&file, options->manifests.items[i]);
    for (size_t i = 0; i < options->weights.count; i++)
        found = found || are_weights(&file, options->weights.items[i], arena);
    return found;
}

// The folder of [path], and where its name begins.
static const char *split(const char *path, const char **name, struct kern_arena *arena)
{
    const char *slash = strrchr(path, '/');
    *name = slash ? slash + 1 : path;
    return slash ? kern_arena_copy(arena, path, (size_t)(slash + 1 - path)) : ".";
}

// Whether of what is written to [a] and to [b] only the later would be left. A device or a pipe may
// take both.
static bool same_target(const char *a, const char *b, struct kern_arena *arena)
{
    struct stat status;
    if (stat(a, &status) == 0)
        return S_ISREG(status.st_mode) && same_file(a, b);
    const char *name_of_a, *name_of_b;
    const char *folder_of_a = split(a, &name_of_a, arena);
    return same_file(folder_of_a, split(b, &name_of_b, arena)) && strcmp(name_of_a, name_of_b) == 0;
}

// What cannot be written, or would cost the user a file, is found out before the work, not after
// it. What only rank 0 writes is compared with what every rank reads and writes.
bool kern_run_check_paths(struct kern_run *run)
{
    struct kern_arena arena = {0};
    const struct kern_options *options = &run->options;
    bool good = true;
    struct {
        const char *option, *path;
    } targets[] = {{"--output", options->output},
                   {"--json", options->json},
                   {"--picture", options->picture},
                   {"--trace", options->trace},
                   {"--json (it keeps an earlier one)", kern_report_kept(options->json, &arena)}};
    if (options->output && run->stage.size > 1 && !strstr(options->output, "{rank}"))
        good = kern_fail(&run->diag, KERN_EXIT_USAGE, "--output",
                         "all %d ranks%s would write %s; put {rank} into the name", run->stage.size,
                         run->stage.count > 1 ? " of the last stage" : "", options->output);
    else if (options->output)
        targets[0].path = kern_run_path(run, options->output, &arena);
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        const char *path = targets[i].path;
        if (!path)
            continue;
        bool right = true;
        if (is_read(run, path, &arena))
            right = kern_fail(&run->diag, KERN_EXIT_USAGE, targets[i].option,
                              "%s would be written over, and this run reads it", path);
        for (size_t j = 0; j < i; j++)
            if (targets[j].path && same_target(path, targets[j].path, &arena))
                right = kern_fail(&run->diag, KERN_EXIT_USAGE, targets[i].option,
                                  "%s is written by %s already; give each a file of its own", path,
                                  targets[j].option);
        if (right && (i == 0 || run->world.rank == 0))
            right = kern_file_try(path, &run->diag);
        good = good && right;
    }
    kern_arena_free(&arena);
    return good;
}
