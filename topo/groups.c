// SPDX-License-Identifier: Apache-2.0
#include "topo/groups.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "manifest/suggest.h"
#include "topo/watchdog.h"

#define GROUPS_FILE_MAX (16ull << 20)

void kern_group_locate(enum kern_layout layout, uint32_t ranks, uint32_t size, uint32_t rank,
                       uint32_t *number, uint32_t *index)
{
    uint32_t groups = ranks / size;
    *number = layout == KERN_LAYOUT_BLOCK ? rank / size : rank % groups;
    *index = layout == KERN_LAYOUT_BLOCK ? rank % size : rank / groups;
}

static bool check_size(const struct kern_stage *stage, const struct kern_group *group,
                       struct kern_diag *diag)
{
    if (group->size <= (uint64_t)stage->size && (uint64_t)stage->size % group->size == 0)
        return true;
    struct kern_arena arena = {0};
    unsigned long long stages = (unsigned long long)stage->count, size = group->size;
    const char *of = stages > 1 ? kern_arena_print(&arena, " of a stage") : "";
    kern_fail(
        diag, KERN_EXIT_USAGE, kern_arena_print(&arena, "topology.groups.%s", group->name),
        "%d rank%s%s cannot form groups of %llu; start a multiple of %llu, for example mpirun "
        "-np %llu",
        stage->size, stage->size == 1 ? "" : "s", of, size, stages * size, stages * size);
    kern_arena_free(&arena);
    return false;
}

static bool refuse_name(const struct kern_manifest *manifest, const char *where, const char *name,
                        struct kern_diag *diag)
{
    struct kern_arena arena = {0};
    kern_fail(diag, KERN_EXIT_USAGE, where, "the manifest has no group \"%s\"%s", name,
              kern_did_you_mean(&arena, name, manifest->groups, manifest->n_groups,
                                sizeof *manifest->groups));
    kern_arena_free(&arena);
    return false;
}

static void locate_all(const struct kern_stage *stage, enum kern_layout layout,
                       struct kern_group_place *place)
{
    for (int m = 0; m < stage->size; m++) {
        uint32_t number, index;
        kern_group_locate(layout, (uint32_t)stage->size, place->size, (uint32_t)m, &number, &index);
        place->number_of[stage->first + m] = (int)number;
        place->index_of[stage->first + m] = (int)index;
    }
}

// Reads one line "NAME RANK RANK …" after its name into group *[number] of [place], which is the
// next one then. One of another stage is not ours to look at.
static bool read_members(const struct kern_stage *stage, struct kern_group_place *place,
                         int *number, char *words, const char *where, struct kern_diag *diag)
{
    uint32_t count = 0, elsewhere = 0;
    int ranks = stage->size * stage->count;
    char *rest = NULL;
    for (char *word = strtok_r(words, " \t\r,", &rest); word;
         word = strtok_r(NULL, " \t\r,", &rest)) {
        char *end;
        errno = 0;
        long rank = strtol(word, &end, 10);
        if (*end || errno || rank < 0 || rank >= ranks)
            return kern_fail(diag, KERN_EXIT_USAGE, where, "\"%s\" is no rank; ranks are 0 to %d",
                             word, ranks - 1);
        if (rank < stage->first || rank >= stage->first + stage->size) {
            elsewhere++;
            continue;
        }
        if (place->number_of[rank] >= 0)
            return kern_fail(diag, KERN_EXIT_USAGE, where, "rank %ld is in a group %s already",
                             rank, place->name);
        place->number_of[rank] = *number;
        place->index_of[rank] = (int)count++;
    }
    if (elsewhere && count)
        return kern_fail(diag, KERN_EXIT_USAGE, where,
                         "lists ranks of several stages; a group lies in one, as in ranks %d to %d",
                         stage->first, stage->first + stage->size - 1);
    if (elsewhere)
        return true;
    ++*number;
    if (count != place->size)
        return kern_fail(diag, KERN_EXIT_USAGE, where, "lists %u ranks; a group %s has %u", count,
                         place->name, place->size);
    return true;
}

// Takes what [text] says of groups into [groups]; numbers[i] counts the lists read for group i.
static bool read_lists(const struct kern_stage *stage, const struct kern_manifest *manifest,
                       const char *file, char *text, struct kern_groups *groups, int *numbers,
                       struct kern_diag *diag)
{
    struct kern_arena arena = {0};
    bool good = true;
    char *rest = NULL;
    int line_number = 0;
    for (char *line = text; good && line; line = rest) {
        rest = strchr(line, '\n');
        if (rest)
            *rest++ = '\0';
        const char *where = kern_arena_print(&arena, "%s:%d", file, ++line_number);
        line[strcspn(line, "#")] = '\0';
        line += strspn(line, " \t\r");
        if (!*line)
            continue;
        size_t length = strcspn(line, " \t\r:");
        char *words = line + length + (line[length] != '\0');
        line[length] = '\0';
        uint32_t which = kern_names_find(&manifest->group_names, line);
        if (which == KERN_NONE)
            good = refuse_name(manifest, where, line, diag);
        else
            good = read_members(stage, &groups->places[which], &numbers[which], words, where, diag);
    }
    kern_arena_free(&arena);
    return good;
}

static bool read_file(const struct kern_stage *stage, const struct kern_manifest *manifest,
                      const char *file, struct kern_groups *groups, bool *listed,
                      struct kern_diag *diag)
{
    size_t length;
    char *text = kern_file_read(file, GROUPS_FILE_MAX, &length, KERN_EXIT_USAGE, diag);
    if (!text)
        return false;
    int *numbers = kern_calloc(groups->count + 1, sizeof *numbers);
    bool good = !memchr(text, 0, length) ||
                kern_fail(diag, KERN_EXIT_USAGE, file, "is not text: it has a NUL byte");
    good = good && read_lists(stage, manifest, file, text, groups, numbers, diag);
    for (uint32_t i = 0; good && i < groups->count; i++) {
        listed[i] = numbers[i] > 0;
        int end = stage->first + stage->size;
        for (int r = stage->first; good && listed[i] && r < end; r++)
            if (groups->places[i].number_of[r] < 0)
                good = kern_fail(diag, KERN_EXIT_USAGE, file, "rank %d is in no group %s", r,
                                 groups->places[i].name);
    }
    free(numbers);
    free(text);
    return good;
}

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

static bool check_options(const struct kern_manifest *manifest,
                          const struct kern_group_option *options, size_t n_options,
                          struct kern_diag *diag)
{
    bool good = true;
    for (size_t i = 0; i < n_options; i++)
        if (kern_names_find(&manifest->group_names, options[i].name) == KERN_NONE)
            good = refuse_name(manifest, "--group", options[i].name, diag);
    return good;
}

static enum kern_layout chosen_layout(const struct kern_group_option *options, size_t n_options,
                                      const char *name)
{
    enum kern_layout layout = KERN_LAYOUT_BLOCK;
    for (size_t i = 0; i < n_options; i++)
        if (strcmp(options[i].name, name) == 0)
            layout = options[i].layout;
    return layout;
}

bool kern_groups_build(const struct kern_world *world, const struct kern_stage *stage,
                       const struct kern_manifest *manifest,
                       const struct kern_group_option *options, size_t n_options, const char *file,
                       struct kern_groups *groups, struct kern_diag *diag)
{
    size_t world_size = (size_t)world->size;
    groups->count = manifest->n_groups;
    groups->places = kern_calloc(groups->count, sizeof *groups->places);
    groups->index = kern_calloc(groups->count, sizeof *groups->index);
    bool good = check_options(manifest, options, n_options, diag);
    for (uint32_t i = 0; i < groups->count; i++) {
        struct kern_group_place *place = &groups->places[i];
        good = check_size(stage, &manifest->groups[i], diag) && good;
        *place = (struct kern_group_place){.name = manifest->groups[i].name,
                                           .size = (uint32_t)manifest->groups[i].size,
                                           .comm = MPI_COMM_NULL};
        place->number_of = kern_calloc(world_size, sizeof *place->number_of);
        place->index_of = kern_calloc(world_size, sizeof *place->index_of);
        place->members = kern_calloc(world_size, sizeof *place->members);
        for (size_t r = 0; r < world_size; r++)
            place->number_of[r] = place->index_of[r] = -1;
    }
    bool *listed = kern_calloc(groups->count, sizeof *listed);
    if (good && file)
        good = read_file(stage, manifest, file, groups, listed, diag);
    for (uint32_t i = 0; good && i < groups->count; i++)
        if (!listed[i])
            locate_all(stage, chosen_layout(options, n_options, groups->places[i].name),
                       &groups->places[i]);
    free(listed);

    // Splitting a communicator is a collective: nobody enters it unless everybody can.
    bool all = kern_world_all(world, world->comm, good);
    for (uint32_t i = 0; all && i < groups->count; i++) {
        join(world, stage, &groups->places[i]);
        groups->index[i] = groups->places[i].index;
    }
    return good;
}

void kern_groups_free(struct kern_groups *groups)
{
    for (uint32_t i = 0; i < groups->count; i++) {
        if (groups->places[i].comm != MPI_COMM_NULL)
            MPI_Comm_free(&groups->places[i].comm);
        free(groups->places[i].number_of);
        free(groups->places[i].index_of);
        free(groups->places[i].members);
    }
    free(groups->places);
    free(groups->index);
    *groups = (struct kern_groups){0};
}
