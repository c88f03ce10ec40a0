// SPDX-License-Identifier: Apache-2.0
//
// model.safetensors.index.json: {"metadata": {…}, "weight_map": {"tensor": "file in this
// directory"}}.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/names.h"
#include "rank/json_reader.h"
#include "rank/safetensors_set.h"

// What the index says of one tensor.
struct promise {
    const char *tensor;
    const char *shard;
};

struct index {
    struct promise *promises;
    size_t count, capacity;
    struct kern_names tensors;
};

static bool fail(struct kern_json_reader *reader, const char *format, const char *name)
{
    reader->failed = true;
    return kern_fail(reader->diag, KERN_EXIT_ARTIFACT, reader->path, format, name);
}

// Reads the weight_map. A shard's name is a name: it never leads out of the directory.
static bool read_weight_map(struct kern_json_reader *reader, struct index *index)
{
    bool first = true;
    kern_json_reader_enter(reader, '{');
    while (kern_json_reader_more(reader, '}', &first)) {
        struct promise promise;
        if (!kern_json_reader_key(reader, &promise.tensor) ||
            !kern_json_reader_string(reader, &promise.shard))
            return false;
        if (kern_names_add(&index->tensors, promise.tensor, 0) != KERN_NONE)
            return fail(reader, "weight_map has tensor %s twice", promise.tensor);
        if (!*promise.shard || strchr(promise.shard, '/'))
            return fail(reader,
                        "weight_map names the shard \"%s\"; the name of a file beside the "
                        "index is needed",
                        promise.shard);
        kern_reserve(&index->promises, &index->capacity, index->count + 1, sizeof promise);
        index->promises[index->count++] = promise;
    }
    return !reader->failed;
}

static bool read_index(struct kern_json_reader *reader, struct index *index)
{
    bool first = true, found = false;
    const char *key;
    kern_json_reader_enter(reader, '{');
    while (kern_json_reader_more(reader, '}', &first)) {
        if (!kern_json_reader_key(reader, &key))
            return false;
        if (strcmp(key, "weight_map") != 0) {
            kern_json_reader_skip(reader);
        } else {
            if (found)
                return fail(reader, "it has %s twice", key);
            found = true;
            read_weight_map(reader, index);
        }
    }
    return kern_json_reader_end(reader) && (found || fail(reader, "it has no %s", "weight_map"));
}

// Opens each shard once; [shards] gets the number that its file has in the set.
static bool add_shards(struct kern_safetensors *set, const char *directory, const char *path,
                       const struct index *index, struct kern_names *shards, struct kern_diag *diag)
{
    bool right = true;
    for (size_t i = 0; i < index->count; i++) {
        const struct promise *promise = &index->promises[i];
        if (kern_names_add(shards, promise->shard, (uint32_t)set->n_files) != KERN_NONE)
            continue;
        const char *shard = kern_arena_print(&set->arena, "%s/%s", directory, promise->shard);
        if (access(shard, F_OK) != 0)
            right =
                kern_fail(diag, KERN_EXIT_ARTIFACT, path,
                          "tensor %s is in shard %s, which is not there", promise->tensor, shard);
        else
            right &= kern_safetensors_add_file(set, shard, diag);
    }
    return right;
}

// Checks that each tensor is where the index says; the set's tensors from [first] on are the
// shards'.
static bool check_promises(const struct kern_safetensors *set, size_t first, const char *path,
                           const struct index *index, const struct kern_names *shards,
                           struct kern_diag *diag)
{
    bool right = true;
    struct kern_names present = {0};
    for (size_t i = first; i < set->count; i++)
        kern_names_add(&present, set->tensors[i].name, (uint32_t)i);
    for (size_t i = 0; i < index->count; i++) {
        const struct promise *promise = &index->promises[i];
        uint32_t tensor = kern_names_find(&present, promise->tensor);
        if (tensor == KERN_NONE)
            right = kern_fail(diag, KERN_EXIT_ARTIFACT, path,
                              "tensor %s should be in shard %s, which lacks it", promise->tensor,
                              promise->shard);
        else if (set->tensors[tensor].file != kern_names_find(shards, promise->shard))
            right = kern_fail(diag, KERN_EXIT_ARTIFACT, path,
                              "tensor %s should be in shard %s, but is in %s", promise->tensor,
                              promise->shard, set->files[set->tensors[tensor].file].path);
    }
    kern_names_free(&present);
    return right;
}

bool kern_safetensors_add_index(struct kern_safetensors *set, const char *directory,
                                const char *path, struct kern_diag *diag)
{
    size_t length;
    char *text = kern_file_read(path, KERN_SAFETENSORS_HEADER_MAX, &length, KERN_EXIT_USAGE, diag);
    if (!text)
        return false;
    struct kern_json_reader reader = {
        .text = text,
        .length = length,
        .path = path,
        .part = "the text",
        .arena = &set->arena,
        .diag = diag,
    };
    struct index index = {0};
    struct kern_names shards = {0};
    size_t first = set->count;
    bool right = read_index(&reader, &index) &&
                 add_shards(set, directory, path, &index, &shards, diag) &&
                 check_promises(set, first, path, &index, &shards, diag);
    kern_names_free(&shards);
    kern_names_free(&index.tensors);
    free(index.promises);
    free(text);
    return right;
}
