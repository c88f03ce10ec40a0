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

void kern_watch_begin(struct kern_watch *watch, uint64_t lag)
{
    *watch = (struct kern_watch){
        .next = 1, .lag = lag, .started = kern_now(), .meeting = MPI_REQUEST_NULL};
}

static void begin_meeting(struct kern_watch *watch, const struct kern_world *world, uint64_t step,
                          bool failed)
{
    // Every rank must meet after the same step, so the slowest rank's pace decides for all. A
    // meeting without a step since the last one, before a capture, tells nothing of the pace.
    uint64_t steps = step - watch->last;
    watch->votes[0] = (uint64_t)received;
    watch->votes[1] = steps ? (kern_now() - watch->started) / steps : 0;
    watch->votes[2] = failed;
    watch->ends = step + watch->lag;
    MPI_Iallreduce(MPI_IN_PLACE, watch->votes, 3, MPI_UINT64_T, MPI_MAX, world->comm,
                   &watch->meeting);
}

static void end_meeting(struct kern_watch *watch, const struct kern_world *world, uint64_t step)
{
    enum { MEET_EVERY_NS = 100000000, STEPS_MAX = 1000, GROWTH = 4 };
    KERN_WITH_OTHERS(world, "meeting between steps", MPI_Wait(&watch->meeting, MPI_STATUS_IGNORE));
    uint64_t steps = step - watch->last;
    // A few quick steps at first must not put the next meeting far behind slow ones.
    if (steps) {
        uint64_t most = GROWTH * steps < STEPS_MAX ? GROWTH * steps : STEPS_MAX;
        uint64_t ahead = watch->votes[1] ? MEET_EVERY_NS / watch->votes[1] : most;
        watch->next = step + (ahead < 1 ? 1 : ahead > most ? most : ahead);
    }
    watch->last = step;
    watch->started = kern_now();
    watch->signal = (int)watch->votes[0];
    watch->failed = watch->votes[2] != 0;
}

void kern_watch_step(struct kern_watch *watch, const struct kern_world *world, uint64_t step)
{
    bool under_way = watch->meeting != MPI_REQUEST_NULL;
    if (!under_way && kern_watch_due(watch, step))
        begin_meeting(watch, world, step, false);
    if (watch->meeting != MPI_REQUEST_NULL && step >= watch->ends)
        end_meeting(watch, world, step);
}

void kern_watch_settle(struct kern_watch *watch, const struct kern_world *world, uint64_t step)
{
    if (watch->meeting != MPI_REQUEST_NULL)
        end_meeting(watch, world, step);
}

void kern_watch_meet(struct kern_watch *watch, const struct kern_world *world, uint64_t step,
                     bool failed)
{
    kern_watch_settle(watch, world, step);
    if (watch->failed)
        return;
    begin_meeting(watch, world, step, failed);
    end_meeting(watch, world, step);
}
