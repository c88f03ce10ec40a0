// SPDX-License-Identifier: Apache-2.0
#include "topo/clocks.h"

#include "base/clock.h"
#include "topo/watchdog.h"

enum { CLOCK_TAG = 7002, ROUNDS = 40 };

// Rank 0's side with [rank]: the reading that it will have.
static struct kern_clock_reading ask(const struct kern_world *world, int rank)
{
    struct kern_clock_reading best = {.error = UINT64_MAX};
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t theirs, before = kern_now();
        MPI_Send(NULL, 0, MPI_BYTE, rank, CLOCK_TAG, world->comm);
        MPI_Recv(&theirs, 1, MPI_UINT64_T, rank, CLOCK_TAG, world->comm, MPI_STATUS_IGNORE);
        uint64_t after = kern_now(), half = (after - before + 1) / 2;
        if (half < best.error)
            best = (struct kern_clock_reading){theirs, (int64_t)(before + half - theirs), half};
    }
    return best;
}

static void answer(const struct kern_world *world)
{
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Recv(NULL, 0, MPI_BYTE, 0, CLOCK_TAG, world->comm, MPI_STATUS_IGNORE);
        uint64_t now = kern_now();
        MPI_Send(&now, 1, MPI_UINT64_T, 0, CLOCK_TAG, world->comm);
    }
}

void kern_clock_read(const struct kern_world *world, struct kern_clock_reading *reading)
{
    *reading = (struct kern_clock_reading){.at = kern_now()};
    kern_wait_begin(world, "comparing clocks");
    if (world->rank > 0) {
        answer(world);
        MPI_Recv(reading, sizeof *reading, MPI_BYTE, 0, CLOCK_TAG, world->comm, MPI_STATUS_IGNORE);
    }
    for (int r = 1; world->rank == 0 && r < world->size; r++) {
        struct kern_clock_reading theirs = ask(world, r);
        MPI_Send(&theirs, sizeof theirs, MPI_BYTE, r, CLOCK_TAG, world->comm);
    }
    kern_wait_end(world);
}

uint64_t kern_clock_align(const struct kern_clock *clock, uint64_t time)
{
    const struct kern_clock_reading *first = &clock->first, *last = &clock->last;
    double drift = 0;
    if (last->at > first->at)
        drift = (double)(last->offset - first->offset) * ((double)time - (double)first->at) /
                (double)(last->at - first->at);
    int64_t aligned = (int64_t)time + first->offset + (int64_t)drift;
    return aligned < 0 ? 0 : (uint64_t)aligned;
}

uint64_t kern_clock_error(const struct kern_clock *clock)
{
    return clock->first.error > clock->last.error ? clock->first.error : clock->last.error;
}
