// SPDX-License-Identifier: Apache-2.0
#include "topo/picture_legend.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "topo/svg.h"

enum {
    HEAD = 30,
    LINE = 22,
    SWATCH = 14,
    SIZE = 12, // of the text
    MOST = 48, // groups of a name that are listed
    HUES = 8,
    APART = 5,    // hues between two names
    LONGEST = 300 // an entry's width
};

uint32_t kern_picture_colour(uint32_t which, uint32_t number)
{
    return kern_svg_colour(number / HUES * HUES + (number + which * APART) % HUES);
}

// "0-3,8": the ranks of group [number], ascending.
static const char *ranks_text(const struct kern_picture *picture,
                              const struct kern_group_layout *layout, int number,
                              struct kern_arena *arena)
{
    const char *text = "";
    for (int r = 0; r < picture->ranks; r++) {
        if (layout->number_of[r] != number)
            continue;
        int last = r;
        while (last + 1 < picture->ranks && layout->number_of[last + 1] == number)
            last++;
        text = last > r ? kern_arena_print(arena, "%s%s%d-%d", text, *text ? "," : "", r, last)
                        : kern_arena_print(arena, "%s%s%d", text, *text ? "," : "", r);
        r = last;
    }
    return text;
}

// In a pipeline the groups are those of one stage.
static int count_groups(const struct kern_picture *picture, const struct kern_group_layout *layout)
{
    int count = 0;
    for (int r = 0; r < picture->ranks; r++)
        if (layout->number_of[r] >= count)
            count = layout->number_of[r] + 1;
    return count;
}

static void draw_head(FILE *file, const struct kern_picture *picture,
                      const struct kern_group_layout *layout, double x, double y, double width)
{
    struct kern_arena arena = {0};
    int groups = count_groups(picture, layout);
    bool spans = kern_layout_spans_nodes(layout, picture->members, picture->ranks);
    const char *place = picture->n_nodes < 2 ? "" : spans ? ", across nodes" : ", inside nodes";
    kern_svg_text(
        file,
        &(struct kern_svg_text){
            .x = x, .y = y + 18, .size = 14, .room = width, .fill = 0x1a1a1a, .bold = true},
        kern_arena_print(&arena, "%s: %d group%s of %u%s", layout->name, groups,
                         groups == 1 ? "" : "s", layout->size, place));
    kern_arena_free(&arena);
}

// The entries of one name in columns; returns the height.
static double draw_name(FILE *file, const struct kern_picture *picture, uint32_t which, double x,
                        double y, double width)
{
    const struct kern_group_layout *layout = &picture->layouts[which];
    struct kern_arena arena = {0};
    int groups = count_groups(picture, layout), shown = groups < MOST ? groups : MOST;
    const char **texts = kern_calloc((size_t)shown + 1, sizeof *texts);
    double widest = 0;
    for (int g = 0; g < shown; g++) {
        texts[g] = kern_arena_print(&arena, "%d: rank%s %s", g, layout->size == 1 ? "" : "s",
                                    ranks_text(picture, layout, g, &arena));
        widest = fmax(widest, kern_svg_width(texts[g], SIZE) + 2 * SWATCH + 12);
    }
    widest = fmin(fmin(widest, LONGEST), width);
    int columns = (int)(width / widest);
    if (file)
        draw_head(file, picture, layout, x, y, width);
    for (int g = 0; file && g < shown; g++) {
        int row = g / columns;
        double at = x + g % columns * widest, line = y + HEAD + row * LINE;
        uint32_t fill = kern_picture_colour(which, (uint32_t)g);
        kern_svg_box(file, &(struct kern_svg_box){at, line, SWATCH, SWATCH, 3, fill, fill, false});
        kern_svg_text(file,
                      &(struct kern_svg_text){.x = at + SWATCH + 6,
                                              .y = line + 11.5,
                                              .size = SIZE,
                                              .room = widest - 2 * SWATCH,
                                              .fill = 0x1a1a1a},
                      texts[g]);
    }
    int rows = (shown + columns - 1) / columns;
    double height = HEAD + rows * LINE;
    if (file && groups > shown)
        kern_svg_text(
            file,
            &(struct kern_svg_text){
                .x = x, .y = y + height + 11.5, .size = SIZE, .room = width, .fill = 0x5f6670},
            kern_arena_print(&arena, "and %d more", groups - shown));
    kern_arena_free(&arena);
    free(texts);
    return height + (groups > shown ? LINE : 0) + 10;
}

double kern_picture_legend(FILE *file, const struct kern_picture *picture, double x, double y,
                           double width)
{
    double height = 0;
    for (uint32_t g = 0; g < picture->n_layouts; g++)
        height += draw_name(file, picture, g, x, y + height, width);
    if (picture->n_layouts) {
        if (file)
            kern_svg_text(
                file,
                &(struct kern_svg_text){
                    .x = x, .y = y + height + 10, .size = SIZE, .room = width, .fill = 0x5f6670},
                "On a rank: which group of the name, and the rank's index in it.");
        height += LINE;
    }
    return height + (picture->n_layouts ? 12 : 0);
}
