// SPDX-License-Identifier: Apache-2.0
//
// V-DOMAIN: what a buffer may hold.
#include <inttypes.h>
#include <math.h>

#include "manifest/verify.h"

// The value of a bound at the corner [vars]; long double holds every 64-bit integer. [bound] is
// declared and, an expression, has a value at every corner.
static long double value_at(const struct kern_bound *bound, const uint64_t *vars)
{
    if (bound->kind == KERN_BOUND_INT)
        return (long double)bound->integer;
    if (bound->kind == KERN_BOUND_FLOAT)
        return (long double)bound->real;
    uint64_t value = 0;
    kern_expr_value(bound->expr, vars, &value);
    return (long double)value;
}

static bool is_fractional(const struct kern_bound *bound)
{
    return bound->kind == KERN_BOUND_FLOAT &&
           (bound->real != floor(bound->real) || fabs(bound->real) >= 0x1p63);
}

// Whether a bound can be compared with the other at both corners.
static bool check_bound(struct kern_verify *verify, const struct kern_buffer *buffer,
                        const struct kern_bound *bound, const struct kern_place *place)
{
    if (bound->kind == KERN_BOUND_NONE)
        return false;
    if (is_fractional(bound) && !kern_dtype_is_float(buffer->dtype))
        return kern_place_fail(verify->diag, "V-DOMAIN", buffer->domain->order, place,
                               "%g is no 64-bit integer, and the buffer is %s", bound->real,
                               kern_dtype_name(buffer->dtype));
    uint64_t value;
    return bound->kind != KERN_BOUND_EXPR ||
           kern_expr_high(verify, bound->expr, buffer->domain->order, place, &value);
}

static void check_bounds(struct kern_verify *verify, const struct kern_buffer *buffer,
                         const struct kern_place *place)
{
    const struct kern_domain *domain = buffer->domain;
    struct kern_place min = kern_place_member(place, "min");
    struct kern_place max = kern_place_member(place, "max");
    bool has_min = check_bound(verify, buffer, &domain->min, &min);
    bool has_max = check_bound(verify, buffer, &domain->max, &max);
    if (!has_min || !has_max)
        return;
    const uint64_t *const corners[] = {verify->low, verify->high};
    static const char *const names[] = {"1", "their max"};
    for (size_t i = 0; i < 2; i++) {
        long double from = value_at(&domain->min, corners[i]);
        long double to = value_at(&domain->max, corners[i]);
        if (from > to) {
            kern_place_fail(verify->diag, "V-DOMAIN", domain->order, place,
                            "min is %Lg and max %Lg with the vars at %s; nothing lies between",
                            from, to, names[i]);
            return;
        }
    }
}

static void check_index(struct kern_verify *verify, const struct kern_buffer *buffer,
                        const struct kern_place *place)
{
    const struct kern_domain *domain = buffer->domain;
    struct kern_place into = kern_place_member(place, "index_into");
    struct kern_place stride = kern_place_member(place, "stride");
    if (domain->min.kind != KERN_BOUND_NONE || domain->max.kind != KERN_BOUND_NONE)
        kern_place_fail(verify->diag, "V-DOMAIN", domain->order, place,
                        "index_into gives the bounds; min and max cannot stand beside it");
    if (kern_dtype_is_float(buffer->dtype))
        kern_place_fail(verify->diag, "V-DOMAIN", domain->order, &into,
                        "an index is an integer, and the buffer is %s",
                        kern_dtype_name(buffer->dtype));
    if (domain->target != KERN_TARGET_STATE || domain->stride == 0)
        return;
    uint64_t bytes = verify->manifest->states[domain->index_into.index].bytes_per_seq;
    if (bytes % domain->stride != 0)
        kern_place_fail(verify->diag, "V-DOMAIN", domain->order, &stride,
                        "lines of %" PRIu64 " bytes do not divide the %" PRIu64
                        " bytes_per_seq of \"%s\"",
                        domain->stride, bytes, domain->index_into.name);
}

static void check_domain(struct kern_verify *verify, const struct kern_buffer *buffer,
                         const struct kern_place *place)
{
    const struct kern_domain *domain = buffer->domain;
    struct kern_place stride = kern_place_member(place, "stride");
    struct kern_place monotone = kern_place_member(place, "monotone");
    bool bounded = domain->min.kind != KERN_BOUND_NONE || domain->max.kind != KERN_BOUND_NONE;
    if (!domain->index_into.name && !bounded && !domain->monotone)
        kern_place_fail(verify->diag, "V-DOMAIN", domain->order, place,
                        "the domain says nothing; declare min, max, index_into or monotone");
    if (domain->stride == 0)
        kern_place_fail(verify->diag, "V-DOMAIN", domain->order, &stride,
                        "the stride is 0; it must be at least 1");
    else if (domain->stride > 1 && !domain->index_into.name)
        kern_place_fail(verify->diag, "V-DOMAIN", domain->order, &stride,
                        "a stride of %" PRIu64 " without index_into strides over nothing",
                        domain->stride);
    if (domain->monotone && buffer->rank > 1)
        kern_place_fail(verify->diag, "V-DOMAIN", domain->order, &monotone,
                        "only a buffer of one dimension is monotone; this one has %zu",
                        buffer->rank);
    if (domain->index_into.name)
        check_index(verify, buffer, place);
    else
        check_bounds(verify, buffer, place);
}

void kern_rules_domain(struct kern_verify *verify)
{
    struct kern_place buffers = kern_place_member(NULL, "buffers");
    for (uint32_t i = 0; i < verify->manifest->n_buffers; i++) {
        const struct kern_buffer *buffer = &verify->manifest->buffers[i];
        // That a peer buffer has none is V-PEER.
        if (!buffer->domain || buffer->kind == KERN_PEER)
            continue;
        struct kern_place place = kern_place_member(&buffers, buffer->name);
        struct kern_place domain = kern_place_member(&place, "domain");
        check_domain(verify, buffer, &domain);
    }
}
