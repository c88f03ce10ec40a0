// SPDX-License-Identifier: Apache-2.0
#include "rank/safetensors.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "rank/safetensors_set.h"

// Reads the header's length and the header of the last file of the set.
static bool read_header(struct kern_safetensors *set, struct kern_diag *diag)
{
    struct kern_tensor_file *file = &set->files[set->n_files - 1];
    unsigned char start[64] = {0};
    ssize_t n = kern_pread_all(file->fd, start, sizeof start, 0);
    if (n < 0)
        return kern_fail(diag, KERN_EXIT_ARTIFACT, file->path, "cannot be read: %s",
                         strerror(errno));
    uint64_t length = 0;
    if (n < (ssize_t)sizeof length || file->size < sizeof length)
        return kern_fail(diag, KERN_EXIT_ARTIFACT, file->path,
                         "has %zd bytes; a safetensors file begins with 8 bytes of header length%s",
                         n, kern_safetensors_guess(start, (size_t)n));
    memcpy(&length, start, sizeof length);
    length = le64toh(length);
    if (length > KERN_SAFETENSORS_HEADER_MAX || length > file->size - sizeof length)
        return kern_fail(diag, KERN_EXIT_ARTIFACT, file->path,
                         "its first 8 bytes announce a header of %" PRIu64 " bytes; the file has "
                         "%" PRIu64 ", and a header at most %llu%s",
                         length, file->size, KERN_SAFETENSORS_HEADER_MAX,
                         kern_safetensors_guess(start, (size_t)n));
    if (length == 0 || start[sizeof length] != '{')
        return kern_fail(diag, KERN_EXIT_ARTIFACT, file->path, "its header is no JSON object%s",
                         kern_safetensors_guess(start, (size_t)n));
    file->data = sizeof length + length;
    char *text = malloc(length + 1);
    if (!text)
        return kern_fail(diag, KERN_EXIT_DEVICE, file->path,
                         "no memory for its header of %" PRIu64 " bytes", length);
    n = kern_pread_all(file->fd, text, length, sizeof length);
    bool right = n == (ssize_t)length;
    if (right) {
        text[length] = '\0';
        right = kern_safetensors_add_header(set, text, length, diag);
    } else {
        kern_fail(diag, KERN_EXIT_ARTIFACT, file->path, "its header cannot be read: %s",
                  n < 0 ? strerror(errno) : "the file has become shorter");
    }
    free(text);
    return right;
}

bool kern_safetensors_add_file(struct kern_safetensors *set, const char *path,
                               struct kern_diag *diag)
{
    // Without O_NONBLOCK the open of a pipe would wait for somebody to write to it.
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0) {
        kern_fail(diag, KERN_EXIT_USAGE, path, "cannot be opened: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return false;
    }
    kern_reserve(&set->files, &set->files_capacity, set->n_files + 1, sizeof *set->files);
    set->files[set->n_files++] = (struct kern_tensor_file){
        .path = kern_arena_copy(&set->arena, path, strlen(path)),
        .fd = fd,
        .size = (uint64_t)status.st_size,
        .modified = status.st_mtim,
    };
    if (!S_ISREG(status.st_mode))
        return kern_fail(diag, KERN_EXIT_USAGE, path, "is not a regular file");
    return read_header(set, diag);
}

static int is_safetensors(const struct dirent *entry)
{
    static const char suffix[] = ".safetensors";
    size_t length = strlen(entry->d_name), tail = sizeof suffix - 1;
    return entry->d_name[0] != '.' && length > tail &&
           strcmp(entry->d_name + length - tail, suffix) == 0;
}

static int by_entry_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool add_directory(struct kern_safetensors *set, const char *directory,
                          struct kern_diag *diag)
{
    const char *index = kern_arena_print(&set->arena, "%s/model.safetensors.index.json", directory);
    if (access(index, F_OK) == 0)
        return kern_safetensors_add_index(set, directory, index, diag);
    struct dirent **entries;
    int count = scandir(directory, &entries, is_safetensors, by_entry_name);
    if (count < 0)
        return kern_fail(diag, KERN_EXIT_USAGE, directory, "cannot be read: %s", strerror(errno));
    bool right = count > 0 || kern_fail(diag, KERN_EXIT_ARTIFACT, directory,
                                        "has no *.safetensors file and no "
                                        "model.safetensors.index.json");
    for (int i = 0; i < count; i++) {
        const char *path = kern_arena_print(&set->arena, "%s/%s", directory, entries[i]->d_name);
        right &= kern_safetensors_add_file(set, path, diag);
        free(entries[i]);
    }
    free(entries);
    return right;
}

static bool add_path(struct kern_safetensors *set, const char *path, struct kern_diag *diag)
{
    struct stat status;
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
        return add_directory(set, path, diag);
    return kern_safetensors_add_file(set, path, diag);
}

static int by_name(const void *a, const void *b)
{
    const struct kern_tensor *s = a, *t = b;
    int order = strcmp(s->name, t->name);
    return order ? order : (s->file > t->file) - (s->file < t->file);
}

// Sorts the tensors and refuses a name that two files have. Of many such names the first is enough:
// most often a whole file was given twice.
static bool sort_tensors(struct kern_safetensors *set, struct kern_diag *diag)
{
    if (set->count)
        qsort(set->tensors, set->count, sizeof *set->tensors, by_name);
    for (size_t i = 1; i < set->count; i++)
        if (strcmp(set->tensors[i - 1].name, set->tensors[i].name) == 0)
            return kern_fail(diag, KERN_EXIT_ARTIFACT, kern_safetensors_path(set, &set->tensors[i]),
                             "tensor %s is also in %s; a tensor may be in one file only",
                             set->tensors[i].name,
                             kern_safetensors_path(set, &set->tensors[i - 1]));
    return true;
}

struct kern_safetensors *kern_safetensors_open(const char *const *paths, size_t n_paths,
                                               struct kern_diag *diag)
{
    struct kern_safetensors *set = kern_calloc(1, sizeof *set);
    bool right = true;
    for (size_t i = 0; i < n_paths; i++)
        right &= add_path(set, paths[i], diag);
    if (right && sort_tensors(set, diag))
        return set;
    kern_safetensors_close(set);
    return NULL;
}

size_t kern_safetensors_count(const struct kern_safetensors *set)
{
    return set->count;
}

const struct kern_tensor *kern_safetensors_at(const struct kern_safetensors *set, size_t index)
{
    return &set->tensors[index];
}

static int name_to_tensor(const void *name, const void *tensor)
{
    return strcmp(name, ((const struct kern_tensor *)tensor)->name);
}

const struct kern_tensor *kern_safetensors_find(const struct kern_safetensors *set,
                                                const char *name)
{
    if (!set->count)
        return NULL;
    return bsearch(name, set->tensors, set->count, sizeof *set->tensors, name_to_tensor);
}

const char *kern_safetensors_path(const struct kern_safetensors *set,
                                  const struct kern_tensor *tensor)
{
    return set->files[tensor->file].path;
}

// Whether the file is as it was when its header was read.
static bool is_unchanged(const struct kern_tensor_file *file)
{
    struct stat status;
    return fstat(file->fd, &status) == 0 && (uint64_t)status.st_size == file->size &&
           status.st_mtim.tv_sec == file->modified.tv_sec &&
           status.st_mtim.tv_nsec == file->modified.tv_nsec;
}

static bool read_at(const struct kern_tensor_file *file, const struct kern_tensor *tensor,
                    uint64_t offset, void *bytes, size_t length, struct kern_diag *diag)
{
    uint64_t at = tensor->offset + offset;
    ssize_t n = kern_pread_all(file->fd, bytes, length, (off_t)at);
    if (n == (ssize_t)length)
        return true;
    if (n < 0)
        return kern_fail(diag, KERN_EXIT_ARTIFACT, file->path,
                         "tensor %s cannot be read, %zu bytes from byte %" PRIu64
                         " of the file on: %s",
                         tensor->name, length, at, strerror(errno));
    return kern_fail(diag, KERN_EXIT_ARTIFACT, file->path,
                     "the file was changed after it was opened: it ends at byte %" PRIu64
                     ", inside tensor %s; replace files by renaming",
                     at + (uint64_t)n, tensor->name);
}

bool kern_safetensors_read_rows(const struct kern_safetensors *set,
                                const struct kern_tensor *tensor, uint64_t offset, uint64_t pitch,
                                size_t count, void *bytes, size_t width, struct kern_diag *diag)
{
    const struct kern_tensor_file *file = &set->files[tensor->file];
    uint64_t length;
    if (__builtin_mul_overflow(count - 1, pitch, &length) ||
        __builtin_add_overflow(length, width, &length) || offset > tensor->bytes ||
        length > tensor->bytes - offset)
        return kern_fail(diag, KERN_EXIT_ARTIFACT, file->path,
                         "tensor %s has %" PRIu64 " bytes; %zu of them from byte %" PRIu64
                         " on are asked for",
                         tensor->name, tensor->bytes, width, offset + (count - 1) * pitch);
    for (size_t i = 0; i < count; i++)
        if (!read_at(file, tensor, offset + i * pitch, (char *)bytes + i * width, width, diag))
            return false;
    // Looked at after the bytes were read: a change before or during that is seen.
    if (!is_unchanged(file))
        return kern_fail(diag, KERN_EXIT_ARTIFACT, file->path,
                         "the file was changed after it was opened, so tensor %s is not what its "
                         "header described; replace files by renaming",
                         tensor->name);
    return true;
}

bool kern_safetensors_read(const struct kern_safetensors *set, const struct kern_tensor *tensor,
                           uint64_t offset, void *bytes, size_t length, struct kern_diag *diag)
{
    return kern_safetensors_read_rows(set, tensor, offset, 0, 1, bytes, length, diag);
}

void kern_safetensors_close(struct kern_safetensors *set)
{
    if (!set)
        return;
    for (size_t i = 0; i < set->n_files; i++)
        close(set->files[i].fd);
    free(set->files);
    free(set->tensors);
    kern_arena_free(&set->arena);
    free(set);
}
