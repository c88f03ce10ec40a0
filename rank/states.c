// SPDX-License-Identifier: Apache-2.0
//
// States: memory that the manifest sizes per token, per sequence or as it is, and never describes.
#include "rank/internal.h"

#include <string.h>

// Slots beyond one per sequence: slot 0, which kernels may treat as a null line and which is never
// given to a sequence, and one for the padding of a batch.
#define EXTRA_SLOTS 2

static uint64_t greatest_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

// The tokens of a page: the least common multiple of the strides of everything that indexes a state
// by tokens. A line of a per-sequence state counts bytes, so its stride says nothing here.
static bool page_tokens(const struct kern_manifest *manifest, uint64_t *page,
                        struct kern_diag *diag)
{
    uint64_t tokens = 1;
    for (uint32_t b = 0; b < manifest->n_buffers; b++) {
        const struct kern_domain *domain = manifest->buffers[b].domain;
        if (domain == NULL || domain->target != KERN_TARGET_STATE || domain->stride == 0) {
            continue;
        }
        const struct kern_state *state = &manifest->states[domain->index_into.index];
        if (state->host != NULL || state->bytes_per_seq != 0) {
            continue;
        }
        uint64_t factor = domain->stride / greatest_divisor(tokens, domain->stride);
        if (__builtin_mul_overflow(tokens, factor, &tokens)) {
            return kern_fail(diag, KERN_EXIT_MANIFEST, NULL,
                             "the strides of the indices into paged states have no common "
                             "multiple below 2^64");
        }
    }
    *page = tokens;
    return true;
}

static bool provision(struct kern_rank *rank, struct kern_diag *diag)
{
    uint64_t page = 0;
    uint64_t rounded = 0;
    if (!page_tokens(rank->manifest, &page, diag)) {
        return false;
    }
    if (__builtin_add_overflow(rank->capacity, page - 1, &rounded) ||
        __builtin_add_overflow(rank->seqs, EXTRA_SLOTS, &rank->provision.slots)) {
        return kern_fail(diag, KERN_EXIT_USAGE, NULL,
                         "a capacity of %llu tokens for %llu sequences is beyond 64 bits",
                         (unsigned long long)rank->capacity, (unsigned long long)rank->seqs);
    }
    rank->provision.tokens = rounded - rounded % page;
    return true;
}

static bool state_bytes(const struct kern_rank *rank, const struct kern_state *state,
                        uint64_t *bytes, struct kern_diag *diag)
{
    char place[RANK_WHAT];
    rank_print(place, "states.%s", state->name);
    if (state->host != NULL) {
        return kern_fail(diag, KERN_EXIT_USAGE, place,
                         "a state with a host layout lives in memory of an embedding program, and "
                         "there is none; declare bytes, bytes_per_token or bytes_per_seq");
    }
    uint64_t unit = state->bytes, count = 1;
    const char *what = "bytes";
    if (state->bytes_per_token != 0) {
        unit = state->bytes_per_token;
        count = rank->provision.tokens;
        what = "tokens";
    } else if (state->bytes_per_seq != 0) {
        unit = state->bytes_per_seq;
        count = rank->provision.slots;
        what = "sequence slots";
    }
    if (count == 0 || __builtin_mul_overflow(unit, count, bytes)) {
        return kern_fail(diag, KERN_EXIT_USAGE, place,
                         "%llu %s of %llu bytes each cannot be provisioned",
                         (unsigned long long)count, what, (unsigned long long)unit);
    }
    return true;
}

bool rank_state_is_exported(const struct kern_manifest *manifest, uint32_t state)
{
    for (uint32_t b = 0; b < manifest->n_buffers; b++) {
        const struct kern_buffer *buffer = &manifest->buffers[b];
        if (buffer->kind == KERN_PEER && buffer->of_target == KERN_TARGET_STATE &&
            buffer->of.index == state) {
            return true;
        }
    }
    return false;
}

static bool allocate_state(struct kern_rank *rank, uint32_t index, struct kern_diag *diag)
{
    const struct kern_state *state = &rank->manifest->states[index];
    struct rank_state *memory = &rank->states[index];
    bool exported = rank_state_is_exported(rank->manifest, index);
    char what[RANK_WHAT];
    rank_print(what, "state %s", state->name);
    if (!state_bytes(rank, state, &memory->bytes, diag) ||
        !kern_vmm_create(rank->device, rank->ordinal,
                         exported ? rank->handle_kind : KERN_HANDLE_NONE, memory->bytes, what,
                         &memory->mapping, diag)) {
        return false;
    }
    rank->memory.states += memory->mapping.mapped;
    rank->memory.exported += exported ? memory->mapping.mapped : 0;
    rank_print(what, "zeroing state %s", state->name);
    return rank_zero(rank, memory->mapping.address, memory->mapping.mapped, what, diag);
}

struct kern_provision kern_rank_provision(const struct kern_rank *rank)
{
    return rank->provision;
}

bool rank_states_allocate(struct kern_rank *rank, struct kern_diag *diag)
{
    uint32_t n_states = rank->manifest->n_states;
    rank->states = kern_arena_array(&rank->arena, n_states, sizeof(*rank->states));
    if (!provision(rank, diag)) {
        return false;
    }
    for (uint32_t s = 0; s < n_states; s++) {
        if (!allocate_state(rank, s, diag)) {
            return false;
        }
    }
    return true;
}

void rank_states_free(struct kern_rank *rank)
{
    for (uint32_t s = 0; rank->states != NULL && s < rank->manifest->n_states; s++) {
        kern_vmm_destroy(rank->device, &rank->states[s].mapping);
    }
    rank->states = NULL;
}
