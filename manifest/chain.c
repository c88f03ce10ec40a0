// SPDX-License-Identifier: Apache-2.0
#include "manifest/chain.h"

#include <inttypes.h>
#include <string.h>

#include "manifest/cut.h"

struct chain {
    struct kern_manifest **stages;
    const char **names;
    size_t count;
    struct kern_diag *diag;
    struct kern_arena arena; // of texts
};

static const char remedy[] = "name the files that one kern cut wrote, all of them";

// "stage 1 (stages/stage1.json)".
static const char *stage_text(struct chain *chain, size_t index)
{
    return kern_arena_print(&chain->arena, "stage %" PRIu64 " (%s)",
                            chain->stages[index]->cut->stage, chain->names[index]);
}

static bool check_marks(struct chain *chain)
{
    for (size_t i = 0; i < chain->count; i++) {
        const struct kern_cut *cut = chain->stages[i]->cut;
        if (!cut)
            return kern_fail(chain->diag, KERN_EXIT_MANIFEST, chain->names[i],
                             "is no stage of a pipeline, it has no \"cut\"; several manifests are "
                             "run only as the stages of one, which kern cut makes");
        if (strcmp(cut->id, chain->stages[0]->cut->id) != 0)
            return kern_fail(chain->diag, KERN_EXIT_MANIFEST, chain->names[i],
                             "%s was cut as %s, and %s as %s; %s", stage_text(chain, i), cut->id,
                             stage_text(chain, 0), chain->stages[0]->cut->id, remedy);
        if (cut->stages != chain->count)
            return kern_fail(chain->diag, KERN_EXIT_MANIFEST, chain->names[i],
                             "is stage %" PRIu64 " of %" PRIu64 ", and %zu are named; %s",
                             cut->stage, cut->stages, chain->count, remedy);
        for (size_t j = 0; j < i; j++)
            if (chain->stages[j]->cut->stage == cut->stage)
                return kern_fail(chain->diag, KERN_EXIT_MANIFEST, chain->names[i],
                                 "is stage %" PRIu64 ", which %s is too; %s", cut->stage,
                                 chain->names[j], remedy);
    }
    return true;
}

// Each number from 0 is there once: every stage goes to its place.
static void sort(struct chain *chain)
{
    for (size_t i = 0; i < chain->count; i++) {
        for (size_t j = chain->stages[i]->cut->stage; j != i; j = chain->stages[i]->cut->stage) {
            struct kern_manifest *stage = chain->stages[j];
            const char *name = chain->names[j];
            chain->stages[j] = chain->stages[i];
            chain->names[j] = chain->names[i];
            chain->stages[i] = stage;
            chain->names[i] = name;
        }
    }
}

static const char *shape_text(struct chain *chain, const struct kern_buffer *buffer)
{
    const char *text = kern_dtype_name(buffer->dtype);
    for (size_t i = 0; i < buffer->rank; i++) {
        const struct kern_dim *dim = &buffer->shape[i];
        const char *before = i ? ", " : " [";
        text = dim->var.name
                   ? kern_arena_print(&chain->arena, "%s%s%s", text, before, dim->var.name)
                   : kern_arena_print(&chain->arena, "%s%s%" PRIu64, text, before, dim->extent);
    }
    return kern_arena_print(&chain->arena, "%s]", text);
}

static bool same_extent(const struct kern_dim *a, const struct kern_dim *b)
{
    const char *x = a->var.name, *y = b->var.name;
    return x && y ? strcmp(x, y) == 0 : !x && !y && a->extent == b->extent;
}

static bool same_shape(const struct kern_buffer *a, const struct kern_buffer *b)
{
    bool same = a->dtype == b->dtype && a->rank == b->rank;
    for (size_t i = 0; same && i < a->rank; i++)
        same = same_extent(&a->shape[i], &b->shape[i]);
    return same;
}

static const struct kern_buffer *find_buffer(const struct kern_manifest *stage, const char *name)
{
    uint32_t index = kern_names_find(&stage->buffer_names, name);
    return index == KERN_NONE ? NULL : &stage->buffers[index];
}

// The flags of collectives stay where they are, whatever the stage.
static bool is_output(const struct kern_buffer *buffer)
{
    return buffer->kind == KERN_OUTPUT && buffer->fill != KERN_FILL_ERROR;
}

static void check_arrival(struct chain *chain, size_t index, const struct kern_buffer *buffer)
{
    const struct kern_manifest *before = chain->stages[index - 1];
    const struct kern_buffer *source = find_buffer(before, buffer->name);
    if (!source || (!is_output(source) && !kern_manifest_arrives(before, source)))
        kern_fail(chain->diag, KERN_EXIT_MANIFEST, buffer->name,
                  "arrives at %s, and %s has no such output; %s", stage_text(chain, index),
                  stage_text(chain, index - 1), remedy);
    else if (!same_shape(source, buffer))
        kern_fail(chain->diag, KERN_EXIT_MANIFEST, buffer->name,
                  "leaves %s as %s, and arrives at %s as %s; %s", stage_text(chain, index - 1),
                  shape_text(chain, source), stage_text(chain, index), shape_text(chain, buffer),
                  remedy);
}

// What arrives has as many places as the edge is deep, and a peer array names one.
static void check_peers(struct chain *chain, size_t index)
{
    const struct kern_manifest *stage = chain->stages[index];
    for (uint32_t b = 0; b < stage->n_buffers; b++) {
        const struct kern_buffer *peer = &stage->buffers[b];
        if (peer->kind == KERN_PEER && peer->of_target == KERN_TARGET_BUFFER &&
            kern_manifest_arrives(stage, &stage->buffers[peer->of.index]))
            kern_fail(chain->diag, KERN_EXIT_MANIFEST, peer->of.name,
                      "arrives at %s from %s and is shared with peers through %s; what arrives has "
                      "several places, so share a copy of it",
                      stage_text(chain, index), stage_text(chain, index - 1), peer->name);
    }
}

static void check_edge(struct chain *chain, size_t index)
{
    const struct kern_manifest *before = chain->stages[index - 1], *stage = chain->stages[index];
    for (uint32_t b = 0; b < stage->n_buffers; b++)
        if (kern_manifest_arrives(stage, &stage->buffers[b]))
            check_arrival(chain, index, &stage->buffers[b]);
    for (uint32_t b = 0; b < before->n_buffers; b++) {
        const struct kern_buffer *buffer = &before->buffers[b];
        const struct kern_buffer *taken = find_buffer(stage, buffer->name);
        if (is_output(buffer) && (!taken || !kern_manifest_arrives(stage, taken)))
            kern_fail(chain->diag, KERN_EXIT_MANIFEST, buffer->name,
                      "is an output of %s, and does not arrive at %s; %s",
                      stage_text(chain, index - 1), stage_text(chain, index), remedy);
    }
    check_peers(chain, index);
}

static void check_var(struct chain *chain, size_t index, const struct kern_var *var)
{
    for (size_t i = 0; i < index; i++) {
        uint32_t at = kern_names_find(&chain->stages[i]->var_names, var->name);
        if (at == KERN_NONE)
            continue;
        const struct kern_var *other = &chain->stages[i]->vars[at];
        if (other->max != var->max || other->axis != var->axis)
            kern_fail(chain->diag, KERN_EXIT_MANIFEST, var->name,
                      "has another maximum or axis in %s (%" PRIu64 ") than in %s (%" PRIu64
                      "); %s",
                      stage_text(chain, index), var->max, stage_text(chain, i), other->max, remedy);
        return;
    }
}

static const struct kern_program *find_driven(const struct kern_manifest *stage, const char *name)
{
    uint32_t index = kern_names_find(&stage->program_names, name);
    return index == KERN_NONE || !stage->programs[index].batch ? NULL : &stage->programs[index];
}

static bool same_batch(const struct kern_batch *a, const struct kern_batch *b)
{
    return a->groups == b->groups && same_extent(&a->rows, &b->rows);
}

static const char *batch_text(struct chain *chain, const struct kern_batch *batch)
{
    if (batch->rows.var.name)
        return kern_arena_print(&chain->arena, "%" PRIu64 " by %s", batch->groups,
                                batch->rows.var.name);
    return kern_arena_print(&chain->arena, "%" PRIu64 " by %" PRIu64, batch->groups,
                            batch->rows.extent);
}

// An item goes through all stages, so each runs what the others run.
static void check_programs(struct chain *chain, size_t index, size_t other)
{
    const struct kern_manifest *stage = chain->stages[index];
    for (uint32_t p = 0; p < stage->n_programs; p++) {
        const char *name = stage->programs[p].name;
        if (!stage->programs[p].batch)
            continue;
        const struct kern_program *there = find_driven(chain->stages[other], name);
        if (!there)
            kern_fail(chain->diag, KERN_EXIT_MANIFEST, name,
                      "has a batch in %s and is no such program of %s; %s",
                      stage_text(chain, index), stage_text(chain, other), remedy);
        else if (!same_batch(there->batch, stage->programs[p].batch))
            kern_fail(chain->diag, KERN_EXIT_MANIFEST, name,
                      "has batches of %s in %s and of %s in %s; %s",
                      batch_text(chain, stage->programs[p].batch), stage_text(chain, index),
                      batch_text(chain, there->batch), stage_text(chain, other), remedy);
    }
}

bool kern_manifest_chain(struct kern_manifest **stages, const char **names, size_t count,
                         struct kern_diag *diag)
{
    size_t errors = diag->errors;
    struct chain chain = {stages, names, count, diag, {0}};
    if (check_marks(&chain)) {
        sort(&chain);
        for (size_t i = 0; i < count; i++) {
            for (uint32_t v = 0; v < stages[i]->n_vars; v++)
                check_var(&chain, i, &stages[i]->vars[v]);
            if (i == 0)
                continue;
            check_edge(&chain, i);
            check_programs(&chain, i, i - 1);
            check_programs(&chain, i - 1, i);
        }
    }
    kern_arena_free(&chain.arena);
    return diag->errors == errors;
}
