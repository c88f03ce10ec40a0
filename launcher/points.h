// SPDX-License-Identifier: Apache-2.0
//
// Where a manifest is cut, as the command line says it: 12,24.
#ifndef KERN_LAUNCHER_POINTS_H
#define KERN_LAUNCHER_POINTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"

// Indices of calls. The caller frees [values].
struct kern_points {
    uint64_t *values;
    size_t count, capacity;
};

// Adds those of [list], the value of [option].
bool kern_points_read(const char *list, const char *option, struct kern_points *points,
                      struct kern_diag *diag);

#endif
