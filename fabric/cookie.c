// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "fabric/internal.h"

// A word that tells writer, owner and export apart, and is not what memory holds by accident.
static uint64_t cookie(int writer, int owner, size_t export)
{
    uint64_t x = 0x6b65726e00000000ull ^ (uint64_t) export << 40 ^ (uint64_t)(unsigned)owner << 20 ^
                 (uint64_t)(unsigned)writer;
    x *= 0x9e3779b97f4a7c15ull; // 2^64 / golden ratio: spreads the small numbers over the word
    return x ^ x >> 29;
}

// Writer [rank] has word [rank] at the start of the memory: granules hold words for 262144 ranks.
static CUdeviceptr word_of(CUdeviceptr address, int rank)
{
    return address + sizeof(uint64_t) * (CUdeviceptr)(unsigned)rank;
}

static size_t head_bytes(const struct kern_fabric *fabric)
{
    return sizeof(uint64_t) * (size_t)fabric->world->size;
}

void kern_cookies_prepare(struct kern_fabric *fabric, struct kern_diag *diag)
{
    size_t words = (size_t)fabric->world->size;
    fabric->saved = kern_calloc(words * fabric->n_exports, sizeof *fabric->saved);
    for (size_t e = 0; fabric->kind != KERN_HANDLE_NONE && e < fabric->n_exports; e++)
        if (!kern_rank_peek(fabric->rank, fabric->exports[e].address, &fabric->saved[e * words],
                            head_bytes(fabric), diag))
            return;
}

bool kern_cookie_leave(struct kern_fabric *fabric, int peer, size_t export, CUdeviceptr address,
                       const char *what, struct kern_diag *diag)
{
    uint64_t word = cookie(fabric->world->rank, peer, export), back = 0;
    CUdeviceptr at = word_of(address, fabric->world->rank);
    if (!kern_rank_poke(fabric->rank, at, &word, sizeof word, diag) ||
        !kern_rank_peek(fabric->rank, at, &back, sizeof back, diag))
        return false;
    if (back == word)
        return true;
    return kern_fail(diag, KERN_EXIT_DEVICE, what,
                     "a word written through the mapping reads back as %016llx, not %016llx",
                     (unsigned long long)back, (unsigned long long)word);
}

bool kern_cookies_check(struct kern_fabric *fabric, const struct kern_group_place *place,
                        size_t export, struct kern_diag *diag)
{
    const struct kern_world *world = fabric->world;
    uint64_t *words = kern_calloc((size_t)world->size, sizeof *words);
    bool good = kern_rank_peek(fabric->rank, fabric->exports[export].address, words,
                               head_bytes(fabric), diag);
    for (uint32_t m = 0; good && m < place->size; m++) {
        int peer = place->members[m];
        uint64_t expected = cookie(peer, world->rank, export);
        if (peer != world->rank && words[peer] != expected)
            good =
                kern_fail(diag, KERN_EXIT_DEVICE, fabric->exports[export].name,
                          "rank %d (%s) wrote a word into its mapping of this memory, and it did "
                          "not arrive here",
                          peer, world->members[peer].host);
    }
    free(words);
    return good;
}

bool kern_cookies_restore(struct kern_fabric *fabric, struct kern_diag *diag)
{
    size_t words = (size_t)fabric->world->size;
    bool good = true;
    for (size_t e = 0; fabric->kind != KERN_HANDLE_NONE && good && e < fabric->n_exports; e++)
        good = kern_rank_poke(fabric->rank, fabric->exports[e].address, &fabric->saved[e * words],
                              head_bytes(fabric), diag);
    return good;
}

void kern_cookies_free(struct kern_fabric *fabric)
{
    free(fabric->saved);
}
