// SPDX-License-Identifier: Apache-2.0
#include "rank/domain.h"

#include <inttypes.h>
#include <math.h>

#include "base/arena.h"
#include "rank/element.h"

static bool fail_bound(const struct kern_buffer *buffer, const char *what, struct kern_diag *diag)
{
    return kern_fail(diag, KERN_EXIT_ARTIFACT, buffer->name,
                     "%s of its domain is larger than 9223372036854775807 at these vars", what);
}

// Reads a declared bound into a double and, where it has one, its integer.
static bool read_bound(const struct kern_buffer *buffer, const struct kern_bound *bound,
                       const uint64_t *vars, const char *what, double *real, int64_t *integer,
                       bool *integral, struct kern_diag *diag)
{
    uint64_t value;
    switch (bound->kind) {
    case KERN_BOUND_NONE:
        return true;
    case KERN_BOUND_FLOAT:
        *real = bound->real;
        if (bound->real == trunc(bound->real) && fabs(bound->real) < 0x1p63)
            *integer = (int64_t)bound->real;
        else
            *integral = false;
        return true;
    case KERN_BOUND_INT:
        *integer = bound->integer;
        break;
    case KERN_BOUND_EXPR:
        if (!kern_expr_value(bound->expr, vars, &value) || value > INT64_MAX)
            return fail_bound(buffer, what, diag);
        *integer = (int64_t)value;
        break;
    }
    *real = (double)*integer;
    return true;
}

// A block of a host state is as long as the largest stride of an index into it: an index with that
// stride names blocks, one with less parts of them.
static uint64_t block_stride(const struct kern_manifest *manifest, uint32_t state)
{
    uint64_t largest = 1;
    for (uint32_t b = 0; b < manifest->n_buffers; b++) {
        const struct kern_domain *domain = manifest->buffers[b].domain;
        if (domain && domain->target == KERN_TARGET_STATE && domain->index_into.index == state &&
            domain->stride > largest)
            largest = domain->stride;
    }
    return largest;
}

// How many places the target of an index has, of which a stride spans several; [open]: only the
// host knows.
static bool count_places(const struct kern_manifest *manifest, const struct kern_domain *domain,
                         const uint64_t *vars, const struct kern_provision *provision,
                         uint64_t *places, bool *open)
{
    uint32_t index = domain->index_into.index;
    *open = false;
    if (domain->target == KERN_TARGET_BUFFER) {
        const struct kern_dim *rows = &manifest->buffers[index].shape[0];
        *places = rows->var.name ? vars[rows->var.index] : rows->extent;
        return true;
    }
    const struct kern_state *state = &manifest->states[index];
    if (state->host) {
        uint64_t blocks = provision->blocks ? provision->blocks[index] : 0;
        *open = blocks == 0;
        return !__builtin_mul_overflow(blocks, block_stride(manifest, index), places);
    }
    *places = provision->tokens;
    return state->bytes_per_seq == 0 ||
           !__builtin_mul_overflow(provision->slots, state->bytes_per_seq, places);
}

static bool index_range(const struct kern_manifest *manifest, const struct kern_buffer *buffer,
                        const uint64_t *vars, const struct kern_provision *provision,
                        struct kern_range *range, struct kern_diag *diag)
{
    uint64_t places;
    bool open;
    if (!count_places(manifest, buffer->domain, vars, provision, &places, &open))
        return fail_bound(buffer, "index_into", diag);
    // A target of less than one stride still has place 0.
    uint64_t strides = places / buffer->domain->stride, last = strides ? strides - 1 : 0;
    if (last > INT64_MAX)
        return fail_bound(buffer, "index_into", diag);
    range->has_lo = true;
    range->has_hi = !open;
    if (range->has_hi) {
        range->hi_integer = (int64_t)last;
        range->hi = (double)last;
    }
    return true;
}

// The bounds as text, "0..15", in the diag's arena.
static const char *range_text(const struct kern_range *range, struct kern_diag *diag)
{
    const char *lo = "", *hi = "";
    if (range->has_lo)
        lo = range->integral ? kern_arena_print(&diag->arena, "%" PRId64, range->lo_integer)
                             : kern_arena_print(&diag->arena, "%.9g", range->lo);
    if (range->has_hi)
        hi = range->integral ? kern_arena_print(&diag->arena, "%" PRId64, range->hi_integer)
                             : kern_arena_print(&diag->arena, "%.9g", range->hi);
    return kern_arena_print(&diag->arena, "%s..%s", lo, hi);
}

bool kern_domain_range(const struct kern_manifest *manifest, const struct kern_buffer *buffer,
                       const uint64_t *vars, const struct kern_provision *provision,
                       struct kern_range *range, struct kern_diag *diag)
{
    const struct kern_domain *domain = buffer->domain;
    *range = (struct kern_range){.integral = true};
    if (!domain)
        return true;
    range->monotone = domain->monotone;
    if (domain->index_into.name)
        return index_range(manifest, buffer, vars, provision, range, diag);
    range->has_lo = domain->min.kind != KERN_BOUND_NONE;
    range->has_hi = domain->max.kind != KERN_BOUND_NONE;
    if (!read_bound(buffer, &domain->min, vars, "min", &range->lo, &range->lo_integer,
                    &range->integral, diag) ||
        !read_bound(buffer, &domain->max, vars, "max", &range->hi, &range->hi_integer,
                    &range->integral, diag))
        return false;
    if (!range->has_lo || !range->has_hi ||
        (range->integral ? range->lo_integer <= range->hi_integer : range->lo <= range->hi))
        return true;
    return kern_fail(diag, KERN_EXIT_ARTIFACT, buffer->name,
                     "its domain is empty at these vars: %s", range_text(range, diag));
}

// The element as text for a message, in the diag's arena.
static const char *element_text(enum kern_dtype dtype, const void *bytes, size_t index,
                                struct kern_diag *diag)
{
    if (kern_dtype_is_float(dtype))
        return kern_arena_print(&diag->arena, "%.9g", kern_element_real(dtype, bytes, index));
    bool negative;
    uint64_t magnitude = kern_element_integer(dtype, bytes, index, &negative);
    return kern_arena_print(&diag->arena, "%s%" PRIu64, negative ? "-" : "", magnitude);
}

static __int128 integer_at(enum kern_dtype dtype, const void *bytes, size_t index)
{
    bool negative;
    __int128 magnitude = kern_element_integer(dtype, bytes, index, &negative);
    return negative ? -magnitude : magnitude;
}

// Whether the element lies within the bounds; a NaN does not. A verified integer buffer has
// integral bounds.
static bool is_inside(enum kern_dtype dtype, const void *bytes, size_t index,
                      const struct kern_range *range)
{
    if (kern_dtype_is_float(dtype)) {
        double value = kern_element_real(dtype, bytes, index);
        return !isnan(value) && (!range->has_lo || value >= range->lo) &&
               (!range->has_hi || value <= range->hi);
    }
    __int128 value = integer_at(dtype, bytes, index);
    return (!range->has_lo || value >= range->lo_integer) &&
           (!range->has_hi || value <= range->hi_integer);
}

static bool is_below_previous(enum kern_dtype dtype, const void *bytes, size_t index)
{
    if (kern_dtype_is_float(dtype))
        return kern_element_real(dtype, bytes, index) < kern_element_real(dtype, bytes, index - 1);
    return integer_at(dtype, bytes, index) < integer_at(dtype, bytes, index - 1);
}

bool kern_domain_check(const struct kern_manifest *manifest, const struct kern_buffer *buffer,
                       const void *bytes, size_t length, const uint64_t *vars,
                       const struct kern_provision *provision, struct kern_diag *diag)
{
    enum kern_dtype dtype = buffer->dtype;
    size_t width = kern_dtype_bytes(dtype);
    struct kern_range range;
    if (length % width != 0)
        return kern_fail(diag, KERN_EXIT_ARTIFACT, buffer->name,
                         "%zu bytes are no whole number of %s elements of %zu bytes", length,
                         kern_dtype_name(dtype), width);
    if (!buffer->domain)
        return true;
    if (!kern_domain_range(manifest, buffer, vars, provision, &range, diag))
        return false;
    for (size_t i = 0; i < length / width; i++) {
        if (!is_inside(dtype, bytes, i, &range))
            return kern_fail(diag, KERN_EXIT_ARTIFACT, buffer->name,
                             "element %zu is %s; its domain is %s", i,
                             element_text(dtype, bytes, i, diag), range_text(&range, diag));
        if (range.monotone && i > 0 && is_below_previous(dtype, bytes, i))
            return kern_fail(diag, KERN_EXIT_ARTIFACT, buffer->name,
                             "element %zu is %s, below element %zu, which is %s; its domain is "
                             "monotone",
                             i, element_text(dtype, bytes, i, diag), i - 1,
                             element_text(dtype, bytes, i - 1, diag));
    }
    return true;
}
