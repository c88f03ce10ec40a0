// SPDX-License-Identifier: Apache-2.0
//
// What is driven: which programs, with which vars.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "launcher/run.h"
#include "manifest/suggest.h"

// The time of each is kept, on rank 0 those of all ranks.
enum { STEPS_MAX = 10000000 };

static bool named(const struct kern_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i], name) == 0)
            return true;
    return false;
}

// Without --program: every program with a batch, else every one that is neither once nor derive.
static bool is_chosen(const struct kern_run *run, const struct kern_program *program,
                      bool has_batch)
{
    if (run->options.programs.count)
        return named(&run->options.programs, program->name);
    return has_batch ? program->batch != NULL : !program->once && !program->derive;
}

static bool refuse_name(struct kern_run *run, const char *option, const char *what,
                        const char *name, const void *items, size_t count, size_t stride)
{
    struct kern_arena arena = {0};
    kern_fail(&run->diag, KERN_EXIT_USAGE, option, "the manifest has no %s \"%s\"%s", what, name,
              kern_did_you_mean(&arena, name, items, count, stride));
    kern_arena_free(&arena);
    return false;
}

static bool check_names(struct kern_run *run)
{
    const struct kern_manifest *manifest = run->manifest;
    bool good = true;
    for (size_t i = 0; i < run->options.programs.count; i++) {
        const char *name = run->options.programs.items[i];
        uint32_t index = kern_names_find(&manifest->program_names, name);
        if (index == KERN_NONE)
            good = refuse_name(run, "--program", "program", name, manifest->programs,
                               manifest->n_programs, sizeof *manifest->programs);
        else if (manifest->programs[index].once || manifest->programs[index].derive)
            good = kern_fail(&run->diag, KERN_EXIT_USAGE, "--program",
                             "\"%s\" is a %s program, which is run at load and never per step",
                             name, manifest->programs[index].once ? "once" : "derive");
    }
    return good;
}

// Whether another stage has a var [name]; each has those that its calls name.
static bool is_elsewhere(const struct kern_run *run, const char *name)
{
    for (size_t i = 0; i < run->n_stages; i++)
        if (kern_names_find(&run->stages[i]->var_names, name) != KERN_NONE)
            return true;
    return false;
}

// Whether one of the first [count] words of --var names the var as well.
static bool named_before(const struct kern_list *words, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        const char *text;
        size_t length;
        if (kern_option_pair(words->items[i], &length, &text) && strlen(name) == length &&
            strncmp(words->items[i], name, length) == 0)
            return true;
    }
    return false;
}

// The maxima, changed by --var.
bool kern_run_vars(struct kern_run *run, uint64_t *vars)
{
    const struct kern_manifest *manifest = run->manifest;
    for (uint32_t v = 0; v < manifest->n_vars; v++)
        vars[v] = manifest->vars[v].max;
    bool good = true;
    for (size_t i = 0; i < run->options.vars.count; i++) {
        const char *word = run->options.vars.items[i], *text;
        size_t length;
        if (!kern_option_pair(word, &length, &text)) {
            good = kern_fail(&run->diag, KERN_EXIT_USAGE, "--var",
                             "\"%s\" will not do; it takes NAME=N", word);
            continue;
        }
        struct kern_arena arena = {0};
        const char *name = kern_arena_copy(&arena, word, length);
        uint32_t index = kern_names_find(&manifest->var_names, name);
        char *end;
        errno = 0;
        unsigned long long value = strtoull(text, &end, 10);
        if (index == KERN_NONE)
            good = is_elsewhere(run, name) ? good
                                           : refuse_name(run, "--var", "var", name, manifest->vars,
                                                         manifest->n_vars, sizeof *manifest->vars);
        else if (*text < '0' || *text > '9' || *end || errno || value < 1 ||
                 value > manifest->vars[index].max)
            good = kern_fail(&run->diag, KERN_EXIT_USAGE, "--var",
                             "%s is not a value of %s: 1 to %llu", text, name,
                             (unsigned long long)manifest->vars[index].max);
        else if (named_before(&run->options.vars, i, name))
            good = kern_fail(&run->diag, KERN_EXIT_USAGE, "--var", "%s is given twice", name);
        else
            vars[index] = value;
        kern_arena_free(&arena);
    }
    return good;
}

// A call of a batch program has at most groups sequences, and groups times rows rows where the rows
// are a constant: the vars of those axes come down to that.
static void fit_batch(const struct kern_manifest *manifest, const struct kern_batch *batch,
                      uint64_t *vars)
{
    for (uint32_t v = 0; batch && v < manifest->n_vars; v++) {
        uint64_t most = vars[v], rows;
        if (manifest->vars[v].axis == KERN_AXIS_GROUPS)
            most = batch->groups;
        else if (manifest->vars[v].axis == KERN_AXIS_ROWS && !batch->rows.var.name &&
                 !__builtin_mul_overflow(batch->groups, batch->rows.extent, &rows))
            most = rows;
        if (most < vars[v])
            vars[v] = most;
    }
}

// The stages of a pipeline number their programs differently, so names are compared.
static void agree_on_plan(struct kern_run *run)
{
    struct kern_arena arena = {0};
    uint8_t digest[KERN_SHA256_BYTES];
    const char *text = "";
    for (size_t i = 0; i < run->n_driven; i++)
        text = kern_arena_print(&arena, "%s%s\n", text,
                                run->manifest->programs[run->driven[i].program].name);
    kern_sha256(text, strlen(text), digest);
    kern_world_same(&run->world, digest, sizeof digest, "what is to be run (programs)",
                    "all stages drive programs of the same names", &run->diag);
    kern_arena_free(&arena);
}

void kern_run_plan(struct kern_run *run)
{
    const struct kern_manifest *manifest = run->manifest;
    uint64_t *vars = kern_calloc(manifest->n_vars, sizeof *vars);
    bool good = check_names(run);
    if (run->options.steps > STEPS_MAX || run->options.warmup > STEPS_MAX)
        good = kern_fail(&run->diag, KERN_EXIT_USAGE, "--steps",
                         "steps and warm-up steps are at most %d each", STEPS_MAX);
    good = kern_run_vars(run, vars) && good;
    bool has_batch = false;
    for (uint32_t p = 0; p < manifest->n_programs; p++)
        has_batch = has_batch || manifest->programs[p].batch;
    run->driven = kern_calloc(manifest->n_programs, sizeof *run->driven);
    for (uint32_t p = 0; good && p < manifest->n_programs; p++) {
        if (!is_chosen(run, &manifest->programs[p], has_batch))
            continue;
        struct kern_driven *driven = &run->driven[run->n_driven++];
        driven->program = p;
        driven->vars = kern_calloc(manifest->n_vars, sizeof *driven->vars);
        driven->times = kern_calloc(run->options.steps, sizeof *driven->times);
        if (run->edges)
            driven->stamps = kern_calloc(run->options.steps, sizeof *driven->stamps);
        memcpy(driven->vars, vars, manifest->n_vars * sizeof *vars);
        fit_batch(manifest, manifest->programs[p].batch, driven->vars);
        kern_rank_program_facts(run->rank, p, driven->vars, &driven->facts, &run->diag);
    }
    if (good && !run->n_driven)
        kern_fail(&run->diag, KERN_EXIT_USAGE, NULL,
                  "the manifest has no program to drive: all are once or derive");
    free(vars);
    agree_on_plan(run);
}
