// SPDX-License-Identifier: Apache-2.0
//
// Which device each process of a run takes.
#ifndef KERN_TOPO_CHOOSE_H
#define KERN_TOPO_CHOOSE_H

#include "topo/place.h"
#include "topo/world.h"

// Chooses this process's device: the only visible one, or that of its local rank among the visible
// ones in order of bus ids. Two processes of a node on one device are refused, with both named,
// unless [share]. Then binds processors and memory to the device's NUMA node, unless the launcher
// has bound the process already or [bind] says not to. Collective. [places] gets everybody's place,
// by rank, to be freed by the caller.
bool kern_place_choose(const struct kern_world *world, const struct kern_device *device, bool share,
                       enum kern_bind bind, struct kern_place **places, struct kern_diag *diag);

#endif
