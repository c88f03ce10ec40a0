// SPDX-License-Identifier: Apache-2.0
#include "rank/leases.h"

#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"
#include "manifest/provision.h"
#include "rank/internal.h"

struct kern_lease {
    struct kern_rank *rank;
    uint32_t *pages;
    size_t n_pages, capacity;
    size_t shared; // the first so many pages are or were another lease's too
    uint32_t slot;
    bool asleep;
};

// What is asked of the pool: [fresh] objects, which would be [alone] with the held ones if nothing
// else were there.
struct request {
    uint64_t fresh[RANK_KINDS];
    uint64_t alone[RANK_KINDS];
};

static bool has(const struct kern_rank *rank, enum rank_kind kind)
{
    return rank->pool.kinds[kind].first != 0;
}

// A pool has at most INT32_MAX pages: a number beyond is as good as any other that is, and sums of
// this one do not wrap.
static uint64_t pages_for(const struct kern_rank *rank, uint64_t tokens)
{
    uint64_t pages = has(rank, RANK_PAGES) ? tokens / rank->page + (tokens % rank->page != 0) : 0;
    return pages < UINT32_MAX ? pages : UINT32_MAX;
}

// What is never given away, and a slot for each of [leases].
static void count_held(const struct kern_rank *rank, uint64_t leases, uint64_t count[RANK_KINDS])
{
    count[RANK_PAGES] = rank->pool.kinds[RANK_PAGES].held;
    count[RANK_SLOTS] = has(rank, RANK_SLOTS) ? rank->pool.kinds[RANK_SLOTS].held + leases : 0;
}

// Makes what is asked for free, or says why that cannot be.
static enum kern_denial make_room(struct kern_rank *rank, const struct request *request,
                                  struct kern_diag *diag)
{
    if (!rank_pool_fits(&rank->pool, request->alone)) {
        return KERN_LEASE_EXCEEDS_POOL;
    }
    if (!rank_enter(rank, diag)) {
        return KERN_LEASE_FAILED;
    }
    enum rank_provided provided = rank_pool_provide(rank, request->fresh, diag);
    rank_states_count(rank);
    switch (provided) {
    case RANK_PROVIDED:
        return KERN_LEASE_GRANTED;
    case RANK_SHORT:
        return KERN_LEASE_BUSY;
    case RANK_REFUSED:
        break;
    }
    return KERN_LEASE_FAILED;
}

// Zeroes [count] adjacent objects from [first] on in every state that has them.
static bool zero_objects(const struct kern_rank *rank, enum rank_kind kind, uint32_t first,
                         uint64_t count, struct kern_diag *diag)
{
    for (uint32_t s = 0; s < rank->manifest->n_states; s++) {
        const struct rank_state *state = &rank->states[s];
        char what[RANK_WHAT];
        rank_print(what, "zeroing what is leased of state %s", rank->manifest->states[s].name);
        if (state->object != 0 && state->kind == kind &&
            !rank_zero(rank, state->address + first * state->object, count * state->object, what,
                       diag)) {
            return false;
        }
    }
    return true;
}

static bool copy_object(const struct kern_rank *rank, enum rank_kind kind, uint32_t to,
                        uint32_t from, struct kern_diag *diag)
{
    for (uint32_t s = 0; s < rank->manifest->n_states; s++) {
        const struct rank_state *state = &rank->states[s];
        char what[RANK_WHAT];
        rank_print(what, "copying what is leased of state %s", rank->manifest->states[s].name);
        if (state->object != 0 && state->kind == kind &&
            !KERN_CU(rank->device, diag, what, cuMemcpyDtoDAsync,
                     state->address + to * state->object, state->address + from * state->object,
                     state->object, rank->stream)) {
            return false;
        }
    }
    return true;
}

static void append_page(struct kern_lease *lease, uint32_t page)
{
    kern_reserve(&lease->pages, &lease->capacity, lease->n_pages + 1, sizeof(*lease->pages));
    lease->pages[lease->n_pages++] = page;
    lease->rank->leases.page_users[page]++;
}

// Gives back the pages from number [count] on.
static void drop_pages(struct kern_lease *lease, size_t count)
{
    struct kern_rank *rank = lease->rank;
    while (lease->n_pages > count) {
        uint32_t page = lease->pages[--lease->n_pages];
        if (--rank->leases.page_users[page] == 0) {
            rank_pool_give(&rank->pool, RANK_PAGES, page);
        }
    }
    lease->shared = lease->shared < count ? lease->shared : count;
}

// Appends [count] pages that are free and zeroes them, adjacent ones together. On failure what was
// appended stays; the caller drops it.
static bool append_fresh(struct kern_lease *lease, uint64_t count, struct kern_diag *diag)
{
    size_t first = lease->n_pages;
    for (uint64_t i = 0; i < count; i++) {
        append_page(lease, rank_pool_take(&lease->rank->pool, RANK_PAGES));
    }
    for (size_t from = first, end; from < lease->n_pages; from = end) {
        for (end = from + 1; end < lease->n_pages && lease->pages[end] == lease->pages[end - 1] + 1;
             end++) {}
        if (!zero_objects(lease->rank, RANK_PAGES, lease->pages[from], end - from, diag)) {
            return false;
        }
    }
    return true;
}

// A lease with a slot and no pages; there is a free slot.
static struct kern_lease *new_lease(struct kern_rank *rank)
{
    struct kern_lease *lease = kern_calloc(1, sizeof(*lease));
    lease->rank = rank;
    lease->slot = has(rank, RANK_SLOTS) ? rank_pool_take(&rank->pool, RANK_SLOTS) : 0;
    return lease;
}

static bool zero_slot(const struct kern_lease *lease, struct kern_diag *diag)
{
    return !has(lease->rank, RANK_SLOTS) ||
           zero_objects(lease->rank, RANK_SLOTS, lease->slot, 1, diag);
}

struct kern_lease *kern_lease_open(struct kern_rank *rank, uint64_t tokens,
                                   enum kern_denial *denial, struct kern_diag *diag)
{
    uint64_t pages = pages_for(rank, tokens);
    struct request request = {.fresh = {pages, has(rank, RANK_SLOTS)}};
    *denial = KERN_LEASE_EXCEEDS_ROW;
    if (pages > rank->leases.row_pages) {
        return NULL;
    }
    count_held(rank, 1, request.alone);
    request.alone[RANK_PAGES] += pages;
    *denial = make_room(rank, &request, diag);
    if (*denial != KERN_LEASE_GRANTED) {
        return NULL;
    }
    struct kern_lease *lease = new_lease(rank);
    if (!append_fresh(lease, pages, diag) || !zero_slot(lease, diag)) {
        *denial = KERN_LEASE_FAILED;
        kern_lease_close(lease);
        return NULL;
    }
    return lease;
}

static bool grow(struct kern_lease *lease, uint64_t tokens, enum kern_denial *denial,
                 struct kern_diag *diag)
{
    struct kern_rank *rank = lease->rank;
    uint64_t pages = pages_for(rank, tokens);
    size_t before = lease->n_pages;
    *denial = KERN_LEASE_GRANTED;
    if (pages <= before) {
        return true;
    }
    *denial = KERN_LEASE_EXCEEDS_ROW;
    if (pages > rank->leases.row_pages) {
        return false;
    }
    struct request request = {.fresh = {[RANK_PAGES] = pages - before}};
    count_held(rank, 1, request.alone);
    request.alone[RANK_PAGES] += pages;
    *denial = make_room(rank, &request, diag);
    if (*denial != KERN_LEASE_GRANTED) {
        return false;
    }
    if (!append_fresh(lease, pages - before, diag)) {
        *denial = KERN_LEASE_FAILED;
        drop_pages(lease, before);
        return false;
    }
    return true;
}

bool kern_lease_grow(struct kern_lease *lease, uint64_t tokens, enum kern_denial *denial,
                     struct kern_diag *diag)
{
    assert(!lease->asleep);
    return grow(lease, tokens, denial, diag);
}

// Fills the new lease [child] as the fork of [parent] at [length]; there are enough free pages.
static bool fill_fork(struct kern_lease *child, struct kern_lease *parent, uint64_t length,
                      uint64_t pages, struct kern_diag *diag)
{
    struct kern_rank *rank = child->rank;
    uint64_t whole = has(rank, RANK_PAGES) ? length / rank->page : 0;
    for (uint64_t i = 0; i < whole; i++) {
        append_page(child, parent->pages[i]);
    }
    child->shared = whole;
    bool partial = pages_for(rank, length) > whole;
    if (partial) {
        append_page(child, rank_pool_take(&rank->pool, RANK_PAGES));
        if (!copy_object(rank, RANK_PAGES, child->pages[whole], parent->pages[whole], diag)) {
            return false;
        }
    }
    if (!append_fresh(child, pages - child->n_pages, diag) ||
        (has(rank, RANK_SLOTS) &&
         !copy_object(rank, RANK_SLOTS, child->slot, parent->slot, diag))) {
        return false;
    }
    parent->shared = parent->shared > whole ? parent->shared : whole;
    return true;
}

struct kern_lease *kern_lease_fork(struct kern_lease *parent, uint64_t length, uint64_t tokens,
                                   enum kern_denial *denial, struct kern_diag *diag)
{
    struct kern_rank *rank = parent->rank;
    assert(length <= tokens && pages_for(rank, length) <= parent->n_pages);
    uint64_t pages = pages_for(rank, tokens);
    *denial = KERN_LEASE_EXCEEDS_ROW;
    if (pages > rank->leases.row_pages) {
        return NULL;
    }
    uint64_t fresh = pages - (has(rank, RANK_PAGES) ? length / rank->page : 0);
    struct request request = {.fresh = {fresh, has(rank, RANK_SLOTS)}};
    count_held(rank, 2, request.alone);
    request.alone[RANK_PAGES] += parent->n_pages + fresh;
    *denial = make_room(rank, &request, diag);
    if (*denial != KERN_LEASE_GRANTED) {
        return NULL;
    }
    struct kern_lease *child = new_lease(rank);
    if (!fill_fork(child, parent, length, pages, diag)) {
        *denial = KERN_LEASE_FAILED;
        kern_lease_close(child);
        return NULL;
    }
    return child;
}

void kern_lease_keep(struct kern_lease *lease, uint64_t length)
{
    uint64_t pages = pages_for(lease->rank, length);
    assert(!lease->asleep && pages <= lease->n_pages);
    assert(pages == 0 || length >= lease->shared * lease->rank->page);
    drop_pages(lease, pages);
    lease->asleep = true;
}

bool kern_lease_wake(struct kern_lease *lease, uint64_t tokens, enum kern_denial *denial,
                     struct kern_diag *diag)
{
    assert(lease->asleep);
    lease->asleep = !grow(lease, tokens, denial, diag);
    return !lease->asleep;
}

void kern_lease_close(struct kern_lease *lease)
{
    if (lease == NULL) {
        return;
    }
    drop_pages(lease, 0);
    if (has(lease->rank, RANK_SLOTS)) {
        rank_pool_give(&lease->rank->pool, RANK_SLOTS, lease->slot);
    }
    free(lease->pages);
    free(lease);
}

const uint32_t *kern_lease_pages(const struct kern_lease *lease, size_t *count)
{
    *count = lease->n_pages;
    return lease->pages;
}

uint32_t kern_lease_slot(const struct kern_lease *lease)
{
    return lease->slot;
}

uint64_t kern_lease_tokens(const struct kern_lease *lease)
{
    return has(lease->rank, RANK_PAGES) ? lease->n_pages * lease->rank->page : UINT64_MAX;
}

uint64_t kern_lease_shared_tokens(const struct kern_lease *lease)
{
    return lease->shared * lease->rank->page;
}

uint64_t kern_lease_token_slot(const struct kern_lease *lease, uint64_t position)
{
    const struct kern_rank *rank = lease->rank;
    uint64_t page = lease == rank->leases.padding ? 0 : position / rank->page;
    assert(!lease->asleep && page >= lease->shared && page < lease->n_pages);
    return lease->pages[page] * rank->page + position % rank->page;
}

uint64_t kern_rank_page_tokens(const struct kern_rank *rank)
{
    return rank->page;
}

uint64_t kern_rank_longest_sequence(const struct kern_rank *rank)
{
    return has(rank, RANK_PAGES) ? rank->leases.longest * rank->page : UINT64_MAX;
}

const struct kern_lease *kern_rank_padding_lease(const struct kern_rank *rank)
{
    return rank->leases.padding;
}

bool kern_lease_explain(const struct kern_rank *rank, uint64_t tokens, enum kern_denial denial,
                        const char *place, struct kern_diag *diag)
{
    unsigned long long asked = tokens, most = kern_rank_longest_sequence(rank);
    switch (denial) {
    case KERN_LEASE_EXCEEDS_ROW:
        return kern_fail(diag, KERN_EXIT_USAGE, place,
                         "%llu tokens are more than a row of the narrowest page table names pages "
                         "for, which is %llu",
                         asked, (unsigned long long)rank->leases.row_pages * rank->page);
    case KERN_LEASE_EXCEEDS_POOL:
        return kern_fail(diag, KERN_EXIT_USAGE, place,
                         "%llu tokens are more than the states hold, a sequence of %llu at most; "
                         "they were made for %llu tokens of %llu sequences",
                         asked, most, (unsigned long long)rank->capacity,
                         (unsigned long long)rank->seqs);
    case KERN_LEASE_BUSY:
        return kern_fail(diag, KERN_EXIT_USAGE, place,
                         "%llu tokens do not fit beside the sequences that live; the states were "
                         "made for %llu tokens of %llu sequences",
                         asked, (unsigned long long)rank->capacity, (unsigned long long)rank->seqs);
    case KERN_LEASE_GRANTED:
    case KERN_LEASE_FAILED:
        break;
    }
    return false;
}

// The most pages that a row of every page table names: of every input, not filled by the loop
// itself, that indexes a paged state and whose rows have a fixed length.
static uint64_t find_row_pages(const struct kern_rank *rank)
{
    const struct kern_manifest *manifest = rank->manifest;
    uint64_t least = UINT64_MAX;
    for (uint32_t b = 0; b < manifest->n_buffers; b++) {
        const struct kern_buffer *buffer = &manifest->buffers[b];
        const struct kern_domain *domain = buffer->domain;
        if (buffer->kind != KERN_INPUT || buffer->fill != KERN_FILL_NONE || buffer->rank < 2 ||
            domain == NULL || domain->target != KERN_TARGET_STATE ||
            manifest->states[domain->index_into.index].bytes_per_token == 0) {
            continue;
        }
        const struct kern_dim *width = &buffer->shape[buffer->rank - 1];
        uint64_t entries = rank->page / domain->stride; // of one page
        if (width->var.name == NULL && width->extent / entries < least) {
            least = width->extent / entries;
        }
    }
    return least;
}

static uint64_t find_longest(const struct kern_rank *rank)
{
    uint64_t low = 0, high = rank->pool.kinds[RANK_PAGES].most;
    high = high < rank->leases.row_pages ? high : rank->leases.row_pages;
    while (low < high) {
        uint64_t middle = low + (high - low + 1) / 2, alone[RANK_KINDS];
        count_held(rank, 1, alone);
        alone[RANK_PAGES] += middle;
        if (rank_pool_fits(&rank->pool, alone)) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

bool rank_leases_open(struct kern_rank *rank, struct kern_diag *diag)
{
    struct rank_leases *leases = &rank->leases;
    leases->page_users =
        kern_calloc(rank->pool.kinds[RANK_PAGES].most, sizeof(*leases->page_users));
    leases->row_pages = find_row_pages(rank);
    leases->longest = find_longest(rank);
    if (has(rank, RANK_SLOTS)) {
        rank_pool_take(&rank->pool, RANK_SLOTS); // number 0, for ever
    }
    leases->padding = new_lease(rank);
    return append_fresh(leases->padding, has(rank, RANK_PAGES), diag);
}

void rank_leases_close(struct kern_rank *rank)
{
    kern_lease_close(rank->leases.padding);
    free(rank->leases.page_users);
    rank->leases = (struct rank_leases){0};
}
