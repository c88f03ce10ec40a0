// SPDX-License-Identifier: Apache-2.0
//
// Which processes run which stage of a pipeline: consecutive ones, as many for each stage. Member i
// of a stage hands over to member i of the next.
#ifndef KERN_TOPO_STAGE_H
#define KERN_TOPO_STAGE_H

#include <mpi.h>

#include "base/diag.h"
#include "topo/world.h"

// The stage of this process. Without a pipeline there is one, of all processes.
struct kern_stage {
    int index, count;   // from 0, of how many
    int first, size;    // its world ranks
    int member;         // ours among them, from 0
    MPI_Comm comm;      // its processes in order of their ranks
    MPI_Comm node_comm; // those of them that are on this node
};

// Divides the world into [count] stages, and notes that in it. Collective; the error, which is the
// same on all ranks, says how many processes would do.
bool kern_stage_join(struct kern_world *world, int count, struct kern_stage *stage,
                     struct kern_diag *diag);

void kern_stage_leave(struct kern_stage *stage);

// The world rank of the same member of the stage [away] stages on (-1: the one before);
// MPI_PROC_NULL if there is no such stage.
int kern_stage_neighbour(const struct kern_stage *stage, int away);

// For messages about any rank: ", stage 1 between ranks 0 and 2"; nothing without a pipeline. Takes
// no lock and no memory.
enum { KERN_STAGE_TEXT = 64 };
void kern_stage_print(const struct kern_world *world, int rank, char text[KERN_STAGE_TEXT]);

#endif
