// SPDX-License-Identifier: Apache-2.0
//
// What a buffer is assembled from: tensors, ranges of them, and how two are interleaved.
#include "manifest/parse.h"

static bool read_names(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_items list = {
        .what = "a list of tensors", .size = sizeof(const char *), .read = kern_read_string};
    struct kern_tensor_source *source = into;
    return kern_read_list(reader, node, &list, &source->names, &source->count);
}

// A tensor's name, or one per member of a group.
static bool read_source(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_key table[] = {
        KERN_KEY("group", KERN_REQUIRED, offsetof(struct kern_tensor_source, group), kern_read_ref),
        KERN_KEY("tensors", KERN_REQUIRED, 0, read_names),
    };
    static const struct kern_keys keys = KERN_KEYS("a tensor per rank", table);
    struct kern_tensor_source *source = into;
    uint32_t present;
    source->group.index = KERN_NONE;
    if (node->json->kind == KERN_JSON_STRING)
        return kern_read_string(reader, node, &source->name);
    if (node->json->kind == KERN_JSON_OBJECT)
        return kern_read_object(reader, node, &keys, source, &present);
    return kern_refuse_type(reader, node,
                            "a tensor: its name, or an object with \"group\" and \"tensors\"");
}

static bool read_range(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    return kern_read_u64_pair(reader, node, "the first index and the one behind the last", into);
}

static bool read_range_list(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_items list = {
        .what = "a list of ranges", .size = sizeof(uint64_t[2]), .read = read_range};
    struct kern_ranges *ranges = into;
    return kern_read_list(reader, node, &list, &ranges->ranges, &ranges->count);
}

static bool read_ranges(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_key table[] = {
        KERN_KEY("group", KERN_REQUIRED, offsetof(struct kern_ranges, group), kern_read_ref),
        KERN_KEY("ranges", KERN_REQUIRED, 0, read_range_list),
    };
    static const struct kern_keys keys = KERN_KEYS("a range per rank", table);
    struct kern_ranges *ranges = kern_arena_alloc(reader->arena, sizeof *ranges);
    uint32_t present;
    *(const struct kern_ranges **)into = ranges;
    ranges->group.index = KERN_NONE;
    if (node->json->kind == KERN_JSON_OBJECT)
        return kern_read_object(reader, node, &keys, ranges, &present);
    if (node->json->kind != KERN_JSON_ARRAY)
        return kern_refuse_type(
            reader, node,
            "a range: two numbers in an array, or an object with \"group\" and \"ranges\"");
    uint64_t(*range)[2] = kern_arena_alloc(reader->arena, sizeof *range);
    ranges->ranges = (const uint64_t(*)[2])range;
    ranges->count = 1;
    return read_range(reader, node, range);
}

static bool read_with(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    struct kern_segment *segment = into;
    struct kern_tensor_source *source = kern_arena_alloc(reader->arena, sizeof *source);
    segment->interleave = source;
    return read_source(reader, node, source);
}

static bool read_interleave(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_key table[] = {
        KERN_KEY("with", KERN_REQUIRED, 0, read_with),
        KERN_KEY("rows", KERN_REQUIRED, offsetof(struct kern_segment, interleave_rows),
                 kern_read_u64),
    };
    static const struct kern_keys keys = KERN_KEYS("an interleave", table);
    uint32_t present;
    return kern_read_object(reader, node, &keys, into, &present);
}

bool kern_read_segment(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_key table[] = {
        KERN_KEY("tensor", KERN_REQUIRED, offsetof(struct kern_segment, tensor), read_source),
        KERN_KEY("rows", KERN_NULLABLE, offsetof(struct kern_segment, rows), read_ranges),
        KERN_KEY("cols", KERN_NULLABLE, offsetof(struct kern_segment, cols), read_ranges),
        KERN_KEY("interleave", KERN_NULLABLE, 0, read_interleave),
    };
    static const struct kern_keys keys = KERN_KEYS("a segment", table);
    struct kern_segment *segment = into;
    uint32_t present;
    segment->order = node->json->at;
    return kern_read_object(reader, node, &keys, segment, &present);
}
