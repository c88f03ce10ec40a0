// SPDX-License-Identifier: Apache-2.0
//
// Preloaded into kern-rank: what becomes of a rank when a phase ends, also one without a call of
// the device. KERN_TEST_AGREEMENT is N:WHAT@RANK: in the Nth of the agreements that end the phases,
// the process of that rank
//
//     kill        is killed by SIGKILL
//     stop        is stopped by SIGSTOP
//     abort       calls abort
//     exit        exits with code 70
//
// The agreements are known by their operation, which no other collective of the program has.
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

static void meet_fate(const char *what)
{
    if (strcmp(what, "kill") == 0)
        raise(SIGKILL);
    else if (strcmp(what, "stop") == 0)
        raise(SIGSTOP);
    else if (strcmp(what, "exit") == 0)
        exit(EX_SOFTWARE);
    else
        abort();
}

int MPI_Allreduce(const void *mine, void *all, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm)
{
    static int agreements;
    const char *fault = getenv("KERN_TEST_AGREEMENT");
    int nth, meant, rank;
    char what[8];
    if (fault && op == MPI_SUM && sscanf(fault, "%d:%7[a-z]@%d", &nth, what, &meant) == 3) {
        PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
        if (++agreements == nth && rank == meant)
            meet_fate(what);
    }
    return PMPI_Allreduce(mine, all, count, type, op, comm);
}
