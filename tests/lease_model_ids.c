// SPDX-License-Identifier: Apache-2.0
//
// The part of the model that knows which pages and slots there are: which requests can be met, by
// what, counted afresh each time.
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "manifest/provision.h"
#include "tests/lease_model.h"

const uint64_t model_held[RANK_KINDS] = {
    [RANK_PAGES] = KERN_HELD_PAGES, [RANK_SLOTS] = KERN_HELD_SLOTS};

uint64_t model_most(const struct model *model, enum rank_kind kind)
{
    return model->rank->pool.kinds[kind].most;
}

bool model_has(const struct model *model, enum rank_kind kind)
{
    return model->rank->pool.kinds[kind].first != 0;
}

// Chunks that the present objects cover, counted position by position.
static uint64_t chunks_of(const struct model *model, bool present[RANK_KINDS][MODEL_IDS])
{
    uint64_t count = 0, chunk = model->rank->pool.chunk;
    for (uint32_t s = 0; s < model->manifest->n_states; s++) {
        const struct rank_state *state = &model->rank->states[s];
        if (state->object == 0 || state->mapping.mapped != 0) {
            continue;
        }
        uint64_t end = 0; // the first position not counted yet
        for (uint32_t id = 0; id < model_most(model, state->kind); id++) {
            if (present[state->kind][id]) {
                uint64_t first = id * state->object / chunk;
                uint64_t last = ((id + 1) * state->object - 1) / chunk;
                first = first < end ? end : first;
                count += last + 1 > first ? last + 1 - first : 0;
                end = last + 1;
            }
        }
    }
    return count;
}

// Whether so many objects, the lowest, have enough chunks.
static bool fits_alone(const struct model *model, uint64_t pages, uint64_t slots)
{
    static bool present[RANK_KINDS][MODEL_IDS];
    const uint64_t count[RANK_KINDS] = {[RANK_PAGES] = pages, [RANK_SLOTS] = slots};
    memset(present, 0, sizeof(present));
    for (enum rank_kind kind = 0; kind < RANK_KINDS; kind++) {
        if (count[kind] > model_most(model, kind)) {
            return false;
        }
        memset(present[kind], 1, count[kind]);
    }
    return chunks_of(model, present) <= model->rank->pool.n_chunks;
}

static uint64_t count_free(const struct model *model, enum rank_kind kind)
{
    uint64_t count = 0;
    for (uint32_t id = 0; id < model_most(model, kind); id++) {
        count += model->present[kind][id] && model->users[kind][id] == 0;
    }
    return count;
}

static bool add_lowest_absent(struct model *model, enum rank_kind kind, uint64_t count)
{
    for (uint32_t id = 0; count > 0 && id < model_most(model, kind); id++) {
        if (!model->present[kind][id]) {
            model->present[kind][id] = true;
            count--;
        }
    }
    return count == 0;
}

static bool remove_highest_free(struct model *model, enum rank_kind kind)
{
    for (uint64_t id = model_most(model, kind); id-- > 0;) {
        if (model->present[kind][id] && model->users[kind][id] == 0) {
            model->present[kind][id] = false;
            return true;
        }
    }
    return false;
}

// Whether so many free objects can be had; then they are present.
static bool provide(struct model *model, const uint64_t need[RANK_KINDS])
{
    bool before[RANK_KINDS][MODEL_IDS];
    uint64_t spare[RANK_KINDS];
    memcpy(before, model->present, sizeof(before));
    bool enough = true;
    for (enum rank_kind kind = 0; kind < RANK_KINDS; kind++) {
        uint64_t there = count_free(model, kind);
        spare[kind] = there > need[kind] ? there - need[kind] : 0;
        enough =
            (there >= need[kind] || add_lowest_absent(model, kind, need[kind] - there)) && enough;
    }
    while (enough && chunks_of(model, model->present) > model->rank->pool.n_chunks) {
        enum rank_kind kind = spare[RANK_PAGES] > 0 ? RANK_PAGES : RANK_SLOTS;
        enough = spare[kind] > 0 && remove_highest_free(model, kind);
        spare[kind]--;
    }
    if (!enough) {
        memcpy(model->present, before, sizeof(before));
    }
    return enough;
}

enum kern_denial model_answer(struct model *model, uint64_t fresh, uint64_t total, bool slot,
                              uint64_t others, uint64_t pages)
{
    const uint64_t need[RANK_KINDS] = {
        [RANK_PAGES] = fresh, [RANK_SLOTS] = slot && model_has(model, RANK_SLOTS)};
    if (total > model->rank->leases.row_pages) {
        return KERN_LEASE_EXCEEDS_ROW;
    }
    if (!fits_alone(model, model_has(model, RANK_PAGES) ? model_held[RANK_PAGES] + pages : 0,
                    model_has(model, RANK_SLOTS) ? model_held[RANK_SLOTS] + 1 + others : 0)) {
        return KERN_LEASE_EXCEEDS_POOL;
    }
    return provide(model, need) ? KERN_LEASE_GRANTED : KERN_LEASE_BUSY;
}

uint32_t model_take(struct model *model, enum rank_kind kind)
{
    for (uint32_t id = 0; id < model_most(model, kind); id++) {
        if (model->present[kind][id] && model->users[kind][id] == 0) {
            model->users[kind][id] = 1;
            return id;
        }
    }
    fail_msg("the model has no free page or slot");
    return 0;
}

uint64_t model_most_pages(const struct model *model)
{
    uint64_t pages = 0;
    while (fits_alone(model, model_held[RANK_PAGES] + pages + 1,
                      model_has(model, RANK_SLOTS) ? model_held[RANK_SLOTS] + 1 : 0)) {
        pages++;
    }
    return pages;
}

uint64_t model_most_leases(const struct model *model)
{
    uint64_t slots = 0;
    while (fits_alone(model, model_has(model, RANK_PAGES) ? model_held[RANK_PAGES] : 0,
                      model_held[RANK_SLOTS] + slots + 1)) {
        slots++;
    }
    return slots;
}
