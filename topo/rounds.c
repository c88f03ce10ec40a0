// SPDX-License-Identifier: Apache-2.0
#include "topo/rounds.h"

#include "base/clock.h"
#include "topo/watchdog.h"

// A rank that works takes part at least eight times in the time that others wait.
#define SHARE 8

void kern_rounds_open(struct kern_rounds *rounds, const struct kern_world *world)
{
    double seconds = world->timeout > 0 && world->timeout < SHARE ? world->timeout / SHARE : 1;
    *rounds = (struct kern_rounds){
        .world = world,
        .request = MPI_REQUEST_NULL,
        .interval = (uint64_t)(seconds * (double)KERN_NS_PER_SECOND),
        .last = kern_now(),
    };
}

// Enters a round unless this rank is in one.
static void enter(struct kern_rounds *rounds, bool finished)
{
    if (rounds->request != MPI_REQUEST_NULL)
        return;
    rounds->mine = finished;
    MPI_Iallreduce(&rounds->mine, &rounds->all, 1, MPI_INT, MPI_MIN, rounds->world->comm,
                   &rounds->request);
}

// Whether a round has ended just now.
static bool has_ended(struct kern_rounds *rounds)
{
    int done = 0;
    if (rounds->request == MPI_REQUEST_NULL)
        return false;
    MPI_Test(&rounds->request, &done, MPI_STATUS_IGNORE);
    if (done)
        rounds->last = kern_now();
    return done != 0;
}

void kern_rounds_beat(struct kern_rounds *rounds)
{
    if (rounds->request == MPI_REQUEST_NULL && kern_now() - rounds->last >= rounds->interval)
        enter(rounds, false);
    has_ended(rounds);
}

void kern_rounds_await(struct kern_rounds *rounds, MPI_Request *request, const char *what)
{
    int done = 0;
    kern_wait_begin(rounds->world, what);
    struct kern_patience patience = {0};
    while (!done) {
        kern_relax(&patience);
        enter(rounds, false);
        if (has_ended(rounds))
            kern_wait_begin(rounds->world, what);
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
    }
    kern_wait_end(rounds->world);
}

void kern_rounds_finish(struct kern_rounds *rounds, const char *what)
{
    kern_wait_begin(rounds->world, what);
    struct kern_patience patience = {0};
    for (;;) {
        enter(rounds, true);
        if (has_ended(rounds)) {
            if (rounds->all)
                break;
            kern_wait_begin(rounds->world, what);
        }
        kern_relax(&patience);
    }
    kern_wait_end(rounds->world);
}
