// SPDX-License-Identifier: Apache-2.0
#include "topo/groups.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/sha256.h"
#include "topo/watchdog.h"

// Members, spanning and communicator of this process's group.
static void join(const struct kern_world *world, const struct kern_stage *stage,
                 struct kern_group_place *place)
{
    place->number = (uint32_t)place->number_of[world->rank];
    place->index = (uint32_t)place->index_of[world->rank];
    for (int r = 0; r < world->size; r++)
        if (place->number_of[r] == (int)place->number)
            place->members[place->index_of[r]] = r;
    for (uint32_t i = 1; i < place->size; i++)
        if (world->members[place->members[i]].node != world->members[place->members[0]].node)
            place->spans_nodes = true;
    KERN_WITH_OTHERS(
        world, "building groups",
        MPI_Comm_split(stage->comm, (int)place->number, (int)place->index, &place->comm));
}

// What number_of and index_of say of the groups of each name.
static void digest_of(const struct kern_world *world, const struct kern_group_layout *layout,
                      uint8_t digest[KERN_SHA256_BYTES])
{
    size_t bytes = (size_t)world->size * sizeof(int);
    char *both = kern_calloc(2, bytes);
    memcpy(both, layout->number_of, bytes);
    memcpy(both + bytes, layout->index_of, bytes);
    kern_sha256(both, 2 * bytes, digest);
    free(both);
}

// Whether all ranks of the stage have made the same layouts, each of its own file. Groups that
// members see differently are no groups.
static bool same_layouts(const struct kern_world *world, const struct kern_stage *stage,
                         const struct kern_group_layout *layouts, uint32_t count,
                         struct kern_diag *diag)
{
    uint8_t(*mine)[KERN_SHA256_BYTES] = kern_calloc(count, sizeof *mine);
    uint8_t(*first)[KERN_SHA256_BYTES] = kern_calloc(count, sizeof *first);
    for (uint32_t i = 0; i < count; i++)
        digest_of(world, &layouts[i], mine[i]);
    memcpy(first, mine, count * sizeof *mine);
    KERN_WITH_OTHERS(world, "comparing groups",
                     MPI_Bcast(first, (int)(count * sizeof *mine), MPI_BYTE, 0, stage->comm));
    bool good = true;
    for (uint32_t i = 0; i < count; i++)
        if (memcmp(mine[i], first[i], sizeof *mine) != 0)
            good = kern_fail(diag, KERN_EXIT_USAGE, layouts[i].name,
                             "is a group of other ranks here than on rank %d; does --groups name "
                             "the same lines on every node?",
                             stage->first);
    free(first);
    free(mine);
    return good;
}

bool kern_groups_build(const struct kern_world *world, const struct kern_stage *stage,
                       const struct kern_manifest *manifest,
                       const struct kern_group_option *options, size_t n_options, const char *file,
                       struct kern_groups *groups, struct kern_diag *diag)
{
    const struct kern_ranks range = {stage->first, stage->size, world->size};
    groups->layouts = kern_layout_make(manifest, &range, options, n_options, file, diag);
    // Splitting a communicator is a collective: nobody enters it unless everybody can.
    bool all = kern_world_all(world, world->comm, groups->layouts != NULL);
    if (all && groups->layouts) {
        bool same = same_layouts(world, stage, groups->layouts, manifest->n_groups, diag);
        all = kern_world_all(world, world->comm, same);
    }
    if (!all || !groups->layouts) {
        kern_layout_free(groups->layouts, manifest->n_groups);
        groups->layouts = NULL;
        return false;
    }
    groups->count = manifest->n_groups;
    groups->places = kern_calloc(groups->count, sizeof *groups->places);
    groups->index = kern_calloc(groups->count, sizeof *groups->index);
    for (uint32_t i = 0; i < groups->count; i++) {
        const struct kern_group_layout *layout = &groups->layouts[i];
        groups->places[i] = (struct kern_group_place){
            .name = layout->name,
            .size = layout->size,
            .number_of = layout->number_of,
            .index_of = layout->index_of,
            .members = kern_calloc(layout->size, sizeof *groups->places[i].members),
            .comm = MPI_COMM_NULL,
        };
        kern_layout_warn(layout, world->members, &range, diag);
        join(world, stage, &groups->places[i]);
        groups->index[i] = groups->places[i].index;
    }
    return true;
}

void kern_groups_free(struct kern_groups *groups)
{
    for (uint32_t i = 0; i < groups->count; i++) {
        if (groups->places[i].comm != MPI_COMM_NULL)
            MPI_Comm_free(&groups->places[i].comm);
        free(groups->places[i].members);
    }
    kern_layout_free(groups->layouts, groups->count);
    free(groups->places);
    free(groups->index);
    *groups = (struct kern_groups){0};
}
