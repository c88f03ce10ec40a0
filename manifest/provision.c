// SPDX-License-Identifier: Apache-2.0
#include "manifest/provision.h"

#include <inttypes.h>

#include "manifest/place.h"

enum { CHUNK_GRANULES_MAX = 32 };

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

static bool has_pages(const struct kern_manifest *manifest)
{
    for (uint32_t s = 0; s < manifest->n_states; s++)
        if (manifest->states[s].bytes_per_token != 0)
            return true;
    return false;
}

bool kern_provision_plan(const struct kern_manifest *manifest, uint64_t capacity, uint64_t seqs,
                         struct kern_provision_plan *plan, struct kern_diag *diag)
{
    if (!find_page(manifest, &plan->page, diag))
        return false;
    uint64_t pages = capacity / plan->page + (capacity % plan->page != 0);
    // No capacity at all is an error of the states that need some, see kern_state_bytes.
    uint64_t held = pages != 0 && has_pages(manifest) ? KERN_HELD_PAGES : 0;
    if (__builtin_add_overflow(pages, held, &pages) ||
        __builtin_mul_overflow(pages, plan->page, &plan->tokens) ||
        __builtin_add_overflow(seqs, KERN_HELD_SLOTS, &plan->slots))
        return kern_fail(diag, KERN_EXIT_USAGE, NULL,
                         "a capacity of %" PRIu64 " tokens for %" PRIu64
                         " sequences is beyond 64 bits",
                         capacity, seqs);
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
                         "a state with a host layout has the size that its host gives it");
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

bool kern_host_bytes(const struct kern_host_layout *host, uint64_t blocks, uint64_t *bytes)
{
    uint64_t elements = 1;
    for (size_t i = 0; i < host->rank; i++) {
        uint64_t extent = i == 0 ? blocks : host->shape[i], reach;
        if (__builtin_mul_overflow(extent - 1, host->strides[i], &reach) ||
            __builtin_add_overflow(elements, reach, &elements))
            return false;
    }
    return !__builtin_mul_overflow(elements, kern_dtype_bytes(host->dtype), bytes);
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

bool kern_state_is_pooled(const struct kern_manifest *manifest, uint32_t state)
{
    const struct kern_state *declared = &manifest->states[state];
    return (declared->bytes_per_token != 0 || declared->bytes_per_seq != 0) &&
           !kern_state_is_exported(manifest, state);
}

// The bytes of all pooled states, each rounded up to [unit].
static bool pool_bytes(const struct kern_manifest *manifest, const struct kern_provision_plan *plan,
                       uint64_t unit, uint64_t *total, struct kern_diag *diag)
{
    *total = 0;
    for (uint32_t s = 0; s < manifest->n_states; s++) {
        uint64_t bytes;
        if (!kern_state_is_pooled(manifest, s))
            continue;
        if (!kern_state_bytes(&manifest->states[s], plan, &bytes, diag))
            return false;
        uint64_t units = bytes / unit + (bytes % unit != 0);
        if (__builtin_mul_overflow(units, unit, &bytes) ||
            __builtin_add_overflow(*total, bytes, total))
            return kern_fail(diag, KERN_EXIT_USAGE, NULL, "all memory together exceeds 64 bits");
    }
    return true;
}

// The bytes of the smallest page or slot of a pooled state; UINT64_MAX without one.
static uint64_t smallest_object(const struct kern_manifest *manifest,
                                const struct kern_provision_plan *plan)
{
    uint64_t smallest = UINT64_MAX;
    for (uint32_t s = 0; s < manifest->n_states; s++) {
        const struct kern_state *state = &manifest->states[s];
        if (!kern_state_is_pooled(manifest, s))
            continue;
        // A product that overflows is larger than any other and is refused with the state's size.
        uint64_t bytes = state->bytes_per_seq;
        if (bytes == 0 && __builtin_mul_overflow(state->bytes_per_token, plan->page, &bytes))
            bytes = UINT64_MAX;
        smallest = bytes < smallest ? bytes : smallest;
    }
    return smallest;
}

bool kern_pool_chunk(const struct kern_manifest *manifest, const struct kern_provision_plan *plan,
                     uint64_t granule, uint64_t *chunk, struct kern_diag *diag)
{
    uint64_t least, total;
    if (!pool_bytes(manifest, plan, granule, &least, diag))
        return false;
    uint64_t granules = smallest_object(manifest, plan) / 2 / granule;
    if (granules == 0 || granules > CHUNK_GRANULES_MAX)
        granules = CHUNK_GRANULES_MAX;
    if (least == 0)
        granules = 1;
    for (; granules > 1; granules /= 2) {
        if (!pool_bytes(manifest, plan, granules * granule, &total, diag))
            return false;
        if (total - least <= least / 8)
            break;
    }
    *chunk = granules * granule;
    return true;
}
