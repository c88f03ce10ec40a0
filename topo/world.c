// SPDX-License-Identifier: Apache-2.0
#include "topo/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "topo/stage.h"
#include "topo/watchdog.h"

enum { ALARM_TAG = 7001, START_SECONDS = 15 };

// A launcher that MPI does not know starts every process as a job of one; each would then run
// alone and look right.
static bool check_singleton(const struct kern_world *world, struct kern_diag *diag)
{
    const char *tasks = getenv("SLURM_NTASKS"), *step = getenv("SLURM_STEP_ID");
    if (world->size > 1 || !tasks || !step || atoi(tasks) < 2)
        return true;
    return kern_fail(diag, KERN_EXIT_USAGE, NULL,
                     "Slurm started %s tasks but MPI sees only this one; use srun --mpi=pmix "
                     "(srun --mpi=list shows what this cluster has)",
                     tasks);
}

bool kern_world_open(struct kern_world *world, struct kern_diag *diag)
{
    int running = 0, started = MPI_SUCCESS;
    MPI_Initialized(&running);
    // The launcher itself cannot end in order while MPI comes up, so that gets time to do so.
    double timeout = world->timeout;
    if (timeout > 0 && timeout < START_SECONDS)
        world->timeout = START_SECONDS;
    kern_wait_begin(world, "starting MPI");
    if (!running)
        started = MPI_Init(NULL, NULL);
    if (started != MPI_SUCCESS)
        return kern_fail(diag, KERN_EXIT_DEVICE, NULL, "MPI_Init failed");
    MPI_Comm_dup(MPI_COMM_WORLD, &world->comm);
    MPI_Comm_rank(world->comm, &world->rank);
    MPI_Comm_size(world->comm, &world->size);
    MPI_Comm_split_type(world->comm, MPI_COMM_TYPE_SHARED, world->rank, MPI_INFO_NULL,
                        &world->node_comm);
    MPI_Comm_rank(world->node_comm, &world->local_rank);
    MPI_Comm_size(world->node_comm, &world->local_size);

    // A node is named by its lowest rank until the nodes are numbered.
    struct kern_member self = {
        .node = world->rank, .local_rank = world->local_rank, .pid = (int)getpid()};
    MPI_Bcast(&self.node, 1, MPI_INT, 0, world->node_comm);
    gethostname(self.host, sizeof self.host - 1);
    world->members = kern_calloc((size_t)world->size, sizeof *world->members);
    MPI_Allgather(&self, sizeof self, MPI_BYTE, world->members, sizeof self, MPI_BYTE, world->comm);
    int *number = kern_calloc((size_t)world->size, sizeof *number);
    for (int r = 0; r < world->size; r++) {
        struct kern_member *member = &world->members[r];
        if (member->node == r)
            number[r] = world->n_nodes++;
        member->node = number[member->node];
    }
    free(number);
    kern_board_open(&world->board, world->node_comm, world->local_rank, world->local_size);
    kern_wait_end(world);
    world->timeout = timeout;
    return check_singleton(world, diag);
}

bool kern_world_all(const struct kern_world *world, MPI_Comm comm, bool mine)
{
    int all = mine;
    KERN_WITH_OTHERS(world, "agreeing",
                     MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, comm));
    return all != 0;
}

bool kern_world_await(const struct kern_world *world, MPI_Request *request, const char *what)
{
    uint64_t deadline = kern_deadline_in(kern_wait_limit(world));
    int done = 0;
    kern_poll_begin(world, what);
    struct kern_patience patience = {0};
    for (;;) {
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (done || kern_deadline_passed(deadline))
            break;
        kern_relax(&patience);
    }
    kern_wait_end(world);
    if (!done)
        kern_wait_tell(world, what);
    return done;
}

bool kern_world_same(const struct kern_world *world, const void *bytes, size_t length,
                     const char *what, const char *remedy, struct kern_diag *diag)
{
    char reference[64];
    if (length > sizeof reference)
        length = sizeof reference;
    memcpy(reference, bytes, length);
    KERN_WITH_OTHERS(world, what, MPI_Bcast(reference, (int)length, MPI_BYTE, 0, world->comm));
    if (memcmp(reference, bytes, length) == 0)
        return true;
    return kern_fail(diag, KERN_EXIT_USAGE, NULL, "%s on %s (rank %d) differs from rank 0's; %s",
                     what, world->members[world->rank].host, world->rank, remedy);
}

void kern_world_raise_alarm(const struct kern_world *world)
{
    // An empty message is eager: it needs no receiver to complete.
    for (int r = 0; r < world->size; r++)
        if (r != world->rank)
            MPI_Send(NULL, 0, MPI_BYTE, r, ALARM_TAG, world->comm);
}

bool kern_world_alarm_raised(const struct kern_world *world)
{
    int raised = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, ALARM_TAG, world->comm, &raised, MPI_STATUS_IGNORE);
    return raised;
}

// Alarms that nobody looked at would be reported as lost messages by some MPI libraries.
static void drain_alarms(const struct kern_world *world)
{
    while (kern_world_alarm_raised(world))
        MPI_Recv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, ALARM_TAG, world->comm, MPI_STATUS_IGNORE);
}

void kern_world_close(struct kern_world *world)
{
    kern_wait_begin(world, "leaving");
    drain_alarms(world);
    kern_board_close(&world->board);
    MPI_Comm_free(&world->node_comm);
    MPI_Comm_free(&world->comm);
    MPI_Finalize();
    kern_wait_end(world);
    free(world->members);
    *world = (struct kern_world){0};
}

void kern_world_abandon(const struct kern_world *world, struct kern_diag *diag)
{
    char stage[KERN_STAGE_TEXT];
    kern_stage_print(world, world->rank, stage);
    for (size_t i = 0; i < diag->count; i++)
        fprintf(stderr, "kern-rank: rank %d (%s%s): %s\n", world->rank,
                world->members[world->rank].host, stage, kern_diag_line(diag, i));
    enum kern_exit code = kern_exit_worse(kern_diag_code(diag), KERN_EXIT_PEER);
    MPI_Abort(world->comm, (int)code);
    _exit((int)code);
}
