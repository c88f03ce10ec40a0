// SPDX-License-Identifier: Apache-2.0
#include "rank/digests.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static struct kern_digest *find(const struct kern_digests *digests, const struct stat *status)
{
    for (size_t i = 0; i < digests->count; i++) {
        struct kern_digest *digest = &digests->items[i];
        if (digest->device == status->st_dev && digest->inode == status->st_ino &&
            digest->size == status->st_size && digest->modified.tv_sec == status->st_mtim.tv_sec &&
            digest->modified.tv_nsec == status->st_mtim.tv_nsec) {
            return digest;
        }
    }
    return NULL;
}

const uint8_t *kern_digests_find(struct kern_digests *digests, const struct stat *status)
{
    const struct kern_digest *digest = find(digests, status);
    digests->hits += digest != NULL;
    return digest == NULL ? NULL : digest->sha256;
}

void kern_digests_put(struct kern_digests *digests, const struct stat *status,
                      const uint8_t sha256[KERN_SHA256_BYTES])
{
    struct kern_digest *digest = find(digests, status);
    if (digest == NULL) {
        kern_reserve(&digests->items, &digests->capacity, digests->count + 1,
                     sizeof(*digests->items));
        digest = &digests->items[digests->count++];
    }
    *digest = (struct kern_digest){
        .device = status->st_dev,
        .inode = status->st_ino,
        .size = status->st_size,
        .modified = status->st_mtim,
    };
    memcpy(digest->sha256, sha256, KERN_SHA256_BYTES);
}

void kern_digests_free(struct kern_digests *digests)
{
    free(digests->items);
    *digests = (struct kern_digests){0};
}
