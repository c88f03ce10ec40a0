// SPDX-License-Identifier: Apache-2.0
//
// Boxes in boxes: nodes in a grid, in each its NUMA nodes one below the other, in each its devices
// in rows, on each its ranks. Every box is measured first and drawn in its place afterwards.
#include "topo/picture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "topo/picture_legend.h"
#include "topo/svg.h"

enum {
    MARGIN = 32,      // around everything
    GAP = 20,         // between nodes
    PADDING = 14,     // inside a node or a NUMA node
    SPACE = 10,       // between devices, and between ranks
    PER_ROW = 4,      // devices
    NODE_HEAD = 44,   // for the name of a node
    NUMA_HEAD = 26,   // for that of a NUMA node
    DEVICE_HEAD = 24, // for that of a device
    RANK_HEAD = 24,   // for that of a rank
    BADGE = 20,       // one group of a rank
    HEADING = 66,     // title and subtitle
    IDLE = 26,        // a device without a rank
    CARD_MIN = 132,
    CARD_MAX = 190, // a device's width
};

enum {
    PAPER = 0xffffff,
    INK = 0x1a1a1a,
    PALE_INK = 0x5f6670,
    NODE_FILL = 0xf4f6f8,
    NODE_STROKE = 0xb8c0ca,
    NUMA_FILL = 0xe9edf1,
    NUMA_STROKE = 0xd3dae2,
    CARD_STROKE = 0xa9b3bf,
};

// A device of a node and what is on it.
struct card {
    const struct kern_place *device;
    int section; // index of its NUMA node in the machine, or one more: near none that is known
    int ranks;
};

struct node {
    const struct kern_machine *machine;
    struct card *cards; // in order of bus ids
    int n_cards;
    double height;
};

struct drawing {
    const struct kern_picture *picture;
    struct node *nodes;
    int columns;
    int badges; // of each rank, or room for them
    double card_width, node_width;
    FILE *file;
};

static bool same_device(const struct kern_place *a, const struct kern_place *b)
{
    return memcmp(a->uuid, b->uuid, sizeof a->uuid) == 0;
}

static int section_of(const struct kern_machine *machine, int numa)
{
    int section = 0;
    while (section < machine->n_numa && (numa < 0 || machine->numa[section].index != numa))
        section++;
    return section;
}

static struct card *add_card(struct node *node, const struct kern_place *device)
{
    struct card *card = &node->cards[node->n_cards++];
    *card = (struct card){device, section_of(node->machine, device->numa), 0};
    return card;
}

static int by_bus_id(const void *a, const void *b)
{
    const struct card *x = a, *y = b;
    return strcmp(x->device->bus_id, y->device->bus_id);
}

// The devices that a machine shows and those that its ranks have, which may have been shown to them
// alone.
static void find_cards(const struct kern_picture *picture, int index, struct node *node)
{
    node->machine = &picture->machines[index];
    node->cards =
        kern_calloc((size_t)node->machine->n_devices + (size_t)picture->ranks, sizeof *node->cards);
    for (int d = 0; d < node->machine->n_devices; d++)
        add_card(node, &node->machine->devices[d]);
    for (int r = 0; r < picture->ranks; r++) {
        if (picture->members[r].node != index)
            continue;
        struct card *card = NULL;
        for (int c = 0; !card && c < node->n_cards; c++)
            if (same_device(node->cards[c].device, &picture->places[r]))
                card = &node->cards[c];
        card = card ? card : add_card(node, &picture->places[r]);
        card->ranks++;
    }
    qsort(node->cards, (size_t)node->n_cards, sizeof *node->cards, by_bus_id);
}

// The most groups that a rank is in: of a pipeline's, each is in those of its stage.
static int most_badges(const struct kern_picture *picture)
{
    int most = 0;
    for (int r = 0; r < picture->ranks; r++) {
        int badges = 0;
        for (uint32_t g = 0; g < picture->n_layouts; g++)
            badges += picture->layouts[g].number_of[r] >= 0;
        most = badges > most ? badges : most;
    }
    return most;
}

static double rank_height(const struct drawing *drawing)
{
    return RANK_HEAD + BADGE * drawing->badges + (drawing->badges ? 6 : 0);
}

static double card_height(const struct drawing *drawing, const struct card *card)
{
    if (!card->ranks)
        return DEVICE_HEAD + IDLE;
    return DEVICE_HEAD + card->ranks * (rank_height(drawing) + SPACE) - SPACE + 6;
}

// Walks over the cards of a section row by row, and calls [draw], if there is one, with the corner
// of each. Returns the height of all rows.
static double lay_rows(struct drawing *drawing, const struct node *node, int section, double x,
                       double y,
                       void (*draw)(struct drawing *drawing, const struct node *node,
                                    const struct card *card, double x, double y))
{
    double top = 0, row = 0;
    int column = 0;
    for (int c = 0; c < node->n_cards; c++) {
        const struct card *card = &node->cards[c];
        if (card->section != section)
            continue;
        if (column == PER_ROW) {
            top += row + SPACE;
            row = column = 0;
        }
        if (draw)
            draw(drawing, node, card, x + column * (drawing->card_width + SPACE), y + top);
        row = fmax(row, card_height(drawing, card));
        column++;
    }
    return top + row;
}

static bool is_drawn(const struct node *node, int section)
{
    if (section < node->machine->n_numa)
        return true;
    for (int c = 0; c < node->n_cards; c++)
        if (node->cards[c].section == section)
            return true;
    return false;
}

static double section_height(struct drawing *drawing, const struct node *node, int section)
{
    double rows = lay_rows(drawing, node, section, 0, 0, NULL);
    return NUMA_HEAD + 6 + (rows > 0 ? rows + PADDING : 0);
}

static void measure_node(struct drawing *drawing, struct node *node)
{
    node->height = NODE_HEAD + PADDING - SPACE;
    for (int s = 0; s <= node->machine->n_numa; s++)
        if (is_drawn(node, s))
            node->height += section_height(drawing, node, s) + SPACE;
}

// Wide enough for the longest name of a device, a rank or a group, within limits.
static void measure_cards(struct drawing *drawing)
{
    const struct kern_picture *picture = drawing->picture;
    double width = CARD_MIN;
    for (int n = 0; n < picture->n_nodes; n++)
        for (int c = 0; c < drawing->nodes[n].n_cards; c++)
            width = fmax(width, kern_svg_width(drawing->nodes[n].cards[c].device->bus_id, 11) + 44);
    for (uint32_t g = 0; g < picture->n_layouts; g++)
        width = fmax(width, kern_svg_width(picture->layouts[g].name, 12) + 90);
    drawing->card_width = fmin(width, CARD_MAX);
    int most = 1;
    for (int n = 0; n < picture->n_nodes; n++)
        for (int s = 0; s <= drawing->nodes[n].machine->n_numa; s++) {
            int count = 0;
            for (int c = 0; c < drawing->nodes[n].n_cards; c++)
                count += drawing->nodes[n].cards[c].section == s;
            most = count > most ? count : most;
        }
    most = most < 2 ? 2 : most > PER_ROW ? PER_ROW : most;
    drawing->node_width = most * (drawing->card_width + SPACE) - SPACE + 4 * PADDING;
}

// As many columns as bring the grid of nodes near the shape of a screen.
static void choose_columns(struct drawing *drawing)
{
    double area = 0;
    for (int n = 0; n < drawing->picture->n_nodes; n++)
        area += (drawing->nodes[n].height + GAP) * (drawing->node_width + GAP);
    int columns = (int)(sqrt(area * 1.5) / (drawing->node_width + GAP) + 0.5);
    int nodes = drawing->picture->n_nodes;
    columns = columns < 1 ? 1 : columns > nodes ? nodes : columns;
    // Rows as full as each other.
    if (nodes % columns && nodes % (columns + 1) == 0)
        columns++;
    else if (nodes % columns && columns > 2 && nodes % (columns - 1) == 0)
        columns--;
    drawing->columns = columns;
}

static void draw_badge(FILE *file, const struct kern_group_layout *layout, uint32_t which, int rank,
                       double x, double y, double width)
{
    char place[32];
    uint32_t fill = kern_picture_colour(which, (uint32_t)layout->number_of[rank]);
    struct kern_svg_text text = {
        .x = x + 7, .y = y + 12.5, .size = 11, .room = width - 70, .fill = kern_svg_ink(fill)};
    kern_svg_box(file, &(struct kern_svg_box){x, y, width, BADGE - 3, 3, fill, fill, false});
    kern_svg_text(file, &text, layout->name);
    snprintf(place, sizeof place, "%d.%d", layout->number_of[rank], layout->index_of[rank]);
    text.x = x + width - 7;
    text.room = 60;
    text.bold = true;
    text.anchor = KERN_SVG_END;
    kern_svg_text(file, &text, place);
}

static void draw_rank(struct drawing *drawing, int rank, double x, double y, double width)
{
    const struct kern_picture *picture = drawing->picture;
    const struct kern_place *place = &picture->places[rank];
    FILE *file = drawing->file;
    struct kern_arena arena = {0};
    uint32_t tint = PAPER, edge = CARD_STROKE;
    if (picture->n_layouts && picture->layouts[0].number_of[rank] >= 0) {
        edge = kern_picture_colour(0, (uint32_t)picture->layouts[0].number_of[rank]);
        tint = kern_svg_tint(edge, 0.14);
    }
    kern_svg_group_begin(
        file, kern_arena_print(
                  &arena, "rank %d, local rank %d on %s; device %s %s; %s%s%s", rank,
                  picture->members[rank].local_rank, picture->members[rank].host, place->bus_id,
                  place->name, *place->cpus ? "processors " : "", place->cpus,
                  *place->bound ? kern_arena_print(&arena, "; bound %s", place->bound) : ""));
    kern_svg_box(file,
                 &(struct kern_svg_box){x, y, width, rank_height(drawing), 5, tint, edge, false});
    kern_svg_text(file,
                  &(struct kern_svg_text){
                      .x = x + 8, .y = y + 17, .size = 13, .room = 76, .fill = INK, .bold = true},
                  kern_arena_print(&arena, "rank %d", rank));
    double at = y + RANK_HEAD;
    for (uint32_t g = 0; g < picture->n_layouts; g++)
        if (picture->layouts[g].number_of[rank] >= 0) {
            draw_badge(file, &picture->layouts[g], g, rank, x + 5, at, width - 10);
            at += BADGE;
        }
    kern_svg_group_end(file);
    kern_arena_free(&arena);
}

static void draw_card(struct drawing *drawing, const struct node *node, const struct card *card,
                      double x, double y)
{
    const struct kern_picture *picture = drawing->picture;
    FILE *file = drawing->file;
    double width = drawing->card_width, at = y + DEVICE_HEAD;
    char ordinal[16];
    kern_svg_group_begin(file, card->device->name);
    kern_svg_box(file, &(struct kern_svg_box){x, y, width, card_height(drawing, card), 6, PAPER,
                                              CARD_STROKE, !card->ranks});
    struct kern_svg_text text = {.x = x + 8, .y = y + 16, .size = 11, .fill = PALE_INK};
    text.room = width - 44;
    kern_svg_text(file, &text, card->device->bus_id);
    snprintf(ordinal, sizeof ordinal, "%d", card->device->ordinal);
    text.x = x + width - 8;
    text.room = 28;
    text.anchor = KERN_SVG_END;
    kern_svg_text(file, &text, ordinal);
    if (!card->ranks && picture->ranks)
        kern_svg_text(file,
                      &(struct kern_svg_text){
                          .x = x + 8, .y = at + 14, .size = 12, .room = width, .fill = PALE_INK},
                      "idle");
    else if (!card->ranks)
        kern_svg_text(file,
                      &(struct kern_svg_text){
                          .x = x + 8, .y = at + 14, .size = 12, .room = width - 12, .fill = INK},
                      card->device->name);
    kern_svg_group_end(file);
    int index = (int)(node - drawing->nodes);
    for (int r = 0; r < picture->ranks; r++) {
        if (picture->members[r].node != index || !same_device(card->device, &picture->places[r]))
            continue;
        draw_rank(drawing, r, x + 5, at, width - 10);
        at += rank_height(drawing) + SPACE;
    }
}

static void draw_section(struct drawing *drawing, const struct node *node, int section, double x,
                         double y)
{
    struct kern_arena arena = {0};
    FILE *file = drawing->file;
    double width = drawing->node_width - 2 * PADDING;
    const char *name = node->machine->n_numa ? "near no NUMA node that is known" : "devices";
    if (section < node->machine->n_numa) {
        const struct kern_numa *numa = &node->machine->numa[section];
        name = kern_arena_print(&arena, "NUMA node %d · processors %s · %.1f GiB", numa->index,
                                numa->cpus, (double)numa->memory / (1 << 30));
    }
    kern_svg_box(file, &(struct kern_svg_box){x, y, width, section_height(drawing, node, section),
                                              6, NUMA_FILL, NUMA_STROKE, false});
    kern_svg_text(file,
                  &(struct kern_svg_text){.x = x + PADDING,
                                          .y = y + 20,
                                          .size = 12,
                                          .room = width - 2 * PADDING,
                                          .fill = PALE_INK},
                  name);
    lay_rows(drawing, node, section, x + PADDING, y + NUMA_HEAD + 6, draw_card);
    kern_arena_free(&arena);
}

// "8 × NVIDIA H200", or only how many if they are of several kinds.
static const char *devices_text(const struct node *node, struct kern_arena *arena)
{
    const char *name = node->n_cards ? node->cards[0].device->name : "";
    for (int c = 1; c < node->n_cards; c++)
        if (strcmp(node->cards[c].device->name, name) != 0)
            return kern_arena_print(arena, "%d devices", node->n_cards);
    return kern_arena_print(arena, "%d × %s", node->n_cards, *name ? name : "device");
}

static void draw_node(struct drawing *drawing, int index, double x, double y)
{
    const struct node *node = &drawing->nodes[index];
    const struct kern_picture *picture = drawing->picture;
    FILE *file = drawing->file;
    struct kern_arena arena = {0};
    double inner = drawing->node_width - 2 * PADDING;
    const char *what = devices_text(node, &arena);
    int ranks = 0;
    for (int r = 0; r < picture->ranks; r++)
        ranks += picture->members[r].node == index;
    if (picture->ranks)
        what = kern_arena_print(&arena, "%d rank%s · %s", ranks, ranks == 1 ? "" : "s", what);
    double right = fmin(kern_svg_width(what, 12), inner * 0.5);
    kern_svg_group_begin(file, node->machine->host);
    kern_svg_box(file, &(struct kern_svg_box){x, y, drawing->node_width, node->height, 10,
                                              NODE_FILL, NODE_STROKE, false});
    kern_svg_text(file,
                  &(struct kern_svg_text){.x = x + PADDING,
                                          .y = y + 28,
                                          .size = 16,
                                          .room = right + 1,
                                          .fill = INK,
                                          .bold = true},
                  node->machine->host);
    kern_svg_text(file,
                  &(struct kern_svg_text){.x = x + drawing->node_width - PADDING,
                                          .y = y + 28,
                                          .size = 12,
                                          .room = right + 1,
                                          .fill = PALE_INK,
                                          .anchor = KERN_SVG_END},
                  what);
    kern_svg_group_end(file);
    double at = y + NODE_HEAD;
    for (int s = 0; s <= node->machine->n_numa; s++) {
        if (!is_drawn(node, s))
            continue;
        draw_section(drawing, node, s, x + PADDING, at);
        at += section_height(drawing, node, s) + SPACE;
    }
    kern_arena_free(&arena);
}

static double row_height(const struct drawing *drawing, int first)
{
    double height = 0;
    for (int n = first; n < first + drawing->columns && n < drawing->picture->n_nodes; n++)
        height = fmax(height, drawing->nodes[n].height);
    return height;
}

// Draws everything, or only measures it if there is no file yet; returns the height.
static double draw_all(struct drawing *drawing, double width)
{
    const struct kern_picture *picture = drawing->picture;
    double y = MARGIN + HEADING;
    for (int first = 0; first < picture->n_nodes; first += drawing->columns) {
        for (int n = first; drawing->file && n < first + drawing->columns && n < picture->n_nodes;
             n++)
            draw_node(drawing, n, MARGIN + (n - first) * (drawing->node_width + GAP), y);
        y += row_height(drawing, first) + GAP;
    }
    y += kern_picture_legend(drawing->file, picture, MARGIN, y, width - 2 * MARGIN);
    return y - GAP + MARGIN;
}

static void draw_heading(const struct drawing *drawing, double width)
{
    kern_svg_text(drawing->file,
                  &(struct kern_svg_text){.x = MARGIN,
                                          .y = MARGIN + 22,
                                          .size = 24,
                                          .room = width - 2 * MARGIN,
                                          .fill = INK,
                                          .bold = true},
                  drawing->picture->title);
    kern_svg_text(drawing->file,
                  &(struct kern_svg_text){.x = MARGIN,
                                          .y = MARGIN + 46,
                                          .size = 13,
                                          .room = width - 2 * MARGIN,
                                          .fill = PALE_INK},
                  drawing->picture->subtitle);
}

bool kern_picture_write(const struct kern_picture *picture, const char *path,
                        struct kern_diag *diag)
{
    struct drawing drawing = {.picture = picture, .badges = most_badges(picture)};
    drawing.nodes = kern_calloc((size_t)picture->n_nodes, sizeof *drawing.nodes);
    for (int n = 0; n < picture->n_nodes; n++)
        find_cards(picture, n, &drawing.nodes[n]);
    measure_cards(&drawing);
    for (int n = 0; n < picture->n_nodes; n++)
        measure_node(&drawing, &drawing.nodes[n]);
    choose_columns(&drawing);
    double width = drawing.columns * (drawing.node_width + GAP) - GAP + 2 * MARGIN;
    width = fmax(width, 640);
    double height = draw_all(&drawing, width);

    char *text = NULL;
    size_t length = 0;
    drawing.file = open_memstream(&text, &length);
    if (!drawing.file)
        kern_out_of_memory(0);
    kern_svg_begin(drawing.file, width, height, picture->title);
    draw_heading(&drawing, width);
    draw_all(&drawing, width);
    kern_svg_end(drawing.file);
    if (fclose(drawing.file) != 0)
        kern_out_of_memory(length);
    bool good = kern_file_write(path, text, length, diag);
    free(text);
    for (int n = 0; n < picture->n_nodes; n++)
        free(drawing.nodes[n].cards);
    free(drawing.nodes);
    return good;
}
