// SPDX-License-Identifier: Apache-2.0
//
// Leases: what one sequence has of a rank's states. A lease holds pages, of which an id means that
// page in every paged state at once, and one slot, whose number means that slot in every
// per-sequence state. Page ids and slots never change while they are leased, whatever others do.
//
// Two things are never handed to a sequence: slot 0, which kernels may treat as a null line, and
// what padding rows use, which is page 0 and slot 1. A table whose unused entries are 0 so names
// nothing of a sequence. The capacity of a rank does not count them.
//
// Fresh pages and slots are zeroed on the rank's stream when they are leased, so every program
// issued later finds them zero. A released page may be leased again at once: all work of a rank is
// in the order of one stream. Leases are for one thread; they are made after kern_rank_allocate and
// closed before kern_rank_destroy. What is called programming error below is asserted.
#ifndef KERN_RANK_LEASES_H
#define KERN_RANK_LEASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "rank/rank.h"

struct kern_lease;

// Why a lease was not had. All but KERN_LEASE_FAILED leave the diag alone and are answers, not
// errors; nothing has changed then but, perhaps, which of the free pages and slots have memory.
enum kern_denial {
    KERN_LEASE_GRANTED,
    KERN_LEASE_EXCEEDS_ROW,  // no row of the narrowest page table names so many pages: never
    KERN_LEASE_EXCEEDS_POOL, // not even if it were the only one: never
    KERN_LEASE_BUSY,         // once others are closed
    KERN_LEASE_FAILED,       // the driver refused something; the diag says what
};

// "more tokens than a row of a page table names pages for", with the figures, as an error of kind
// KERN_EXIT_USAGE about [place] in [diag]. Does nothing for GRANTED and FAILED. Returns false.
bool kern_lease_explain(const struct kern_rank *rank, uint64_t tokens, enum kern_denial denial,
                        const char *place, struct kern_diag *diag);

// Leases pages for [tokens] tokens (0 is allowed), lowest ids first, and the lowest slot: all or
// nothing. NULL if denied.
struct kern_lease *kern_lease_open(struct kern_rank *rank, uint64_t tokens,
                                   enum kern_denial *denial, struct kern_diag *diag);

// Makes room for [tokens] tokens in all; fewer than there is room for change nothing. If it is
// denied the lease is as it was.
bool kern_lease_grow(struct kern_lease *lease, uint64_t tokens, enum kern_denial *denial,
                     struct kern_diag *diag);

// A sequence that begins with the first [length] tokens of [parent] and has room for [tokens]. The
// pages that they fill are shared, and from now on neither may write them; a page that they fill
// in part and the slot are copied, as they are when what has been issued is done. [length] lies
// within the parent and is at most [tokens], else it is a programming error. With per-sequence
// states a fork means something only at the parent's current length.
struct kern_lease *kern_lease_fork(struct kern_lease *parent, uint64_t length, uint64_t tokens,
                                   enum kern_denial *denial, struct kern_diag *diag);

// Puts a sequence of [length] tokens to sleep: it keeps its slot and the pages of those tokens,
// gives back the others, and is in no call until it wakes. [length] lies within the lease and not
// within the pages that it shares.
void kern_lease_keep(struct kern_lease *lease, uint64_t length);

// Wakes it with room for [tokens] tokens; if that is denied it sleeps on.
bool kern_lease_wake(struct kern_lease *lease, uint64_t tokens, enum kern_denial *denial,
                     struct kern_diag *diag);

// Gives everything back. NULL is allowed.
void kern_lease_close(struct kern_lease *lease);

// Its page ids in order of positions: page i has the tokens from i * kern_rank_page_tokens on.
// Borrowed until the lease changes. None if the manifest has no paged state.
const uint32_t *kern_lease_pages(const struct kern_lease *lease, size_t *count);

// Its slot; 0 if the manifest has no per-sequence state.
uint32_t kern_lease_slot(const struct kern_lease *lease);

// The tokens that there is room for, and how many of them, from the first on, lie in pages that
// are shared or have been, which may be read but not written.
uint64_t kern_lease_tokens(const struct kern_lease *lease);
uint64_t kern_lease_shared_tokens(const struct kern_lease *lease);

// Where the token at [position] is written, in tokens from the beginning of a paged state. The
// position is one that the lease may write, and the lease is awake, else it is a programming error.
// Of the padding lease, every position is one.
uint64_t kern_lease_token_slot(const struct kern_lease *lease, uint64_t position);

// The tokens of a page: the least common multiple of the strides of the indices into paged states.
uint64_t kern_rank_page_tokens(const struct kern_rank *rank);

// The most tokens of one sequence: what the narrowest page table names, in whole pages, or what
// the states hold with nothing else there, whichever is less.
uint64_t kern_rank_longest_sequence(const struct kern_rank *rank);

// What padding rows use. Borrowed from the rank, neither grown nor closed by anybody else.
const struct kern_lease *kern_rank_padding_lease(const struct kern_rank *rank);

#endif
