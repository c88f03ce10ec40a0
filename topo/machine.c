// SPDX-License-Identifier: Apache-2.0
#include "topo/machine.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/memory.h"
#include "topo/internal.h"

static void describe_numa(hwloc_topology_t topology, struct kern_machine *machine)
{
    int count = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
    machine->n_numa = count > 0 ? count : 0;
    machine->numa = kern_calloc((size_t)machine->n_numa, sizeof *machine->numa);
    for (int i = 0; i < machine->n_numa; i++) {
        hwloc_obj_t node = hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, (unsigned)i);
        struct kern_numa *numa = &machine->numa[i];
        numa->index = (int)node->os_index;
        numa->memory = node->attr->numanode.local_memory;
        hwloc_bitmap_list_snprintf(numa->cpus, sizeof numa->cpus, node->cpuset);
    }
}

bool kern_machine_describe(const struct kern_device *device, struct kern_machine *machine,
                           struct kern_diag *diag)
{
    bool on_bus = device->kind == KERN_DEVICE_CUDA;
    *machine = (struct kern_machine){0};
    gethostname(machine->host, sizeof machine->host - 1);
    if (!kern_place_visible(device, &machine->devices, &machine->n_devices, diag))
        return false;
    hwloc_topology_t topology = kern_topology_load(on_bus, true);
    if (!topology)
        return true;
    machine->processors = (unsigned)hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
    describe_numa(topology, machine);
    for (int i = 0; on_bus && i < machine->n_devices; i++)
        if (machine->devices[i].numa < 0)
            machine->devices[i].numa = kern_topology_numa_of(topology, machine->devices[i].bus_id);
    hwloc_topology_destroy(topology);
    return true;
}

void kern_machine_free(struct kern_machine *machine)
{
    free(machine->numa);
    free(machine->devices);
    *machine = (struct kern_machine){0};
}
