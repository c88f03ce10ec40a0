// SPDX-License-Identifier: Apache-2.0
#include "rank/ids.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define BITS 64u

void rank_ids_open(struct rank_ids *ids, uint32_t bound)
{
    *ids = (struct rank_ids){0};
    uint32_t words = bound;
    do {
        words = words / BITS + (words % BITS != 0);
        ids->levels[ids->depth++] = kern_calloc(words, sizeof(uint64_t));
    } while (words > 1);
}

void rank_ids_close(struct rank_ids *ids)
{
    for (int level = 0; level < ids->depth; level++) {
        free(ids->levels[level]);
    }
    *ids = (struct rank_ids){0};
}

void rank_ids_add(struct rank_ids *ids, uint32_t id)
{
    assert(!(ids->levels[0][id / BITS] >> id % BITS & 1));
    ids->count++;
    bool was_empty = true;
    for (int level = 0; level < ids->depth && was_empty; level++) {
        uint64_t *word = &ids->levels[level][id / BITS];
        was_empty = *word == 0;
        *word |= UINT64_C(1) << id % BITS;
        id /= BITS;
    }
}

void rank_ids_remove(struct rank_ids *ids, uint32_t id)
{
    assert(ids->levels[0][id / BITS] >> id % BITS & 1);
    ids->count--;
    bool is_empty = true;
    for (int level = 0; level < ids->depth && is_empty; level++) {
        uint64_t *word = &ids->levels[level][id / BITS];
        *word &= ~(UINT64_C(1) << id % BITS);
        is_empty = *word == 0;
        id /= BITS;
    }
}

uint32_t rank_ids_lowest(const struct rank_ids *ids)
{
    assert(ids->count != 0);
    uint32_t id = 0;
    for (int level = ids->depth - 1; level >= 0; level--) {
        id = id * BITS + (uint32_t)__builtin_ctzll(ids->levels[level][id]);
    }
    return id;
}

uint32_t rank_ids_highest(const struct rank_ids *ids)
{
    assert(ids->count != 0);
    uint32_t id = 0;
    for (int level = ids->depth - 1; level >= 0; level--) {
        id = id * BITS + BITS - 1 - (uint32_t)__builtin_clzll(ids->levels[level][id]);
    }
    return id;
}
