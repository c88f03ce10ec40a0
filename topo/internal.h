// SPDX-License-Identifier: Apache-2.0
//
// What hwloc is asked for by several files of the room.
#ifndef KERN_TOPO_INTERNAL_H
#define KERN_TOPO_INTERNAL_H

#include <hwloc.h>
#include <stdbool.h>

// The processors and memory that this process may use, or all of the machine if [whole], with the
// PCI devices if [pci]. NULL if hwloc finds none.
hwloc_topology_t kern_topology_load(bool pci, bool whole);

// The NUMA node beside the PCI device at [bus_id], or -1.
int kern_topology_numa_of(hwloc_topology_t topology, const char *bus_id);

#endif
