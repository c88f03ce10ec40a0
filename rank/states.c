// SPDX-License-Identifier: Apache-2.0
//
// States: memory that the manifest sizes per token, per sequence or as it is, and never describes.
// Paged and per-sequence ones are in the pool (rank/pool.h), save those that are exported:
// importers map one allocation whole, so what they import is there from the beginning and stays.
#include "rank/internal.h"

#include "manifest/provision.h"

// Sizes of the state and its objects.
static bool measure(struct kern_rank *rank, const struct kern_provision_plan *plan, uint32_t index,
                    struct kern_diag *diag)
{
    const struct kern_state *declared = &rank->manifest->states[index];
    struct rank_state *state = &rank->states[index];
    if (declared->host != NULL) {
        return true;
    }
    if (!kern_state_bytes(declared, plan, &state->bytes, diag)) {
        return false;
    }
    // Below the state's bytes, which did not overflow.
    state->kind = declared->bytes_per_token != 0 ? RANK_PAGES : RANK_SLOTS;
    state->object = declared->bytes_per_token != 0 ? declared->bytes_per_token * plan->page
                                                   : declared->bytes_per_seq;
    return true;
}

static bool allocate_whole(struct kern_rank *rank, uint32_t index, struct kern_diag *diag)
{
    struct rank_state *state = &rank->states[index];
    bool exported = kern_state_is_exported(rank->manifest, index);
    char what[RANK_WHAT];
    rank_print(what, "state %s", rank->manifest->states[index].name);
    if (!kern_vmm_create(rank->device, rank->ordinal,
                         exported ? rank->handle_kind : KERN_HANDLE_NONE, state->bytes, what,
                         &state->mapping, diag)) {
        return false;
    }
    state->address = state->mapping.address;
    rank->memory.states += state->mapping.mapped;
    rank->memory.exported += exported ? state->mapping.mapped : 0;
    rank_print(what, "zeroing state %s", rank->manifest->states[index].name);
    return rank_zero(rank, state->address, state->mapping.mapped, what, diag);
}

// What the pool is to hold; *[ranges] and *[states] have room for every state, and *[states] says
// which one a range is.
static size_t wish_for(const struct kern_rank *rank, const struct kern_provision_plan *plan,
                       struct rank_pool_wish *wish, struct rank_range *ranges, uint32_t *states)
{
    size_t count = 0;
    for (uint32_t s = 0; s < rank->manifest->n_states; s++) {
        const struct rank_state *state = &rank->states[s];
        if (state->object == 0) {
            continue;
        }
        bool pages = state->kind == RANK_PAGES;
        wish->first[state->kind] = pages ? plan->tokens / plan->page : plan->slots;
        wish->held[state->kind] = pages ? KERN_HELD_PAGES : KERN_HELD_SLOTS;
        if (!kern_state_is_pooled(rank->manifest, s)) {
            wish->fixed[state->kind] = true;
            continue;
        }
        states[count] = s;
        ranges[count++] = (struct rank_range){
            .kind = state->kind, .name = rank->manifest->states[s].name, .object = state->object};
    }
    return count;
}

static bool allocate_pool(struct kern_rank *rank, const struct kern_provision_plan *plan,
                          struct kern_diag *diag)
{
    uint32_t n_states = rank->manifest->n_states;
    struct rank_range *ranges = kern_arena_array(&rank->arena, n_states, sizeof(*ranges));
    uint32_t *states = kern_arena_array(&rank->arena, n_states, sizeof(*states));
    struct rank_pool_wish wish = {0};
    size_t count = wish_for(rank, plan, &wish, ranges, states);
    size_t granularity = 0;
    if (!kern_vmm_granularity(rank->device, rank->ordinal, KERN_HANDLE_NONE,
                              "asking for the granularity of states", &granularity, diag) ||
        !kern_pool_chunk(rank->manifest, plan, granularity, &wish.chunk, diag) ||
        !rank_pool_open(rank, &wish, ranges, count, diag)) {
        return false;
    }
    // A tensormap over a state spans all that the state could ever have.
    for (size_t r = 0; r < count; r++) {
        struct rank_state *state = &rank->states[states[r]];
        state->address = ranges[r].address;
        state->bytes = rank->pool.kinds[state->kind].most * state->object;
    }
    rank->memory.states += rank->pool.n_chunks * rank->pool.chunk;
    return true;
}

struct kern_provision kern_rank_provision(const struct kern_rank *rank)
{
    return rank->provision;
}

void rank_states_count(struct kern_rank *rank)
{
    if (rank->pool.kinds[RANK_PAGES].first != 0) {
        rank->provision.tokens = rank_pool_extent(&rank->pool, RANK_PAGES) * rank->page;
    }
    if (rank->pool.kinds[RANK_SLOTS].first != 0) {
        rank->provision.slots = rank_pool_extent(&rank->pool, RANK_SLOTS);
    }
}

bool rank_states_allocate(struct kern_rank *rank, struct kern_diag *diag)
{
    uint32_t n_states = rank->manifest->n_states;
    struct kern_provision_plan plan;
    if (!kern_provision_plan(rank->manifest, rank->capacity, rank->seqs, &plan, diag)) {
        return false;
    }
    rank->page = plan.page;
    rank->states = kern_arena_array(&rank->arena, n_states, sizeof(*rank->states));
    rank->blocks = kern_arena_array(&rank->arena, n_states, sizeof(*rank->blocks));
    rank->provision =
        (struct kern_provision){.tokens = plan.tokens, .slots = plan.slots, .blocks = rank->blocks};
    bool pooled = false;
    for (uint32_t s = 0; s < n_states; s++) {
        if (!measure(rank, &plan, s, diag)) {
            return false;
        }
        pooled = pooled || rank->states[s].object != 0;
    }
    for (uint32_t s = 0; s < n_states; s++) {
        if (rank->states[s].bytes != 0 && !kern_state_is_pooled(rank->manifest, s) &&
            !allocate_whole(rank, s, diag)) {
            return false;
        }
    }
    return (!pooled || allocate_pool(rank, &plan, diag)) && rank_leases_open(rank, diag);
}

void rank_states_free(struct kern_rank *rank)
{
    rank_leases_close(rank);
    rank_pool_close(rank);
    for (uint32_t s = 0; rank->states != NULL && s < rank->manifest->n_states; s++) {
        kern_vmm_destroy(rank->device, &rank->states[s].mapping);
    }
    rank->states = NULL;
}
