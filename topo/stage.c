// SPDX-License-Identifier: Apache-2.0
#include "topo/stage.h"

#include <stdio.h>

#include "topo/watchdog.h"

bool kern_stage_join(struct kern_world *world, int count, struct kern_stage *stage,
                     struct kern_diag *diag)
{
    *stage = (struct kern_stage){.comm = MPI_COMM_NULL, .node_comm = MPI_COMM_NULL};
    if (world->size % count != 0)
        return kern_fail(diag, KERN_EXIT_USAGE, NULL,
                         "%d rank%s cannot run %d stages, each on as many ranks; start a multiple "
                         "of %d, for example mpirun -np %d",
                         world->size, world->size == 1 ? "" : "s", count, count, count);
    int size = world->size / count, index = world->rank / size;
    *stage = (struct kern_stage){.index = index,
                                 .count = count,
                                 .first = index * size,
                                 .size = size,
                                 .member = world->rank % size};
    world->n_stages = count;
    int node = world->members[world->rank].node;
    KERN_WITH_OTHERS(world, "dividing the ranks into stages",
                     MPI_Comm_split(world->comm, index, world->rank, &stage->comm));
    KERN_WITH_OTHERS(world, "dividing the ranks into stages",
                     MPI_Comm_split(stage->comm, node, world->rank, &stage->node_comm));
    return true;
}

void kern_stage_leave(struct kern_stage *stage)
{
    if (stage->size == 0)
        return;
    MPI_Comm_free(&stage->node_comm);
    MPI_Comm_free(&stage->comm);
    *stage = (struct kern_stage){0};
}

int kern_stage_neighbour(const struct kern_stage *stage, int away)
{
    int index = stage->index + away;
    if (index < 0 || index >= stage->count)
        return MPI_PROC_NULL;
    return index * stage->size + stage->member;
}

void kern_stage_print(const struct kern_world *world, int rank, char text[KERN_STAGE_TEXT])
{
    int size = world->n_stages > 1 ? world->size / world->n_stages : world->size;
    int index = rank / size, before = rank - size, after = rank + size;
    if (world->n_stages <= 1)
        text[0] = '\0';
    else if (index == 0)
        snprintf(text, KERN_STAGE_TEXT, ", stage 0 before rank %d", after);
    else if (index == world->n_stages - 1)
        snprintf(text, KERN_STAGE_TEXT, ", stage %d after rank %d", index, before);
    else
        snprintf(text, KERN_STAGE_TEXT, ", stage %d between ranks %d and %d", index, before, after);
}
