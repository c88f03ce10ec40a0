// SPDX-License-Identifier: Apache-2.0
#include "manifest/footprint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "manifest/builtin.h"
#include "manifest/sources.h"

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

static bool too_much(struct kern_diag *diag)
{
    return kern_fail(diag, KERN_EXIT_USAGE, NULL, "all memory together exceeds 64 bits");
}

// What [bytes] come to in units of [unit].
static bool round_up(uint64_t bytes, uint64_t unit, uint64_t *taken, struct kern_diag *diag)
{
    if (__builtin_add_overflow(bytes, unit - 1, taken))
        return too_much(diag);
    *taken -= *taken % unit;
    return true;
}

// Adds an item that is allocated in units of [unit].
static bool add_item(struct kern_footprint *footprint, struct kern_memory_item *items,
                     struct kern_memory_item item, uint64_t unit, struct kern_diag *diag)
{
    if (!round_up(item.bytes, unit, &item.taken, diag))
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
        [KERN_INPUT] = KERN_MEMORY_IO,    [KERN_OUTPUT] = KERN_MEMORY_IO,
        [KERN_INOUT] = KERN_MEMORY_IO,    [KERN_WEIGHT] = KERN_MEMORY_WEIGHTS,
        [KERN_CARRY] = KERN_MEMORY_CARRY, [KERN_WORKSPACE] = KERN_MEMORY_WORKSPACE,
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
    if (!add_item(footprint, items, item, item.exported ? KERN_GRANULE : 1, diag))
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
        if (!add_item(footprint, items, item, 1, diag))
            return false;
    }
    return true;
}

static bool has_product(const struct kern_op *op)
{
    for (size_t l = 0; l < op->n_launches; l++)
        if (op->launches[l].is_extern && !kern_builtin_is_collective(op->launches[l].builtin))
            return true;
    return false;
}

// All products of a rank share the workspace of the libraries.
static bool add_product_workspace(struct kern_footprint *footprint, struct kern_memory_item *items,
                                  const struct kern_manifest *manifest, struct kern_diag *diag)
{
    const struct kern_memory_item item = {
        .kind = KERN_MEMORY_SCRATCH,
        .name = "(matrix products)",
        .bytes = KERN_GEMM_WORKSPACE,
    };
    for (uint32_t o = 0; o < manifest->n_ops; o++)
        if (has_product(&manifest->ops[o]))
            return add_item(footprint, items, item, 1, diag);
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
    uint64_t unit = kern_state_is_pooled(manifest, index) ? footprint->chunk : KERN_GRANULE;
    return state->host || (kern_state_bytes(state, &footprint->provision, &item.bytes, diag) &&
                           add_item(footprint, items, item, unit, diag));
}

// Sources share an area of the device, and what is loaded passes through blocks that need not be
// larger than the largest buffer.
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
    footprint->upload =
        KERN_UPLOAD_BLOCKS * (largest < KERN_UPLOAD_BLOCK ? largest : KERN_UPLOAD_BLOCK);
    return true;
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
    size_t most = (size_t)manifest->n_buffers + manifest->n_states + 1;
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
    if (!add_product_workspace(footprint, items, manifest, diag))
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
        kern_pool_chunk(manifest, &footprint->provision, KERN_GRANULE, &footprint->chunk, diag) &&
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
