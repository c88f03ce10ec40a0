// SPDX-License-Identifier: Apache-2.0
//
// A set of ids below a bound, whose lowest and highest member are found in a few steps however
// many there are: a bit per id, over them a bit per word of bits that is not zero, and so on up to
// one word.
#ifndef KERN_RANK_IDS_H
#define KERN_RANK_IDS_H

#include <stdbool.h>
#include <stdint.h>

#define RANK_IDS_LEVELS 6 // of 6 bits each: enough for ids of 32 bits

// All zero: the empty set with bound 0.
struct rank_ids {
    uint64_t *levels[RANK_IDS_LEVELS];
    int depth;
    uint32_t count;
};

// An empty set for ids below [bound].
void rank_ids_open(struct rank_ids *ids, uint32_t bound);
void rank_ids_close(struct rank_ids *ids);

// Adding a member and removing what is none are programming errors.
void rank_ids_add(struct rank_ids *ids, uint32_t id);
void rank_ids_remove(struct rank_ids *ids, uint32_t id);

// Of a set that is not empty.
uint32_t rank_ids_lowest(const struct rank_ids *ids);
uint32_t rank_ids_highest(const struct rank_ids *ids);

#endif
