// SPDX-License-Identifier: Apache-2.0
//
// Processors and memory near the device, as far as the system lets us.
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/internal.h"
#include "topo/place.h"

hwloc_topology_t kern_topology_load(bool pci, bool whole)
{
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0)
        return NULL;
    if (pci)
        hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    if (whole)
        hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    if (hwloc_topology_load(topology) == 0)
        return topology;
    hwloc_topology_destroy(topology);
    return NULL;
}

// In a virtual machine the device hangs off the whole machine, which says nothing.
int kern_topology_numa_of(hwloc_topology_t topology, const char *bus_id)
{
    hwloc_obj_t pci = hwloc_get_pcidev_by_busidstring(topology, bus_id);
    hwloc_obj_t near = pci ? hwloc_get_non_io_ancestor_obj(topology, pci) : NULL;
    if (!near || !near->nodeset || hwloc_bitmap_weight(near->nodeset) != 1)
        return -1;
    return hwloc_bitmap_first(near->nodeset);
}

static bool bound_already(hwloc_topology_t topology, hwloc_const_cpuset_t inherited)
{
    hwloc_const_cpuset_t all = hwloc_topology_get_allowed_cpuset(topology);
    return !hwloc_bitmap_isincluded(all, inherited);
}

static void bind_near(hwloc_topology_t topology, struct kern_place *place,
                      hwloc_const_cpuset_t inherited)
{
    hwloc_obj_t node = hwloc_get_numanode_obj_by_os_index(topology, (unsigned)place->numa);
    if (!node || hwloc_bitmap_iszero(node->cpuset)) {
        snprintf(place->bound, sizeof place->bound, "no: NUMA node %d has no processors",
                 place->numa);
        return;
    }
    // Never wider than what the process was given.
    hwloc_bitmap_t target = hwloc_bitmap_alloc();
    hwloc_bitmap_and(target, node->cpuset, inherited);
    if (hwloc_bitmap_iszero(target))
        snprintf(place->bound, sizeof place->bound, "no: none of its processors is near node %d",
                 place->numa);
    else if (hwloc_set_cpubind(topology, target, HWLOC_CPUBIND_PROCESS) != 0)
        snprintf(place->bound, sizeof place->bound, "no: %s", strerror(errno));
    else if (hwloc_set_membind(topology, node->nodeset, HWLOC_MEMBIND_BIND,
                               HWLOC_MEMBIND_PROCESS | HWLOC_MEMBIND_BYNODESET) != 0)
        snprintf(place->bound, sizeof place->bound, "to NUMA node %d; memory: %s", place->numa,
                 strerror(errno));
    else
        snprintf(place->bound, sizeof place->bound, "to NUMA node %d", place->numa);
    hwloc_bitmap_free(target);
}

static void list_cpus(hwloc_topology_t topology, struct kern_place *place)
{
    hwloc_bitmap_t now = hwloc_bitmap_alloc();
    if (hwloc_get_cpubind(topology, now, HWLOC_CPUBIND_PROCESS) == 0)
        hwloc_bitmap_list_snprintf(place->cpus, sizeof place->cpus, now);
    hwloc_bitmap_free(now);
}

void kern_place_bind(struct kern_place *place, bool on_bus, enum kern_bind bind)
{
    hwloc_topology_t topology = kern_topology_load(on_bus, false);
    if (!topology) {
        snprintf(place->bound, sizeof place->bound, "no: hwloc found no topology");
        return;
    }
    if (place->numa < 0 && on_bus)
        place->numa = kern_topology_numa_of(topology, place->bus_id);
    hwloc_bitmap_t inherited = hwloc_bitmap_alloc();
    if (bind == KERN_BIND_NONE)
        snprintf(place->bound, sizeof place->bound, "no: --bind none");
    else if (!hwloc_topology_is_thissystem(topology))
        snprintf(place->bound, sizeof place->bound, "no: the topology is not this machine's");
    else if (hwloc_get_cpubind(topology, inherited, HWLOC_CPUBIND_PROCESS) != 0)
        snprintf(place->bound, sizeof place->bound, "no: %s", strerror(errno));
    else if (bound_already(topology, inherited))
        snprintf(place->bound, sizeof place->bound, "by the launcher");
    else if (place->numa < 0)
        snprintf(place->bound, sizeof place->bound,
                 on_bus ? "no: NUMA node of the device unknown" : "no");
    else
        bind_near(topology, place, inherited);
    list_cpus(topology, place);
    hwloc_bitmap_free(inherited);
    hwloc_topology_destroy(topology);
}
