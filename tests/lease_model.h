// SPDX-License-Identifier: Apache-2.0
//
// A model of leases for rank_leases_test: a rank over the tiny driver, and beside it what each
// lease should have and hold, byte by byte, computed from sets of ids and without a driver.
#ifndef KERN_TESTS_LEASE_MODEL_H
#define KERN_TESTS_LEASE_MODEL_H

#include "rank/internal.h"
#include "tests/tiny_driver.h"

#define MODEL_STATES 8
#define MODEL_IDS 1024  // more pages or slots than a test has
#define MODEL_LEASES 64 // that live at once
#define MODEL_PAGES 64  // of one lease

struct model_lease {
    struct kern_lease *lease; // NULL: none
    uint32_t pages[MODEL_PAGES];
    size_t n_pages, shared;
    uint32_t slot;
    bool asleep;
    unsigned char *page_bytes[MODEL_STATES][MODEL_PAGES]; // what page i should hold
    unsigned char *slot_bytes[MODEL_STATES];
};

struct model {
    struct kern_device device;
    struct kern_manifest *manifest;
    struct kern_rank *rank;
    struct kern_diag diag;
    bool present[RANK_KINDS][MODEL_IDS];
    unsigned users[RANK_KINDS][MODEL_IDS];
    struct model_lease leases[MODEL_LEASES];
    uint64_t random;
};

// A rank with the manifest [json], in which ' stands for ", that has no memory yet; the test fails
// if it is refused.
void model_create(struct model *model, const char *json, size_t granule, uint64_t capacity,
                  uint64_t seqs, uint64_t seed);

// Gives it memory. False if the driver refuses a call; the diag says which, and it may be tried
// again.
bool model_allocate(struct model *model);

// Destroys the rank with all leases and checks that the driver holds nothing and no rule was
// broken.
void model_close(struct model *model);

uint64_t model_random(struct model *model, uint64_t below);

// Operations on rank and model at once. Each checks the answer, the ids, and that what is fresh is
// zero and what was copied is equal. The answer is returned; KERN_LEASE_FAILED is accepted only if
// [may_fail], and the model then knows what the pool says is there.
enum kern_denial model_lease_open(struct model *model, size_t at, uint64_t tokens, bool may_fail);
enum kern_denial model_lease_grow(struct model *model, size_t at, uint64_t tokens, bool may_fail);
enum kern_denial model_lease_fork(struct model *model, size_t parent, size_t at, uint64_t length,
                                  uint64_t tokens, bool may_fail);
void model_lease_keep(struct model *model, size_t at, uint64_t length);
void model_lease_close(struct model *model, size_t at);

// Writes random bytes wherever the lease may write, as kernels would.
void model_lease_write(struct model *model, size_t at);

// Checks that every lease has what it should have, and that its bytes are what they were.
void model_check(struct model *model);

// lease_model_ids.c

// Objects of each kind that are never a sequence's.
extern const uint64_t model_held[RANK_KINDS];
// How many objects there could ever be, and whether there are any.
uint64_t model_most(const struct model *model, enum rank_kind kind);
bool model_has(const struct model *model, enum rank_kind kind);
// What the rank should say to a request for [fresh] pages for a lease of [total], and for a slot
// if [slot], beside [others] other leases that must live; [pages] are those of all these leases
// together. If it is to be granted, enough of them are free afterwards.
enum kern_denial model_answer(struct model *model, uint64_t fresh, uint64_t total, bool slot,
                              uint64_t others, uint64_t pages);
// Takes the lowest free object, of which there is one.
uint32_t model_take(struct model *model, enum rank_kind kind);
// The most pages of one lease, and the most leases without pages, counted up from nothing.
uint64_t model_most_pages(const struct model *model);
uint64_t model_most_leases(const struct model *model);

#endif
