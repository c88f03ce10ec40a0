// SPDX-License-Identifier: Apache-2.0
//
// Dataflow of a manifest's programs: what a call reads and writes. For resolved manifests.
#ifndef KERN_MANIFEST_FLOW_H
#define KERN_MANIFEST_FLOW_H

#include "manifest/manifest.h"

// How a call touches the memory that one of its arguments names.
struct kern_access {
    enum kern_target target; // KERN_TARGET_NONE: the argument is a scalar
    uint32_t index;          // of the buffer or state
    uint64_t offset;         // bytes into it
    bool reads;
    bool writes;
    bool whole; // a write that counts as writing everything: an `out` at offset 0
};

// The access of argument [arg] of [call], whose op is resolved and takes as many arguments.
struct kern_access kern_call_access(const struct kern_manifest *manifest,
                                    const struct kern_call *call, size_t arg);

// Whether a buffer of [kind] holds something when a program starts.
bool kern_kind_is_filled(enum kern_buffer_kind kind);

// Whether a program may write a buffer of [kind].
bool kern_kind_is_writable(enum kern_buffer_kind kind);

#endif
