// SPDX-License-Identifier: Apache-2.0
//
// What the files of the manifest room share beside the public types.
#ifndef KERN_MANIFEST_INTERNAL_H
#define KERN_MANIFEST_INTERNAL_H

#include <stddef.h>

#include "manifest/manifest.h"

// The words that an enumeration is written with: words[first, count), by enumerator.
struct kern_words {
    const char *what;
    const char *const *words;
    size_t first;
    size_t count;
};

extern const struct kern_words kern_dtype_words, kern_kind_words, kern_fill_words, kern_axis_words,
    kern_placement_words, kern_shard_words, kern_tma_words, kern_direction_words;

#endif
