// SPDX-License-Identifier: Apache-2.0
#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/names.h"
#include "rank/safetensors_set.h"

static bool check_tensor(const char *path, const struct kern_tensor_data *tensor,
                         struct kern_diag *diag)
{
    uint64_t bytes;
    if (strcmp(tensor->name, KERN_SAFETENSORS_METADATA) == 0 ||
        !kern_safetensors_is_printable(tensor->name))
        return kern_fail(diag, KERN_EXIT_ARTIFACT, path,
                         "no tensor can be called \"%s\": control characters and the format's own "
                         "name are refused",
                         tensor->name);
    if (!kern_safetensors_elements(tensor->shape, tensor->rank, &bytes) ||
        __builtin_mul_overflow(bytes, kern_dtype_bytes(tensor->dtype), &bytes))
        return kern_fail(diag, KERN_EXIT_ARTIFACT, path, "tensor %s has more than 2^64 bytes",
                         tensor->name);
    return bytes == tensor->length ||
           kern_fail(diag, KERN_EXIT_ARTIFACT, path,
                     "tensor %s is given with %zu bytes; its shape in %s has %" PRIu64,
                     tensor->name, tensor->length, kern_dtype_name(tensor->dtype), bytes);
}

// The widest elements first, so that all of them are aligned; then by name.
static int by_width_and_name(const void *a, const void *b)
{
    const struct kern_tensor_data *s = *(const struct kern_tensor_data *const *)a;
    const struct kern_tensor_data *t = *(const struct kern_tensor_data *const *)b;
    size_t s_width = kern_dtype_bytes(s->dtype), t_width = kern_dtype_bytes(t->dtype);
    if (s_width != t_width)
        return s_width > t_width ? -1 : 1;
    return strcmp(s->name, t->name);
}

// Writes [text] as a JSON string. The rest of it is UTF-8, which JSON takes as it is.
static void print_string(FILE *out, const char *text)
{
    putc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putc('\\', out);
        putc(*text, out);
    }
    putc('"', out);
}

static void print_tensor(FILE *out, const struct kern_tensor_data *tensor, uint64_t begin)
{
    print_string(out, tensor->name);
    fprintf(out, ":{\"dtype\":\"%s\",\"shape\":[", kern_safetensors_dtype_text(tensor->dtype));
    for (size_t i = 0; i < tensor->rank; i++)
        fprintf(out, "%s%" PRIu64, i ? "," : "", tensor->shape[i]);
    fprintf(out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, begin + tensor->length);
}

// The header's text, padded with spaces so that the data after it begins at a multiple of 8 bytes.
static char *print_header(const struct kern_tensor_data *const *tensors, size_t count,
                          size_t *length)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, length);
    if (!out)
        kern_out_of_memory(0);
    uint64_t begin = 0;
    putc('{', out);
    for (size_t i = 0; i < count; begin += tensors[i]->length, i++) {
        if (i)
            putc(',', out);
        print_tensor(out, tensors[i], begin);
    }
    putc('}', out);
    for (long end = ftell(out); end % 8 != 0; end++)
        putc(' ', out);
    if (fclose(out) != 0)
        kern_out_of_memory(*length);
    return text;
}

static bool write_sorted(const char *path, const struct kern_tensor_data *const *tensors,
                         size_t count, struct kern_diag *diag)
{
    size_t total = sizeof(uint64_t);
    for (size_t i = 0; i < count; i++)
        if (__builtin_add_overflow(total, tensors[i]->length, &total))
            return kern_fail(diag, KERN_EXIT_ARTIFACT, path,
                             "the tensors have more than 2^64 bytes");
    size_t length;
    char *header = print_header(tensors, count, &length);
    char *bytes = NULL;
    if (!__builtin_add_overflow(total, length, &total))
        bytes = malloc(total);
    if (!bytes) {
        free(header);
        return kern_fail(diag, KERN_EXIT_DEVICE, path, "no memory for its %zu bytes", total);
    }
    uint64_t announced = htole64(length);
    memcpy(bytes, &announced, sizeof announced);
    memcpy(bytes + sizeof announced, header, length);
    char *data = bytes + sizeof announced + length;
    for (size_t i = 0; i < count; data += tensors[i]->length, i++)
        if (tensors[i]->length)
            memcpy(data, tensors[i]->bytes, tensors[i]->length);
    bool written = kern_file_write(path, bytes, total, diag);
    free(bytes);
    free(header);
    return written;
}

bool kern_safetensors_write(const char *path, const struct kern_tensor_data *tensors, size_t count,
                            struct kern_diag *diag)
{
    const struct kern_tensor_data **sorted = kern_calloc(count, sizeof *sorted);
    struct kern_names names = {0};
    bool right = true;
    for (size_t i = 0; i < count; i++) {
        sorted[i] = &tensors[i];
        right &= check_tensor(path, &tensors[i], diag);
        if (kern_names_add(&names, tensors[i].name, 0) != KERN_NONE)
            right = kern_fail(diag, KERN_EXIT_ARTIFACT, path, "tensor %s is given twice",
                              tensors[i].name);
    }
    kern_names_free(&names);
    if (count)
        qsort(sorted, count, sizeof *sorted, by_width_and_name);
    if (right)
        right = write_sorted(path, sorted, count, diag);
    free(sorted);
    return right;
}
