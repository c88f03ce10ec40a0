# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by ./dev and by tests: what Open MPI needs to be told on a small machine.

# It refuses root and more ranks than cores unless it is told otherwise, and its waits should give the
# processor away where ranks share one.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
# Ranks may not read each other's memory in a container.
export OMPI_MCA_btl_vader_single_copy_mechanism=none
# Looking for networks that are not there takes a fifth of a second of every start.
export OMPI_MCA_pml=ob1
