// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "rank/safetensors_json.h"
#include "rank/safetensors_set.h"

static const struct {
    const char *text;
    enum kern_dtype dtype;
} dtypes[] = {
    {"BF16", KERN_BF16},       {"F16", KERN_F16}, {"F32", KERN_F32}, {"F8_E4M3", KERN_FP8E4M3},
    {"F8_E8M0", KERN_FP8E8M0}, {"I8", KERN_I8},   {"I32", KERN_I32}, {"U32", KERN_U32},
    {"I64", KERN_I64},         {"U64", KERN_U64}, {"U8", KERN_U8},
};

enum { N_DTYPES = sizeof dtypes / sizeof *dtypes };

const char *kern_safetensors_dtype_text(enum kern_dtype dtype)
{
    size_t i = 0;
    while (dtypes[i].dtype != dtype)
        i++;
    return dtypes[i].text;
}

bool kern_safetensors_elements(const uint64_t *shape, size_t rank, uint64_t *count)
{
    *count = 1;
    for (size_t i = 0; i < rank; i++)
        if (__builtin_mul_overflow(*count, shape[i], count))
            return false;
    return true;
}

bool kern_safetensors_is_printable(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return false;
    return true;
}

static bool fail(const struct kern_tensor_json *json, const char *name, const char *what)
{
    return kern_fail(json->diag, KERN_EXIT_ARTIFACT, json->path, "tensor %s: %s", name, what);
}

// The members of a tensor's entry.
enum member { DTYPE, SHAPE, OFFSETS, N_MEMBERS };

static const char *const members[N_MEMBERS] = {"dtype", "shape", "data_offsets"};

// The member called [key]; N_MEMBERS if it is another, which the format allows.
static enum member member_of(const struct kern_tensor_json *json, const struct kern_json_node *key)
{
    enum member member = DTYPE;
    while (member < N_MEMBERS && !kern_json_equals(&json->document, key, members[member]))
        member++;
    return member;
}

static bool read_dtype(const struct kern_tensor_json *json, const struct kern_json_node *node,
                       struct kern_tensor *tensor)
{
    if (!kern_tensor_json_expect(json, node, KERN_JSON_STRING))
        return false;
    tensor->dtype_text = kern_tensor_json_copy(json, node);
    if (!kern_safetensors_is_printable(tensor->dtype_text))
        return fail(json, tensor->name, "its dtype holds a control character");
    for (size_t i = 0; i < N_DTYPES && !tensor->dtype_known; i++) {
        tensor->dtype_known = strcmp(tensor->dtype_text, dtypes[i].text) == 0;
        tensor->dtype = dtypes[i].dtype;
    }
    return true;
}

static bool read_shape(const struct kern_tensor_json *json, const struct kern_json_node *node,
                       struct kern_tensor *tensor)
{
    if (!kern_tensor_json_expect(json, node, KERN_JSON_ARRAY))
        return false;
    uint64_t *shape = kern_arena_array(json->arena, node->size, sizeof *shape);
    const struct kern_json_node *extent = kern_json_first(node);
    for (uint32_t i = 0; i < node->size; i++, extent = kern_json_next(extent))
        if (!kern_tensor_json_uint(json, extent, &shape[i]))
            return false;
    tensor->shape = shape;
    tensor->rank = node->size;
    return true;
}

static bool read_offsets(const struct kern_tensor_json *json, const struct kern_json_node *node,
                         struct kern_tensor *tensor)
{
    uint64_t begin, end;
    if (!kern_tensor_json_expect(json, node, KERN_JSON_ARRAY))
        return false;
    if (node->size > 2)
        return fail(json, tensor->name, "data_offsets has more than two numbers");
    if (node->size < 2)
        return fail(json, tensor->name, "data_offsets is not [begin, end]");
    const struct kern_json_node *first = kern_json_first(node);
    if (!kern_tensor_json_uint(json, first, &begin) ||
        !kern_tensor_json_uint(json, kern_json_next(first), &end))
        return false;
    if (begin > end)
        return fail(json, tensor->name, "its data_offsets run backwards");
    tensor->offset = begin;
    tensor->bytes = end - begin;
    return true;
}

static bool read_member(const struct kern_tensor_json *json, enum member member,
                        const struct kern_json_node *node, struct kern_tensor *tensor)
{
    switch (member) {
    case DTYPE:
        return read_dtype(json, node, tensor);
    case SHAPE:
        return read_shape(json, node, tensor);
    case OFFSETS:
        return read_offsets(json, node, tensor);
    default:
        return true;
    }
}

// Whether the tensor's bytes are its elements'. The elements of an unknown dtype have no known
// size.
static bool check_size(const struct kern_tensor_json *json, const struct kern_tensor *tensor)
{
    uint64_t bytes;
    if (!kern_safetensors_elements(tensor->shape, tensor->rank, &bytes) ||
        (tensor->dtype_known &&
         __builtin_mul_overflow(bytes, kern_dtype_bytes(tensor->dtype), &bytes)))
        return fail(json, tensor->name, "its shape has more than 2^64 bytes");
    if (!tensor->dtype_known || bytes == tensor->bytes)
        return true;
    return fail(json, tensor->name,
                kern_arena_print(&json->diag->arena,
                                 "its data_offsets span %" PRIu64
                                 " bytes; its shape in %s has %" PRIu64,
                                 tensor->bytes, tensor->dtype_text, bytes));
}

static bool read_tensor(const struct kern_tensor_json *json, const struct kern_json_node *node,
                        struct kern_tensor *tensor)
{
    bool read[N_MEMBERS + 1] = {false};
    if (!kern_tensor_json_expect(json, node, KERN_JSON_OBJECT))
        return false;
    const struct kern_json_node *key = kern_json_first(node);
    for (uint32_t i = 0; i < node->size; i++, key = kern_json_next(key + 1)) {
        enum member member = member_of(json, key);
        if (key->repeated && member != N_MEMBERS)
            return fail(
                json, tensor->name,
                kern_arena_print(&json->diag->arena, "its entry has %s twice", members[member]));
        if (!read_member(json, member, key + 1, tensor))
            return false;
        read[member] = true;
    }
    for (size_t i = 0; i < N_MEMBERS; i++)
        if (!read[i])
            return fail(json, tensor->name,
                        kern_arena_print(&json->diag->arena, "its entry has no %s", members[i]));
    return check_size(json, tensor);
}

// Checks `__metadata__`, of which nothing is kept: an object of strings.
static bool check_metadata(const struct kern_tensor_json *json, const struct kern_json_node *node)
{
    if (!kern_tensor_json_expect(json, node, KERN_JSON_OBJECT))
        return false;
    const struct kern_json_node *key = kern_json_first(node);
    for (uint32_t i = 0; i < node->size; i++, key = kern_json_next(key + 1)) {
        if (!kern_tensor_json_expect(json, key + 1, KERN_JSON_STRING))
            return false;
        if (key->repeated)
            return fail(json, KERN_SAFETENSORS_METADATA, "it has a key twice");
    }
    return true;
}

// Reads the header's member [key].
static bool read_entry(const struct kern_tensor_json *json, const struct kern_json_node *key,
                       struct kern_safetensors *set)
{
    const char *name = kern_tensor_json_copy(json, key);
    if (!kern_safetensors_is_printable(name))
        return fail(json, "(not printable)", "its name holds a control character");
    if (key->repeated)
        return fail(json, name, "it stands twice in the header");
    if (strcmp(name, KERN_SAFETENSORS_METADATA) == 0)
        return check_metadata(json, key + 1);
    kern_reserve(&set->tensors, &set->capacity, set->count + 1, sizeof *set->tensors);
    struct kern_tensor *tensor = &set->tensors[set->count++];
    *tensor = (struct kern_tensor){.name = name, .file = (uint32_t)(set->n_files - 1)};
    return read_tensor(json, key + 1, tensor);
}

static bool read_header(struct kern_tensor_json *json, const char *text, size_t length,
                        struct kern_safetensors *set)
{
    if (!kern_tensor_json_parse(json, text, length))
        return false;
    const struct kern_json_node *header = json->document.nodes, *key = kern_json_first(header);
    for (uint32_t i = 0; i < header->size; i++, key = kern_json_next(key + 1))
        if (!read_entry(json, key, set))
            return false;
    return true;
}

static int by_offset(const void *a, const void *b)
{
    const struct kern_tensor *s = a, *t = b;
    if (s->offset != t->offset)
        return s->offset < t->offset ? -1 : 1;
    return (s->bytes > t->bytes) - (s->bytes < t->bytes);
}

// Checks that the [count] tensors cover the [bytes] of data after the header one after another, and
// turns their offsets into those of the file.
static bool place_tensors(struct kern_tensor *tensors, size_t count,
                          const struct kern_tensor_file *file, struct kern_diag *diag)
{
    uint64_t bytes = file->size - file->data, end = 0;
    if (count)
        qsort(tensors, count, sizeof *tensors, by_offset);
    for (size_t i = 0; i < count; i++) {
        struct kern_tensor *tensor = &tensors[i];
        if (tensor->offset < end)
            return kern_fail(diag, KERN_EXIT_ARTIFACT, file->path,
                             "tensor %s begins at byte %" PRIu64 " of the data, inside tensor %s, "
                             "which ends at %" PRIu64,
                             tensor->name, tensor->offset, tensors[i - 1].name, end);
        if (tensor->offset > end)
            return kern_fail(diag, KERN_EXIT_ARTIFACT, file->path,
                             "bytes %" PRIu64 " to %" PRIu64 " of the data, before tensor %s, "
                             "belong to no tensor",
                             end, tensor->offset, tensor->name);
        end = tensor->offset + tensor->bytes;
        if (end > bytes)
            return kern_fail(diag, KERN_EXIT_ARTIFACT, file->path,
                             "tensor %s ends at byte %" PRIu64 " of the data, and the file has "
                             "%" PRIu64 ": it is cut short",
                             tensor->name, end, bytes);
        tensor->offset += file->data;
    }
    return end == bytes || kern_fail(diag, KERN_EXIT_ARTIFACT, file->path,
                                     "the file has %" PRIu64 " bytes of data, and its tensors end "
                                     "at byte %" PRIu64,
                                     bytes, end);
}

bool kern_safetensors_add_header(struct kern_safetensors *set, const char *text, size_t length,
                                 struct kern_diag *diag)
{
    const struct kern_tensor_file *file = &set->files[set->n_files - 1];
    struct kern_tensor_json json = {
        .path = file->path,
        .part = "the header",
        .arena = &set->arena,
        .diag = diag,
    };
    size_t before = set->count;
    bool right = read_header(&json, text, length, set);
    kern_json_free(&json.document);
    return right && place_tensors(set->tensors + before, set->count - before, file, diag);
}
