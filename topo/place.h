// SPDX-License-Identifier: Apache-2.0
//
// Devices, and which processors and memory lie near them.
#ifndef KERN_TOPO_PLACE_H
#define KERN_TOPO_PLACE_H

#include <stdbool.h>

#include "base/diag.h"
#include "device/device.h"

enum kern_bind { KERN_BIND_AUTO, KERN_BIND_NONE };

struct kern_place {
    int ordinal;     // as cuDeviceGet counts; CUDA's own order, not the bus's
    char name[64];   // "NVIDIA H200"
    char bus_id[16]; // "0000:17:00.0"
    unsigned char uuid[16];
    int numa;       // NUMA node next to the device, -1 if nobody knows
    char cpus[64];  // the processors this process may run on, "0-3,8"
    char bound[64]; // who bound it: "to NUMA node 0", "by the launcher", "no", or why not
};

// The visible devices in order of bus ids, to be freed by the caller; they are not bound and have
// no processors yet.
bool kern_place_visible(const struct kern_device *device, struct kern_place **places, int *count,
                        struct kern_diag *diag);

// Binds this process near NUMA node place->numa and fills in place->cpus and place->bound. A device
// that is [on_bus] is looked up by its bus id if its NUMA node is not known.
void kern_place_bind(struct kern_place *place, bool on_bus, enum kern_bind bind);

#endif
