// SPDX-License-Identifier: Apache-2.0
//
// Loading a checkpoint: weights go where they stay, sources into their windows just before the
// first call that reads them, and the derive programs run call by call in between.
#include "rank/internal.h"

#include <stdlib.h>

#include "base/memory.h"
#include "rank/upload.h"
#include "rank/weights.h"

struct rank_checkpoint {
    struct kern_safetensors *tensors; // NULL: nothing is bound
    struct kern_weights weights;
};

void rank_checkpoint_close(struct kern_rank *rank)
{
    if (rank->checkpoint != NULL) {
        kern_weights_free(&rank->checkpoint->weights);
        kern_safetensors_close(rank->checkpoint->tensors);
        free(rank->checkpoint);
    }
    rank->checkpoint = NULL;
}

static bool is_needed(const struct kern_rank *rank, uint32_t buffer, enum kern_buffer_kind kind)
{
    const struct rank_buffer *memory = &rank->buffers[buffer];
    return rank->manifest->buffers[buffer].kind == kind && memory->address != 0 &&
           (memory->host == NULL || memory->fill);
}

static void add_pieces(struct kern_pieces *pieces, const struct kern_weights *weights,
                       uint32_t buffer)
{
    for (size_t i = weights->first[buffer]; i < weights->first[buffer + 1]; i++) {
        kern_reserve(&pieces->items, &pieces->capacity, pieces->count + 1, sizeof(*pieces->items));
        pieces->items[pieces->count++] = weights->pieces.items[i];
    }
}

// The pieces of all buffers of [kind] that this rank reads.
static struct kern_pieces collect_pieces(const struct kern_rank *rank, enum kern_buffer_kind kind)
{
    struct kern_pieces pieces = {0};
    for (uint32_t b = 0; rank->checkpoint->tensors != NULL && b < rank->manifest->n_buffers; b++) {
        if (is_needed(rank, b, kind)) {
            add_pieces(&pieces, &rank->checkpoint->weights, b);
        }
    }
    return pieces;
}

static size_t count_bound(const struct kern_manifest *manifest)
{
    size_t count = 0;
    for (uint32_t b = 0; b < manifest->n_buffers; b++) {
        count += manifest->buffers[b].n_bind > 0;
    }
    return count;
}

static bool open_checkpoint(struct kern_rank *rank, const char *const *paths, size_t n_paths,
                            struct kern_diag *diag)
{
    size_t n_bound = count_bound(rank->manifest);
    if (n_bound > 0 && n_paths == 0) {
        return kern_fail(diag, KERN_EXIT_USAGE, NULL,
                         "%zu buffer%s bound to tensors of a checkpoint; name it with --weights "
                         "FILE or DIRECTORY",
                         n_bound, n_bound == 1 ? " is" : "s are");
    }
    rank->checkpoint = kern_calloc(1, sizeof(*rank->checkpoint));
    if (n_bound == 0) {
        return true;
    }
    rank->checkpoint->tensors = kern_safetensors_open(paths, n_paths, diag);
    if (rank->checkpoint->tensors != NULL &&
        kern_weights_plan(rank->manifest, rank->group_index, rank->checkpoint->tensors,
                          &rank->checkpoint->weights, diag)) {
        return true;
    }
    rank_checkpoint_close(rank);
    return false;
}

bool kern_rank_load_weights(struct kern_rank *rank, const char *const *paths, size_t n_paths,
                            struct kern_diag *diag)
{
    if (rank->programs == NULL || rank->checkpoint != NULL || rank->derived) {
        return kern_fail(diag, KERN_EXIT_USAGE, NULL,
                         "weights are loaded once, after the programs are compiled");
    }
    if (!rank_enter(rank, diag) || !open_checkpoint(rank, paths, n_paths, diag)) {
        return false;
    }
    struct rank_uploader uploader;
    struct kern_pieces work = collect_pieces(rank, KERN_WEIGHT);
    bool ok = rank_upload_open(&uploader, rank, rank->checkpoint->tensors, &work, diag);
    if (ok) {
        uploader.work = work;
        ok = rank_upload_run(&uploader, diag) && rank_synchronize(rank, "loading weights", diag);
        rank_upload_close(&uploader);
    }
    free(work.items);
    if (!ok) {
        rank_checkpoint_close(rank);
    }
    return ok;
}

// Uploads the sources whose first reader is [call], the first of which is window *[window]. Their
// windows may lie where sources lay that the calls before read; the uploader waits for those.
static bool upload_windows(struct rank_uploader *uploader, size_t call, size_t *window,
                           struct kern_diag *diag)
{
    const struct kern_rank *rank = uploader->rank;
    const struct kern_source_area *area = &rank->sources.area;
    uploader->work.count = 0;
    for (; *window < area->count && area->windows[*window].first_call == call; ++*window) {
        add_pieces(&uploader->work, &rank->checkpoint->weights, area->windows[*window].buffer);
    }
    return rank_upload_run(uploader, diag);
}

static bool run_derive_programs(struct rank_uploader *uploader, const uint64_t *vars,
                                struct kern_diag *diag)
{
    struct kern_rank *rank = uploader->rank;
    size_t call = 0, window = 0;
    for (uint32_t p = 0; p < rank->manifest->n_programs; p++) {
        struct rank_program *program = &rank->programs[p];
        if (!program->declared->derive) {
            continue;
        }
        if (!rank_program_fit(rank, program, vars, diag)) {
            return false;
        }
        for (size_t c = 0; c < program->declared->n_calls; c++, call++) {
            if (!upload_windows(uploader, call, &window, diag) ||
                !rank_launch_range(rank, program, program->call_first[c],
                                   program->call_first[c + 1], vars, diag)) {
                return false;
            }
        }
    }
    return rank_synchronize(rank, "running the derive programs", diag);
}

bool kern_rank_derive(struct kern_rank *rank, struct kern_diag *diag)
{
    if (rank->checkpoint == NULL) {
        return kern_fail(diag, KERN_EXIT_USAGE, NULL,
                         "the derive programs run once, after the weights are loaded");
    }
    uint64_t *vars = kern_calloc(rank->manifest->n_vars + 1, sizeof(*vars));
    for (uint32_t v = 0; v < rank->manifest->n_vars; v++) {
        vars[v] = 1;
    }
    struct rank_uploader uploader;
    struct kern_pieces all = collect_pieces(rank, KERN_SOURCE);
    bool ok = rank_host_weights_protect(rank, diag) && rank_enter(rank, diag) &&
              rank_upload_open(&uploader, rank, rank->checkpoint->tensors, &all, diag);
    if (ok) {
        ok = run_derive_programs(&uploader, vars, diag);
        if (!ok) {
            // What was queued must not find its memory gone.
            rank->device->cu.cuStreamSynchronize(rank->stream);
        }
        rank_upload_close(&uploader);
        free(uploader.work.items);
    }
    free(all.items);
    free(vars);
    rank_checkpoint_close(rank);
    if (ok) {
        rank_sources_free(rank);
        rank->derived = true;
    }
    return ok;
}
