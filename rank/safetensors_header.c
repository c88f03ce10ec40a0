// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/names.h"
#include "rank/json_reader.h"
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

static bool fail(struct kern_json_reader *reader, const char *name, const char *what)
{
    reader->failed = true;
    return kern_fail(reader->diag, KERN_EXIT_ARTIFACT, reader->path, "tensor %s: %s", name, what);
}

// The members of a tensor's entry.
enum member { DTYPE, SHAPE, OFFSETS, N_MEMBERS };

static const char *const members[N_MEMBERS] = {"dtype", "shape", "data_offsets"};

// The member called [key]; N_MEMBERS if it is another, which the format allows.
static enum member member_of(const char *key)
{
    enum member member = DTYPE;
    while (member < N_MEMBERS && strcmp(key, members[member]) != 0)
        member++;
    return member;
}

static bool read_dtype(struct kern_json_reader *reader, struct kern_tensor *tensor)
{
    if (!kern_json_reader_string(reader, &tensor->dtype_text))
        return false;
    if (!kern_safetensors_is_printable(tensor->dtype_text))
        return fail(reader, tensor->name, "its dtype holds a control character");
    for (size_t i = 0; i < N_DTYPES && !tensor->dtype_known; i++) {
        tensor->dtype_known = strcmp(tensor->dtype_text, dtypes[i].text) == 0;
        tensor->dtype = dtypes[i].dtype;
    }
    return true;
}

static bool read_shape(struct kern_json_reader *reader, struct kern_tensor *tensor)
{
    uint64_t *extents = NULL;
    size_t count = 0, capacity = 0;
    bool first = true;
    kern_json_reader_enter(reader, '[');
    while (kern_json_reader_more(reader, ']', &first)) {
        kern_reserve(&extents, &capacity, count + 1, sizeof *extents);
        count += kern_json_reader_uint(reader, &extents[count]);
    }
    uint64_t *shape = kern_arena_array(reader->arena, count, sizeof *shape);
    if (count)
        memcpy(shape, extents, count * sizeof *shape);
    free(extents);
    tensor->shape = shape;
    tensor->rank = count;
    return !reader->failed;
}

static bool read_offsets(struct kern_json_reader *reader, struct kern_tensor *tensor)
{
    uint64_t offsets[2];
    size_t count = 0;
    bool first = true;
    kern_json_reader_enter(reader, '[');
    while (kern_json_reader_more(reader, ']', &first)) {
        if (count == 2)
            return fail(reader, tensor->name, "data_offsets has more than two numbers");
        count += kern_json_reader_uint(reader, &offsets[count]);
    }
    if (reader->failed)
        return false;
    if (count != 2)
        return fail(reader, tensor->name, "data_offsets is not [begin, end]");
    if (offsets[0] > offsets[1])
        return fail(reader, tensor->name, "its data_offsets run backwards");
    tensor->offset = offsets[0];
    tensor->bytes = offsets[1] - offsets[0];
    return true;
}

static bool read_member(struct kern_json_reader *reader, enum member member,
                        struct kern_tensor *tensor)
{
    switch (member) {
    case DTYPE:
        return read_dtype(reader, tensor);
    case SHAPE:
        return read_shape(reader, tensor);
    case OFFSETS:
        return read_offsets(reader, tensor);
    default:
        return kern_json_reader_skip(reader);
    }
}

// Whether the tensor's bytes are its elements'. The elements of an unknown dtype have no known
// size.
static bool check_size(struct kern_json_reader *reader, const struct kern_tensor *tensor)
{
    uint64_t bytes;
    if (!kern_safetensors_elements(tensor->shape, tensor->rank, &bytes) ||
        (tensor->dtype_known &&
         __builtin_mul_overflow(bytes, kern_dtype_bytes(tensor->dtype), &bytes)))
        return fail(reader, tensor->name, "its shape has more than 2^64 bytes");
    if (!tensor->dtype_known || bytes == tensor->bytes)
        return true;
    return fail(reader, tensor->name,
                kern_arena_print(&reader->diag->arena,
                                 "its data_offsets span %" PRIu64
                                 " bytes; its shape in %s has %" PRIu64,
                                 tensor->bytes, tensor->dtype_text, bytes));
}

static bool read_tensor(struct kern_json_reader *reader, struct kern_tensor *tensor)
{
    bool read[N_MEMBERS + 1] = {false}, first = true;
    const char *key;
    kern_json_reader_enter(reader, '{');
    while (kern_json_reader_more(reader, '}', &first)) {
        if (!kern_json_reader_key(reader, &key))
            break;
        enum member member = member_of(key);
        if (read[member] && member != N_MEMBERS)
            return fail(reader, tensor->name,
                        kern_arena_print(&reader->diag->arena, "its entry has %s twice", key));
        read[member] = true;
        read_member(reader, member, tensor);
    }
    if (reader->failed)
        return false;
    for (size_t i = 0; i < N_MEMBERS; i++)
        if (!read[i])
            return fail(reader, tensor->name,
                        kern_arena_print(&reader->diag->arena, "its entry has no %s", members[i]));
    return check_size(reader, tensor);
}

// Reads `__metadata__`, of which nothing is kept: an object of strings.
static bool read_metadata(struct kern_json_reader *reader)
{
    struct kern_names keys = {0};
    bool first = true;
    const char *key, *value;
    kern_json_reader_enter(reader, '{');
    while (kern_json_reader_more(reader, '}', &first)) {
        if (!kern_json_reader_key(reader, &key) || !kern_json_reader_string(reader, &value))
            break;
        if (kern_names_add(&keys, key, 0) != KERN_NONE)
            fail(reader, KERN_SAFETENSORS_METADATA, "it has a key twice");
    }
    kern_names_free(&keys);
    return !reader->failed;
}

static bool read_entry(struct kern_json_reader *reader, struct kern_safetensors *set,
                       struct kern_names *names)
{
    const char *name;
    if (!kern_json_reader_key(reader, &name))
        return false;
    if (!kern_safetensors_is_printable(name))
        return fail(reader, "(not printable)", "its name holds a control character");
    if (kern_names_add(names, name, 0) != KERN_NONE)
        return fail(reader, name, "it stands twice in the header");
    if (strcmp(name, KERN_SAFETENSORS_METADATA) == 0)
        return read_metadata(reader);
    kern_reserve(&set->tensors, &set->capacity, set->count + 1, sizeof *set->tensors);
    struct kern_tensor *tensor = &set->tensors[set->count++];
    *tensor = (struct kern_tensor){.name = name, .file = (uint32_t)(set->n_files - 1)};
    return read_tensor(reader, tensor);
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
    struct kern_json_reader reader = {
        .text = text,
        .length = length,
        .path = file->path,
        .part = "the header",
        .arena = &set->arena,
        .diag = diag,
    };
    struct kern_names names = {0};
    size_t before = set->count;
    bool first = true;
    kern_json_reader_enter(&reader, '{');
    while (kern_json_reader_more(&reader, '}', &first))
        read_entry(&reader, set, &names);
    kern_names_free(&names);
    return kern_json_reader_end(&reader) &&
           place_tensors(set->tensors + before, set->count - before, file, diag);
}
