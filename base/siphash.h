// SPDX-License-Identifier: Apache-2.0
//
// A keyed hash for tables whose keys strangers choose: without the key nobody can write keys that
// all fall into one slot.
#ifndef KERN_BASE_SIPHASH_H
#define KERN_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

// Fills [key] with random numbers, which is done once for each table.
void kern_siphash_key(uint64_t key[2]);

// SipHash-1-3 (Aumasson and Bernstein, https://131002.net/siphash) of [length] bytes.
uint64_t kern_siphash(const uint64_t key[2], const void *bytes, size_t length);

#endif
