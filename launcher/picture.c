// SPDX-License-Identifier: Apache-2.0
//
// --picture: every node describes its machine, and rank 0 draws them all, before anything is
// loaded, so that a file that cannot be written costs no time.
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "launcher/run.h"
#include "topo/picture.h"
#include "topo/watchdog.h"

// What travels of a machine, before its NUMA nodes and its devices.
struct head {
    int node;
    unsigned processors;
    int n_numa, n_devices;
};

static size_t packed_bytes(const struct head *head)
{
    return sizeof *head + (size_t)head->n_numa * sizeof(struct kern_numa) +
           (size_t)head->n_devices * sizeof(struct kern_place);
}

static char *pack(const struct kern_machine *machine, int node, int *length)
{
    struct head head = {node, machine->processors, machine->n_numa, machine->n_devices};
    size_t numa = (size_t)head.n_numa * sizeof *machine->numa;
    char *bytes = kern_calloc(packed_bytes(&head), 1);
    memcpy(bytes, &head, sizeof head);
    if (numa)
        memcpy(bytes + sizeof head, machine->numa, numa);
    if (head.n_devices)
        memcpy(bytes + sizeof head + numa, machine->devices,
               (size_t)head.n_devices * sizeof *machine->devices);
    *length = (int)packed_bytes(&head);
    return bytes;
}

// Takes the machine at [bytes] into its place of [machines]; returns how long it was.
static size_t unpack(const char *bytes, struct kern_machine *machines)
{
    struct head head;
    memcpy(&head, bytes, sizeof head);
    struct kern_machine *machine = &machines[head.node];
    size_t numa = (size_t)head.n_numa * sizeof *machine->numa;
    size_t devices = (size_t)head.n_devices * sizeof *machine->devices;
    machine->processors = head.processors;
    machine->n_numa = head.n_numa;
    machine->n_devices = head.n_devices;
    machine->numa = kern_calloc((size_t)head.n_numa, sizeof *machine->numa);
    machine->devices = kern_calloc((size_t)head.n_devices, sizeof *machine->devices);
    memcpy(machine->numa, bytes + sizeof head, numa);
    memcpy(machine->devices, bytes + sizeof head + numa, devices);
    return packed_bytes(&head);
}

// Rank 0 gets the machine of each node, from its first rank, to be freed by the caller.
static struct kern_machine *gather_machines(const struct kern_run *run, const char *mine,
                                            int length)
{
    const struct kern_world *world = &run->world;
    int *lengths = kern_calloc((size_t)world->size, sizeof *lengths);
    int *offsets = kern_calloc((size_t)world->size, sizeof *offsets);
    KERN_WITH_OTHERS(world, "gathering machines",
                     MPI_Gather(&length, 1, MPI_INT, lengths, 1, MPI_INT, 0, world->comm));
    int total = 0;
    for (int r = 0; world->rank == 0 && r < world->size; r++) {
        offsets[r] = total;
        total += lengths[r];
    }
    char *all = kern_calloc((size_t)total, 1);
    KERN_WITH_OTHERS(
        world, "gathering machines",
        MPI_Gatherv(mine, length, MPI_BYTE, all, lengths, offsets, MPI_BYTE, 0, world->comm));
    struct kern_machine *machines = NULL;
    if (world->rank == 0) {
        machines = kern_calloc((size_t)world->n_nodes, sizeof *machines);
        for (int at = 0; at < total;)
            at += (int)unpack(all + at, machines);
        for (int r = 0; r < world->size; r++)
            memcpy(machines[world->members[r].node].host, world->members[r].host,
                   sizeof world->members[r].host);
    }
    free(all);
    free(offsets);
    free(lengths);
    return machines;
}

static void name_stages(const struct kern_stage *stage, int ranks, struct kern_group_layout *layout)
{
    *layout = (struct kern_group_layout){.name = "stage", .size = (uint32_t)stage->size};
    layout->number_of = kern_calloc((size_t)ranks, sizeof *layout->number_of);
    layout->index_of = kern_calloc((size_t)ranks, sizeof *layout->index_of);
    for (int r = 0; r < ranks; r++) {
        layout->number_of[r] = r / stage->size;
        layout->index_of[r] = r % stage->size;
    }
}

// Of a pipeline: its stages, and the groups of each, named in [arena]; to be freed by the caller.
static struct kern_group_layout *stage_layouts(struct kern_run *run, uint32_t *count,
                                               struct kern_arena *arena)
{
    const struct kern_world *world = &run->world;
    struct kern_group_option *options;
    uint32_t n = 1;
    for (size_t s = 0; s < run->n_stages; s++)
        n += run->stages[s]->n_groups;
    struct kern_group_layout *all = kern_calloc(n, sizeof *all);
    name_stages(&run->stage, world->size, all);
    *count = 1;
    bool good = kern_run_group_options(run, &options, arena);
    for (size_t s = 0; good && s < run->n_stages; s++) {
        const struct kern_manifest *manifest = run->stages[s];
        struct kern_ranks ranks = {(int)s * run->stage.size, run->stage.size, world->size};
        struct kern_group_layout *own =
            kern_layout_make(manifest, &ranks, options, run->options.groups.count,
                             run->options.groups_file, &run->diag);
        good = own != NULL;
        for (uint32_t g = 0; good && g < manifest->n_groups; g++) {
            all[*count] = own[g];
            all[(*count)++].name = kern_arena_print(arena, "stage %zu %s", s, own[g].name);
        }
        free(own);
    }
    return all;
}

static void draw(struct kern_run *run, const struct kern_machine *machines)
{
    const struct kern_world *world = &run->world;
    struct kern_arena arena = {0};
    struct kern_group_layout *layouts = NULL;
    uint32_t n_layouts = 0;
    if (run->n_stages > 1)
        layouts = stage_layouts(run, &n_layouts, &arena);
    struct kern_picture picture = {
        .title = run->manifest->model,
        .subtitle = kern_arena_print(&arena, "%d rank%s on %d node%s · device %s", world->size,
                                     world->size == 1 ? "" : "s", world->n_nodes,
                                     world->n_nodes == 1 ? "" : "s",
                                     run->device->kind == KERN_DEVICE_CUDA ? "cuda" : "emu"),
        .machines = machines,
        .n_nodes = world->n_nodes,
        .members = world->members,
        .places = run->places,
        .ranks = world->size,
        .layouts = layouts ? layouts : run->groups.layouts,
        .n_layouts = layouts ? n_layouts : run->groups.count,
    };
    kern_picture_write(&picture, run->options.picture, &run->diag);
    kern_layout_free(layouts, n_layouts);
    kern_arena_free(&arena);
}

void kern_run_picture(struct kern_run *run)
{
    int length = 0;
    struct kern_machine machine = {0};
    char *mine = NULL;
    if (run->world.local_rank == 0) {
        kern_machine_describe(run->device, &machine, &run->diag);
        mine = pack(&machine, run->world.members[run->world.rank].node, &length);
    }
    struct kern_machine *machines = gather_machines(run, mine, length);
    if (machines)
        draw(run, machines);
    for (int n = 0; machines && n < run->world.n_nodes; n++)
        kern_machine_free(&machines[n]);
    free(machines);
    free(mine);
    kern_machine_free(&machine);
}
