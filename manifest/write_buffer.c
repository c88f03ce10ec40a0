// SPDX-License-Identifier: Apache-2.0
#include "manifest/write_parts.h"

// A tensor's name, or one per member of a group.
static void write_tensor(struct kern_json *json, const struct kern_tensor_source *source)
{
    if (source->name) {
        kern_json_string(json, source->name);
        return;
    }
    kern_json_open(json, '{');
    kern_write_text(json, "group", source->group.name);
    kern_json_key(json, "tensors");
    kern_json_open(json, '[');
    for (size_t i = 0; i < source->count; i++)
        kern_json_string(json, source->names[i]);
    kern_json_close(json, ']');
    kern_json_close(json, '}');
}

static void write_ranges(struct kern_json *json, const char *key, const struct kern_ranges *ranges)
{
    if (!ranges)
        return;
    kern_json_key(json, key);
    if (!ranges->group.name) {
        kern_write_u64s(json, ranges->ranges[0], 2);
        return;
    }
    kern_json_open(json, '{');
    kern_write_text(json, "group", ranges->group.name);
    kern_json_key(json, "ranges");
    kern_write_pairs(json, ranges->ranges, ranges->count);
    kern_json_close(json, '}');
}

static void write_segment(struct kern_json *json, const struct kern_segment *segment)
{
    kern_json_open(json, '{');
    kern_json_key(json, "tensor");
    write_tensor(json, &segment->tensor);
    write_ranges(json, "rows", segment->rows);
    write_ranges(json, "cols", segment->cols);
    if (segment->interleave) {
        kern_json_key(json, "interleave");
        kern_json_open(json, '{');
        kern_json_key(json, "with");
        write_tensor(json, segment->interleave);
        kern_json_key(json, "rows");
        kern_json_u64(json, segment->interleave_rows);
        kern_json_close(json, '}');
    }
    kern_json_close(json, '}');
}

static void write_bound(struct kern_json *json, const char *key, const struct kern_bound *bound)
{
    if (bound->kind == KERN_BOUND_NONE)
        return;
    kern_json_key(json, key);
    if (bound->kind == KERN_BOUND_INT)
        kern_json_i64(json, bound->integer);
    else if (bound->kind == KERN_BOUND_FLOAT)
        kern_json_f64(json, bound->real);
    else
        kern_write_expr(json, bound->expr);
}

static void write_domain(struct kern_json *json, const struct kern_domain *domain)
{
    kern_json_open(json, '{');
    write_bound(json, "min", &domain->min);
    write_bound(json, "max", &domain->max);
    kern_write_text(json, "index_into", domain->index_into.name);
    kern_write_number(json, "stride", domain->stride, 1);
    kern_write_flag(json, "monotone", domain->monotone);
    kern_json_close(json, '}');
}

void kern_write_buffer(struct kern_json *json, const struct kern_buffer *buffer)
{
    kern_json_open(json, '{');
    kern_write_word(json, "dtype", &kern_dtype_words, buffer->dtype);
    kern_json_key(json, "shape");
    kern_write_shape(json, buffer->shape, buffer->rank);
    kern_write_word(json, "kind", &kern_kind_words, buffer->kind);
    if (buffer->fill != KERN_FILL_NONE)
        kern_write_word(json, "fill", &kern_fill_words, buffer->fill);
    if (buffer->placement != KERN_ON_DEVICE)
        kern_write_word(json, "placement", &kern_placement_words, buffer->placement);
    kern_write_flag(json, "export", buffer->exported);
    if (buffer->domain) {
        kern_json_key(json, "domain");
        write_domain(json, buffer->domain);
    }
    kern_write_text(json, "of", buffer->of.name);
    kern_write_text(json, "group", buffer->group.name);
    if (buffer->n_bind) {
        kern_json_key(json, "bind");
        kern_json_open(json, '[');
        for (size_t i = 0; i < buffer->n_bind; i++)
            write_segment(json, &buffer->bind[i]);
        kern_json_close(json, ']');
    }
    kern_json_close(json, '}');
}
