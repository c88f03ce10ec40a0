// SPDX-License-Identifier: Apache-2.0
//
// V-STATE and V-SHARD: the memory that outlives a run.
#include <inttypes.h>

#include "manifest/verify.h"

// Whether an outermost entry of [host] spans less than 2^64 bytes; all of them, where their number
// is declared.
static bool spans_64_bits(const struct kern_host_layout *host)
{
    uint64_t span = 1;
    for (size_t i = 0; i < host->rank; i++) {
        uint64_t steps = host->shape[i] ? host->shape[i] - 1 : 0;
        uint64_t reach;
        if (__builtin_mul_overflow(steps, host->strides[i], &reach) ||
            __builtin_add_overflow(span, reach, &span))
            return false;
    }
    return !__builtin_mul_overflow(span, kern_dtype_bytes(host->dtype), &span);
}

static void check_layout(struct kern_verify *verify, const struct kern_state *state,
                         const struct kern_place *place)
{
    const struct kern_host_layout *host = state->host;
    struct kern_place shape = kern_place_member(place, "shape");
    struct kern_place strides = kern_place_member(place, "strides");
    if (host->rank == 0) {
        kern_place_fail(verify->diag, "V-STATE", state->order, &shape,
                        "the layout has no extents; there must be at least one");
        return;
    }
    if (host->n_strides != host->rank) {
        kern_place_fail(verify->diag, "V-STATE", state->order, &strides,
                        "%zu stride%s for %zu extent%s; there must be one for each",
                        host->n_strides, kern_plural(host->n_strides), host->rank,
                        kern_plural(host->rank));
        return;
    }
    bool sound = true;
    for (size_t i = 0; i < host->rank; i++) {
        struct kern_place extent = kern_place_element(&shape, i);
        struct kern_place stride = kern_place_element(&strides, i);
        if (i > 0 && host->shape[i] == 0)
            sound = kern_place_fail(verify->diag, "V-STATE", state->order, &extent,
                                    "the extent is 0; only the outermost may be left open");
        if (host->strides[i] == 0)
            sound = kern_place_fail(verify->diag, "V-STATE", state->order, &stride,
                                    "the stride is 0; it must be at least 1 element");
    }
    if (sound && !spans_64_bits(host))
        kern_place_fail(verify->diag, "V-STATE", state->order, place,
                        "the layout spans 2^64 bytes or more");
}

static void check_state(struct kern_verify *verify, const struct kern_state *state,
                        const struct kern_place *place)
{
    int sizes = (state->bytes_per_token != 0) + (state->bytes_per_seq != 0) + (state->bytes != 0);
    struct kern_place host = kern_place_member(place, "host");
    if (state->host && sizes > 0)
        kern_place_fail(verify->diag, "V-STATE", state->order, place,
                        "a host layout and a size; memory that the host owns has no size here");
    else if (!state->host && sizes != 1)
        kern_place_fail(verify->diag, "V-STATE", state->order, place,
                        "%s of bytes_per_token, bytes_per_seq and bytes is set; it must be "
                        "exactly one, or a host layout",
                        sizes ? "more than one" : "none");
    if (state->host)
        check_layout(verify, state, &host);
}

static void check_segments(struct kern_verify *verify, const struct kern_state *state,
                           uint64_t members, const struct kern_place *shard)
{
    struct kern_place segments = kern_place_member(shard, "segments");
    uint64_t total = 0;
    uint64_t whole;
    bool overflow = __builtin_mul_overflow(members, state->bytes_per_seq, &whole);
    bool sound = true;
    for (size_t i = 0; i < state->shard->n_segments; i++) {
        uint64_t rows = state->shard->segments[i][0];
        uint64_t width = state->shard->segments[i][1];
        struct kern_place segment = kern_place_element(&segments, i);
        uint64_t bytes;
        if (rows == 0 || width == 0)
            sound = kern_place_fail(verify->diag, "V-SHARD", state->order, &segment,
                                    "%" PRIu64 " rows of %" PRIu64 " bytes; a segment is not empty",
                                    rows, width);
        else if (width % members != 0)
            sound =
                kern_place_fail(verify->diag, "V-SHARD", state->order, &segment,
                                "the width of %" PRIu64 " bytes must be a multiple of the %" PRIu64
                                " members of \"%s\"",
                                width, members, state->shard->group.name);
        overflow = __builtin_mul_overflow(rows, width, &bytes) ||
                   __builtin_add_overflow(total, bytes, &total) || overflow;
    }
    if (!sound)
        return;
    if (overflow)
        kern_place_fail(verify->diag, "V-SHARD", state->order, &segments,
                        "the bytes of the whole group exceed 64 bits");
    else if (total != whole)
        kern_place_fail(verify->diag, "V-SHARD", state->order, &segments,
                        "the segments have %" PRIu64 " bytes; %" PRIu64 " members of %" PRIu64
                        " bytes_per_seq have %" PRIu64,
                        total, members, state->bytes_per_seq, whole);
}

static void check_shard(struct kern_verify *verify, const struct kern_state *state,
                        const struct kern_place *place)
{
    struct kern_place shard = kern_place_member(place, "shard");
    struct kern_place by = kern_place_member(&shard, "by");
    if (state->shard->by == KERN_SHARD_BY_POSITION) {
        if (state->bytes_per_token == 0)
            kern_place_fail(verify->diag, "V-SHARD", state->order, &by,
                            "only a paged state (bytes_per_token) is dealt by position");
        return;
    }
    if (state->bytes_per_seq == 0) {
        kern_place_fail(verify->diag, "V-SHARD", state->order, &by,
                        "only a per-sequence state (bytes_per_seq) is split by heads");
        return;
    }
    uint32_t group = state->shard->group.index;
    if (group != KERN_NONE && verify->manifest->groups[group].size > 0)
        check_segments(verify, state, verify->manifest->groups[group].size, &shard);
}

void kern_rules_state(struct kern_verify *verify)
{
    struct kern_place states = kern_place_member(NULL, "states");
    for (uint32_t i = 0; i < verify->manifest->n_states; i++) {
        const struct kern_state *state = &verify->manifest->states[i];
        struct kern_place place = kern_place_member(&states, state->name);
        check_state(verify, state, &place);
        if (state->shard)
            check_shard(verify, state, &place);
    }
}
