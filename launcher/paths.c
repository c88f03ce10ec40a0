// SPDX-License-Identifier: Apache-2.0
//
// What a run may write to: not over what it reads, and not all ranks to one file.
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "launcher/run.h"

static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

// Whether [path], the value of [option], can be written and is none of the files that the run
// reads; not to be written is found out before the work, not after it.
static bool check_target(struct kern_run *run, const char *option, const char *path)
{
    struct kern_arena arena = {0};
    const struct kern_options *options = &run->options;
    const char *const inputs[] = {options->input, options->check, options->groups_file,
                                  options->compare};
    bool good = true;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        if (inputs[i] && same_file(path, kern_run_path(run, inputs[i], &arena)))
            good = kern_fail(&run->diag, KERN_EXIT_USAGE, option,
                             "%s would be written over, and this run reads it", path);
    const struct kern_list *const lists[] = {&options->manifests, &options->weights};
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
        for (size_t i = 0; i < lists[l]->count; i++)
            if (same_file(path, lists[l]->items[i]))
                good = kern_fail(&run->diag, KERN_EXIT_USAGE, option,
                                 "%s would be written over, and this run reads it", path);
    kern_arena_free(&arena);
    return good && kern_file_try(path, &run->diag);
}

bool kern_run_check_paths(struct kern_run *run)
{
    struct kern_arena arena = {0};
    const struct kern_options *options = &run->options;
    bool good = true;
    if (options->output && run->stage.size > 1 && !strstr(options->output, "{rank}"))
        good = kern_fail(&run->diag, KERN_EXIT_USAGE, "--output",
                         "all %d ranks%s would write %s; put {rank} into the name", run->stage.size,
                         run->stage.count > 1 ? " of the last stage" : "", options->output);
    else if (options->output)
        good = check_target(run, "--output", kern_run_path(run, options->output, &arena));
    const struct {
        const char *option, *path;
    } of_rank_0[] = {
        {"--json", options->json}, {"--picture", options->picture}, {"--trace", options->trace}};
    for (size_t i = 0; run->world.rank == 0 && i < sizeof of_rank_0 / sizeof *of_rank_0; i++)
        if (of_rank_0[i].path)
            good = check_target(run, of_rank_0[i].option, of_rank_0[i].path) && good;
    kern_arena_free(&arena);
    return good;
}
