// SPDX-License-Identifier: Apache-2.0
//
// The kernel artifact of generate_roles.sh: a host half, written by hand, of a model that is no
// more than a sum. Its paged state keeps each sequence's tokens and its per-sequence state counts
// them; what follows depends on all of them, and on everything else that a serving loop writes. An
// input that cannot be right is reported by its number in the error word.
#include "device/abi/host_module.h"

#include <stdbool.h>
#include <stddef.h>

enum { VOCABULARY = 97, PAGES = 16, FINE = 8, COARSE = 16, PROPOSED = 3 };

#define ARG(type, i) (*(type *)args[i])
#define KERNEL(name)                                                                               \
    static int name(const struct kern_host_grid *grid __attribute__((unused)),                     \
                    uint64_t first __attribute__((unused)),                                        \
                    uint64_t count __attribute__((unused)), void *const *args)

enum param {
    TOKEN,
    FIRST,
    POSITION,
    VALID,
    SLOT,
    SEQ_LEN,
    CU_SEQLENS,
    TEMPERATURE,
    TOP_K,
    TOP_P,
    MIN_P,
    SEED,
    FINE_PAGES,
    COARSE_PAGES,
    LINES,
    KV,
    TALLY,
    ERROR,
    ROWS,    // of the call
    SEQS,    // of the call
    FORM,    // rows of each sequence; 0: cu_seqlens says
    LEAST,   // sequences that the program is for
    CONTEXT, // 0: no var counts it
    TOKENS,  // not of all entries, like the next
    COUNT,
};

struct tally {
    int64_t rows, sum;
};

// Where the sequence's token at [position] lies, by both page tables; -1 if they disagree.
static int64_t slot_of(void *const *args, int32_t sequence, int64_t position)
{
    const int32_t *fine = ARG(const int32_t *, FINE_PAGES) + (ptrdiff_t)sequence * PAGES;
    const int32_t *coarse =
        ARG(const int32_t *, COARSE_PAGES) + (ptrdiff_t)sequence * (PAGES * FINE / COARSE);
    int64_t slot = (int64_t)fine[position / FINE] * FINE + position % FINE;
    int64_t other = (int64_t)coarse[position / COARSE] * COARSE + position % COARSE;
    return slot == other ? slot : -1;
}

static int64_t sampled(void *const *args, int32_t s)
{
    float temperature = ARG(const float *, TEMPERATURE)[s];
    int64_t seed = ARG(const int64_t *, SEED)[s];
    return ARG(const int32_t *, TOP_K)[s] + (int64_t)(ARG(const float *, TOP_P)[s] * 8) - 8 +
           (int64_t)(ARG(const float *, MIN_P)[s] * 16) + (temperature > 0 ? seed % VOCABULARY : 0);
}

// The token after the first [length] of the sequence.
static int64_t next_of(void *const *args, int32_t s, int64_t length)
{
    const int64_t *kv = ARG(const int64_t *, KV);
    int64_t sum = 7 + sampled(args, s);
    for (int64_t p = 0; p < length; p++)
        sum += 31 * (p + 1) * kv[slot_of(args, s, p)];
    return sum % VOCABULARY;
}

// The sequence's tally, if its lines are those of one slot which is somebody's.
static struct tally *tally_of(void *const *args, int32_t s)
{
    const int32_t *lines = ARG(const int32_t *, LINES);
    int32_t line = lines[s], seqs = ARG(int32_t, SEQS);
    bool good = line >= 2 && line % 2 == 0 && lines[seqs + s] == line + 1;
    return good ? ARG(struct tally *, TALLY) + line / 2 : NULL;
}

// Takes the rows [from, to) of the call, which are those of sequence [s], into the states. Returns
// the number of an input that is wrong, 0 if none is, or -1 for padding.
static int take_rows(void *const *args, int32_t s, int32_t from, int32_t to)
{
    const int64_t *position = ARG(const int64_t *, POSITION);
    const uint8_t *valid = ARG(const uint8_t *, VALID);
    int64_t length = ARG(const int64_t *, SEQ_LEN)[s];
    if (length != position[to - 1] + 1)
        return SEQ_LEN;
    for (int32_t row = from; row < to; row++) {
        int32_t token = ARG(const int32_t *, TOKEN)[row];
        int64_t slot = ARG(const int32_t *, SLOT)[row];
        if (position[row] != position[from] + row - from)
            return POSITION;
        if (slot != slot_of(args, s, position[row]))
            return SLOT;
        if (valid[row] != valid[from])
            return VALID;
        if (token < 0 || token >= VOCABULARY)
            return TOKEN;
        if (valid[row])
            ARG(int64_t *, KV)[slot] = token;
    }
    if (ARG(const int32_t *, FIRST)[s] != ARG(const int32_t *, TOKEN)[from])
        return FIRST;
    if (!valid[from])
        return ARG(const float *, TEMPERATURE)[s] == 0 && sampled(args, s) == 0 ? -1 : TEMPERATURE;
    struct tally *tally = tally_of(args, s);
    if (!tally || tally->rows != position[from])
        return LINES;
    return ARG(const int64_t *, SEED)[s] < 0 ? SEED : 0;
}

static void add_tally(void *const *args, int32_t s, int32_t from, int32_t rows)
{
    tally_of(args, s)->rows += rows;
    tally_of(args, s)->sum += ARG(const int32_t *, TOKEN)[from];
}

// What the model proposes after the first row [from] of sequence [s], each token fed in its turn.
// How many are to be taken depends on the tokens.
static void propose(void *const *args, int32_t s, int32_t from)
{
    int64_t position = ARG(const int64_t *, POSITION)[from];
    int64_t *tokens = ARG(int64_t *, TOKENS) + (ptrdiff_t)s * PROPOSED;
    for (int32_t i = 0; i < PROPOSED; i++) {
        tokens[i] = next_of(args, s, position + i + 1);
        if (i + 1 < PROPOSED)
            ARG(int64_t *, KV)[slot_of(args, s, position + i + 1)] = tokens[i];
    }
    ARG(int32_t *, COUNT)[s] = (int32_t)(1 + tokens[0] % PROPOSED);
    add_tally(args, s, from, ARG(int32_t *, COUNT)[s]);
}

enum answer { NOTHING, NEXT, PROPOSALS };

static int32_t serve(void *const *args, enum answer answer)
{
    int32_t rows = ARG(int32_t, ROWS), seqs = ARG(int32_t, SEQS), form = ARG(int32_t, FORM);
    int64_t longest = 0;
    if (seqs < ARG(int32_t, LEAST) || (form && rows != seqs * form))
        return ROWS;
    for (int32_t s = 0; s < seqs; s++) {
        const int32_t *sums = ARG(const int32_t *, CU_SEQLENS);
        int32_t from = form ? s * form : sums[s], to = form ? from + form : sums[s + 1];
        if (sums[s] != from || sums[s + 1] != to || to <= from || to > rows)
            return CU_SEQLENS;
        int wrong = take_rows(args, s, from, to);
        if (wrong > 0)
            return wrong;
        if (ARG(const int64_t *, SEQ_LEN)[s] > longest)
            longest = ARG(const int64_t *, SEQ_LEN)[s];
        if (wrong < 0)
            continue;
        if (answer == PROPOSALS)
            propose(args, s, from);
        else
            add_tally(args, s, from, to - from);
        if (answer == NEXT)
            ARG(int64_t *, TOKENS)[s] = next_of(args, s, ARG(const int64_t *, SEQ_LEN)[s]);
    }
    int32_t context = ARG(int32_t, CONTEXT);
    return context && context != longest ? CONTEXT : 0;
}

KERNEL(serve_nothing)
{
    *ARG(int32_t *, ERROR) = serve(args, NOTHING);
    return 0;
}

KERNEL(serve_next)
{
    *ARG(int32_t *, ERROR) = serve(args, NEXT);
    return 0;
}

KERNEL(serve_proposals)
{
    *ARG(int32_t *, ERROR) = serve(args, PROPOSALS);
    return 0;
}

// Traps unless the rows of all members are the caller's own, and the blocks say so: token, blocks,
// rows, members.
KERNEL(check_ranks)
{
    const int32_t *token = ARG(const int32_t *, 0), *blocks = ARG(const int32_t *, 1);
    int32_t rows = ARG(int32_t, 2), members = ARG(int32_t, 3);
    bool good = blocks[members] == rows * members;
    for (int32_t m = 0; m < members; m++)
        good = good && blocks[m] == rows * m;
    for (int32_t i = 0; i < rows * members; i++)
        good = good && token[i] == token[i % rows];
    return !good;
}

#define POINTER(i)                                                                                 \
    {                                                                                              \
        8 * (i), 8                                                                                 \
    }
#define INTEGER(i)                                                                                 \
    {                                                                                              \
        8 * (ERROR + 1) + 4 * (i), 4                                                               \
    }
#define LOOP_PARAMS                                                                                \
    POINTER(0), POINTER(1), POINTER(2), POINTER(3), POINTER(4), POINTER(5), POINTER(6),            \
        POINTER(7), POINTER(8), POINTER(9), POINTER(10), POINTER(11), POINTER(12), POINTER(13),    \
        POINTER(14), POINTER(15), POINTER(16), POINTER(17), INTEGER(0), INTEGER(1), INTEGER(2),    \
        INTEGER(3), INTEGER(4)

// After five integers a pointer begins at the next multiple of its size.
static const struct kern_host_param of_nothing[] = {LOOP_PARAMS};
static const struct kern_host_param of_next[] = {LOOP_PARAMS, POINTER(ERROR + 4)};
static const struct kern_host_param of_proposals[] = {LOOP_PARAMS, POINTER(ERROR + 4),
                                                      POINTER(ERROR + 5)};
static const struct kern_host_param of_ranks[] = {{0, 8}, {8, 8}, {16, 4}, {20, 4}};

#define PARAMS(array) array, sizeof(array) / sizeof *(array)

static const struct kern_host_entry entries[] = {
    {"serve_nothing", serve_nothing, PARAMS(of_nothing), 0},
    {"serve_next", serve_next, PARAMS(of_next), 0},
    {"serve_proposals", serve_proposals, PARAMS(of_proposals), 0},
    {"check_ranks", check_ranks, PARAMS(of_ranks), 0},
};

__attribute__((visibility("default"))) const struct kern_host_module kern_host_module = {
    KERN_HOST_MODULE_ABI, sizeof entries / sizeof *entries, entries};
