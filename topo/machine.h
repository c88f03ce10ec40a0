// SPDX-License-Identifier: Apache-2.0
//
// What a node is made of: its NUMA nodes and its devices.
#ifndef KERN_TOPO_MACHINE_H
#define KERN_TOPO_MACHINE_H

#include "base/diag.h"
#include "device/device.h"
#include "topo/member.h"
#include "topo/place.h"

struct kern_numa {
    int index;       // as the system counts
    char cpus[64];   // "0-3,8"
    uint64_t memory; // bytes
};

struct kern_machine {
    char host[KERN_HOST_BYTES];
    unsigned processors;
    struct kern_numa *numa;
    int n_numa; // 0 if hwloc finds no topology
    struct kern_place *devices;
    int n_devices;
};

// Describes this machine, all of it, whatever part this process may use, with the devices that it
// sees. Free it with kern_machine_free, also after a failure.
bool kern_machine_describe(const struct kern_device *device, struct kern_machine *machine,
                           struct kern_diag *diag);

void kern_machine_free(struct kern_machine *machine);

#endif
