// SPDX-License-Identifier: Apache-2.0
#include "tests/manifest_same.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

// Of the two things [a] and [b] of one struct.
#define SAME(member) assert_true(a->member == b->member)
#define SAME_TEXT(member) same_text(a->member, b->member)
#define SAME_REF(member) same_ref(&a->member, &b->member)
#define SAME_EACH(items, count, same_one)                                                          \
    do {                                                                                           \
        assert_int_equal(a->count, b->count);                                                      \
        for (size_t i = 0; i < a->count; i++)                                                      \
            same_one(&a->items[i], &b->items[i]);                                                  \
    } while (0)
#define SAME_BYTES(items, count)                                                                   \
    do {                                                                                           \
        assert_int_equal(a->count, b->count);                                                      \
        if (a->count)                                                                              \
            assert_memory_equal(a->items, b->items, a->count * sizeof *a->items);                  \
    } while (0)
// An optional part: both have it, and it is the same, or neither has.
#define SAME_PART(member, same_one)                                                                \
    do {                                                                                           \
        assert_int_equal(a->member == NULL, b->member == NULL);                                    \
        if (a->member)                                                                             \
            same_one(a->member, b->member);                                                        \
    } while (0)

static void same_text(const char *a, const char *b)
{
    assert_int_equal(a == NULL, b == NULL);
    if (a)
        assert_string_equal(a, b);
}

static void same_ref(const struct kern_ref *a, const struct kern_ref *b)
{
    SAME_TEXT(name);
    SAME(index);
}

static void same_dim(const struct kern_dim *a, const struct kern_dim *b)
{
    SAME_REF(var);
    SAME(extent);
}

static void same_expr(const struct kern_expr *a, const struct kern_expr *b)
{
    SAME(kind);
    SAME_REF(var);
    SAME(value);
    SAME(length);
    SAME_PART(a, same_expr);
    SAME_PART(b, same_expr);
}

static void same_bound(const struct kern_bound *a, const struct kern_bound *b)
{
    SAME(kind);
    SAME(integer);
    SAME(real);
    SAME_PART(expr, same_expr);
}

static void same_domain(const struct kern_domain *a, const struct kern_domain *b)
{
    same_bound(&a->min, &b->min);
    same_bound(&a->max, &b->max);
    SAME_REF(index_into);
    SAME(target);
    SAME(stride);
    SAME(monotone);
}

static void same_source(const struct kern_tensor_source *a, const struct kern_tensor_source *b)
{
    SAME_TEXT(name);
    SAME_REF(group);
    SAME(count);
    for (size_t i = 0; i < a->count; i++)
        SAME_TEXT(names[i]);
}

static void same_ranges(const struct kern_ranges *a, const struct kern_ranges *b)
{
    SAME_REF(group);
    SAME_BYTES(ranges, count);
}

static void same_segment(const struct kern_segment *a, const struct kern_segment *b)
{
    same_source(&a->tensor, &b->tensor);
    SAME_PART(rows, same_ranges);
    SAME_PART(cols, same_ranges);
    SAME_PART(interleave, same_source);
    SAME(interleave_rows);
}

static void same_buffer(const struct kern_buffer *a, const struct kern_buffer *b)
{
    SAME_TEXT(name);
    SAME(dtype);
    SAME(kind);
    SAME_EACH(shape, rank, same_dim);
    SAME(fill);
    SAME(placement);
    SAME(exported);
    SAME_PART(domain, same_domain);
    SAME_EACH(bind, n_bind, same_segment);
    SAME_REF(of);
    SAME(of_target);
    SAME_REF(group);
    SAME(bytes);
}

static void same_host(const struct kern_host_layout *a, const struct kern_host_layout *b)
{
    SAME(dtype);
    SAME_BYTES(shape, rank);
    SAME_BYTES(strides, n_strides);
}

static void same_shard(const struct kern_shard *a, const struct kern_shard *b)
{
    SAME(by);
    SAME_REF(group);
    SAME_BYTES(segments, n_segments);
}

static void same_state(const struct kern_state *a, const struct kern_state *b)
{
    SAME_TEXT(name);
    SAME(bytes_per_token);
    SAME(bytes_per_seq);
    SAME(bytes);
    SAME_PART(host, same_host);
    SAME_PART(shard, same_shard);
}

static void same_param(const struct kern_param *a, const struct kern_param *b)
{
    SAME(kind);
    SAME(direction);
    SAME(dtype);
    SAME(bytes);
}

static void same_scratch(const struct kern_scratch *a, const struct kern_scratch *b)
{
    SAME_TEXT(name);
    SAME(dtype);
    SAME_EACH(shape, rank, same_dim);
    SAME(bytes);
}

static void same_tensormap(const struct kern_tensormap *a, const struct kern_tensormap *b)
{
    SAME(param);
    SAME(dtype);
    SAME_BYTES(dims, n_dims);
    SAME_BYTES(strides, n_strides);
    SAME_BYTES(box, n_box);
    SAME(swizzle);
    SAME(l2_promotion);
    SAME(oob_nan);
    SAME(wrap);
}

static void same_value(const struct kern_value *a, const struct kern_value *b);

static void same_field(const struct kern_field *a, const struct kern_field *b)
{
    same_value(&a->value, &b->value);
    SAME(at);
    SAME(width);
    SAME(has_width);
}

static void same_pack(const struct kern_pack *a, const struct kern_pack *b)
{
    SAME(size);
    SAME_EACH(fields, n_fields, same_field);
}

static void same_value(const struct kern_value *a, const struct kern_value *b)
{
    SAME(kind);
    SAME_REF(ref);
    switch (a->kind) {
    case KERN_VALUE_EXPR:
        same_expr(a->expr, b->expr);
        break;
    case KERN_VALUE_PACK:
        same_pack(a->pack, b->pack);
        break;
    case KERN_VALUE_TENSORMAP:
        same_tensormap(a->tensormap, b->tensormap);
        break;
    case KERN_VALUE_F32:
        // The bits: a zero has a sign.
        assert_memory_equal(&a->real, &b->real, sizeof a->real);
        break;
    default:
        SAME(offset);
    }
}

static void same_when(const struct kern_when *a, const struct kern_when *b)
{
    SAME_REF(var);
    SAME(min);
    SAME(max);
    SAME(has_min);
    SAME(has_max);
}

static void same_algo(const struct kern_gemm_algo *a, const struct kern_gemm_algo *b)
{
    SAME(id);
    SAME(tile);
    SAME(stages);
    SAME(split_k);
    SAME(reduction);
    SAME(swizzle);
    SAME(custom);
    SAME(inner_shape);
    SAME(cluster_shape);
}

static void same_launch(const struct kern_launch *a, const struct kern_launch *b)
{
    SAME(is_extern);
    SAME(builtin);
    SAME(builtin_dtype);
    SAME_REF(module);
    SAME_TEXT(entry);
    SAME_EACH(params, n_params, same_param);
    SAME_EACH(args, n_args, same_value);
    SAME(params_given);
    SAME(args_given);
    for (size_t axis = 0; axis < 3; axis++) {
        SAME(block[axis]);
        SAME(cluster[axis]);
        SAME_PART(grid[axis], same_expr);
    }
    SAME_PART(shared_mem, same_expr);
    SAME(has_cluster);
    SAME(pdl);
    SAME_PART(when, same_when);
    SAME_PART(algo, same_algo);
}

static void same_op(const struct kern_op *a, const struct kern_op *b)
{
    SAME_TEXT(name);
    SAME_EACH(params, n_params, same_param);
    SAME_EACH(scratch, n_scratch, same_scratch);
    SAME_EACH(launches, n_launches, same_launch);
}

static void same_call(const struct kern_call *a, const struct kern_call *b)
{
    SAME_TEXT(label);
    SAME_REF(op);
    SAME_EACH(args, n_args, same_value);
}

static void same_batch(const struct kern_batch *a, const struct kern_batch *b)
{
    SAME(groups);
    same_dim(&a->rows, &b->rows);
    SAME_REF(context);
}

static void same_program(const struct kern_program *a, const struct kern_program *b)
{
    SAME_TEXT(name);
    SAME_EACH(calls, n_calls, same_call);
    SAME_PART(batch, same_batch);
    SAME(once);
    SAME(derive);
    SAME(graph);
}

static void same_var(const struct kern_var *a, const struct kern_var *b)
{
    SAME_TEXT(name);
    SAME(max);
    SAME(axis);
}

static void same_group(const struct kern_group *a, const struct kern_group *b)
{
    SAME_TEXT(name);
    SAME(size);
}

static void same_module(const struct kern_module *a, const struct kern_module *b)
{
    SAME_TEXT(name);
    SAME_TEXT(source);
    SAME_TEXT(sha256);
    assert_memory_equal(a->digest, b->digest, sizeof a->digest);
}

static void same_cut(const struct kern_cut *a, const struct kern_cut *b)
{
    SAME_TEXT(id);
    SAME(stage);
    SAME(stages);
}

void assert_same_manifest(const struct kern_manifest *a, const struct kern_manifest *b)
{
    SAME_TEXT(model);
    SAME_TEXT(tool_parser);
    SAME(has_chat);
    SAME(has_topology);
    SAME_PART(cut, same_cut);
    SAME_EACH(vars, n_vars, same_var);
    SAME_EACH(groups, n_groups, same_group);
    SAME_EACH(states, n_states, same_state);
    SAME_EACH(buffers, n_buffers, same_buffer);
    SAME_EACH(modules, n_modules, same_module);
    SAME_EACH(ops, n_ops, same_op);
    SAME_EACH(programs, n_programs, same_program);
    SAME(verified);
}
