// SPDX-License-Identifier: Apache-2.0
//
// The memory of paged and per-sequence states. Each such state has a range of reserved addresses
// that never moves and is long enough for all the pages, or slots, that it could ever have. Chunks
// of physical memory, all of one size and all made when the rank is, are mapped where pages and
// slots exist, and move from the ones to the others when those run out.
//
// Pages and slots are the two kinds of objects. Object i covers, in every range of its kind, the
// bytes from i objects on; at its ends it may share a chunk with its neighbours. A state that is
// exported is no range: it is one allocation, and its kind never has more objects than at first.
#ifndef KERN_RANK_POOL_H
#define KERN_RANK_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "device/device.h"
#include "rank/ids.h"

struct kern_rank;

enum rank_kind { RANK_PAGES, RANK_SLOTS, RANK_KINDS };

#define RANK_NO_CHUNK UINT32_MAX

// Room for one chunk in a range.
struct rank_position {
    uint32_t chunk; // what is mapped there, or RANK_NO_CHUNK
    uint32_t users; // objects over it that exist
    bool ready;     // it can be accessed, and was zeroed before it could
};

struct rank_range {
    enum rank_kind kind;
    const char *name; // of the state
    CUdeviceptr address;
    uint64_t object; // bytes of a page or slot
    struct rank_position *positions;
    size_t n_positions;
};

struct rank_objects {
    uint64_t first;          // how many there are at first; 0: no state has any of the kind
    uint64_t held;           // how many never go: what no sequence is given
    uint64_t most;           // how many there could be, with none of the other kind but the held
    struct rank_ids present; // those that have memory
    struct rank_ids free;    // those of them that are nobody's
    struct rank_ids absent;  // the others, below [most]
};

struct rank_pool {
    uint64_t chunk; // bytes
    CUmemGenericAllocationHandle *chunks;
    size_t n_chunks, chunks_capacity;
    uint32_t *unmapped; // chunks that are mapped nowhere
    size_t n_unmapped;
    struct rank_range *ranges;
    size_t n_ranges;
    struct rank_objects kinds[RANK_KINDS];
};

// What the pool is made from. first and held of each kind are counts of objects.
struct rank_pool_wish {
    uint64_t chunk;
    uint64_t first[RANK_KINDS];
    uint64_t held[RANK_KINDS];
    bool fixed[RANK_KINDS]; // the kind has no more objects than at first
};

// Makes the pool for the ranges at [ranges], which have kind, name and object; they are the
// pool's afterwards, with addresses. All first objects exist and are free, and their memory is
// being zeroed on the rank's stream. On failure the pool is closed.
bool rank_pool_open(struct kern_rank *rank, const struct rank_pool_wish *wish,
                    struct rank_range *ranges, size_t n_ranges, struct kern_diag *diag);

// Nothing that was issued may still run. Closing what was never opened does nothing.
void rank_pool_close(struct kern_rank *rank);

// Frees what the pool remembers and leaves the driver's memory alone, which kernels that may never
// end still use.
void rank_pool_forget(struct rank_pool *pool);

// Whether the chunks are enough for so many objects of each kind and nothing else.
bool rank_pool_fits(const struct rank_pool *pool, const uint64_t count[RANK_KINDS]);

enum rank_provided { RANK_PROVIDED, RANK_SHORT, RANK_REFUSED };

// Sees to it that at least [need] objects of each kind are free. Those that are missing are made,
// lowest ids first, of chunks that are mapped nowhere or that free objects of the other kind give
// up, highest ids first; before anything is unmapped it waits for the stream. SHORT: there are not
// enough chunks that nobody needs, and nothing has changed. REFUSED: the driver refused something;
// the pool is sound, but free objects may have lost their memory.
enum rank_provided rank_pool_provide(struct kern_rank *rank, const uint64_t need[RANK_KINDS],
                                     struct kern_diag *diag);

// Takes the lowest free object.
uint32_t rank_pool_take(struct rank_pool *pool, enum rank_kind kind);
void rank_pool_give(struct rank_pool *pool, enum rank_kind kind, uint32_t id);

// One more than the highest object that exists; 0 if there is none.
uint64_t rank_pool_extent(const struct rank_pool *pool, enum rank_kind kind);

// remap.c
// Makes [make] objects of each kind exist; [spare] free ones of each kind may go for that.
enum rank_provided rank_pool_remap(struct kern_rank *rank, const uint64_t make[RANK_KINDS],
                                   const uint64_t spare[RANK_KINDS], struct kern_diag *diag);

#endif
