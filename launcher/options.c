// SPDX-License-Identifier: Apache-2.0
#include "launcher/options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "launcher/usual.h"
#include "manifest/suggest.h"

// What all ranks must be told alike is everything but a FILE_NAME, which may have another name on
// each of them where one is named on all or on none, and OWN_FILE, OWN_LIST and BIND, which each
// rank acts on by itself.
enum kind {
    CUT,
    FLAG,
    TEXT,
    FILE_NAME,
    OWN_FILE,
    LIST,
    OWN_LIST,
    COUNT,
    COUNT_I64,
    SECONDS,
    REAL,
    DEVICE,
    BIND,
    GRAPHS,
};

struct option {
    const char *name;
    char letter;       // 0: none
    const char *value; // what help calls the value, NULL for a flag
    enum kind kind;
    size_t offset;
    const char *help;
};

#define AT(member) offsetof(struct kern_options, member)

// Letters mean what they mean in nccl-tests.
static const struct option table[] = {
    {"steps", 'n', "N", COUNT, AT(steps), "steps of each program that are measured (20)"},
    {"warmup", 'w', "N", COUNT, AT(warmup), "steps before them that are not (5)"},
    {"program", 0, "NAME", LIST, AT(programs), "drive this one (repeatable), not the default ones"},
    {"var", 0, "NAME=N", LIST, AT(vars), "value of a var (its max)"},
    {"input", 0, "FILE", FILE_NAME, AT(input),
     "safetensors with a tensor per input; {rank} is the rank"},
    {"output", 0, "FILE", OWN_FILE, AT(output), "where outputs go; {rank} is the rank"},
    {"check", 'c', "FILE", FILE_NAME, AT(check),
     "compare outputs with these tensors; {rank} is the rank"},
    {"atol", 0, "X", REAL, AT(atol), "floats may differ by X (0) …"},
    {"rtol", 0, "X", REAL, AT(rtol), "… plus X times the expected value (0)"},
    {"compare", 0, "JSON", TEXT, AT(compare),
     "run this manifest first: the outputs must be the same"},
    {"cut", 0, "I,J", CUT, AT(cut), "run it as the stages that begin at these calls"},
    {"depth", 0, "N", COUNT, AT(depth), "items that wait between two stages (2)"},
    {"generate", 0, "N", COUNT, AT(generate), "tokens that follow each prompt, instead of steps"},
    {"prompt-ids", 0, "1,2,3", LIST, AT(prompts), "the tokens of a prompt (repeatable)"},
    {"stop-id", 0, "ID", LIST, AT(stop_ids), "a token that ends a text (repeatable)"},
    {"vocab", 0, "FILE", OWN_FILE, AT(vocab),
     "JSON with the piece of each token: print text, not tokens"},
    {"check-ids", 0, "FILE", FILE_NAME, AT(check_ids), "JSON with prompts and what follows them"},
    {"margin", 0, "X", REAL, AT(margin),
     "lead of a token under which another may come instead (0.1)"},
    {"temperature", 0, "X", REAL, AT(sampling.temperature), "0: the most likely token (0)"},
    {"top-k", 0, "N", COUNT_I64, AT(sampling.top_k),
     "draw from the N most likely ones; 0: from all (0)"},
    {"top-p", 0, "X", REAL, AT(sampling.top_p), "draw from those that together have X (1)"},
    {"min-p", 0, "X", REAL, AT(sampling.min_p),
     "draw from those that have X of the likeliest's (0)"},
    {"sample-seed", 0, "N", COUNT_I64, AT(sampling.seed), "of the draws (1)"},
    {"seed", 0, "N", COUNT, AT(seed), "of inputs that no file gives (1)"},
    {"seed-per-rank", 0, NULL, FLAG, AT(seed_per_rank), "other made-up inputs on each rank"},
    {"weights", 0, "PATH", OWN_LIST, AT(weights), "safetensors file or directory (repeatable)"},
    {"kernels", 0, "DIR", OWN_LIST, AT(kernels),
     "where modules are looked for (the manifest's folder)"},
    {"capacity", 0, "N", COUNT, AT(capacity),
     "tokens that paged states hold (" KERN_USUAL_TEXT(KERN_USUAL_CAPACITY) ")"},
    {"seqs", 0, "N", COUNT, AT(seqs),
     "sequences that live at once (" KERN_USUAL_TEXT(KERN_USUAL_SEQS) ")"},
    {"host-blocks", 0, "N", COUNT, AT(host_blocks),
     "blocks of each state that a host lends (none)"},
    {"group", 0, "NAME=LAYOUT", LIST, AT(groups),
     "block: consecutive ranks (default); stride: apart"},
    {"groups", 0, "FILE", FILE_NAME, AT(groups_file), "explicit groups: lines NAME RANK RANK …"},
    {"graphs", 'G', "WHICH", GRAPHS, AT(graphs),
     "programs run as CUDA graphs: auto (as declared), on, off"},
    {"eager", 0, NULL, FLAG, AT(eager), "launch by launch: the same as --graphs off"},
    {"device", 0, "KIND", DEVICE, AT(device), "auto (a GPU, else emu), cuda or emu"},
    {"share-devices", 0, NULL, FLAG, AT(share_devices), "several ranks may have one device"},
    {"bind", 0, "HOW", BIND, AT(bind), "auto (near the device) or none"},
    {"timeout", 'T', "S", SECONDS, AT(timeout), "longest wait for others or a step, seconds (60)"},
    {"json", 'J', "FILE", OWN_FILE, AT(json), "write every figure as JSON"},
    {"picture", 0, "FILE", FILE_NAME, AT(picture), "draw nodes, devices, ranks and groups, as SVG"},
    {"trace", 0, "FILE", FILE_NAME, AT(trace),
     "write what each rank did when, for ui.perfetto.dev"},
    {"help", 'h', NULL, FLAG, AT(help), "this text"},
    {"version", 0, NULL, FLAG, AT(version), "the program's version"},
};

// As many stages, and items between two of them, as any pipeline has use for.
enum { KERN_STAGES_MAX = 256, KERN_DEPTH_MAX = 64 };

enum { OPTIONS = sizeof table / sizeof *table };

void kern_options_help(FILE *file)
{
    fputs("kern-rank: run a GPU program, declared by a manifest, on every process of a job\n\n"
          "    mpirun -np 8 kern-rank [options] model.json (or stage0.json stage1.json …)\n\n",
          file);
    for (size_t i = 0; i < OPTIONS; i++) {
        char left[48];
        char letter[5] = "    ";
        if (table[i].letter) {
            letter[0] = '-';
            letter[1] = table[i].letter;
            letter[2] = ',';
        }
        snprintf(left, sizeof left, "%s--%s%s%s", letter, table[i].name, table[i].value ? " " : "",
                 table[i].value ? table[i].value : "");
        fprintf(file, "  %-26s %s\n", left, table[i].help);
    }
    fputs(
        "\nexit: 0 done, 1 a check failed, 2 usage, 3 manifest refused, 4 module, weights or input "
        "refused,\n      5 device or library failed, 6 a peer was lost or a deadline passed\n",
        file);
}

static bool read_count(const char *text, uint64_t *value)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    *value = number;
    return *text >= '0' && *text <= '9' && !*end && !errno;
}

static bool read_real(const char *text, double *value)
{
    char *end;
    *value = strtod(text, &end);
    return end != text && !*end && *value >= 0 && *value < 1e30;
}

static bool read_word(const char *text, const char *const *words, int *value)
{
    for (*value = 0; words[*value]; (*value)++)
        if (strcmp(text, words[*value]) == 0)
            return true;
    return false;
}

// Stores [text] as the value of [option]; NULL if it is one, else what would have been one.
static const char *store(const struct option *option, const char *text,
                         struct kern_options *options)
{
    struct kern_diag unheard = {0};
    static const char *const devices[] = {"auto", "cuda", "emu", NULL};
    static const char *const binds[] = {"auto", "none", NULL};
    static const char *const graphs[] = {"auto", "off", "on", "0", "1", NULL}; // 0, 1: nccl-tests
    void *at = (char *)options + option->offset;
    int word;
    switch (option->kind) {
    case FLAG:
        *(bool *)at = true;
        return NULL;
    case TEXT:
    case FILE_NAME:
    case OWN_FILE:
        *(const char **)at = text;
        return *text ? NULL : "text that is not empty";
    case LIST:
    case OWN_LIST: {
        struct kern_list *list = at;
        kern_reserve(&list->items, &list->capacity, list->count + 1, sizeof *list->items);
        list->items[list->count++] = text;
        return *text ? NULL : "text that is not empty";
    }
    case CUT: {
        bool good = kern_points_read(text, option->name, at, &unheard);
        kern_diag_clear(&unheard);
        return good ? NULL : "indices of calls, as in 12,24";
    }
    case COUNT:
        return read_count(text, at) ? NULL : "a whole number, 0 or more";
    case COUNT_I64:
        return read_count(text, at) && *(uint64_t *)at <= INT64_MAX ? NULL
                                                                    : "a whole number below 2^63";
    case SECONDS:
        return read_real(text, at) && *(double *)at > 0 ? NULL : "a number of seconds above 0";
    case REAL:
        return read_real(text, at) ? NULL : "a number, 0 or more";
    case DEVICE:
        if (!read_word(text, devices, &word))
            return "auto, cuda or emu";
        *(enum kern_device_choice *)at = (enum kern_device_choice)word;
        return NULL;
    case BIND:
        if (!read_word(text, binds, &word))
            return "auto or none";
        *(enum kern_bind *)at = (enum kern_bind)word;
        return NULL;
    case GRAPHS:
        if (!read_word(text, graphs, &word))
            return "auto, on or 1, off or 0";
        *(enum kern_graphs *)at = (enum kern_graphs)(word > KERN_GRAPHS_ON ? word - 2 : word);
        return NULL;
    }
    return "another option";
}

static const struct option *find(const char *name, size_t length, const char *letter)
{
    for (size_t i = 0; i < OPTIONS; i++)
        if (letter ? table[i].letter == *letter
                   : strlen(table[i].name) == length && strncmp(table[i].name, name, length) == 0)
            return &table[i];
    return NULL;
}

// Takes the option at argv[*at], and its value, which is after "=", after the letter or the next
// word.
static bool take_option(int argc, char **argv, int *at, struct kern_options *options,
                        struct kern_diag *diag)
{
    const char *word = argv[*at], *value = NULL;
    bool is_long = word[1] == '-';
    size_t length = is_long ? strcspn(word + 2, "=") : 1;
    char letter = word[1];
    const struct option *option = find(word + 2, length, is_long ? NULL : &letter);
    if (!option) {
        struct kern_arena arena = {0};
        const char *name = kern_arena_copy(&arena, word + 2, is_long ? length : 0);
        const char *meant = kern_suggest(name, table, OPTIONS, sizeof *table);
        kern_fail(diag, KERN_EXIT_USAGE, word, "is no option%s%s; kern-rank --help lists them",
                  meant ? "; perhaps --" : "", meant ? meant : "");
        kern_arena_free(&arena);
        return false;
    }
    const char *rest = is_long ? word + 2 + length : word + 2;
    if (*rest)
        value = is_long ? rest + 1 : rest;
    bool takes_value = option->kind != FLAG;
    if (!takes_value && value)
        return kern_fail(diag, KERN_EXIT_USAGE, word, "takes no value");
    if (takes_value && !value && *at + 1 < argc)
        value = argv[++*at];
    if (takes_value && !value)
        return kern_fail(diag, KERN_EXIT_USAGE, word, "needs a value: %s", option->value);
    const char *wanted = store(option, value, options);
    if (wanted)
        return kern_fail(diag, KERN_EXIT_USAGE, word, "\"%s\" will not do; it takes %s", value,
                         wanted);
    return true;
}

// Whether what is named is a pipeline or not, and nothing is asked for that needs one and has none.
static bool check_pipeline(struct kern_options *options, struct kern_diag *diag)
{
    bool good = true, cuts = options->cut.count > 0;
    options->n_stages = cuts ? options->cut.count + 1 : options->manifests.count;
    if (cuts && options->manifests.count > 1)
        good = kern_fail(diag, KERN_EXIT_USAGE, "--cut",
                         "cuts one manifest; %zu are named, which are stages already",
                         options->manifests.count);
    if (options->n_stages > KERN_STAGES_MAX)
        good = kern_fail(diag, KERN_EXIT_USAGE, cuts ? "--cut" : options->manifests.items[1],
                         "%zu stages are more than %d", options->n_stages, KERN_STAGES_MAX);
    if (options->depth != UINT64_MAX && options->n_stages < 2)
        good = kern_fail(diag, KERN_EXIT_USAGE, "--depth",
                         "is of use with several stages only: name them, or --cut a manifest");
    if (options->depth == UINT64_MAX)
        options->depth = 2;
    if (options->depth < 1 || options->depth > KERN_DEPTH_MAX)
        good = kern_fail(diag, KERN_EXIT_USAGE, "--depth", "is 1 to %d", KERN_DEPTH_MAX);
    return good;
}

// Whether [given], an option of the other way to run, is absent.
static bool refuse_given(bool given, const char *name, const char *why, struct kern_diag *diag)
{
    return !given || kern_fail(diag, KERN_EXIT_USAGE, name, "%s", why);
}

// Generation and driving have options of their own.
static bool check_generation(const struct kern_options *options, struct kern_diag *diag)
{
    const struct kern_sampling *sampling = &options->sampling;
    const struct {
        const char *name;
        bool generates; // else it is for driving
        bool given;
    } ways[] = {
        {"--prompt-ids", true, options->prompts.count > 0},
        {"--stop-id", true, options->stop_ids.count > 0},
        {"--vocab", true, options->vocab != NULL},
        {"--check-ids", true, options->check_ids != NULL},
        {"--temperature", true, sampling->temperature >= 0},
        {"--top-k", true, sampling->top_k != UINT64_MAX},
        {"--top-p", true, sampling->top_p >= 0},
        {"--min-p", true, sampling->min_p >= 0},
        {"--sample-seed", true, sampling->seed != UINT64_MAX},
        {"--program", false, options->programs.count > 0},
        {"--input", false, options->input != NULL},
        {"--output", false, options->output != NULL},
        {"--check", false, options->check != NULL},
    };
    bool generates = options->generate > 0, good = true;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (ways[i].generates != generates)
            good = refuse_given(ways[i].given, ways[i].name,
                                generates ? "does not go with --generate, which chooses programs, "
                                            "writes inputs and reads outputs itself"
                                          : "is of use with --generate N, 1 or more, only",
                                diag) &&
                   good;
    if (generates && !options->prompts.count && !options->check_ids)
        good = kern_fail(diag, KERN_EXIT_USAGE, "--generate",
                         "needs a prompt, for example --prompt-ids 1,2,3");
    if (sampling->top_k != UINT64_MAX && sampling->top_k > INT32_MAX)
        good = kern_fail(diag, KERN_EXIT_USAGE, "--top-k", "is at most %d", INT32_MAX);
    if (sampling->top_p > 1 || sampling->min_p > 1)
        good = kern_fail(diag, KERN_EXIT_USAGE, sampling->top_p > 1 ? "--top-p" : "--min-p",
                         "is a probability, from 0 to 1");
    return good;
}

bool kern_options_parse(int argc, char **argv, struct kern_options *options, struct kern_diag *diag)
{
    *options = (struct kern_options){.steps = 20,
                                     .warmup = 5,
                                     .seed = 1,
                                     .capacity = KERN_USUAL_CAPACITY,
                                     .seqs = KERN_USUAL_SEQS,
                                     .timeout = 60,
                                     .depth = UINT64_MAX,
                                     .margin = 0.1,
                                     .sampling = {-1, -1, -1, UINT64_MAX, UINT64_MAX}};
    bool good = true, only_files = false;
    for (int i = 1; i < argc; i++) {
        if (!only_files && strcmp(argv[i], "--") == 0) {
            only_files = true;
        } else if (!only_files && argv[i][0] == '-' && argv[i][1]) {
            good = take_option(argc, argv, &i, options, diag) && good;
        } else {
            struct kern_list *list = &options->manifests;
            kern_reserve(&list->items, &list->capacity, list->count + 1, sizeof *list->items);
            list->items[list->count++] = argv[i];
            options->manifest = list->items[0];
        }
    }
    if (options->eager && options->graphs == KERN_GRAPHS_ON)
        good =
            kern_fail(diag, KERN_EXIT_USAGE, "--eager", "is the contrary of --graphs on; take one");
    if (options->eager)
        options->graphs = KERN_GRAPHS_OFF;
    good = check_generation(options, diag) && good;
    // After a misspelt option, its value looks like a manifest.
    good = good && check_pipeline(options, diag);
    if (!options->manifest && good && !options->help && !options->version)
        good = kern_fail(diag, KERN_EXIT_USAGE, NULL,
                         "no manifest is named; for example: mpirun -np 8 kern-rank model.json");
    return good;
}

static const char *list_text(const struct kern_list *list, struct kern_arena *arena)
{
    const char *text = "";
    for (size_t i = 0; i < list->count; i++)
        text = kern_arena_print(arena, "%s%s\n", text, list->items[i]);
    return text;
}

static const char *points_text(const struct kern_points *points, struct kern_arena *arena)
{
    const char *text = "";
    for (size_t i = 0; i < points->count; i++)
        text = kern_arena_print(arena, "%s%" PRIu64 "\n", text, points->values[i]);
    return text;
}

// The value of [option], or as much of it as all ranks must be told alike.
static const char *shared_text(const struct option *option, const struct kern_options *options,
                               struct kern_arena *arena)
{
    const void *at = (const char *)options + option->offset;
    const char *path;
    switch (option->kind) {
    case CUT:
        return points_text(at, arena);
    case FLAG:
        return *(const bool *)at ? "on" : "";
    case TEXT:
        path = *(const char *const *)at;
        return path ? path : "";
    case FILE_NAME:
        return *(const char *const *)at ? "a file" : "";
    case LIST:
        return list_text(at, arena);
    case COUNT:
    case COUNT_I64:
        return kern_arena_print(arena, "%" PRIu64, *(const uint64_t *)at);
    case SECONDS:
    case REAL:
        return kern_arena_print(arena, "%a", *(const double *)at);
    case DEVICE:
        return kern_arena_print(arena, "%d", (int)*(const enum kern_device_choice *)at);
    case GRAPHS:
        return kern_arena_print(arena, "%d", (int)*(const enum kern_graphs *)at);
    case OWN_FILE:
    case OWN_LIST:
    case BIND:
        break;
    }
    return "";
}

const char *kern_option_shared(const struct kern_options *options, size_t index, const char **value,
                               struct kern_arena *arena)
{
    if (index > OPTIONS)
        return NULL;
    if (index == OPTIONS) {
        *value = list_text(&options->manifests, arena);
        return "the manifests";
    }
    *value = shared_text(&table[index], options, arena);
    return kern_arena_print(arena, "--%s", table[index].name);
}

void kern_options_free(struct kern_options *options)
{
    free(options->manifests.items);
    free(options->cut.values);
    free(options->kernels.items);
    free(options->weights.items);
    free(options->programs.items);
    free(options->vars.items);
    free(options->groups.items);
    free(options->prompts.items);
    free(options->stop_ids.items);
}

bool kern_option_pair(const char *text, size_t *length, const char **value)
{
    const char *equals = strrchr(text, '=');
    if (!equals || equals == text || !equals[1])
        return false;
    *length = (size_t)(equals - text);
    *value = equals + 1;
    return true;
}
