// SPDX-License-Identifier: Apache-2.0
//
// From a verified manifest to a loaded rank that knows its peers.
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "fabric/host_weights.h"
#include "launcher/progress.h"
#include "launcher/run.h"
#include "topo/choose.h"
#include "topo/watchdog.h"

// Rank 0 reads, all get the same bytes and so the same answer.
char *kern_run_broadcast(struct kern_run *run, const char *path, uint64_t limit, size_t *length)
{
    char *text = NULL;
    uint64_t size = UINT64_MAX;
    if (run->world.rank == 0) {
        text = kern_file_read(path, limit, length, KERN_EXIT_USAGE, &run->diag);
        size = text ? *length : UINT64_MAX;
    }
    KERN_WITH_OTHERS(&run->world, "reading a file for all",
                     MPI_Bcast(&size, 1, MPI_UINT64_T, 0, run->world.comm));
    if (size == UINT64_MAX)
        return NULL;
    if (!text)
        text = kern_calloc(size + 1, 1);
    KERN_WITH_OTHERS(&run->world, "reading a file for all",
                     MPI_Bcast(text, (int)size, MPI_BYTE, 0, run->world.comm));
    *length = size;
    return text;
}

bool kern_run_group_options(struct kern_run *run, struct kern_group_option **options,
                            struct kern_arena *arena)
{
    const struct kern_list *words = &run->options.groups;
    bool good = true;
    *options = kern_arena_array(arena, words->count, sizeof **options);
    for (size_t i = 0; i < words->count; i++)
        good = kern_layout_option(words->items[i], &(*options)[i], arena, &run->diag) && good;
    return good;
}

// The emulated machine has a device for every process, unless the user has said how many it has.
static void provide_emulated_devices(const struct kern_world *world)
{
    char count[16];
    snprintf(count, sizeof count, "%d", world->local_size > 8 ? world->local_size : 8);
    setenv("KERN_EMU_DEVICES", count, false);
}

void kern_run_topology(struct kern_run *run)
{
    const struct kern_options *options = &run->options;
    struct kern_arena arena = {0};
    struct kern_group_option *groups;
    bool good = kern_run_group_options(run, &groups, &arena);
    if (run->trace && !run->is_other)
        kern_clock_read(&run->world, &run->trace->clock.first);
    provide_emulated_devices(&run->world);
    run->device = kern_device_open(options->device, NULL, &run->diag);
    // The groups and the places are collectives: all enter them or nobody.
    if (kern_world_all(&run->world, run->world.comm, good && run->device)) {
        kern_groups_build(&run->world, &run->stage, run->manifest, groups, options->groups.count,
                          options->groups_file, &run->groups, &run->diag);
        kern_place_choose(&run->world, run->device, options->share_devices, options->bind,
                          &run->places, &run->diag);
        enum kern_device_kind kind = run->device->kind;
        kern_world_same(
            &run->world, &kind, sizeof kind, "the kind of device",
            "some nodes see a GPU and some do not; --device emu or cuda makes them equal",
            &run->diag);
    }
    kern_arena_free(&arena);
}

// Who is told how the loading gets on.
struct loading {
    struct kern_run *run;
    struct kern_rounds rounds;
    struct kern_load_progress line;
    bool shown; // the line is
};

static void get_on(void *context, uint64_t done, uint64_t total)
{
    struct loading *loading = context;
    kern_board_progress(&loading->run->world.board, done, total);
    kern_rounds_beat(&loading->rounds);
    if (loading->shown)
        kern_load_progress(&loading->line, done, total);
}

static bool binds_tensors(const struct kern_run *run)
{
    for (size_t i = 0; i < run->n_stages; i++)
        for (uint32_t b = 0; b < run->stages[i]->n_buffers; b++)
            if (run->stages[i]->buffers[b].n_bind > 0)
                return true;
    return false;
}

// The weights, which take each rank as long as its share of them; nobody is late who gets on.
static void load_weights(struct kern_run *run, struct loading *loading, bool good)
{
    const struct kern_list *paths = &run->options.weights;
    kern_rounds_open(&loading->rounds, &run->world);
    good = good && kern_rank_load_weights(run->rank, paths->items, paths->count, &run->diag);
    if (good && paths->count > 0 && !binds_tensors(run))
        kern_warn(&run->diag, NULL, 0, "--weights",
                  "no buffer is bound to a tensor of a checkpoint, so nothing is read");
    // Of a pipeline's several items in flight nobody knows whose a launch is.
    if (kern_host_weights_await(&loading->rounds, &run->stage, run->rank, good) &&
        kern_rank_derive(run->rank, &run->diag) && run->trace && run->n_stages == 1)
        kern_rank_time_launches(run->rank, &run->diag);
    if (loading->shown)
        kern_load_progress_end(&loading->line);
    kern_rounds_finish(&loading->rounds, "loading weights");
}

// As many items as the pipeline has stages, and one more that is issued while another ends, so that
// no stage waits for its host.
static uint32_t items_in_flight(const struct kern_run *run)
{
    size_t depth = run->options.depth;
    if (run->n_stages == 1)
        return 1;
    return (uint32_t)(run->n_stages > depth ? run->n_stages : depth) + 1;
}

void kern_run_load(struct kern_run *run)
{
    const struct kern_options *options = &run->options;
    int ordinal = run->places[run->world.rank].ordinal;
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", run->path);
    const char *beside = dirname(folder);
    // One rank speaks for all: they load alike.
    struct loading loading = {.run = run,
                              .shown = run->world.rank == 0 && kern_load_progress_wanted()};
    struct kern_rank_config config = {
        .device = run->device,
        .ordinal = ordinal,
        .manifest = run->manifest,
        .group_index = run->groups.index,
        .kernel_dirs = options->kernels.count ? options->kernels.items : &beside,
        .n_kernel_dirs = options->kernels.count ? options->kernels.count : 1,
        .digests = run->digests,
        .scan_multicast = run->world.local_rank == 0,
        .capacity = options->capacity,
        .seqs = options->seqs,
        .graphs = options->graphs,
        .local_ranks = (unsigned)run->world.local_size,
        .in_flight = items_in_flight(run),
        .keep_tokens = options->generate > 0,
        .arrivals = run->n_stages > 1 && run->stage.index > 0 ? (uint32_t)options->depth : 0,
        .progress = {get_on, &loading},
    };
    run->rank = kern_rank_create(&config, &run->diag);
    if (!kern_world_all(&run->world, run->world.comm, run->rank != NULL) ||
        !kern_road_choose(&run->world, &run->stage, run->manifest, &run->groups, run->device,
                          ordinal, &run->road, &run->diag))
        return;
    bool good = kern_rank_load_modules(run->rank, &run->diag) &&
                kern_rank_allocate(run->rank, run->road.kind, &run->diag) &&
                kern_run_lend_host_blocks(run);
    good = kern_host_weights_share(&run->world, &run->stage, run->rank, good, &run->diag) &&
           kern_rank_compile(run->rank, &run->diag);
    load_weights(run, &loading, good);
}

void kern_run_share(struct kern_run *run)
{
    run->fabric =
        kern_fabric_share(&run->world, run->manifest, &run->groups, run->device,
                          run->places[run->world.rank].ordinal, &run->road, run->rank, &run->diag);
    if (run->n_stages == 1)
        return;
    struct kern_edges_config config = {
        .world = &run->world,
        .stage = &run->stage,
        .stages = run->stages,
        .device = run->device,
        .ordinal = run->places[run->world.rank].ordinal,
        .road = &run->road,
        .rank = run->rank,
        .depth = (uint32_t)run->options.depth,
    };
    run->edges = kern_edges_open(&config, &run->diag);
}

void kern_run_peers(struct kern_run *run)
{
    kern_fabric_verify(run->fabric, &run->diag);
    if (run->edges)
        kern_edges_verify(run->edges, &run->diag);
}

void kern_run_communicators(struct kern_run *run)
{
    run->communicators = kern_communicators_join(&run->world, &run->stage, &run->groups,
                                                 run->places, run->device, run->rank, &run->diag);
}

const char *kern_run_path(const struct kern_run *run, const char *pattern, struct kern_arena *arena)
{
    const char *mark = strstr(pattern, "{rank}");
    if (!mark)
        return pattern;
    const char *start = kern_arena_copy(arena, pattern, (size_t)(mark - pattern));
    return kern_arena_print(arena, "%s%d%s", start, run->stage.member,
                            kern_run_path(run, mark + strlen("{rank}"), arena));
}

void kern_run_shape(const struct kern_buffer *buffer, const uint64_t *vars, uint64_t *shape)
{
    for (size_t i = 0; i < buffer->rank; i++)
        shape[i] =
            buffer->shape[i].var.name ? vars[buffer->shape[i].var.index] : buffer->shape[i].extent;
}
