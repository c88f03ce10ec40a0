// SPDX-License-Identifier: Apache-2.0
//
// What the files of the safetensors reader share: the set under construction.
#ifndef KERN_RANK_SAFETENSORS_SET_H
#define KERN_RANK_SAFETENSORS_SET_H

#include <time.h>

#include "base/arena.h"
#include "rank/safetensors.h"

// The most bytes of a header (safetensors/src/tensor.rs, MAX_HEADER_SIZE).
#define KERN_SAFETENSORS_HEADER_MAX 100000000ull

// A name that is no tensor.
#define KERN_SAFETENSORS_METADATA "__metadata__"

struct kern_tensor_file {
    const char *path;
    int fd;
    uint64_t size;
    struct timespec modified;
    uint64_t data; // where the tensors' data begins
};

struct kern_safetensors {
    struct kern_arena arena; // paths, names, shapes
    struct kern_tensor_file *files;
    size_t n_files, files_capacity;
    struct kern_tensor *tensors; // as they come; when the set is whole, by name
    size_t count, capacity;
};

// Opens the file at [path] (copied), checks its header and adds its tensors.
bool kern_safetensors_add_file(struct kern_safetensors *set, const char *path,
                               struct kern_diag *diag);

// Adds the tensors of the header text [text] of the last file, [length] bytes and a NUL, which must
// describe every byte of its data once.
bool kern_safetensors_add_header(struct kern_safetensors *set, const char *text, size_t length,
                                 struct kern_diag *diag);

// Adds the shards in [directory] that the index file at [path] names, and checks that they hold the
// tensors it promises.
bool kern_safetensors_add_index(struct kern_safetensors *set, const char *directory,
                                const char *path, struct kern_diag *diag);

// The end of a message about a file that is no safetensors, "; it seems to be …", by its first
// [length] bytes; "" if they say nothing.
const char *kern_safetensors_guess(const void *bytes, size_t length);

// Whether [text] has no control characters: names are printed.
bool kern_safetensors_is_printable(const char *text);

// What the format calls [dtype], "F8_E4M3".
const char *kern_safetensors_dtype_text(enum kern_dtype dtype);

// The elements of [shape], multiplied from left to right; false on overflow.
bool kern_safetensors_elements(const uint64_t *shape, size_t rank, uint64_t *count);

#endif
