// SPDX-License-Identifier: Apache-2.0
//
// From the bytes of manifests to the one that this rank runs: the only one, or that of its stage.
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "launcher/run.h"
#include "manifest/chain.h"
#include "manifest/cut.h"

static struct kern_manifest *read_manifest(struct kern_run *run, const char *path)
{
    size_t length = 0;
    char *text = kern_run_broadcast(run, path, KERN_MANIFEST_BYTES_MAX, &length);
    if (!text)
        return NULL;
    struct kern_manifest *manifest = kern_manifest_parse(text, length, path, &run->diag);
    free(text);
    if (manifest && !kern_manifest_verify(manifest, &run->diag)) {
        kern_manifest_destroy(manifest);
        return NULL;
    }
    return manifest;
}

// Cuts the only manifest in memory, into what kern cut would have written.
static bool cut(struct kern_run *run)
{
    const struct kern_options *options = &run->options;
    struct kern_manifest *whole = run->stages[0];
    struct kern_manifest **stages =
        kern_manifest_cut(whole, options->cut.values, options->cut.count, &run->diag);
    if (!stages)
        return false;
    kern_manifest_stages_destroy(run->stages, 1);
    run->stages = stages;
    run->n_stages = options->cut.count + 1;
    for (size_t i = 1; i < run->n_stages; i++)
        run->paths[i] = run->paths[0];
    return true;
}

void kern_run_manifest(struct kern_run *run)
{
    const struct kern_options *options = &run->options;
    const char *const *paths = run->is_other ? &options->compare : options->manifests.items;
    size_t count = run->is_other ? 1 : options->manifests.count;
    bool good = kern_stage_join(&run->world, (int)options->n_stages, &run->stage, &run->diag);
    if (good)
        kern_run_check_paths(run);
    run->n_stages = count;
    run->stages = kern_calloc(count, sizeof *run->stages);
    run->paths = kern_calloc(options->n_stages, sizeof *run->paths);
    for (size_t i = 0; i < count; i++) {
        run->paths[i] = paths[i];
        run->stages[i] = read_manifest(run, paths[i]);
        good = good && run->stages[i];
    }
    if (good && !run->is_other && options->cut.count)
        good = cut(run);
    if (good && count > 1)
        good = kern_manifest_chain(run->stages, run->paths, count, &run->diag);
    if (!good)
        return;
    size_t own = run->n_stages > 1 ? (size_t)run->stage.index : 0;
    run->manifest = run->stages[own];
    run->path = run->paths[own];
}

void kern_run_free_stages(struct kern_run *run)
{
    kern_manifest_stages_destroy(run->stages, run->n_stages);
    free(run->paths);
    kern_stage_leave(&run->stage);
}

bool kern_run_is_input(const struct kern_run *run, const struct kern_manifest *stage,
                       const struct kern_buffer *buffer)
{
    if (buffer->kind != KERN_INPUT && buffer->kind != KERN_INOUT)
        return false;
    return run->n_stages == 1 || !kern_manifest_arrives(stage, buffer);
}

bool kern_run_has_results(const struct kern_run *run)
{
    return run->n_stages == 1 || run->stage.index + 1 == run->stage.count;
}

static bool is_driven(const struct kern_program *program)
{
    return !program->once && !program->derive;
}

// Whether a program that is driven writes inout buffer [name] on [stage].
static bool writes(const struct kern_manifest *stage, const char *name)
{
    for (uint32_t p = 0; p < stage->n_programs; p++) {
        const struct kern_program *program = &stage->programs[p];
        for (size_t c = 0; is_driven(program) && c < program->n_calls; c++) {
            const struct kern_call *call = &program->calls[c];
            const struct kern_op *op = &stage->ops[call->op.index];
            for (size_t a = 0; a < call->n_args; a++)
                if (call->args[a].kind == KERN_VALUE_BUFFER && op->params[a].direction != KERN_IN &&
                    strcmp(call->args[a].ref.name, name) == 0)
                    return true;
        }
    }
    return false;
}

// The last stage that writes inout buffer [name], or, if none does, the last one that has it.
static int owner_of(const struct kern_run *run, const char *name)
{
    int owner = -1, holder = -1;
    for (size_t i = 0; i < run->n_stages; i++) {
        const struct kern_manifest *stage = run->stages[i];
        uint32_t index = kern_names_find(&stage->buffer_names, name);
        if (index == KERN_NONE || stage->buffers[index].kind != KERN_INOUT ||
            kern_manifest_arrives(stage, &stage->buffers[index]))
            continue;
        holder = (int)i;
        if (writes(stage, name))
            owner = (int)i;
    }
    return owner < 0 ? holder : owner;
}

bool kern_run_is_result(const struct kern_run *run, const struct kern_buffer *buffer)
{
    if (run->n_stages == 1)
        return buffer->kind == KERN_OUTPUT || buffer->kind == KERN_INOUT;
    if (buffer->kind == KERN_OUTPUT)
        return kern_run_has_results(run);
    return buffer->kind == KERN_INOUT && !kern_manifest_arrives(run->manifest, buffer) &&
           owner_of(run, buffer->name) == run->stage.index;
}
