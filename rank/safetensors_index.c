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
#include "rank/safetensors_json.h"
#include "rank/safetensors_set.h"

// What the index says of one tensor.
struct promise {
    const char *tensor;
    const char *shard;
};

struct index {
    struct promise *promises;
    size_t count;
};

static bool fail(const struct kern_tensor_json *json, const char *format, const char *name)
{
    return kern_fail(json->diag, KERN_EXIT_ARTIFACT, json->path, format, name);
}

// Reads the weight_map. A shard's name is a name: it never leads out of the directory.
static bool read_weight_map(const struct kern_tensor_json *json, const struct kern_json_node *map,
                            struct index *index)
{
    if (!kern_tensor_json_expect(json, map, KERN_JSON_OBJECT))
        return false;
    index->promises = kern_calloc(map->size, sizeof *index->promises);
    const struct kern_json_node *key = kern_json_first(map);
    for (uint32_t i = 0; i < map->size; i++, key = kern_json_next(key + 1)) {
        const char *tensor = kern_tensor_json_copy(json, key);
        if (!kern_tensor_json_expect(json, key + 1, KERN_JSON_STRING))
            return false;
        const char *shard = kern_tensor_json_copy(json, key + 1);
        if (key->repeated)
            return fail(json, "weight_map has tensor %s twice", tensor);
        if (!*shard || strchr(shard, '/'))
            return fail(json,
                        "weight_map names the shard \"%s\"; the name of a file beside the "
                        "index is needed",
                        shard);
        index->promises[index->count++] = (struct promise){tensor, shard};
    }
    return true;
}

static bool read_index(struct kern_tensor_json *json, const char *text, size_t length,
                       struct index *index)
{
    static const char name[] = "weight_map";
    if (!kern_tensor_json_parse(json, text, length))
        return false;
    const struct kern_json_node *root = json->document.nodes, *key = kern_json_first(root);
    for (uint32_t i = 0; i < root->size; i++, key = kern_json_next(key + 1))
        if (key->repeated && kern_json_equals(&json->document, key, name))
            return fail(json, "it has %s twice", name);
    const struct kern_json_node *map = kern_json_find(&json->document, root, name);
    return map ? read_weight_map(json, map, index) : fail(json, "it has no %s", name);
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
    struct kern_tensor_json json = {
        .path = path,
        .part = "the text",
        .arena = &set->arena,
        .diag = diag,
    };
    struct index index = {0};
    struct kern_names shards = {0};
    size_t first = set->count;
    bool right = read_index(&json, text, length, &index) &&
                 add_shards(set, directory, path, &index, &shards, diag) &&
                 check_promises(set, first, path, &index, &shards, diag);
    kern_names_free(&shards);
    kern_json_free(&json.document);
    free(index.promises);
    free(text);
    return right;
}
