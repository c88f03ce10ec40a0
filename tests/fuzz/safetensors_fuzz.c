// SPDX-License-Identifier: Apache-2.0
//
// A libFuzzer target: the input is a whole safetensors file, or, where it begins with 'I', the text
// of an index of a directory with one shard. Whatever the reader accepts must be readable, and
// whatever it refuses must have a reason.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "rank/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

// A file in memory with [bytes] in it; [path] names it.
static int open_input(const void *bytes, size_t length, char path[64])
{
    int fd = memfd_create("input", MFD_CLOEXEC);
    if (fd < 0 || !kern_write_all(fd, bytes, length))
        abort();
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

// Reads every tensor whole.
static void read_all(const struct kern_safetensors *set, struct kern_diag *diag)
{
    for (size_t i = 0; i < kern_safetensors_count(set); i++) {
        const struct kern_tensor *tensor = kern_safetensors_at(set, i);
        char *bytes = malloc(tensor->bytes + 1);
        if (!bytes || !kern_safetensors_read(set, tensor, 0, bytes, tensor->bytes, diag) ||
            kern_safetensors_find(set, tensor->name) != tensor)
            abort();
        free(bytes);
    }
}

static void fuzz_file(const uint8_t *bytes, size_t length, struct kern_diag *diag)
{
    char path[64];
    int fd = open_input(bytes, length, path);
    const char *const paths[] = {path};
    struct kern_safetensors *set = kern_safetensors_open(paths, 1, diag);
    if (!set && diag->errors == 0)
        abort();
    if (set)
        read_all(set, diag);
    kern_safetensors_close(set);
    close(fd);
}

static void fuzz_index(const uint8_t *bytes, size_t length, struct kern_diag *diag)
{
    static const char shard[] = "\x36\0\0\0\0\0\0\0"
                                "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}} x";
    char directory[] = "/tmp/safetensors-fuzz-XXXXXX", data[64], index[64];
    if (!mkdtemp(directory))
        abort();
    snprintf(data, sizeof data, "%s/s", directory);
    snprintf(index, sizeof index, "%s/model.safetensors.index.json", directory);
    if (!kern_file_write(data, shard, sizeof shard - 1, diag) ||
        !kern_file_write(index, bytes, length, diag))
        abort();
    const char *const paths[] = {directory};
    struct kern_safetensors *set = kern_safetensors_open(paths, 1, diag);
    if (!set && diag->errors == 0)
        abort();
    kern_safetensors_close(set);
    unlink(data);
    unlink(index);
    rmdir(directory);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct kern_diag diag = {0};
    if (length && bytes[0] == 'I')
        fuzz_index(bytes + 1, length - 1, &diag);
    else
        fuzz_file(bytes, length, &diag);
    kern_diag_clear(&diag);
    return 0;
}
