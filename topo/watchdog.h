// SPDX-License-Identifier: Apache-2.0
//
// The deadline on every wait for other ranks. MPI's own calls wait for ever; a timer ends the
// process when one of them lasts longer than --timeout, after saying who is late.
#ifndef KERN_TOPO_WATCHDOG_H
#define KERN_TOPO_WATCHDOG_H

#include "topo/world.h"

// From here to kern_wait_end this process waits for others; [what] says for what, and must live as
// long. Waits do not nest. [world] may be half open: MPI_Init is such a wait.
void kern_wait_begin(const struct kern_world *world, const char *what);
void kern_wait_end(const struct kern_world *world);

// The same where this process looks again and again, and has a deadline of its own.
void kern_poll_begin(const struct kern_world *world, const char *what);

// From here to kern_wait_end this process does something that ends by itself, a step, unless the
// driver hangs.
void kern_limit_begin(const struct kern_world *world, const char *what);

// To be called where this process has waited the whole limit out of the watchdog's sight, in a
// kernel or a library: whoever did not come will hardly come to the agreement that follows, so that
// waits from here on last a moment only.
void kern_wait_overdue(void);

// Seconds that the next wait for others may last; 0: for ever.
double kern_wait_limit(const struct kern_world *world);

// A call that needs other ranks to return.
#define KERN_WITH_OTHERS(world, what, call)                                                        \
    do {                                                                                           \
        kern_wait_begin((world), (what));                                                          \
        (void)(call);                                                                              \
        kern_wait_end(world);                                                                      \
    } while (0)

// For the handler of a signal by which a launcher ends a job. A rank that waits for others, one of
// which is gone from its node, will never get to the end of its step: it says who has died, unless
// somebody on the node has, and leaves with KERN_EXIT_PEER. Otherwise returns.
void kern_wait_bereaved(void);

// Says on stderr what this process waited for and who on this node is late, once per node.
void kern_wait_tell(const struct kern_world *world, const char *what);

#endif
