// SPDX-License-Identifier: Apache-2.0
#include "rank/internal.h"

#include <stdlib.h>

#include "base/memory.h"

// Chunks that [count] objects of the range cover. The product is bounded by the device's memory
// wherever this is called.
static uint64_t covered(const struct rank_pool *pool, const struct rank_range *range,
                        uint64_t count)
{
    uint64_t bytes = count * range->object;
    return bytes / pool->chunk + (bytes % pool->chunk != 0);
}

static uint64_t covered_by_kind(const struct rank_pool *pool, enum rank_kind kind, uint64_t count)
{
    uint64_t chunks = 0;
    for (size_t r = 0; r < pool->n_ranges; r++) {
        chunks += pool->ranges[r].kind == kind ? covered(pool, &pool->ranges[r], count) : 0;
    }
    return chunks;
}

bool rank_pool_fits(const struct rank_pool *pool, const uint64_t count[RANK_KINDS])
{
    uint64_t chunks = 0;
    for (enum rank_kind kind = 0; kind < RANK_KINDS; kind++) {
        if (count[kind] > pool->kinds[kind].most) {
            return false;
        }
        chunks += covered_by_kind(pool, kind, count[kind]);
    }
    return chunks <= pool->n_chunks;
}

// The most objects of [kind] whose chunks are at most [chunks].
static uint64_t most_within(const struct rank_pool *pool, enum rank_kind kind, uint64_t chunks)
{
    uint64_t largest = 0;
    for (size_t r = 0; r < pool->n_ranges; r++) {
        const struct rank_range *range = &pool->ranges[r];
        largest = range->kind == kind && range->object > largest ? range->object : largest;
    }
    uint64_t low = pool->kinds[kind].first, high = chunks * pool->chunk / largest;
    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2;
        if (covered_by_kind(pool, kind, middle) <= chunks) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

// A kind grows only into what the other can give up. If that is not a whole chunk, what rounding
// left over is not counted either, and there are as many objects as were asked for, no more.
static uint64_t find_most(const struct rank_pool *pool, enum rank_kind kind, bool fixed)
{
    const struct rank_objects *own = &pool->kinds[kind];
    enum rank_kind other = kind == RANK_PAGES ? RANK_SLOTS : RANK_PAGES;
    const struct rank_objects *others = &pool->kinds[other];
    uint64_t now = covered_by_kind(pool, kind, own->first);
    uint64_t gain =
        covered_by_kind(pool, other, others->first) - covered_by_kind(pool, other, others->held);
    return fixed || now == 0 || gain == 0 ? own->first : most_within(pool, kind, now + gain);
}

static bool create_chunks(struct kern_rank *rank, const struct rank_range *range,
                          struct kern_diag *diag)
{
    struct rank_pool *pool = &rank->pool;
    uint64_t bytes = pool->kinds[range->kind].first * range->object;
    uint64_t count = covered(pool, range, pool->kinds[range->kind].first);
    char what[RANK_WHAT];
    rank_print(what, "allocating %llu bytes in chunks of %llu for state %s",
               (unsigned long long)bytes, (unsigned long long)pool->chunk, range->name);
    for (uint64_t i = 0; i < count; i++) {
        CUmemGenericAllocationHandle handle = 0;
        if (!kern_vmm_create_unmapped(rank->device, rank->ordinal, pool->chunk, what, &handle,
                                      diag)) {
            return false;
        }
        kern_reserve(&pool->chunks, &pool->chunks_capacity, pool->n_chunks + 1,
                     sizeof(*pool->chunks));
        pool->chunks[pool->n_chunks++] = handle;
    }
    return true;
}

// Page ids go into tables of i32.
static bool open_objects(struct rank_pool *pool, enum rank_kind kind, bool fixed,
                         struct kern_diag *diag)
{
    static const char *const names[] = {[RANK_PAGES] = "pages", [RANK_SLOTS] = "slots"};
    struct rank_objects *objects = &pool->kinds[kind];
    objects->most = find_most(pool, kind, fixed);
    if (objects->most > INT32_MAX) {
        return kern_fail(diag, KERN_EXIT_USAGE, NULL,
                         "%llu %s of states are more than 2147483647, the most that tables number",
                         (unsigned long long)objects->most, names[kind]);
    }
    uint32_t most = (uint32_t)objects->most;
    rank_ids_open(&objects->present, most);
    rank_ids_open(&objects->free, most);
    rank_ids_open(&objects->absent, most);
    for (uint32_t id = 0; id < most; id++) {
        rank_ids_add(&objects->absent, id);
    }
    return true;
}

static bool reserve(struct kern_rank *rank, struct rank_range *range, struct kern_diag *diag)
{
    const struct rank_pool *pool = &rank->pool;
    char what[RANK_WHAT];
    size_t count = covered(pool, range, pool->kinds[range->kind].most);
    rank_print(what, "reserving addresses for state %s", range->name);
    if (!KERN_CU(rank->device, diag, what, cuMemAddressReserve, &range->address,
                 count * pool->chunk, 0, 0, 0)) {
        return false;
    }
    range->n_positions = count;
    range->positions = kern_calloc(count, sizeof(*range->positions));
    for (size_t i = 0; i < count; i++) {
        range->positions[i].chunk = RANK_NO_CHUNK;
    }
    return true;
}

static bool build(struct kern_rank *rank, const struct rank_pool_wish *wish, struct kern_diag *diag)
{
    struct rank_pool *pool = &rank->pool;
    for (size_t r = 0; r < pool->n_ranges; r++) {
        if (!create_chunks(rank, &pool->ranges[r], diag)) {
            return false;
        }
    }
    pool->unmapped = kern_calloc(pool->n_chunks, sizeof(*pool->unmapped));
    for (size_t c = pool->n_chunks; c > 0; c--) {
        pool->unmapped[pool->n_unmapped++] = (uint32_t)(c - 1);
    }
    for (enum rank_kind kind = 0; kind < RANK_KINDS; kind++) {
        if (!open_objects(pool, kind, wish->fixed[kind], diag)) {
            return false;
        }
    }
    for (size_t r = 0; r < pool->n_ranges; r++) {
        if (!reserve(rank, &pool->ranges[r], diag)) {
            return false;
        }
    }
    return rank_pool_provide(rank, wish->first, diag) == RANK_PROVIDED;
}

bool rank_pool_open(struct kern_rank *rank, const struct rank_pool_wish *wish,
                    struct rank_range *ranges, size_t n_ranges, struct kern_diag *diag)
{
    struct rank_pool *pool = &rank->pool;
    *pool = (struct rank_pool){.chunk = wish->chunk, .ranges = ranges, .n_ranges = n_ranges};
    for (enum rank_kind kind = 0; kind < RANK_KINDS; kind++) {
        pool->kinds[kind].first = wish->first[kind];
        pool->kinds[kind].held = wish->held[kind];
    }
    if (!build(rank, wish, diag)) {
        rank_pool_close(rank);
        return false;
    }
    return true;
}

static void unmap_range(struct kern_rank *rank, const struct rank_range *range)
{
    const struct kern_cuda *cu = &rank->device->cu;
    uint64_t chunk = rank->pool.chunk;
    for (size_t i = 0; i < range->n_positions; i++) {
        if (range->positions[i].chunk != RANK_NO_CHUNK) {
            cu->cuMemUnmap(range->address + i * chunk, chunk);
        }
    }
    if (range->address != 0) {
        cu->cuMemAddressFree(range->address, range->n_positions * chunk);
    }
}

void rank_pool_forget(struct rank_pool *pool)
{
    for (size_t r = 0; r < pool->n_ranges; r++) {
        struct rank_range *range = &pool->ranges[r];
        free(range->positions);
        range->positions = NULL;
        range->n_positions = 0;
        range->address = 0;
    }
    for (enum rank_kind kind = 0; kind < RANK_KINDS; kind++) {
        rank_ids_close(&pool->kinds[kind].present);
        rank_ids_close(&pool->kinds[kind].free);
        rank_ids_close(&pool->kinds[kind].absent);
    }
    free(pool->unmapped);
    free(pool->chunks);
    *pool = (struct rank_pool){0};
}

void rank_pool_close(struct kern_rank *rank)
{
    struct rank_pool *pool = &rank->pool;
    // What is being zeroed must not find its memory gone.
    if (pool->n_chunks != 0) {
        rank->device->cu.cuStreamSynchronize(rank->stream);
    }
    for (size_t r = 0; r < pool->n_ranges; r++) {
        unmap_range(rank, &pool->ranges[r]);
    }
    for (size_t c = 0; c < pool->n_chunks; c++) {
        rank->device->cu.cuMemRelease(pool->chunks[c]);
    }
    rank_pool_forget(pool);
}

enum rank_provided rank_pool_provide(struct kern_rank *rank, const uint64_t need[RANK_KINDS],
                                     struct kern_diag *diag)
{
    uint64_t make[RANK_KINDS], spare[RANK_KINDS];
    bool enough = true;
    for (enum rank_kind kind = 0; kind < RANK_KINDS; kind++) {
        uint64_t free_now = rank->pool.kinds[kind].free.count;
        make[kind] = need[kind] > free_now ? need[kind] - free_now : 0;
        spare[kind] = need[kind] < free_now ? free_now - need[kind] : 0;
        enough = enough && make[kind] == 0;
    }
    return enough ? RANK_PROVIDED : rank_pool_remap(rank, make, spare, diag);
}

uint32_t rank_pool_take(struct rank_pool *pool, enum rank_kind kind)
{
    uint32_t id = rank_ids_lowest(&pool->kinds[kind].free);
    rank_ids_remove(&pool->kinds[kind].free, id);
    return id;
}

void rank_pool_give(struct rank_pool *pool, enum rank_kind kind, uint32_t id)
{
    rank_ids_add(&pool->kinds[kind].free, id);
}

uint64_t rank_pool_extent(const struct rank_pool *pool, enum rank_kind kind)
{
    const struct rank_ids *present = &pool->kinds[kind].present;
    return present->count == 0 ? 0 : (uint64_t)rank_ids_highest(present) + 1;
}
