// SPDX-License-Identifier: Apache-2.0
//
// What the files of the serving projection share.
#ifndef KERN_MANIFEST_SERVING_PARTS_H
#define KERN_MANIFEST_SERVING_PARTS_H

#include "manifest/place.h"
#include "manifest/serving.h"

struct kern_projection {
    const struct kern_manifest *manifest;
    struct kern_serving *serving;
    struct kern_diag *diag;
    uint64_t *widths; // entries per element of its axis of each buffer that kept a role; else 0
};

// serving_buffers.c: P3 to P7 and P9 to P12, the roles and tables.
void kern_project_buffers(struct kern_projection *projection);

// serving_forwards.c: P13 to P24.
void kern_project_forwards(struct kern_projection *projection, enum kern_serving_mode mode);

#endif
