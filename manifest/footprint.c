// SPDX-License-Identifier: Apache-2.0
#include "manifest/footprint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "manifest/place.h"
#include "manifest/sources.h"

// Slots beyond one per sequence: slot 0, which kernels may treat as a null line and which is never
// given to a sequence, and one for the padding of a batch.
enum { EXTRA_SLOTS = 2 };

const char *kern_memory_kind_name(enum kern_memory_kind kind)
{
    static const char *const names[] = {
        [KERN_MEMORY_WEIGHTS] = "weights", [KERN_MEMORY_WORKSPACE] = "workspace",
        [KERN_MEMORY_CARRY] = "carry",     [KERN_MEMORY_IO] = "io",
        [KERN_MEMORY_PEER] = "peer",       [KERN_MEMORY_SCRATCH] = "scratch",
        [KERN_MEMORY_STATES] = "states",
    };
    return names[kind];
}

static uint64_t greatest_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

// A line of a per-sequence state counts bytes, so its stride says nothing of pages.
static bool indexes_pages(const struct kern_manifest *manifest, const struct kern_domain *domain)
{
    if (!domain || domain->target != KERN_TARGET_STATE)
        return false;
    const struct kern_state *state = &manifest->states[domain->index_into.index];
    return !state->host && state->bytes_per_seq == 0;
}

static bool find_page(const struct kern_manifest *manifest, uint64_t *page, struct kern_diag *diag)
{
    *page = 1;
    for (uint32_t b = 0; b < manifest->n_buffers; b++) {
        const struct kern_domain *domain = manifest->buffers[b].domain;
        if (!indexes_pages(manifest, domain))
            continue;
        uint64_t factor = domain->stride / greatest_divisor(*page, domain->stride);
        if (__builtin_mul_overflow(*page, factor, page))
            return kern_fail(diag, KERN_EXIT_MANIFEST, NULL,
                             "the strides of the indices into paged states have no common "
                             "multiple below 2^64");
    }
    return true;
}

bool kern_provision_plan(const struct kern_manifest *manifest, uint64_t capacity, uint64_t seqs,
                         struct kern_provision_plan *plan, struct kern_diag *diag)
{
    uint64_t rounded;
    if (!find_page(manifest, &plan->page, diag))
        return false;
    if (__builtin_add_overflow(capacity, plan->page - 1, &rounded) ||
        __builtin_add_overflow(seqs, EXTRA_SLOTS, &plan->slots))
        return kern_fail(diag, KERN_EXIT_USAGE, NULL,
                         "a capacity of %" PRIu64 " tokens for %" PRIu64
                         " sequences is beyond 64 bits",
                         capacity, seqs);
    plan->tokens = rounded - rounded % plan->page;
    return true;
}

bool kern_state_bytes(const struct kern_state *state, const struct kern_provision_plan *plan,
                      uint64_t *bytes, struct kern_diag *diag)
{
    struct kern_place states = kern_place_member(NULL, "states");
    struct kern_place member = kern_place_member(&states, state->name);
    char place[KERN_PLACE_MAX];
    kern_place_text(&member, place);
    if (state->host)
        return kern_fail(diag, KERN_EXIT_USAGE, place,
                         "a state with a host layout lives in memory of an embedding program, and "
                         "there is none; declare bytes, bytes_per_token or bytes_per_seq");
    uint64_t unit = state->bytes, count = 1;
    const char *what = "bytes";
    if (state->bytes_per_token != 0) {
        unit = state->bytes_per_token;
        count = plan->tokens;
        what = "tokens";
    } else if (state->bytes_per_seq != 0) {
        unit = state->bytes_per_seq;
        count = plan->slots;
        what = "sequence slots";
    }
    if (count == 0 || __builtin_mul_overflow(unit, count, bytes))
        return kern_fail(diag, KERN_EXIT_USAGE, place,
                         "%" PRIu64 " %s of %" PRIu64 " bytes each cannot be provisioned", count,
                         what, unit);
    return true;
}

bool kern_state_is_exported(const struct kern_manifest *manifest, uint32_t state)
{
    for (uint32_t b = 0; b < manifest->n_buffers; b++) {
        const struct kern_buffer *buffer = &manifest->buffers[b];
        if (buffer->kind == KERN_PEER && buffer->of_target == KERN_TARGET_STATE &&
            buffer->of.index == state)
            return true;
    }
    return false;
}

static bool too_much(struct kern_diag *diag)
{
    return kern_fail(diag, KERN_EXIT_USAGE, NULL, "all memory together exceeds 64 bits");
}

// What [bytes] come to in granules.
static bool round_up(uint64_t bytes, uint64_t *taken, struct kern_diag *diag)
{
    if (__builtin_add_overflow(bytes, KERN_GRANULE - 1, taken))
        return too_much(diag);
    *taken -= *taken % KERN_GRANULE;
    return true;
}

static bool add_item(struct kern_footprint *footprint, struct kern_memory_item *items,
                     struct kern_memory_item item, struct kern_diag *diag)
{
    bool mapped = item.exported || item.kind == KERN_MEMORY_STATES;
    item.taken = item.bytes;
    if (mapped && !round_up(item.bytes, &item.taken, diag))
        return false;
    if (__builtin_add_overflow(footprint->total, item.taken, &footprint->total))
        return too_much(diag);
    footprint->taken[item.kind] += item.taken;
    footprint->count[item.kind]++;
    footprint->exported += item.exported ? item.taken : 0;
    items[footprint->n_items++] = item;
    return true;
}

static bool add_buffer(struct kern_footprint *footprint, struct kern_memory_item *items,
                       const struct kern_buffer *buffer, struct kern_diag *diag)
{
    static const enum kern_memory_kind kinds[] = {
        [KERN_INPUT] = KERN_MEMORY_IO,       [KERN_OUTPUT] = KERN_MEMORY_IO,
        [KERN_INOUT] = KERN_MEMORY_IO,       [KERN_WEIGHT] = KERN_MEMORY_WEIGHTS,
        [KERN_CARRY] = KERN_MEMORY_CARRY,    [KERN_WORKSPACE] = KERN_MEMORY_WORKSPACE,
        [KERN_PEER] = KERN_MEMORY_PEER,
    };
    if (buffer->kind == KERN_SOURCE)
        return true;
    if (buffer->placement == KERN_ON_HOST)
        return !__builtin_add_overflow(footprint->host_weights, buffer->bytes,
                                       &footprint->host_weights) ||
               too_much(diag);
    struct kern_memory_item item = {
        .kind = kinds[buffer->kind],
        .name = buffer->name,
        .bytes = buffer->bytes,
        .exported = buffer->exported,
    };
    if (!add_item(footprint, items, item, diag))
        return false;
    // Bounded by the total, which did not overflow.
    footprint->staging += item.kind == KERN_MEMORY_IO ? item.bytes : 0;
    return true;
}

static bool add_scratch(struct kern_footprint *footprint, struct kern_memory_item *items,
                        const struct kern_op *op, struct kern_diag *diag)
{
    for (size_t s = 0; s < op->n_scratch; s++) {
        struct kern_memory_item item = {
            .kind = KERN_MEMORY_SCRATCH,
            .op = op->name,
            .name = op->scratch[s].name,
            .bytes = op->scratch[s].bytes,
        };
        if (!add_item(footprint, items, item, diag))
            return false;
    }
    return true;
}

static bool add_state(struct kern_footprint *footprint, struct kern_memory_item *items,
                      const struct kern_manifest *manifest, uint32_t index, struct kern_diag *diag)
{
    const struct kern_state *state = &manifest->states[index];
    struct kern_memory_item item = {
        .kind = KERN_MEMORY_STATES,
        .name = state->name,
        .exported = kern_state_is_exported(manifest, index),
    };
    return kern_state_bytes(state, &footprint->provision, &item.bytes, diag) &&
           add_item(footprint, items, item, diag);
}

// Sources share an area of the device, and each buffer that is loaded passes through one of two
// slots as large as the largest.
static bool add_loading(struct kern_footprint *footprint, const struct kern_manifest *manifest,
                        struct kern_diag *diag)
{
    struct kern_source_area area;
    uint64_t largest = 0;
    if (!kern_sources_place(manifest, &footprint->arena, &area, diag))
        return false;
    footprint->sources = area.bytes;
    for (size_t i = 0; i < area.count; i++) {
        uint64_t bytes = manifest->buffers[area.windows[i].buffer].bytes;
        largest = bytes > largest ? bytes : largest;
    }
    for (size_t i = 0; i < footprint->n_items; i++) {
        const struct kern_memory_item *item = &footprint->items[i];
        if (item->kind == KERN_MEMORY_WEIGHTS && item->bytes > largest)
            largest = item->bytes;
    }
    return !__builtin_mul_overflow(largest, 2u, &footprint->upload) || too_much(diag);
}

static int largest_first(const void *a, const void *b)
{
    const struct kern_memory_item *x = a, *y = b;
    if (x->taken != y->taken)
        return x->taken > y->taken ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    int order = strcmp(x->op ? x->op : "", y->op ? y->op : "");
    return order ? order : strcmp(x->name, y->name);
}

static bool add_all(struct kern_footprint *footprint, const struct kern_manifest *manifest,
                    struct kern_diag *diag)
{
    size_t most = (size_t)manifest->n_buffers + manifest->n_states;
    for (uint32_t o = 0; o < manifest->n_ops; o++)
        most += manifest->ops[o].n_scratch;
    struct kern_memory_item *items = kern_arena_array(&footprint->arena, most, sizeof *items);
    footprint->items = items;
    for (uint32_t b = 0; b < manifest->n_buffers; b++)
        if (!add_buffer(footprint, items, &manifest->buffers[b], diag))
            return false;
    for (uint32_t o = 0; o < manifest->n_ops; o++)
        if (!add_scratch(footprint, items, &manifest->ops[o], diag))
            return false;
    for (uint32_t s = 0; s < manifest->n_states; s++)
        if (!add_state(footprint, items, manifest, s, diag))
            return false;
    qsort(items, footprint->n_items, sizeof *items, largest_first);
    return add_loading(footprint, manifest, diag);
}

bool kern_footprint_plan(const struct kern_manifest *manifest, uint64_t capacity, uint64_t seqs,
                         struct kern_footprint *footprint, struct kern_diag *diag)
{
    *footprint = (struct kern_footprint){0};
    if (kern_provision_plan(manifest, capacity, seqs, &footprint->provision, diag) &&
        add_all(footprint, manifest, diag))
        return true;
    kern_footprint_free(footprint);
    return false;
}

void kern_footprint_free(struct kern_footprint *footprint)
{
    kern_arena_free(&footprint->arena);
    *footprint = (struct kern_footprint){0};
}
