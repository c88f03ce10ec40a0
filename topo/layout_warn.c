// SPDX-License-Identifier: Apache-2.0
//
// Groups that cross nodes without need.
#include <stdlib.h>

#include "base/memory.h"
#include "topo/layout.h"

bool kern_layout_spans_nodes(const struct kern_group_layout *layout,
                             const struct kern_member *members, int ranks)
{
    int *node_of = kern_calloc((size_t)ranks, sizeof *node_of); // by group number, plus 1
    bool spans = false;
    for (int r = 0; r < ranks; r++) {
        if (layout->number_of[r] < 0)
            continue;
        int *node = &node_of[layout->number_of[r]];
        spans = spans || (*node && *node != members[r].node + 1);
        *node = members[r].node + 1;
    }
    free(node_of);
    return spans;
}

// Whether groups of [size] can be made so that none crosses nodes: each node has whole ones.
static bool could_fit(uint32_t size, const struct kern_member *members,
                      const struct kern_ranks *ranks)
{
    uint32_t *count = kern_calloc((size_t)ranks->world, sizeof *count); // by node
    bool fits = true;
    for (int r = ranks->first; r < ranks->first + ranks->size; r++)
        count[members[r].node]++;
    for (int n = 0; n < ranks->world; n++)
        fits = fits && count[n] % size == 0;
    free(count);
    return fits;
}

static bool would_fit(enum kern_layout way, const struct kern_group_layout *layout,
                      const struct kern_member *members, const struct kern_ranks *ranks)
{
    struct kern_group_layout other = {.name = layout->name, .size = layout->size};
    other.number_of = kern_calloc((size_t)ranks->world, sizeof *other.number_of);
    for (int r = 0; r < ranks->world; r++)
        other.number_of[r] = -1;
    for (int m = 0; m < ranks->size; m++) {
        uint32_t number, index;
        kern_layout_locate(way, (uint32_t)ranks->size, layout->size, (uint32_t)m, &number, &index);
        other.number_of[ranks->first + m] = (int)number;
    }
    bool fits = !kern_layout_spans_nodes(&other, members, ranks->world);
    free(other.number_of);
    return fits;
}

// "NAME 0 2 4 6", a line of a groups file: the first ranks of the node of the first.
static const char *example_line(const struct kern_group_layout *layout,
                                const struct kern_member *members, const struct kern_ranks *ranks,
                                struct kern_arena *arena)
{
    const char *line = layout->name;
    uint32_t count = 0;
    for (int r = ranks->first; r < ranks->world && count < layout->size; r++)
        if (members[r].node == members[ranks->first].node) {
            line = kern_arena_print(arena, "%s %d", line, r);
            count++;
        }
    return line;
}

void kern_layout_warn(const struct kern_group_layout *layout, const struct kern_member *members,
                      const struct kern_ranks *ranks, struct kern_diag *diag)
{
    if (!kern_layout_spans_nodes(layout, members, ranks->world) ||
        !could_fit(layout->size, members, ranks))
        return;
    struct kern_arena arena = {0};
    const char *remedy =
        kern_arena_print(&arena, "--groups FILE, with a line for each, the first one \"%s\"",
                         example_line(layout, members, ranks, &arena));
    if (would_fit(KERN_LAYOUT_STRIDE, layout, members, ranks))
        remedy = kern_arena_print(&arena, "--group %s=stride", layout->name);
    if (would_fit(KERN_LAYOUT_BLOCK, layout, members, ranks))
        remedy = kern_arena_print(&arena, "--group %s=block", layout->name);
    kern_warn(diag, NULL, 0, kern_arena_print(&arena, "group %s", layout->name),
              "crosses nodes, although groups of %u fit into each; %s lays them inside",
              layout->size, remedy);
    kern_arena_free(&arena);
}
