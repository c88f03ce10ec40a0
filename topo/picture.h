// SPDX-License-Identifier: Apache-2.0
//
// A run, or one to come, as a picture: nodes, their NUMA nodes, their devices, and the ranks on
// them with the groups that each is in.
#ifndef KERN_TOPO_PICTURE_H
#define KERN_TOPO_PICTURE_H

#include "base/diag.h"
#include "topo/layout.h"
#include "topo/machine.h"
#include "topo/member.h"
#include "topo/place.h"

// Everything is borrowed.
struct kern_picture {
    const char *title;                   // the model, or the machine
    const char *subtitle;                // on which kind of device, why
    const struct kern_machine *machines; // by node
    int n_nodes;
    const struct kern_member *members; // by rank
    const struct kern_place *places;   // by rank; a device that the machine lacks is drawn too
    int ranks;                         // 0: an idle machine
    const struct kern_group_layout *layouts;
    uint32_t n_layouts;
};

// Writes the picture to the file at [path] as SVG.
bool kern_picture_write(const struct kern_picture *picture, const char *path,
                        struct kern_diag *diag);

#endif
