// SPDX-License-Identifier: Apache-2.0
//
// The safetensors format: a reader that trusts nothing, and a writer.
#ifndef KERN_RANK_SAFETENSORS_H
#define KERN_RANK_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "manifest/manifest.h"

struct kern_tensor {
    const char *name;
    const char *dtype_text; // as written, "BF16"
    bool dtype_known;       // it is one of the manifest's
    enum kern_dtype dtype;
    const uint64_t *shape;
    size_t rank;
    uint64_t bytes;
    uint32_t file;   // which file of the set
    uint64_t offset; // of its data in that file
};

// The tensors of one file, of every *.safetensors of a directory, or of the shards that its
// model.safetensors.index.json names; several paths make one set. Only headers are read at open.
struct kern_safetensors;

// Errors are of kind KERN_EXIT_ARTIFACT, a path that cannot be opened KERN_EXIT_USAGE.
struct kern_safetensors *kern_safetensors_open(const char *const *paths, size_t n_paths,
                                               struct kern_diag *diag);

size_t kern_safetensors_count(const struct kern_safetensors *set);
// In byte-wise order of names.
const struct kern_tensor *kern_safetensors_at(const struct kern_safetensors *set, size_t index);
const struct kern_tensor *kern_safetensors_find(const struct kern_safetensors *set,
                                                const char *name);
const char *kern_safetensors_path(const struct kern_safetensors *set,
                                  const struct kern_tensor *tensor);

// Reads [length] bytes of [tensor] from byte [offset] of its data on. Threads may read one set at
// the same time.
bool kern_safetensors_read(const struct kern_safetensors *set, const struct kern_tensor *tensor,
                           uint64_t offset, void *bytes, size_t length, struct kern_diag *diag);

// Reads [count] > 0 rows of [width] bytes, [pitch] apart from byte [offset] of the tensor's data
// on, and puts them one after another into [bytes].
bool kern_safetensors_read_rows(const struct kern_safetensors *set,
                                const struct kern_tensor *tensor, uint64_t offset, uint64_t pitch,
                                size_t count, void *bytes, size_t width, struct kern_diag *diag);

void kern_safetensors_close(struct kern_safetensors *set);

// What a writer puts into a file: name, dtype, shape and bytes of each tensor, borrowed.
struct kern_tensor_data {
    const char *name;
    enum kern_dtype dtype;
    const uint64_t *shape;
    size_t rank;
    const void *bytes;
    size_t length;
};

// Writes the file whole or not at all.
bool kern_safetensors_write(const char *path, const struct kern_tensor_data *tensors, size_t count,
                            struct kern_diag *diag);

#endif
