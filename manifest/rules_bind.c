// SPDX-License-Identifier: Apache-2.0
//
// V-BIND and V-PLACE: what a buffer is assembled from and where it lies.
#include <inttypes.h>

#include "manifest/verify.h"

// The members of a group, 0 if it is unknown or empty.
static uint64_t members_of(const struct kern_verify *verify, const struct kern_ref *group)
{
    return group->index == KERN_NONE ? 0 : verify->manifest->groups[group->index].size;
}

static void check_count(struct kern_verify *verify, const struct kern_ref *group, size_t count,
                        uint64_t order, const struct kern_place *place)
{
    uint64_t members = members_of(verify, group);
    if (members && count != members)
        kern_place_fail(verify->diag, "V-BIND", order, place,
                        "%zu entr%s for the %" PRIu64 " member%s of \"%s\"; there must be one for "
                        "each",
                        count, count == 1 ? "y" : "ies", members, kern_plural(members),
                        group->name);
}

static void check_tensor(struct kern_verify *verify, const struct kern_tensor_source *tensor,
                         uint64_t order, const struct kern_place *place)
{
    if (!tensor->group.name) {
        if (!*tensor->name)
            kern_place_fail(verify->diag, "V-BIND", order, place, "the tensor's name is empty");
        return;
    }
    check_count(verify, &tensor->group, tensor->count, order, place);
    for (size_t i = 0; i < tensor->count; i++) {
        struct kern_place name = kern_place_element(place, i);
        if (!*tensor->names[i])
            kern_place_fail(verify->diag, "V-BIND", order, &name, "the tensor's name is empty");
    }
}

static void check_ranges(struct kern_verify *verify, const struct kern_ranges *ranges,
                         uint64_t order, const struct kern_place *place)
{
    if (ranges->group.name)
        check_count(verify, &ranges->group, ranges->count, order, place);
    for (size_t i = 0; i < ranges->count; i++) {
        struct kern_place range = kern_place_element(place, i);
        if (ranges->ranges[i][0] >= ranges->ranges[i][1])
            kern_place_fail(verify->diag, "V-BIND", order, ranges->group.name ? &range : place,
                            "the range [%" PRIu64 ", %" PRIu64 ") is empty; it is half open, so "
                            "from must be less than to",
                            ranges->ranges[i][0], ranges->ranges[i][1]);
    }
}

static void check_segment(struct kern_verify *verify, const struct kern_segment *segment,
                          const struct kern_place *place)
{
    struct kern_place tensor = kern_place_member(place, "tensor");
    struct kern_place rows = kern_place_member(place, "rows");
    struct kern_place cols = kern_place_member(place, "cols");
    check_tensor(verify, &segment->tensor, segment->order, &tensor);
    if (segment->rows)
        check_ranges(verify, segment->rows, segment->order, &rows);
    if (segment->cols)
        check_ranges(verify, segment->cols, segment->order, &cols);
    if (!segment->interleave)
        return;

    struct kern_place interleave = kern_place_member(place, "interleave");
    struct kern_place with = kern_place_member(&interleave, "with");
    struct kern_place block = kern_place_member(&interleave, "rows");
    check_tensor(verify, segment->interleave, segment->order, &with);
    if (segment->interleave_rows == 0)
        kern_place_fail(verify->diag, "V-BIND", segment->order, &block,
                        "blocks of 0 rows; they must have at least 1");
    if (segment->rows || segment->cols)
        kern_place_fail(verify->diag, "V-BIND", segment->order, segment->rows ? &rows : &cols,
                        "an interleaved segment takes both tensors whole, without rows and cols");
}

static bool is_ranked(const struct kern_segment *segment)
{
    return segment->tensor.group.name || (segment->rows && segment->rows->group.name) ||
           (segment->cols && segment->cols->group.name) ||
           (segment->interleave && segment->interleave->group.name);
}

static void check_placement(struct kern_verify *verify, const struct kern_buffer *buffer,
                            const struct kern_place *buffer_place)
{
    struct kern_place place = kern_place_member(buffer_place, "placement");
    struct kern_place bind = kern_place_member(buffer_place, "bind");
    if (buffer->kind != KERN_WEIGHT) {
        kern_place_fail(verify->diag, "V-PLACE", buffer->order, &place,
                        "only a weight may lie in host memory; this is of kind %s",
                        kern_buffer_kind_name(buffer->kind));
        return;
    }
    if (buffer->exported)
        kern_place_fail(verify->diag, "V-PLACE", buffer->order, &place,
                        "host memory cannot be exported; drop the export or the placement");
    for (size_t i = 0; i < buffer->n_bind; i++) {
        struct kern_place segment = kern_place_element(&bind, i);
        if (is_ranked(&buffer->bind[i]))
            kern_place_fail(verify->diag, "V-PLACE", buffer->bind[i].order, &segment,
                            "the ranks of a node share one copy in host memory, so nothing in it "
                            "may be selected by rank");
    }
}

void kern_rules_bind(struct kern_verify *verify)
{
    struct kern_place buffers = kern_place_member(NULL, "buffers");
    for (uint32_t i = 0; i < verify->manifest->n_buffers; i++) {
        const struct kern_buffer *buffer = &verify->manifest->buffers[i];
        struct kern_place place = kern_place_member(&buffers, buffer->name);
        struct kern_place bind = kern_place_member(&place, "bind");
        bool binds = buffer->kind == KERN_WEIGHT || buffer->kind == KERN_SOURCE;
        if (binds && buffer->n_bind == 0)
            kern_place_fail(verify->diag, "V-BIND", buffer->order, &place,
                            "a %s binds at least one tensor; this one binds none",
                            kern_buffer_kind_name(buffer->kind));
        if (!binds && buffer->n_bind > 0)
            kern_place_fail(verify->diag, "V-BIND", buffer->order, &bind,
                            "only a weight or source binds tensors; this is of kind %s",
                            kern_buffer_kind_name(buffer->kind));
        for (size_t j = 0; j < buffer->n_bind; j++) {
            struct kern_place segment = kern_place_element(&bind, j);
            check_segment(verify, &buffer->bind[j], &segment);
        }
        if (buffer->placement == KERN_ON_HOST)
            check_placement(verify, buffer, &place);
    }
}
