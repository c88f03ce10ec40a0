// SPDX-License-Identifier: Apache-2.0
//
// --check-ids: what follows some prompts by another's account, an array of
//
//     {"prompt_ids": [1, 2], "greedy_ids": [3, 4], "margins": [0.7, 0.02]}
//
// Margins, which may be absent, say how far each token was ahead of the second-best. Where it was
// less than --margin ahead, rounding may decide otherwise, and then all that follows is another
// text.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "launcher/generate.h"

struct texts {
    struct kern_run *run;
    const char *path;
    struct kern_json_document document;
};

static bool refuse(struct texts *texts, size_t index, const char *key, const char *what)
{
    return kern_fail(&texts->run->diag, KERN_EXIT_ARTIFACT, texts->path, "[%zu].%s is not %s",
                     index, key, what);
}

// The member [key] of text [index] if it is an array.
static const struct kern_json_node *
find_array(struct texts *texts, const struct kern_json_node *text, size_t index, const char *key)
{
    const struct kern_json_node *found =
        text->kind == KERN_JSON_OBJECT ? kern_json_find(&texts->document, text, key) : NULL;
    if (found && found->kind == KERN_JSON_ARRAY && found->size > 0)
        return found;
    refuse(texts, index, key, "an array of numbers");
    return NULL;
}

static const int64_t *read_ids(struct texts *texts, const struct kern_json_node *text, size_t index,
                               const char *key, size_t *count)
{
    const struct kern_json_node *array = find_array(texts, text, index, key);
    if (!array)
        return NULL;
    *count = array->size;
    int64_t *ids = kern_arena_array(&texts->run->generation->arena, *count, sizeof *ids);
    const struct kern_json_node *node = kern_json_first(array);
    for (size_t i = 0; i < *count; i++, node = kern_json_next(node)) {
        struct kern_json_number number = {0};
        if (node->kind == KERN_JSON_NUMBER)
            number = kern_json_number(&texts->document, node);
        if (!number.fits || number.negative || number.magnitude > INT64_MAX) {
            refuse(texts, index, key, "an array of tokens");
            return NULL;
        }
        ids[i] = (int64_t)number.magnitude;
    }
    return ids;
}

// Without margins every token counts.
static const double *read_margins(struct texts *texts, const struct kern_json_node *text,
                                  size_t index, size_t count)
{
    double *margins = kern_arena_array(&texts->run->generation->arena, count, sizeof *margins);
    for (size_t i = 0; i < count; i++)
        margins[i] = INFINITY;
    if (!kern_json_find(&texts->document, text, "margins"))
        return margins;
    const struct kern_json_node *array = find_array(texts, text, index, "margins");
    if (!array)
        return NULL;
    if (array->size != count) {
        refuse(texts, index, "margins", "as long as greedy_ids");
        return NULL;
    }
    const struct kern_json_node *node = kern_json_first(array);
    for (size_t i = 0; i < count; i++, node = kern_json_next(node)) {
        if (node->kind != KERN_JSON_NUMBER) {
            refuse(texts, index, "margins", "an array of numbers");
            return NULL;
        }
        struct kern_json_number number = kern_json_number(&texts->document, node);
        margins[i] = kern_json_double(&number);
    }
    return margins;
}

// Gives what text [from] says follows to every sequence with its prompt.
static void expect(struct kern_generation *generation, const struct kern_sequence *from)
{
    for (size_t i = 0; i < generation->count; i++) {
        struct kern_sequence *sequence = &generation->sequences[i];
        if (sequence->n_prompt == from->n_prompt &&
            memcmp(sequence->prompt, from->prompt, from->n_prompt * sizeof *from->prompt) == 0) {
            sequence->expected = from->expected;
            sequence->margins = from->margins;
            sequence->n_expected = from->n_expected;
        }
    }
}

static bool read_texts(struct texts *texts)
{
    struct kern_run *run = texts->run;
    struct kern_generation *generation = run->generation;
    const struct kern_json_node *root = texts->document.nodes;
    if (root->kind != KERN_JSON_ARRAY || root->size == 0)
        return kern_fail(&run->diag, KERN_EXIT_ARTIFACT, texts->path, "is no array of texts");
    struct kern_sequence *all = kern_arena_array(&generation->arena, root->size, sizeof *all);
    const struct kern_json_node *text = kern_json_first(root);
    for (size_t i = 0; i < root->size; i++, text = kern_json_next(text)) {
        all[i].prompt = read_ids(texts, text, i, "prompt_ids", &all[i].n_prompt);
        all[i].expected =
            all[i].prompt ? read_ids(texts, text, i, "greedy_ids", &all[i].n_expected) : NULL;
        all[i].margins = all[i].expected ? read_margins(texts, text, i, all[i].n_expected) : NULL;
        if (!all[i].margins)
            return false;
        expect(generation, &all[i]);
    }
    if (!run->options.prompts.count) {
        generation->sequences = all;
        generation->count = root->size;
    }
    for (size_t i = 0; i < generation->count; i++)
        if (!generation->sequences[i].expected)
            return kern_fail(&run->diag, KERN_EXIT_ARTIFACT, texts->path,
                             "has no text with the tokens of prompt %zu", i + 1);
    return true;
}

bool kern_generate_expect(struct kern_run *run)
{
    enum { DEPTH = 8, BYTES_MAX = 256 << 20 };
    struct texts texts = {.run = run, .path = run->options.check_ids};
    struct kern_json_error error;
    size_t length;
    char *text = kern_run_broadcast(run, texts.path, BYTES_MAX, &length);
    if (!text)
        return false;
    bool good = kern_json_parse(&texts.document, text, length, DEPTH, &error)
                    ? read_texts(&texts)
                    : kern_fail(&run->diag, KERN_EXIT_ARTIFACT, texts.path, "byte %zu: %s",
                                error.at, error.text);
    kern_json_free(&texts.document);
    free(text);
    return good;
}

// Compares one sequence as far as it was generated.
static bool compare(struct kern_run *run, size_t number)
{
    const struct kern_sequence *sequence = &run->generation->sequences[number];
    size_t count = sequence->n_ids < sequence->n_expected ? sequence->n_ids : sequence->n_expected;
    run->check.outputs++;
    for (size_t i = 0; i < count; i++) {
        run->check.elements++;
        if (sequence->ids[i] == sequence->expected[i])
            continue;
        if (sequence->margins[i] < run->options.margin)
            return true;
        return kern_fail(&run->diag, KERN_EXIT_CHECK, "--check-ids",
                         "token %zu after prompt %zu is %" PRId64 ", expected %" PRId64
                         ", which was ahead by %g (--margin %g)",
                         i + 1, number + 1, sequence->ids[i], sequence->expected[i],
                         sequence->margins[i], run->options.margin);
    }
    return true;
}

// All ranks have the same tokens, so one compares.
void kern_generate_check(struct kern_run *run)
{
    if (!run->options.check_ids || run->world.rank != 0)
        return;
    bool good = true;
    for (size_t i = 0; i < run->generation->count; i++)
        good = compare(run, i) && good;
    run->check.verdict = good ? KERN_CHECK_OK : KERN_CHECK_WRONG;
}
