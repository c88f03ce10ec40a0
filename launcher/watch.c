// SPDX-License-Identifier: Apache-2.0
#include "launcher/watch.h"

#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "topo/watchdog.h"

// Set by the handler, read between steps.
static volatile sig_atomic_t received;

static void on_signal(int signal)
{
    if (received)
        _exit(128 + signal);
    received = signal;
    kern_wait_bereaved();
}

void kern_watch_start(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    // A file that may not grow is to be an error with the file's name, not a rank that dies.
    signal(SIGXFSZ, SIG_IGN);
}

int kern_watch_vote(const struct kern_world *world)
{
    int signal = received;
    KERN_WITH_OTHERS(world, "asking for signals",
                     MPI_Allreduce(MPI_IN_PLACE, &signal, 1, MPI_INT, MPI_MAX, world->comm));
    return signal;
}

bool kern_watch_due(const struct kern_watch *watch, uint64_t step)
{
    return step >= watch->next;
}

void kern_watch_meet(struct kern_watch *watch, const struct kern_world *world, uint64_t step,
                     bool failed)
{
    enum { MEET_EVERY_NS = 100000000, STEPS_MAX = 1000, GROWTH = 4 };
    uint64_t steps = step - watch->last;
    // Every rank must meet after the same step, so the slowest rank's pace decides for all.
    uint64_t votes[3] = {(uint64_t)received, steps ? (kern_now() - watch->started) / steps : 0,
                         failed};
    KERN_WITH_OTHERS(world, "meeting between steps",
                     MPI_Allreduce(MPI_IN_PLACE, votes, 3, MPI_UINT64_T, MPI_MAX, world->comm));
    // A meeting without a step since the last one tells nothing of the pace. A few quick steps at
    // first must not put the next meeting far behind slow ones.
    if (steps) {
        uint64_t most = GROWTH * steps < STEPS_MAX ? GROWTH * steps : STEPS_MAX;
        uint64_t ahead = votes[1] ? MEET_EVERY_NS / votes[1] : most;
        watch->next = step + (ahead < 1 ? 1 : ahead > most ? most : ahead);
    }
    watch->last = step;
    watch->started = kern_now();
    watch->signal = (int)votes[0];
    watch->failed = votes[2] != 0;
}
