// SPDX-License-Identifier: Apache-2.0
#include "tests/lease_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "tests/text.h"

uint64_t model_random(struct model *model, uint64_t below)
{
    model->random ^= model->random << 13;
    model->random ^= model->random >> 7;
    model->random ^= model->random << 17;
    return model->random % below;
}

// What the pool says is there.
static void read_present(struct model *model)
{
    for (enum rank_kind kind = 0; kind < RANK_KINDS; kind++) {
        const uint64_t *bits = model->rank->pool.kinds[kind].present.levels[0];
        for (uint32_t id = 0; id < model_most(model, kind); id++) {
            model->present[kind][id] = bits[id / 64] >> id % 64 & 1;
        }
    }
}

void model_create(struct model *model, const char *json, size_t granule, uint64_t capacity,
                  uint64_t seqs, uint64_t seed)
{
    static const uint32_t group_index[1];
    char *text = text_requoted(json);
    *model = (struct model){.device = tiny_device(granule), .random = seed};
    model->manifest = kern_manifest_parse(text, strlen(text), "test", &model->diag);
    free(text);
    if (model->manifest == NULL || !kern_manifest_verify(model->manifest, &model->diag)) {
        kern_diag_print(&model->diag, stderr, 20);
        fail_msg("the manifest");
    }
    struct kern_rank_config config = {.device = &model->device,
                                      .manifest = model->manifest,
                                      .group_index = group_index,
                                      .capacity = capacity,
                                      .seqs = seqs};
    model->rank = kern_rank_create(&config, &model->diag);
    assert_non_null(model->rank);
    assert_true(model->manifest->n_states <= MODEL_STATES);
}

static void forget(struct model_lease *lease)
{
    for (size_t s = 0; s < MODEL_STATES; s++) {
        for (size_t p = 0; p < lease->n_pages; p++) {
            free(lease->page_bytes[s][p]);
        }
        free(lease->slot_bytes[s]);
    }
    *lease = (struct model_lease){0};
}

void model_close(struct model *model)
{
    for (size_t i = 0; i < MODEL_LEASES; i++) {
        kern_lease_close(model->leases[i].lease);
        forget(&model->leases[i]);
    }
    kern_rank_destroy(model->rank, false);
    kern_manifest_destroy(model->manifest);
    kern_diag_clear(&model->diag);
    struct tiny_counts counts = tiny_counts();
    assert_int_equal(counts.handles, 0);
    assert_int_equal(counts.mappings, 0);
    assert_int_equal(counts.reservations, 0);
    assert_int_equal(counts.others, 0);
    assert_int_equal(counts.broken, 0);
}

static bool is_of(const struct model *model, size_t state, enum rank_kind kind)
{
    return state < model->manifest->n_states && model->rank->states[state].object != 0 &&
           model->rank->states[state].kind == kind;
}

// A copy of [bytes], zeros without any, as long as an object of the state.
static unsigned char *expect(const struct model *model, size_t state, const unsigned char *bytes)
{
    size_t length = model->rank->states[state].object;
    unsigned char *copy = kern_calloc(length, 1);
    if (bytes != NULL) {
        memcpy(copy, bytes, length);
    }
    return copy;
}

// Page [id], which should hold what page [from] of [parent] does, or zeros without one.
static void append(struct model *model, struct model_lease *lease, uint32_t id,
                   const struct model_lease *parent, size_t from)
{
    for (size_t s = 0; s < MODEL_STATES; s++) {
        if (is_of(model, s, RANK_PAGES)) {
            lease->page_bytes[s][lease->n_pages] =
                expect(model, s, parent != NULL ? parent->page_bytes[s][from] : NULL);
        }
    }
    lease->pages[lease->n_pages++] = id;
}

static void append_fresh(struct model *model, struct model_lease *lease, uint64_t total)
{
    while (lease->n_pages < total) {
        append(model, lease, model_take(model, RANK_PAGES), NULL, 0);
    }
}

static void take_slot(struct model *model, struct model_lease *lease,
                      const struct model_lease *parent)
{
    lease->slot = model_has(model, RANK_SLOTS) ? model_take(model, RANK_SLOTS) : 0;
    for (size_t s = 0; s < MODEL_STATES; s++) {
        if (is_of(model, s, RANK_SLOTS)) {
            lease->slot_bytes[s] = expect(model, s, parent != NULL ? parent->slot_bytes[s] : NULL);
        }
    }
}

static uint64_t pages_for(const struct model *model, uint64_t tokens)
{
    uint64_t page = kern_rank_page_tokens(model->rank);
    return model_has(model, RANK_PAGES) ? (tokens + page - 1) / page : 0;
}

static void check_object(const struct model *model, size_t state, uint32_t id,
                         const unsigned char *expected)
{
    const struct rank_state *memory = &model->rank->states[state];
    unsigned char bytes[4096];
    assert_true(memory->object <= sizeof(bytes));
    assert_true(tiny_read(memory->address + id * memory->object, bytes, memory->object));
    assert_memory_equal(bytes, expected, memory->object);
}

// What is nobody's is zero, since nobody writes it: at first all objects, later the held ones.
static void check_zero(const struct model *model, bool all)
{
    static const unsigned char zeros[4096];
    for (size_t s = 0; s < model->manifest->n_states; s++) {
        const struct rank_state *state = &model->rank->states[s];
        for (uint32_t id = 0; state->object != 0 && id < model_most(model, state->kind); id++) {
            if (model->present[state->kind][id] && (all || id < model_held[state->kind])) {
                check_object(model, s, id, zeros);
            }
        }
    }
}

bool model_allocate(struct model *model)
{
    if (!kern_rank_allocate(model->rank, KERN_HANDLE_FABRIC, &model->diag)) {
        return false;
    }
    for (enum rank_kind kind = 0; kind < RANK_KINDS; kind++) {
        assert_true(model_most(model, kind) <= MODEL_IDS);
        for (uint32_t id = 0; model_has(model, kind) && id < model_held[kind]; id++) {
            model->users[kind][id] = 1;
        }
    }
    read_present(model);
    check_zero(model, true);
    return true;
}

static void check_lease(const struct model *model, const struct model_lease *lease)
{
    size_t count;
    const uint32_t *pages = kern_lease_pages(lease->lease, &count);
    uint64_t page = kern_rank_page_tokens(model->rank);
    assert_int_equal(count, lease->n_pages);
    assert_int_equal(kern_lease_slot(lease->lease), lease->slot);
    assert_int_equal(kern_lease_shared_tokens(lease->lease), lease->shared * page);
    for (size_t p = 0; p < count; p++) {
        assert_int_equal(pages[p], lease->pages[p]);
        assert_true(pages[p] >= model_held[RANK_PAGES]);
        if (!lease->asleep && p >= lease->shared) {
            assert_int_equal(model->users[RANK_PAGES][pages[p]], 1);
            assert_int_equal(kern_lease_token_slot(lease->lease, p * page + page - 1),
                             pages[p] * page + page - 1);
        }
    }
    assert_true(!model_has(model, RANK_SLOTS) || lease->slot >= model_held[RANK_SLOTS]);
    assert_true(!model_has(model, RANK_SLOTS) || model->users[RANK_SLOTS][lease->slot] == 1);
    for (size_t s = 0; s < MODEL_STATES; s++) {
        for (size_t p = 0; is_of(model, s, RANK_PAGES) && p < count; p++) {
            check_object(model, s, pages[p], lease->page_bytes[s][p]);
        }
        if (is_of(model, s, RANK_SLOTS)) {
            check_object(model, s, lease->slot, lease->slot_bytes[s]);
        }
    }
}

static uint64_t extent(const struct model *model, enum rank_kind kind)
{
    uint64_t end = 0;
    for (uint32_t id = 0; id < model_most(model, kind); id++) {
        end = model->present[kind][id] ? id + 1u : end;
    }
    return end;
}

void model_check(struct model *model)
{
    struct kern_provision provision = kern_rank_provision(model->rank);
    if (model_has(model, RANK_PAGES)) {
        assert_int_equal(provision.tokens,
                         extent(model, RANK_PAGES) * kern_rank_page_tokens(model->rank));
    }
    if (model_has(model, RANK_SLOTS)) {
        assert_int_equal(provision.slots, extent(model, RANK_SLOTS));
    }
    for (size_t i = 0; i < MODEL_LEASES; i++) {
        if (model->leases[i].lease != NULL) {
            check_lease(model, &model->leases[i]);
        }
    }
    check_zero(model, false);
    assert_int_equal(tiny_counts().broken, 0);
}

// Compares what the rank said with what it should have said; whether it granted what was asked.
static bool judge(struct model *model, enum kern_denial said, enum kern_denial expected,
                  bool may_fail)
{
    if (said == KERN_LEASE_FAILED && may_fail) {
        assert_int_equal(kern_diag_code(&model->diag), KERN_EXIT_DEVICE);
        kern_diag_clear(&model->diag);
        read_present(model);
        return false;
    }
    if (said != expected || model->diag.count != 0) {
        kern_diag_print(&model->diag, stderr, 5);
        fail_msg("the rank says %d where %d is right", (int)said, (int)expected);
    }
    return said == KERN_LEASE_GRANTED;
}

enum kern_denial model_lease_open(struct model *model, size_t at, uint64_t tokens, bool may_fail)
{
    struct model_lease *lease = &model->leases[at];
    uint64_t pages = pages_for(model, tokens);
    enum kern_denial expected = model_answer(model, pages, pages, true, 0, pages), said;
    lease->lease = kern_lease_open(model->rank, tokens, &said, &model->diag);
    assert_int_equal(lease->lease != NULL, said == KERN_LEASE_GRANTED);
    if (judge(model, said, expected, may_fail)) {
        append_fresh(model, lease, pages);
        take_slot(model, lease, NULL);
        check_lease(model, lease);
    }
    return said;
}

enum kern_denial model_lease_grow(struct model *model, size_t at, uint64_t tokens, bool may_fail)
{
    struct model_lease *lease = &model->leases[at];
    uint64_t pages = pages_for(model, tokens);
    enum kern_denial expected = KERN_LEASE_GRANTED, said;
    if (pages > lease->n_pages) {
        expected = model_answer(model, pages - lease->n_pages, pages, false, 0, pages);
    }
    bool grown = lease->asleep ? kern_lease_wake(lease->lease, tokens, &said, &model->diag)
                               : kern_lease_grow(lease->lease, tokens, &said, &model->diag);
    assert_int_equal(grown, said == KERN_LEASE_GRANTED);
    if (judge(model, said, expected, may_fail)) {
        append_fresh(model, lease, pages);
        lease->asleep = false;
        check_lease(model, lease);
    }
    return said;
}

enum kern_denial model_lease_fork(struct model *model, size_t parent, size_t at, uint64_t length,
                                  uint64_t tokens, bool may_fail)
{
    struct model_lease *from = &model->leases[parent], *lease = &model->leases[at];
    uint64_t pages = pages_for(model, tokens), kept = pages_for(model, length);
    size_t whole = model_has(model, RANK_PAGES) ? length / kern_rank_page_tokens(model->rank) : 0;
    enum kern_denial said, expected = model_answer(model, pages - whole, pages, true, 1,
                                                   from->n_pages + pages - whole);
    lease->lease = kern_lease_fork(from->lease, length, tokens, &said, &model->diag);
    assert_int_equal(lease->lease != NULL, said == KERN_LEASE_GRANTED);
    if (judge(model, said, expected, may_fail)) {
        for (size_t p = 0; p < whole; p++) {
            model->users[RANK_PAGES][from->pages[p]]++;
            append(model, lease, from->pages[p], from, p);
        }
        if (kept > whole) {
            append(model, lease, model_take(model, RANK_PAGES), from, whole);
        }
        append_fresh(model, lease, pages);
        take_slot(model, lease, from);
        lease->shared = whole;
        from->shared = from->shared > whole ? from->shared : whole;
        check_lease(model, lease);
        check_lease(model, from);
    }
    return said;
}

static void drop(struct model *model, struct model_lease *lease, size_t count)
{
    while (lease->n_pages > count) {
        lease->n_pages--;
        model->users[RANK_PAGES][lease->pages[lease->n_pages]]--;
        for (size_t s = 0; s < MODEL_STATES; s++) {
            free(lease->page_bytes[s][lease->n_pages]);
            lease->page_bytes[s][lease->n_pages] = NULL;
        }
    }
    lease->shared = lease->shared < count ? lease->shared : count;
}

void model_lease_keep(struct model *model, size_t at, uint64_t length)
{
    struct model_lease *lease = &model->leases[at];
    kern_lease_keep(lease->lease, length);
    drop(model, lease, pages_for(model, length));
    lease->asleep = true;
}

void model_lease_close(struct model *model, size_t at)
{
    struct model_lease *lease = &model->leases[at];
    kern_lease_close(lease->lease);
    drop(model, lease, 0);
    model->users[RANK_SLOTS][lease->slot] -= model_has(model, RANK_SLOTS);
    forget(lease);
}

static void scribble(struct model *model, size_t state, uint32_t id, unsigned char *expected)
{
    const struct rank_state *memory = &model->rank->states[state];
    for (uint64_t i = 0; i < memory->object; i++) {
        expected[i] = (unsigned char)model_random(model, 256);
    }
    assert_true(tiny_write(memory->address + id * memory->object, expected, memory->object));
}

void model_lease_write(struct model *model, size_t at)
{
    struct model_lease *lease = &model->leases[at];
    for (size_t s = 0; s < MODEL_STATES; s++) {
        for (size_t p = lease->shared; is_of(model, s, RANK_PAGES) && p < lease->n_pages; p++) {
            scribble(model, s, lease->pages[p], lease->page_bytes[s][p]);
        }
        if (is_of(model, s, RANK_SLOTS)) {
            scribble(model, s, lease->slot, lease->slot_bytes[s]);
        }
    }
}
