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

// The heads of all exports, from or to [words], one row of the world's ranks for each.
static struct kern_span *spans_of_heads(const struct kern_fabric *fabric, uint64_t *words)
{
    struct kern_span *spans = kern_calloc(fabric->n_exports, sizeof *spans);
    for (size_t e = 0; e < fabric->n_exports; e++)
        spans[e] = (struct kern_span){fabric->exports[e].address,
                                      words + e * (size_t)fabric->world->size, head_bytes(fabric)};
    return spans;
}

static bool peek_heads(struct kern_fabric *fabric, uint64_t *words, struct kern_diag *diag)
{
    struct kern_span *spans = spans_of_heads(fabric, words);
    bool good = kern_rank_peek_all(fabric->rank, spans, fabric->n_exports, diag);
    free(spans);
    return good;
}

static uint64_t *new_heads(const struct kern_fabric *fabric)
{
    return kern_calloc((size_t)fabric->world->size * fabric->n_exports, sizeof(uint64_t));
}

void kern_cookies_prepare(struct kern_fabric *fabric, struct kern_diag *diag)
{
    fabric->saved = new_heads(fabric);
    if (fabric->kind != KERN_HANDLE_NONE)
        peek_heads(fabric, fabric->saved, diag);
}

static bool check_back(const struct kern_fabric *fabric, const struct kern_origin *origin,
                       uint64_t word, uint64_t back, struct kern_diag *diag)
{
    if (back == word)
        return true;
    return kern_fail(diag, KERN_EXIT_DEVICE, fabric->exports[origin->export].name,
                     "a word written through the mapping of rank %d's (%s) reads back as %016llx, "
                     "not %016llx",
                     origin->peer, fabric->world->members[origin->peer].host,
                     (unsigned long long)back, (unsigned long long)word);
}

bool kern_cookies_leave(struct kern_fabric *fabric, struct kern_diag *diag)
{
    size_t count = fabric->facts.mappings;
    uint64_t *words = kern_calloc(2 * count, sizeof *words), *back = words + count;
    struct kern_span *spans = kern_calloc(2 * count, sizeof *spans);
    for (size_t i = 0; i < count; i++) {
        const struct kern_origin *origin = &fabric->origins[i];
        CUdeviceptr at = word_of(fabric->mappings[i].address, fabric->world->rank);
        words[i] = cookie(fabric->world->rank, origin->peer, origin->export);
        spans[i] = (struct kern_span){at, &words[i], sizeof words[i]};
        spans[count + i] = (struct kern_span){at, &back[i], sizeof back[i]};
    }
    bool good = count == 0 || (kern_rank_poke_all(fabric->rank, spans, count, diag) &&
                               kern_rank_peek_all(fabric->rank, spans + count, count, diag));
    for (size_t i = 0; good && i < count; i++)
        good = check_back(fabric, &fabric->origins[i], words[i], back[i], diag);
    free(spans);
    free(words);
    return good;
}

static bool check_words(const struct kern_fabric *fabric, const struct kern_group_place *place,
                        size_t export, const uint64_t *words, struct kern_diag *diag)
{
    const struct kern_world *world = fabric->world;
    for (uint32_t m = 0; m < place->size; m++) {
        int peer = place->members[m];
        if (peer != world->rank && words[peer] != cookie(peer, world->rank, export))
            return kern_fail(diag, KERN_EXIT_DEVICE, fabric->exports[export].name,
                             "rank %d (%s) wrote a word into its mapping of this memory, and it "
                             "did not arrive here",
                             peer, world->members[peer].host);
    }
    return true;
}

bool kern_cookies_check(struct kern_fabric *fabric, const struct kern_group_place *place,
                        const size_t *targets, size_t count, struct kern_diag *diag)
{
    uint64_t *words = new_heads(fabric);
    bool good = peek_heads(fabric, words, diag);
    for (size_t t = 0; good && t < count; t++)
        good = check_words(fabric, place, targets[t],
                           words + targets[t] * (size_t)fabric->world->size, diag);
    free(words);
    return good;
}

bool kern_cookies_restore(struct kern_fabric *fabric, struct kern_diag *diag)
{
    if (fabric->kind == KERN_HANDLE_NONE)
        return true;
    struct kern_span *spans = spans_of_heads(fabric, fabric->saved);
    bool good = kern_rank_poke_all(fabric->rank, spans, fabric->n_exports, diag);
    free(spans);
    return good;
}

void kern_cookies_free(struct kern_fabric *fabric)
{
    free(fabric->saved);
}
