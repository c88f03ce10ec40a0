// SPDX-License-Identifier: Apache-2.0
//
// SIGTERM and SIGINT: the first ends the run after the step that all ranks are in, with a report of
// what was measured; the second ends the process at once.
#ifndef KERN_LAUNCHER_WATCH_H
#define KERN_LAUNCHER_WATCH_H

#include "topo/world.h"

// From here on signals are as said above, and writing beyond a limit on the size of files fails.
void kern_watch_start(void);

// The signal that any rank has been sent, 0 if none; the same on all ranks. Collective.
int kern_watch_vote(const struct kern_world *world);

// Meetings of the ranks between steps: has anybody failed, has anybody been sent a signal? There is
// one about every tenth of a second, or after every step that lasts longer, and one at the end. A
// rank that fails goes to the next meeting at once; whoever comes to it hears that and stops as
// well.
struct kern_watch {
    uint64_t next; // step at whose end the ranks meet
    uint64_t last; // step of the last meeting
    uint64_t lag;  // steps that a rank makes before it needs to know what the meeting found, so
                   // that the first stages of a pipeline need not wait for the last
    MPI_Request meeting; // under way, unless MPI_REQUEST_NULL
    uint64_t votes[3];   // of it
    uint64_t ends;       // step after which it is over
    uint64_t started;    // base/clock.h, when it ended
    bool failed;         // somebody has failed: there is no further meeting
    int signal;          // the largest signal that anybody was sent
};

// A watch over steps from 1, the first meeting after that one.
void kern_watch_begin(struct kern_watch *watch, uint64_t lag);

// Begins or ends the meeting that is due after step [step].
void kern_watch_step(struct kern_watch *watch, const struct kern_world *world, uint64_t step);

// Ends the meeting that is under way, if there is one. Collective: the next thing that every rank
// does of those here.
void kern_watch_settle(struct kern_watch *watch, const struct kern_world *world, uint64_t step);

// Whether the ranks meet after step [step]. For those whose meetings do not lag.
bool kern_watch_due(const struct kern_watch *watch, uint64_t step);

// Meets the others and waits for them, after a meeting that is under way; [failed] says that this
// rank cannot go on. Collective.
void kern_watch_meet(struct kern_watch *watch, const struct kern_world *world, uint64_t step,
                     bool failed);

#endif
