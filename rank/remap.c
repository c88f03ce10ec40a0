// SPDX-License-Identifier: Apache-2.0
//
// Moving chunks between pages and slots. A remap is first planned on the pool's counts, without a
// call of the driver, and taken back if there are not enough chunks; then it is carried out, and
// what cannot be carried out is taken back as well.
#include "rank/internal.h"

#include <stdlib.h>

#include "base/memory.h"

struct place {
    struct rank_range *range;
    size_t position;
};

struct places {
    struct place *items;
    size_t count, capacity;
};

struct object_list {
    uint32_t *ids; // ascending if they are made, descending if they go
    size_t count, capacity;
};

struct remap {
    struct kern_rank *rank;
    struct rank_pool *pool;
    struct object_list made[RANK_KINDS], gone[RANK_KINDS];
    struct places unmap; // lost their last user
    struct places map;   // got their first; in the order of ranges and, in each, of positions
    uint64_t chunks;     // that those of map need which have none
};

static void append_place(struct places *places, struct rank_range *range, size_t position)
{
    kern_reserve(&places->items, &places->capacity, places->count + 1, sizeof(*places->items));
    places->items[places->count++] = (struct place){.range = range, .position = position};
}

static void append_id(struct object_list *list, uint32_t id)
{
    kern_reserve(&list->ids, &list->capacity, list->count + 1, sizeof(*list->ids));
    list->ids[list->count++] = id;
}

// The positions that object [id] covers in [range]: from *[first] up to *[end].
static void span(const struct remap *remap, const struct rank_range *range, uint32_t id,
                 size_t *first, size_t *end)
{
    uint64_t from = id * range->object;
    *first = from / remap->pool->chunk;
    *end = (from + range->object - 1) / remap->pool->chunk + 1;
}

// A position without users that has a chunk is what a failed call of the driver left behind.
static void add_users(struct remap *remap, struct rank_range *range, uint32_t id, bool planned)
{
    size_t p, end;
    for (span(remap, range, id, &p, &end); p < end; p++) {
        struct rank_position *position = &range->positions[p];
        if (position->users++ == 0 && planned) {
            append_place(&remap->map, range, p);
            remap->chunks += position->chunk == RANK_NO_CHUNK;
        }
    }
}

static void drop_users(struct remap *remap, struct rank_range *range, uint32_t id, bool planned)
{
    size_t p, end;
    for (span(remap, range, id, &p, &end); p < end; p++) {
        if (--range->positions[p].users == 0 && planned) {
            append_place(&remap->unmap, range, p);
        }
    }
}

static void count_object(struct remap *remap, enum rank_kind kind, uint32_t id, bool more)
{
    for (size_t r = 0; r < remap->pool->n_ranges; r++) {
        struct rank_range *range = &remap->pool->ranges[r];
        if (range->kind == kind && more) {
            add_users(remap, range, id, false);
        } else if (range->kind == kind) {
            drop_users(remap, range, id, false);
        }
    }
}

static bool plan_made(struct remap *remap, enum rank_kind kind, uint64_t count)
{
    struct rank_objects *objects = &remap->pool->kinds[kind];
    struct object_list *made = &remap->made[kind];
    if (count > objects->absent.count) {
        return false;
    }
    for (uint64_t i = 0; i < count; i++) {
        uint32_t id = rank_ids_lowest(&objects->absent);
        rank_ids_remove(&objects->absent, id);
        append_id(made, id);
    }
    for (size_t r = 0; r < remap->pool->n_ranges; r++) {
        struct rank_range *range = &remap->pool->ranges[r];
        for (size_t i = 0; range->kind == kind && i < made->count; i++) {
            add_users(remap, range, made->ids[i], true);
        }
    }
    return true;
}

static bool has_chunks(const struct remap *remap)
{
    return remap->chunks <= remap->pool->n_unmapped + remap->unmap.count;
}

static void plan_gone(struct remap *remap, enum rank_kind kind, uint64_t spare)
{
    struct rank_objects *objects = &remap->pool->kinds[kind];
    for (uint64_t i = 0; i < spare && !has_chunks(remap); i++) {
        uint32_t id = rank_ids_highest(&objects->free);
        rank_ids_remove(&objects->free, id);
        rank_ids_remove(&objects->present, id);
        append_id(&remap->gone[kind], id);
        for (size_t r = 0; r < remap->pool->n_ranges; r++) {
            if (remap->pool->ranges[r].kind == kind) {
                drop_users(remap, &remap->pool->ranges[r], id, true);
            }
        }
    }
}

// An object can be used if every position of it can. One of a planned remap that was not begun
// always can.
static bool is_ready(const struct remap *remap, enum rank_kind kind, uint32_t id)
{
    for (size_t r = 0; r < remap->pool->n_ranges; r++) {
        const struct rank_range *range = &remap->pool->ranges[r];
        size_t p = 0, end = 0;
        if (range->kind == kind) {
            span(remap, range, id, &p, &end);
        }
        for (; p < end; p++) {
            if (!range->positions[p].ready) {
                return false;
            }
        }
    }
    return true;
}

static bool unmap(struct remap *remap, const struct place *place, struct kern_diag *diag)
{
    struct rank_position *position = &place->range->positions[place->position];
    uint64_t chunk = remap->pool->chunk;
    char what[RANK_WHAT];
    rank_print(what, "taking memory from state %s", place->range->name);
    if (!KERN_CU(remap->rank->device, diag, what, cuMemUnmap,
                 place->range->address + place->position * chunk, chunk)) {
        return false;
    }
    remap->pool->unmapped[remap->pool->n_unmapped++] = position->chunk;
    *position = (struct rank_position){.chunk = RANK_NO_CHUNK, .users = position->users};
    return true;
}

// Positions that nobody uses give up their chunks. One that the driver does not unmap keeps its
// own, to be made ready again when it gets a user.
static void clear_unused(struct remap *remap, const struct places *places)
{
    struct kern_diag ignored = {0};
    for (size_t i = 0; i < places->count; i++) {
        const struct place *place = &places->items[i];
        struct rank_position *position = &place->range->positions[place->position];
        if (position->users == 0 && position->chunk != RANK_NO_CHUNK) {
            position->ready = false;
            unmap(remap, place, &ignored);
        }
    }
    kern_diag_clear(&ignored);
}

// Takes back what was planned, however much of it was done.
static void take_back(struct remap *remap, bool begun)
{
    for (enum rank_kind kind = 0; kind < RANK_KINDS; kind++) {
        struct rank_objects *objects = &remap->pool->kinds[kind];
        for (size_t i = 0; i < remap->made[kind].count; i++) {
            count_object(remap, kind, remap->made[kind].ids[i], false);
            rank_ids_add(&objects->absent, remap->made[kind].ids[i]);
        }
        for (size_t i = 0; i < remap->gone[kind].count; i++) {
            uint32_t id = remap->gone[kind].ids[i];
            if (is_ready(remap, kind, id)) {
                count_object(remap, kind, id, true);
                rank_ids_add(&objects->present, id);
                rank_ids_add(&objects->free, id);
            } else {
                rank_ids_add(&objects->absent, id);
            }
        }
    }
    if (begun) {
        // Some of it may be being zeroed.
        remap->rank->device->cu.cuStreamSynchronize(remap->rank->stream);
        clear_unused(remap, &remap->map);
        clear_unused(remap, &remap->unmap);
    }
}

static bool map(struct remap *remap, const struct place *place, const char *what,
                struct kern_diag *diag)
{
    struct rank_pool *pool = remap->pool;
    struct rank_position *position = &place->range->positions[place->position];
    if (position->chunk != RANK_NO_CHUNK) {
        return true;
    }
    uint32_t chunk = pool->unmapped[pool->n_unmapped - 1];
    if (!KERN_CU(remap->rank->device, diag, what, cuMemMap,
                 place->range->address + place->position * pool->chunk, pool->chunk, 0,
                 pool->chunks[chunk], 0)) {
        return false;
    }
    pool->n_unmapped--;
    position->chunk = chunk;
    return true;
}

// Makes [count] adjacent positions ready with one grant, which costs the driver more than a map.
static bool make_ready(struct remap *remap, const struct place *first, size_t count,
                       struct kern_diag *diag)
{
    const struct kern_rank *rank = remap->rank;
    CUdeviceptr address = first->range->address + first->position * remap->pool->chunk;
    uint64_t bytes = count * remap->pool->chunk;
    CUmemAccessDesc access = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = rank->ordinal},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    char what[RANK_WHAT];
    rank_print(what, "giving memory to state %s", first->range->name);
    for (size_t i = 0; i < count; i++) {
        if (!map(remap, &first[i], what, diag)) {
            return false;
        }
    }
    if (!KERN_CU(rank->device, diag, what, cuMemSetAccess, address, bytes, &access, 1) ||
        !rank_zero(rank, address, bytes, what, diag)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        first->range->positions[first->position + i].ready = true;
    }
    return true;
}

// How many places from [at] on are adjacent.
static size_t run_length(const struct places *places, size_t at)
{
    const struct place *first = &places->items[at];
    size_t count = 1;
    while (at + count < places->count && places->items[at + count].range == first->range &&
           places->items[at + count].position == first->position + count) {
        count++;
    }
    return count;
}

static bool carry_out(struct remap *remap, struct kern_diag *diag)
{
    // Kernels may still be at work on objects that were given back.
    if (remap->unmap.count != 0 &&
        !rank_synchronize(remap->rank, "waiting to move memory between states", diag)) {
        return false;
    }
    for (size_t i = 0; i < remap->unmap.count; i++) {
        if (!unmap(remap, &remap->unmap.items[i], diag)) {
            return false;
        }
    }
    for (size_t i = 0, count; i < remap->map.count; i += count) {
        count = run_length(&remap->map, i);
        if (!make_ready(remap, &remap->map.items[i], count, diag)) {
            return false;
        }
    }
    for (enum rank_kind kind = 0; kind < RANK_KINDS; kind++) {
        struct rank_objects *objects = &remap->pool->kinds[kind];
        for (size_t i = 0; i < remap->made[kind].count; i++) {
            rank_ids_add(&objects->present, remap->made[kind].ids[i]);
            rank_ids_add(&objects->free, remap->made[kind].ids[i]);
        }
        for (size_t i = 0; i < remap->gone[kind].count; i++) {
            rank_ids_add(&objects->absent, remap->gone[kind].ids[i]);
        }
    }
    return true;
}

static bool plan(struct remap *remap, const uint64_t make[RANK_KINDS],
                 const uint64_t spare[RANK_KINDS])
{
    for (enum rank_kind kind = 0; kind < RANK_KINDS; kind++) {
        if (!plan_made(remap, kind, make[kind])) {
            return false;
        }
    }
    for (enum rank_kind kind = 0; kind < RANK_KINDS; kind++) {
        plan_gone(remap, kind, spare[kind]);
    }
    return has_chunks(remap);
}

static void free_lists(struct remap *remap)
{
    for (enum rank_kind kind = 0; kind < RANK_KINDS; kind++) {
        free(remap->made[kind].ids);
        free(remap->gone[kind].ids);
    }
    free(remap->unmap.items);
    free(remap->map.items);
}

enum rank_provided rank_pool_remap(struct kern_rank *rank, const uint64_t make[RANK_KINDS],
                                   const uint64_t spare[RANK_KINDS], struct kern_diag *diag)
{
    struct remap remap = {.rank = rank, .pool = &rank->pool};
    enum rank_provided provided = RANK_SHORT;
    bool possible = plan(&remap, make, spare);
    if (possible) {
        provided = carry_out(&remap, diag) ? RANK_PROVIDED : RANK_REFUSED;
    }
    if (provided != RANK_PROVIDED) {
        take_back(&remap, possible);
    }
    free_lists(&remap);
    return provided;
}
