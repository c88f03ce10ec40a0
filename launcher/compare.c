// SPDX-License-Identifier: Apache-2.0
//
// --compare: the outputs of this manifest and of another one that was run before with the same
// options, byte for byte; or the tokens that both generated.
#include <inttypes.h>
#include <string.h>

#include "launcher/generate.h"

static const struct kern_result *find_result(const struct kern_run *run, const char *name)
{
    for (size_t i = 0; i < run->n_results; i++)
        if (strcmp(run->results[i].buffer->name, name) == 0)
            return &run->results[i];
    return NULL;
}

static bool same_shape(const struct kern_result *mine, const struct kern_result *theirs)
{
    const struct kern_buffer *a = mine->buffer, *b = theirs->buffer;
    return a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(mine->shape, theirs->shape, a->rank * sizeof *mine->shape) == 0;
}

static bool compare_result(struct kern_run *run, const struct kern_result *mine,
                           const struct kern_result *theirs)
{
    const struct kern_buffer *buffer = mine->buffer;
    const char *other = run->other->path;
    run->compared.outputs++;
    if (!same_shape(mine, theirs))
        return kern_fail(&run->diag, KERN_EXIT_CHECK, buffer->name,
                         "has another dtype or shape in %s", other);
    run->compared.elements += mine->length;
    size_t size = kern_dtype_bytes(buffer->dtype), count = mine->length / size;
    size_t wrong = 0, first = 0;
    for (size_t i = 0; i < count; i++)
        if (memcmp((char *)mine->bytes + i * size, (char *)theirs->bytes + i * size, size) != 0 &&
            wrong++ == 0)
            first = i;
    if (!wrong)
        return true;
    struct kern_arena arena = {0};
    kern_fail(&run->diag, KERN_EXIT_CHECK, buffer->name,
              "%zu of %zu elements differ from those of %s; the first is %s: %s, there %s", wrong,
              count, other, kern_result_position(mine, first, &arena),
              kern_result_value(buffer, mine->bytes, first, &arena),
              kern_result_value(buffer, theirs->bytes, first, &arena));
    kern_arena_free(&arena);
    return false;
}

// Outputs that only one of the two has are said, and are no difference.
static bool compare_outputs(struct kern_run *run)
{
    const struct kern_run *other = run->other;
    bool good = true;
    for (size_t i = 0; i < run->n_results; i++) {
        const char *name = run->results[i].buffer->name;
        const struct kern_result *theirs = find_result(other, name);
        if (theirs)
            good = compare_result(run, &run->results[i], theirs) && good;
        else
            kern_warn(&run->diag, NULL, 0, name, "is no output of %s: it is not compared",
                      other->path);
    }
    for (size_t i = 0; i < other->n_results; i++) {
        const char *name = other->results[i].buffer->name;
        if (!find_result(run, name))
            kern_warn(&run->diag, NULL, 0, name, "is an output of %s only: it is not compared",
                      other->path);
    }
    if (!run->compared.outputs)
        return kern_fail(&run->diag, KERN_EXIT_USAGE, "--compare",
                         "no output of %s has the name of one here", other->path);
    return good;
}

static bool compare_tokens(struct kern_run *run, size_t number)
{
    const struct kern_sequence *mine = &run->generation->sequences[number];
    const struct kern_sequence *theirs = &run->other->generation->sequences[number];
    const char *other = run->other->path;
    size_t count = mine->n_ids < theirs->n_ids ? mine->n_ids : theirs->n_ids;
    run->compared.outputs++;
    for (size_t i = 0; i < count; i++) {
        run->compared.elements++;
        if (mine->ids[i] != theirs->ids[i])
            return kern_fail(&run->diag, KERN_EXIT_CHECK, "--compare",
                             "token %zu after prompt %zu is %" PRId64 ", and %" PRId64 " with %s",
                             i + 1, number + 1, mine->ids[i], theirs->ids[i], other);
    }
    return mine->n_ids == theirs->n_ids ||
           kern_fail(&run->diag, KERN_EXIT_CHECK, "--compare",
                     "%zu tokens follow prompt %zu, and %zu with %s", mine->n_ids, number + 1,
                     theirs->n_ids, other);
}

void kern_run_compare(struct kern_run *run)
{
    // A run that was stopped has nothing whole to compare.
    if (!run->other || run->stopped || run->other->stopped)
        return;
    // All ranks have the same tokens, so one compares.
    if (run->generation ? run->world.rank != 0 : !kern_run_has_results(run))
        return;
    bool good = true;
    if (!run->generation)
        good = compare_outputs(run);
    for (size_t i = 0; run->generation && i < run->generation->count; i++)
        good = compare_tokens(run, i) && good;
    run->compared.verdict = good ? KERN_CHECK_OK : KERN_CHECK_WRONG;
}
