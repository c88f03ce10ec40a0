// SPDX-License-Identifier: Apache-2.0
//
// The digests of files that were looked at, so that a search for artifacts reads no file twice that
// is none of them. It lasts as long as the process; nothing of it is trusted about a file that is
// used, of which the digest is always that of the bytes just read.
#ifndef KERN_RANK_DIGESTS_H
#define KERN_RANK_DIGESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/sha256.h"

// A file's digest, as long as its device, inode, size and time of modification are these.
struct kern_digest {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec modified;
    uint8_t sha256[KERN_SHA256_BYTES];
};

// All zero is an empty cache.
struct kern_digests {
    struct kern_digest *items;
    size_t count, capacity;
    size_t hits; // finds that were there
};

// Finds the digest of the file with [status]; NULL if it is not known. The pointer lasts until the
// next call of kern_digests_put.
const uint8_t *kern_digests_find(struct kern_digests *digests, const struct stat *status);
void kern_digests_put(struct kern_digests *digests, const struct stat *status,
                      const uint8_t sha256[KERN_SHA256_BYTES]);
void kern_digests_free(struct kern_digests *digests);

#endif
