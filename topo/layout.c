// SPDX-License-Identifier: Apache-2.0
#include "topo/layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "manifest/suggest.h"

#define GROUPS_FILE_MAX (16ull << 20)

bool kern_layout_option(const char *text, struct kern_group_option *option,
                        struct kern_arena *arena, struct kern_diag *diag)
{
    const char *equals = strrchr(text, '=');
    bool stride = equals && strcmp(equals + 1, "stride") == 0;
    if (!equals || equals == text || (!stride && strcmp(equals + 1, "block") != 0))
        return kern_fail(diag, KERN_EXIT_USAGE, "--group",
                         "\"%s\" will not do; it takes NAME=block or NAME=stride", text);
    option->name = kern_arena_copy(arena, text, (size_t)(equals - text));
    option->layout = stride ? KERN_LAYOUT_STRIDE : KERN_LAYOUT_BLOCK;
    return true;
}

void kern_layout_locate(enum kern_layout layout, uint32_t ranks, uint32_t size, uint32_t rank,
                        uint32_t *number, uint32_t *index)
{
    uint32_t groups = ranks / size;
    *number = layout == KERN_LAYOUT_BLOCK ? rank / size : rank % groups;
    *index = layout == KERN_LAYOUT_BLOCK ? rank % size : rank / groups;
}

static bool check_size(const struct kern_ranks *ranks, const struct kern_group *group,
                       struct kern_diag *diag)
{
    if (group->size <= (uint64_t)ranks->size && (uint64_t)ranks->size % group->size == 0)
        return true;
    struct kern_arena arena = {0};
    unsigned long long stages = (unsigned long long)(ranks->world / ranks->size),
                       size = group->size;
    const char *of = stages > 1 ? kern_arena_print(&arena, " of a stage") : "";
    kern_fail(
        diag, KERN_EXIT_USAGE, kern_arena_print(&arena, "topology.groups.%s", group->name),
        "%d rank%s%s cannot form groups of %llu; start a multiple of %llu, for example mpirun "
        "-np %llu",
        ranks->size, ranks->size == 1 ? "" : "s", of, size, stages * size, stages * size);
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

static void locate_all(const struct kern_ranks *ranks, enum kern_layout way,
                       struct kern_group_layout *layout)
{
    for (int m = 0; m < ranks->size; m++) {
        uint32_t number, index;
        kern_layout_locate(way, (uint32_t)ranks->size, layout->size, (uint32_t)m, &number, &index);
        layout->number_of[ranks->first + m] = (int)number;
        layout->index_of[ranks->first + m] = (int)index;
    }
}

// Reads one line "NAME RANK RANK …" after its name into group *[number] of [layout], which is the
// next one then. One of another stage is not ours to look at.
static bool read_members(const struct kern_ranks *ranks, struct kern_group_layout *layout,
                         int *number, char *words, const char *where, struct kern_diag *diag)
{
    uint32_t count = 0, elsewhere = 0;
    char *rest = NULL;
    for (char *word = strtok_r(words, " \t\r,", &rest); word;
         word = strtok_r(NULL, " \t\r,", &rest)) {
        char *end;
        errno = 0;
        long rank = strtol(word, &end, 10);
        if (*end || errno || rank < 0 || rank >= ranks->world)
            return kern_fail(diag, KERN_EXIT_USAGE, where, "\"%s\" is no rank; ranks are 0 to %d",
                             word, ranks->world - 1);
        if (rank < ranks->first || rank >= ranks->first + ranks->size) {
            elsewhere++;
            continue;
        }
        if (layout->number_of[rank] >= 0)
            return kern_fail(diag, KERN_EXIT_USAGE, where, "rank %ld is in a group %s already",
                             rank, layout->name);
        layout->number_of[rank] = *number;
        layout->index_of[rank] = (int)count++;
    }
    if (elsewhere && count)
        return kern_fail(diag, KERN_EXIT_USAGE, where,
                         "lists ranks of several stages; a group lies in one, as in ranks %d to %d",
                         ranks->first, ranks->first + ranks->size - 1);
    if (elsewhere)
        return true;
    ++*number;
    if (count != layout->size)
        return kern_fail(diag, KERN_EXIT_USAGE, where, "lists %u ranks; a group %s has %u", count,
                         layout->name, layout->size);
    return true;
}

// Takes what [text] says of groups into [layouts]; numbers[i] counts the lists read for group i.
static bool read_lists(const struct kern_ranks *ranks, const struct kern_manifest *manifest,
                       const char *file, char *text, struct kern_group_layout *layouts,
                       int *numbers, struct kern_diag *diag)
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
            good = read_members(ranks, &layouts[which], &numbers[which], words, where, diag);
    }
    kern_arena_free(&arena);
    return good;
}

static bool read_file(const struct kern_ranks *ranks, const struct kern_manifest *manifest,
                      const char *file, struct kern_group_layout *layouts, bool *listed,
                      struct kern_diag *diag)
{
    size_t length;
    char *text = kern_file_read(file, GROUPS_FILE_MAX, &length, KERN_EXIT_USAGE, diag);
    if (!text)
        return false;
    int *numbers = kern_calloc(manifest->n_groups + 1, sizeof *numbers);
    bool good = !memchr(text, 0, length) ||
                kern_fail(diag, KERN_EXIT_USAGE, file, "is not text: it has a NUL byte");
    good = good && read_lists(ranks, manifest, file, text, layouts, numbers, diag);
    for (uint32_t i = 0; good && i < manifest->n_groups; i++) {
        listed[i] = numbers[i] > 0;
        int end = ranks->first + ranks->size;
        for (int r = ranks->first; good && listed[i] && r < end; r++)
            if (layouts[i].number_of[r] < 0)
                good = kern_fail(diag, KERN_EXIT_USAGE, file, "rank %d is in no group %s", r,
                                 layouts[i].name);
    }
    free(numbers);
    free(text);
    return good;
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

static void allocate(const struct kern_manifest *manifest, const struct kern_ranks *ranks,
                     struct kern_group_layout *layouts)
{
    size_t world = (size_t)ranks->world;
    for (uint32_t i = 0; i < manifest->n_groups; i++) {
        layouts[i].name = manifest->groups[i].name;
        layouts[i].size = (uint32_t)manifest->groups[i].size;
        layouts[i].number_of = kern_calloc(world, sizeof *layouts[i].number_of);
        layouts[i].index_of = kern_calloc(world, sizeof *layouts[i].index_of);
        for (size_t r = 0; r < world; r++)
            layouts[i].number_of[r] = layouts[i].index_of[r] = -1;
    }
}

struct kern_group_layout *kern_layout_make(const struct kern_manifest *manifest,
                                           const struct kern_ranks *ranks,
                                           const struct kern_group_option *options,
                                           size_t n_options, const char *file,
                                           struct kern_diag *diag)
{
    bool good = check_options(manifest, options, n_options, diag);
    for (uint32_t i = 0; i < manifest->n_groups; i++)
        good = check_size(ranks, &manifest->groups[i], diag) && good;
    if (!good)
        return NULL;
    struct kern_group_layout *layouts = kern_calloc(manifest->n_groups, sizeof *layouts);
    bool *listed = kern_calloc(manifest->n_groups, sizeof *listed);
    allocate(manifest, ranks, layouts);
    if (file)
        good = read_file(ranks, manifest, file, layouts, listed, diag);
    for (uint32_t i = 0; good && i < manifest->n_groups; i++)
        if (!listed[i])
            locate_all(ranks, chosen_layout(options, n_options, layouts[i].name), &layouts[i]);
    free(listed);
    if (good)
        return layouts;
    kern_layout_free(layouts, manifest->n_groups);
    return NULL;
}

void kern_layout_free(struct kern_group_layout *layouts, uint32_t count)
{
    for (uint32_t i = 0; layouts && i < count; i++) {
        free(layouts[i].number_of);
        free(layouts[i].index_of);
    }
    free(layouts);
}
