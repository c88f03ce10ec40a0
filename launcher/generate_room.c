// SPDX-License-Identifier: Apache-2.0
//
// Who may live at once in a pipeline. Every stage leases for itself, and all must come to the same
// answer without asking each other: they count the pages of each stage, which all of them know from
// the manifests. Never more are leased than every stage was made for, so that each hands them out
// in the same order, and ids of pages mean the same in stages whose pages are as large.
#include "base/memory.h"
#include "launcher/generate.h"
#include "manifest/provision.h"

static uint64_t pages_of(uint64_t rows, uint64_t page)
{
    return rows / page + (rows % page != 0);
}

bool kern_generate_measure_rooms(struct kern_run *run)
{
    struct kern_generation *generation = run->generation;
    generation->page_tokens =
        kern_arena_array(&generation->arena, run->n_stages, sizeof *generation->page_tokens);
    for (size_t i = 0; i < run->n_stages; i++) {
        const struct kern_manifest *stage = run->stages[i];
        struct kern_provision_plan plan;
        if (!kern_provision_plan(stage, run->options.capacity, run->options.seqs, &plan,
                                 &run->diag))
            return false;
        for (uint32_t s = 0; s < stage->n_states; s++) {
            if (stage->states[s].bytes_per_token)
                generation->page_tokens[i] = plan.page;
            generation->has_slots |= stage->states[s].bytes_per_seq != 0;
        }
    }
    return true;
}

uint64_t kern_generate_room(const struct kern_run *run)
{
    const uint64_t *page = run->generation->page_tokens;
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; run->n_stages > 1 && i < run->n_stages; i++) {
        uint64_t rows = page[i] ? pages_of(run->options.capacity, page[i]) * page[i] : UINT64_MAX;
        least = rows < least ? rows : least;
    }
    return least;
}

bool kern_generate_has_room(const struct kern_run *run, struct kern_sequence *const *living,
                            size_t n_living, uint64_t rows)
{
    const struct kern_generation *generation = run->generation;
    if (run->n_stages == 1)
        return true;
    if (generation->has_slots && n_living >= run->options.seqs)
        return false;
    for (size_t i = 0; i < run->n_stages; i++) {
        uint64_t page = generation->page_tokens[i], used = 0;
        for (size_t k = 0; page && k < n_living; k++)
            used += pages_of(living[k]->rows, page);
        if (page && used + pages_of(rows, page) > pages_of(run->options.capacity, page))
            return false;
    }
    return true;
}
