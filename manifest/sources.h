// SPDX-License-Identifier: Apache-2.0
//
// The common area of the sources. A source is needed only from the first call of a derive program
// that names it to the last, so those that are never needed together may lie in the same bytes.
#ifndef KERN_MANIFEST_SOURCES_H
#define KERN_MANIFEST_SOURCES_H

#include "manifest/manifest.h"

// Where a source lies in the area from the first call that names it to the last. Calls are counted
// through all derive programs in order of their names.
struct kern_source_window {
    uint32_t buffer;
    size_t first_call;
    size_t last_call;
    uint64_t offset; // a multiple of 256, which cuMemAlloc aligns the area to
};

struct kern_source_area {
    const struct kern_source_window *windows; // by first call, then by buffer
    size_t count;
    uint64_t bytes;
};

// Places the sources of a verified manifest that a derive program names; the windows are in
// [arena]. False if they exceed 2^64 bytes.
bool kern_sources_place(const struct kern_manifest *manifest, struct kern_arena *arena,
                        struct kern_source_area *area, struct kern_diag *diag);

#endif
