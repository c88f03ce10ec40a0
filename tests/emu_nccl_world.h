// SPDX-License-Identifier: Apache-2.0
//
// What the tests of NCCL of the emulated GPU have in common: ranks that are processes made by fork,
// each with a device of its own.
#ifndef KERN_TESTS_EMU_NCCL_WORLD_H
#define KERN_TESTS_EMU_NCCL_WORLD_H

#include "emu/libraries.h"
#include "tests/emu_check.h"

#define NCCL_EXPECT(wanted, call) nccl_expect((call), (wanted), #call, __FILE__, __LINE__)
#define NCCL_OK(call) NCCL_EXPECT(ncclSuccess, call)

void nccl_expect(ncclResult_t got, ncclResult_t wanted, const char *call, const char *file,
                 int line);

struct world {
    int n_ranks;
    ncclUniqueId id;
    struct shared *shared; // what all ranks see
};

typedef void rank_body(const struct world *world, int rank);

// Makes this process one that uses [device].
void begin_on(int device);

// Starts the ranks' processes; rank r has device r.
struct world world_start(int n_ranks, rank_body *body, pid_t *pids);

// Waits for them all and frees. One failed check ends its rank, and then the others, which may be
// waiting for it.
void world_end(const struct world *world, const pid_t *pids);

// Frees what the ranks saw; their processes have been waited for.
void world_free(const struct world *world);

// All of it: start, wait, free.
void run_world(int n_ranks, rank_body *body);

ncclComm_t join(const struct world *world, int rank);

// Waits until [count] of all ranks have passed here; [at] is below 4.
void meet(const struct world *world, int at, int count);

void *device_bytes(size_t bytes);

#endif
