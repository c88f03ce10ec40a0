// SPDX-License-Identifier: Apache-2.0
//
// The processes of a job: who they are, which node each is on, and how they agree.
#ifndef KERN_TOPO_WORLD_H
#define KERN_TOPO_WORLD_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/diag.h"
#include "topo/board.h"
#include "topo/member.h"

struct kern_world {
    MPI_Comm comm; // all processes
    MPI_Comm node_comm;
    int rank, size;
    int local_rank, local_size;
    int n_nodes;
    int n_stages;                // of a pipeline (topo/stage.h); at most 1 without one
    struct kern_member *members; // by rank
    double timeout;              // seconds that a wait for others may last; 0: for ever
    struct kern_board board;     // where the processes of this node are
};

// Starts MPI (unless it runs already) and finds out where everybody is.
bool kern_world_open(struct kern_world *world, struct kern_diag *diag);

// Whether [mine] is true on every rank of [comm]. Like every wait for others it lasts at most
// world->timeout seconds (topo/watchdog.h).
bool kern_world_all(const struct kern_world *world, MPI_Comm comm, bool mine);

// Waits for [request] at most world->timeout seconds. If that was not enough it says who is late
// (topo/watchdog.h) and returns false; [what] names the wait.
bool kern_world_await(const struct kern_world *world, MPI_Request *request, const char *what);

// The agreement that ends a phase: every rank brings its diag, and all get the same answer,
// KERN_EXIT_OK if nobody has an error. If somebody has, rank 0 prints on stderr each distinct
// message once, with the ranks that said it. Warnings are printed as well. The diag is empty
// afterwards.
enum kern_exit kern_world_agree(const struct kern_world *world, const char *phase,
                                struct kern_diag *diag);

// Whether all ranks hold the same [length] bytes (at most 64); the error says that [what] differs,
// between which ranks, and what [remedy] is.
bool kern_world_same(const struct kern_world *world, const void *bytes, size_t length,
                     const char *what, const char *remedy, struct kern_diag *diag);

// A rank that fails while the others run tells them, so that they need not wait for their deadline.
void kern_world_raise_alarm(const struct kern_world *world);
bool kern_world_alarm_raised(const struct kern_world *world);

// Leaves in order: every rank calls it.
void kern_world_close(struct kern_world *world);

// Ends the whole job at once, for when others can no longer be waited for; prints what stands in
// [diag], of which the exit code is, or KERN_EXIT_PEER.
_Noreturn void kern_world_abandon(const struct kern_world *world, struct kern_diag *diag);

#endif
