// SPDX-License-Identifier: Apache-2.0
//
// The least that an MPI program can do: what any start costs, for bench/start.sh to compare with.
#include <mpi.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
