// SPDX-License-Identifier: Apache-2.0
//
// Looking at the artifacts of a manifest where no device is: whether they are there, whether the
// entries stand in them, and whether their parameters lie as the launches declare them.
#ifndef KERN_RANK_INSPECT_H
#define KERN_RANK_INSPECT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/diag.h"
#include "manifest/manifest.h"
#include "rank/digests.h"

// An entry of a module. The lists are of targets: "sm_90", "compute_90" for PTX, "host half"; in
// [unread] with the reason, "compute_90 (compressed)". NULL: there is none.
struct kern_inspected {
    const char *module;
    const char *entry;
    const char *path;    // of the artifact
    const char *checked; // it stands there, and its parameters lie as declared
    const char *absent;  // code without it
    const char *unread;  // code that could not be read
};

struct kern_inspection {
    struct kern_inspected *items;
    size_t count, capacity;
    struct kern_arena arena;
};

// Inspects the artifacts of a verified manifest, which are looked for as kern_rank_load_modules
// does. False with every reason (KERN_EXIT_ARTIFACT) if something is missing or does not fit: an
// entry must stand in one piece of code at least if all could be read, and among the pieces of a
// target that have it one must have the declared parameters. Kernels that copy by multicast and are
// given memory of peers are warned of, where a cuobjdump tells. [digests] may be NULL.
bool kern_inspect(const struct kern_manifest *manifest, const char *const *kernel_dirs,
                  size_t n_kernel_dirs, struct kern_digests *digests,
                  struct kern_inspection *inspection, struct kern_diag *diag);
void kern_inspection_free(struct kern_inspection *inspection);

#endif
