// SPDX-License-Identifier: Apache-2.0
//
// The buffers that a serving loop fills and reads: roles, page tables and line tables.
#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "manifest/serving_parts.h"

// What a buffer with a role is laid out over: an axis, or a constant where the axis is NONE.
struct layout {
    enum kern_axis axis;
    uint64_t fixed; // without an axis: entries
    uint64_t width; // entries per element
};

enum { OVER_ROWS = 1 << KERN_AXIS_ROWS, OVER_GROUPS = 1 << KERN_AXIS_GROUPS };
enum { OVER_RANKS = 1 << KERN_AXIS_RANKS, OVER_CONSTANT = 1 << KERN_AXIS_NONE };

struct role {
    unsigned over;     // of OVER_…
    bool wide;         // several entries per element are allowed
    const char *shape; // as messages say it
};

static const struct role roles[] = {
    [KERN_FILL_TOKEN] = {OVER_ROWS | OVER_RANKS | OVER_GROUPS, false,
                         "[rows], [ranks] or [groups]"},
    [KERN_FILL_POSITION] = {OVER_ROWS, false, "[rows]"},
    [KERN_FILL_VALID] = {OVER_ROWS, false, "[rows]"},
    [KERN_FILL_SLOT] = {OVER_ROWS, false, "[rows]"},
    [KERN_FILL_SEQ_LEN] = {OVER_GROUPS, false, "[groups]"},
    [KERN_FILL_CU_SEQLENS] = {OVER_CONSTANT, false, "a constant, one more than the groups"},
    [KERN_FILL_BLOCKS] = {OVER_CONSTANT, false, "a constant, one more than the members"},
    [KERN_FILL_TEMPERATURE] = {OVER_GROUPS, false, "[groups]"},
    [KERN_FILL_TOP_K] = {OVER_GROUPS, false, "[groups]"},
    [KERN_FILL_TOP_P] = {OVER_GROUPS, false, "[groups]"},
    [KERN_FILL_MIN_P] = {OVER_GROUPS, false, "[groups]"},
    [KERN_FILL_SEED] = {OVER_GROUPS, false, "[groups]"},
    [KERN_FILL_TOKENS] = {OVER_GROUPS | OVER_RANKS, true, "[groups], [groups, n] or [ranks]"},
    [KERN_FILL_COUNT] = {OVER_GROUPS, false, "[groups]"},
    [KERN_FILL_ERROR] = {OVER_CONSTANT, false, "[1]"},
};

// The shape as the manifest has it, cut off where it is long.
#define SHAPE_TEXT 96
static const char *shape_text(const struct kern_buffer *buffer, char text[SHAPE_TEXT])
{
    enum { NAME = 24, LAST = SHAPE_TEXT - NAME - 8 };
    size_t used = 0, i = 0;
    for (; i < buffer->rank && used < LAST; i++) {
        const struct kern_dim *dim = &buffer->shape[i];
        char name[NAME];
        if (dim->var.name)
            kern_text_shorten(dim->var.name, name, sizeof name);
        else
            snprintf(name, sizeof name, "%" PRIu64, dim->extent);
        used += (size_t)snprintf(text + used, SHAPE_TEXT - used, "%s%s", i ? ", " : "[", name);
    }
    snprintf(text + used, SHAPE_TEXT - used, i < buffer->rank ? ", ...]" : "]");
    return text;
}

static enum kern_axis axis_of(const struct kern_projection *projection, const struct kern_dim *dim)
{
    return dim->var.name ? projection->manifest->vars[dim->var.index].axis : KERN_AXIS_NONE;
}

// P4: the extent names a var that counts nothing of a call.
static bool check_var(struct kern_projection *projection, const struct kern_buffer *buffer,
                      const struct kern_dim *dim, const char *role, const struct kern_place *place)
{
    if (!dim->var.name || axis_of(projection, dim) != KERN_AXIS_NONE)
        return true;
    return kern_place_fail(projection->diag, "P4", buffer->order, place,
                           "a %s over the var \"%s\", which has no axis: a serving loop would not "
                           "know how many there are",
                           role, dim->var.name);
}

// P3 and P4: the layout of a buffer with a role.
static bool find_layout(struct kern_projection *projection, const struct kern_buffer *buffer,
                        const struct kern_place *place, struct layout *layout)
{
    const struct kern_dim *shape = buffer->shape;
    char text[SHAPE_TEXT];
    bool plain = buffer->rank == 1;
    bool wide = buffer->rank == 2 && shape[0].var.name && !shape[1].var.name;
    if (!plain && !wide)
        return kern_place_fail(projection->diag, "P3", buffer->order, place,
                               "the shape of a buffer with the role %s must be [axis], "
                               "[axis, number] or [number], not %s",
                               kern_fill_name(buffer->fill), shape_text(buffer, text));
    if (!check_var(projection, buffer, &shape[0], kern_fill_name(buffer->fill), place))
        return false;
    *layout = (struct layout){
        .axis = axis_of(projection, &shape[0]),
        .fixed = shape[0].var.name ? 0 : shape[0].extent,
        .width = wide ? shape[1].extent : 1,
    };
    return true;
}

// Whether a constant number of entries will do for the role.
static bool is_enough(const struct kern_projection *projection, enum kern_fill fill, uint64_t fixed)
{
    if (fill == KERN_FILL_CU_SEQLENS)
        return fixed > projection->serving->axes[KERN_AXIS_GROUPS].max;
    return fill == KERN_FILL_BLOCKS ? fixed >= 2 : fixed == 1;
}

// P5: the role's shape, and the one dtype that a role narrows further than the verification.
static bool check_role(struct kern_projection *projection, const struct kern_buffer *buffer,
                       const struct kern_place *place, const struct layout *layout)
{
    const struct role *role = &roles[buffer->fill];
    char text[SHAPE_TEXT];
    bool good = role->over >> layout->axis & 1;
    if (layout->axis == KERN_AXIS_NONE)
        good = good && is_enough(projection, buffer->fill, layout->fixed);
    // A row of all ranks has one token.
    if (layout->width != 1 && (!role->wide || layout->axis != KERN_AXIS_GROUPS))
        good = false;
    if (!good)
        return kern_place_fail(projection->diag, "P5", buffer->order, place,
                               "the shape of a buffer with the role %s must be %s, not %s",
                               kern_fill_name(buffer->fill), role->shape, shape_text(buffer, text));
    if (buffer->fill == KERN_FILL_BLOCKS && buffer->dtype != KERN_I32)
        return kern_place_fail(projection->diag, "P5", buffer->order, place,
                               "a buffer with the role blocks must be i32, not %s",
                               kern_dtype_name(buffer->dtype));
    return true;
}

static void add_role(struct kern_projection *projection, uint32_t index)
{
    const struct kern_manifest *manifest = projection->manifest;
    const struct kern_buffer *buffer = &manifest->buffers[index];
    struct kern_place buffers = kern_place_member(NULL, "buffers");
    struct kern_place place = kern_place_member(&buffers, buffer->name);
    struct layout layout = {0};
    if (!find_layout(projection, buffer, &place, &layout) ||
        !check_role(projection, buffer, &place, &layout))
        return;
    projection->widths[index] = layout.width;
    if (buffer->fill == KERN_FILL_BLOCKS &&
        projection->serving->axes[KERN_AXIS_RANKS].var == KERN_NONE)
        kern_place_fail(projection->diag, "P7", buffer->order, &place,
                        "the role blocks says whose rows are where, and no var has the axis "
                        "\"ranks\" that counts them");
    if (buffer->fill == KERN_FILL_TOKENS)
        return;
    bool token = buffer->fill == KERN_FILL_TOKEN;
    uint32_t *holder = token ? &projection->serving->token[layout.axis]
                             : &projection->serving->fills[buffer->fill];
    if (*holder == KERN_NONE)
        *holder = index;
    else
        kern_place_fail(projection->diag, "P6", buffer->order, &place,
                        "the role %s%s is taken by the buffer \"%s\"; one may have it",
                        kern_fill_name(buffer->fill), token ? " over this axis" : "",
                        manifest->buffers[*holder].name);
}

// P9: what a table holds.
static bool check_table(struct kern_projection *projection, const struct kern_buffer *buffer,
                        const struct kern_place *place)
{
    return buffer->dtype == KERN_I32 ||
           kern_place_fail(projection->diag, "P9", buffer->order, place,
                           "a table of a state must be i32, not %s",
                           kern_dtype_name(buffer->dtype));
}

static void add_page_table(struct kern_projection *projection, uint32_t index,
                           struct kern_page_table *tables)
{
    const struct kern_buffer *buffer = &projection->manifest->buffers[index];
    struct kern_place buffers = kern_place_member(NULL, "buffers");
    struct kern_place place = kern_place_member(&buffers, buffer->name);
    const struct kern_dim *shape = buffer->shape;
    char text[SHAPE_TEXT];
    if (!check_table(projection, buffer, &place) ||
        !check_var(projection, buffer, &shape[0], "page table", &place))
        return;
    if (buffer->rank != 2 || axis_of(projection, &shape[0]) != KERN_AXIS_GROUPS ||
        shape[1].var.name) {
        kern_place_fail(projection->diag, "P12", buffer->order, &place,
                        "a page table must be [groups, number], a row of pages for each sequence, "
                        "not %s",
                        shape_text(buffer, text));
        return;
    }
    tables[projection->serving->n_page_tables++] = (struct kern_page_table){
        .buffer = index,
        .state = buffer->domain->index_into.index,
        .pages = shape[1].extent,
        .tokens = buffer->domain->stride,
    };
}

static void add_line_table(struct kern_projection *projection, uint32_t index,
                           struct kern_line_table *tables)
{
    const struct kern_buffer *buffer = &projection->manifest->buffers[index];
    struct kern_place buffers = kern_place_member(NULL, "buffers");
    struct kern_place place = kern_place_member(&buffers, buffer->name);
    const struct kern_dim *shape = buffer->shape;
    char text[SHAPE_TEXT];
    if (!check_table(projection, buffer, &place))
        return;
    bool shaped = (buffer->rank == 2 || buffer->rank == 3) && !shape[0].var.name &&
                  shape[1].var.name && (buffer->rank == 2 || !shape[2].var.name);
    if (!shaped) {
        kern_place_fail(projection->diag, "P10", buffer->order, &place,
                        "a line table must be [number, axis] or [number, axis, number] with the "
                        "axis groups or ranks, not %s",
                        shape_text(buffer, text));
        return;
    }
    if (!check_var(projection, buffer, &shape[1], "line table", &place))
        return;
    enum kern_axis axis = axis_of(projection, &shape[1]);
    if (axis == KERN_AXIS_ROWS) {
        kern_place_fail(projection->diag, "P11", buffer->order, &place,
                        "a line table over the rows; the lines of a state belong to sequences, so "
                        "it must be over groups or ranks");
        return;
    }
    tables[projection->serving->n_line_tables++] = (struct kern_line_table){
        .buffer = index,
        .state = buffer->domain->index_into.index,
        .lines = shape[0].extent,
        .width = buffer->rank == 3 ? shape[2].extent : 1,
        .axis = axis,
        .bytes = buffer->domain->stride,
    };
}

void kern_project_buffers(struct kern_projection *projection)
{
    const struct kern_manifest *manifest = projection->manifest;
    struct kern_serving *serving = projection->serving;
    struct kern_page_table *pages =
        kern_arena_array(&serving->arena, manifest->n_buffers, sizeof *pages);
    struct kern_line_table *lines =
        kern_arena_array(&serving->arena, manifest->n_buffers, sizeof *lines);
    for (uint32_t b = 0; b < manifest->n_buffers; b++) {
        const struct kern_buffer *buffer = &manifest->buffers[b];
        if (buffer->fill != KERN_FILL_NONE) {
            add_role(projection, b);
        } else if (buffer->kind == KERN_INPUT && buffer->domain &&
                   buffer->domain->target == KERN_TARGET_STATE) {
            if (manifest->states[buffer->domain->index_into.index].bytes_per_seq)
                add_line_table(projection, b, lines);
            else
                add_page_table(projection, b, pages);
        }
    }
    serving->page_tables = pages;
    serving->line_tables = lines;
}
