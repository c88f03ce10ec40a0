// SPDX-License-Identifier: Apache-2.0
//
// What the command line says of a generation, held against the manifest before anything is loaded.
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "launcher/generate.h"

bool kern_generate_parse_ids(const char *text, const char *option, const int64_t **ids,
                             size_t *count, struct kern_arena *arena, struct kern_diag *diag)
{
    size_t most = 1;
    for (const char *at = text; *at; at++)
        most += *at == ',';
    int64_t *found = kern_arena_array(arena, most, sizeof *found);
    size_t n = 0;
    *ids = found;
    *count = 0;
    for (const char *at = text;; at++) {
        char *end = NULL;
        errno = 0;
        bool digit = *at >= '0' && *at <= '9';
        if (digit)
            found[n++] = strtoll(at, &end, 10);
        if (!digit || errno || (*end && *end != ','))
            return kern_fail(diag, KERN_EXIT_USAGE, option,
                             "\"%s\" will not do; it takes tokens as numbers, like 1,2,3", text);
        if (!*end)
            break;
        at = end;
    }
    *count = n;
    return true;
}

// What is missing of a manifest that cannot be served is no fault of the manifest's: it may well be
// one that nobody serves.
static bool project(struct kern_run *run, const struct kern_manifest *manifest,
                    struct kern_serving *serving)
{
    const struct kern_cut *cut = manifest->cut;
    if (cut && run->n_stages == 1)
        return kern_fail(&run->diag, KERN_EXIT_USAGE, "--generate",
                         "the manifest is stage %" PRIu64 " of %" PRIu64
                         " of a pipeline; name all of them, or the whole one",
                         cut->stage, cut->stages);
    struct kern_diag reasons = {0};
    bool good = kern_serving_project(manifest, kern_serving_mode_of(manifest), serving, &reasons);
    for (size_t i = 0; i < reasons.count; i++)
        kern_fail(&run->diag, KERN_EXIT_USAGE, "--generate",
                  "the manifest cannot be served: %s: %s [%s]", reasons.entries[i].place,
                  reasons.entries[i].text, reasons.entries[i].rule);
    kern_diag_clear(&reasons);
    return good;
}

static bool read_prompts(struct kern_run *run)
{
    struct kern_generation *generation = run->generation;
    const struct kern_list *prompts = &run->options.prompts;
    generation->sequences =
        kern_arena_array(&generation->arena, prompts->count, sizeof *generation->sequences);
    generation->count = prompts->count;
    bool good = true;
    for (size_t i = 0; i < prompts->count; i++) {
        struct kern_sequence *sequence = &generation->sequences[i];
        good = kern_generate_parse_ids(prompts->items[i], "--prompt-ids", &sequence->prompt,
                                       &sequence->n_prompt, &generation->arena, &run->diag) &&
               good;
    }
    return good;
}

static bool read_stop_ids(struct kern_run *run)
{
    struct kern_generation *generation = run->generation;
    const struct kern_list *words = &run->options.stop_ids;
    generation->stop_ids =
        kern_arena_array(&generation->arena, words->count, sizeof *generation->stop_ids);
    bool good = true;
    for (size_t i = 0; i < words->count; i++) {
        const int64_t *ids;
        size_t count;
        if (!kern_generate_parse_ids(words->items[i], "--stop-id", &ids, &count, &generation->arena,
                                     &run->diag))
            good = false;
        else if (count != 1)
            good = kern_fail(&run->diag, KERN_EXIT_USAGE, "--stop-id",
                             "\"%s\" will not do; it takes one token, and may be repeated",
                             words->items[i]);
        else
            generation->stop_ids[generation->n_stop_ids++] = ids[0];
    }
    return good;
}

// A way of drawing that the manifest has no input for would be ignored.
static bool check_sampling(struct kern_run *run)
{
    const struct kern_sampling *sampling = &run->options.sampling;
    const struct {
        const char *option;
        enum kern_fill fill;
        bool given;
    } ways[] = {
        {"--temperature", KERN_FILL_TEMPERATURE, sampling->temperature >= 0},
        {"--top-k", KERN_FILL_TOP_K, sampling->top_k != UINT64_MAX},
        {"--top-p", KERN_FILL_TOP_P, sampling->top_p >= 0},
        {"--min-p", KERN_FILL_MIN_P, sampling->min_p >= 0},
        {"--sample-seed", KERN_FILL_SEED, sampling->seed != UINT64_MAX},
    };
    bool good = true;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (ways[i].given && run->generation->last.fills[ways[i].fill] == KERN_NONE)
            good = kern_fail(&run->diag, KERN_EXIT_USAGE, ways[i].option,
                             "the manifest has no input with the role %s, so it draws tokens as it "
                             "will",
                             kern_fill_name(ways[i].fill));
    return good;
}

void kern_generate_prompts(struct kern_run *run)
{
    struct kern_generation *generation = run->generation = kern_calloc(1, sizeof *generation);
    bool good = read_prompts(run);
    good = read_stop_ids(run) && good;
    good = project(run, run->manifest, &generation->serving) &&
           project(run, run->stages[run->n_stages - 1], &generation->last) && check_sampling(run) &&
           good;
    if (run->options.vocab && run->world.rank == 0)
        good = kern_vocabulary_read(run->options.vocab, &generation->vocabulary, &generation->arena,
                                    &run->diag) &&
               good;
    // All ranks read the texts together, or none does.
    if (kern_world_all(&run->world, run->world.comm, good) && run->options.check_ids)
        kern_generate_expect(run);
}

const char *kern_finish_name(enum kern_finish finish)
{
    static const char *const names[] = {"stopped", "count", "stop", "length"};
    return names[finish];
}

void kern_generation_free(struct kern_generation *generation)
{
    if (!generation)
        return;
    for (size_t i = 0; i < generation->count; i++)
        free(generation->sequences[i].ids);
    free(generation->vars);
    kern_serving_free(&generation->serving);
    kern_serving_free(&generation->last);
    kern_arena_free(&generation->arena);
    free(generation);
}
