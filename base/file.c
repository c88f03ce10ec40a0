// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

ssize_t kern_pread_all(int fd, void *bytes, size_t length, off_t offset)
{
    size_t done = 0;
    while (done < length) {
        ssize_t n = pread(fd, (char *)bytes + done, length - done, offset + (off_t)done);
        if (n == 0)
            break;
        if (n < 0 && errno != EINTR)
            return -1;
        done += n > 0 ? (size_t)n : 0;
    }
    return (ssize_t)done;
}

bool kern_write_all(int fd, const void *bytes, size_t length)
{
    size_t done = 0;
    while (done < length) {
        ssize_t n = write(fd, (const char *)bytes + done, length - done);
        if (n < 0 && errno != EINTR)
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

// Reads [fd] to its end, wherever its size cannot be known before (a pipe, a terminal).
static char *read_to_end(int fd, const char *path, uint64_t limit, size_t *length,
                         enum kern_exit code, struct kern_diag *diag)
{
    char *bytes = NULL;
    size_t capacity = 0, used = 0;
    for (;;) {
        kern_reserve(&bytes, &capacity, used + 65536, 1);
        ssize_t n = read(fd, bytes + used, capacity - used - 1);
        if (n == 0)
            break;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            kern_fail(diag, code, path, "cannot be read: %s", strerror(errno));
            free(bytes);
            return NULL;
        }
        used += (size_t)n;
        if (used > limit) {
            kern_fail(diag, code, path, "is larger than %llu bytes, the most that is read",
                      (unsigned long long)limit);
            free(bytes);
            return NULL;
        }
    }
    bytes[used] = '\0';
    *length = used;
    return bytes;
}

char *kern_file_read(const char *path, uint64_t limit, size_t *length, enum kern_exit code,
                     struct kern_diag *diag)
{
    if (strcmp(path, "-") == 0)
        return read_to_end(STDIN_FILENO, "standard input", limit, length, code, diag);
    // A pipe that nobody has open for writing would be waited for; one with a writer is read.
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        kern_fail(diag, code, path, "cannot be opened: %s", strerror(errno));
        return NULL;
    }
    struct stat status;
    char *bytes = NULL;
    if (fstat(fd, &status) != 0 || fcntl(fd, F_SETFL, 0) != 0)
        kern_fail(diag, code, path, "cannot be read: %s", strerror(errno));
    else if (S_ISDIR(status.st_mode))
        kern_fail(diag, code, path, "is a directory; a file is needed here");
    else if (S_ISREG(status.st_mode) && (uint64_t)status.st_size > limit)
        kern_fail(diag, code, path, "has %lld bytes; the most that is read is %llu",
                  (long long)status.st_size, (unsigned long long)limit);
    else
        bytes = read_to_end(fd, path, limit, length, code, diag);
    close(fd);
    if (bytes && *length == 0 && S_ISFIFO(status.st_mode)) {
        kern_fail(diag, code, path, "is a pipe that nobody writes to");
        free(bytes);
        return NULL;
    }
    return bytes;
}

static bool write_in_place(const char *path, const void *bytes, size_t length,
                           struct kern_diag *diag)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool good = fd >= 0 && kern_write_all(fd, bytes, length);
    int error = errno;
    if (fd >= 0 && close(fd) != 0 && good) {
        good = false;
        error = errno;
    }
    return good ||
           kern_fail(diag, KERN_EXIT_DEVICE, path, "cannot be written: %s", strerror(error));
}

bool kern_file_write(const char *path, const void *bytes, size_t length, struct kern_diag *diag)
{
    struct stat status;
    char real[PATH_MAX];
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
        return write_in_place(path, bytes, length, diag);
    if (realpath(path, real))
        path = real;
    struct kern_arena arena = {0};
    char *temporary = kern_arena_print(&arena, "%s.XXXXXX", path);
    bool renamed = false;
    int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0) {
        bool full = errno == ENOSPC || errno == EDQUOT || errno == EIO;
        kern_fail(diag, full ? KERN_EXIT_DEVICE : KERN_EXIT_USAGE, path, "cannot be written: %s",
                  strerror(errno));
        kern_arena_free(&arena);
        return false;
    }
    // mkostemp makes files that only their owner may read; a result is for whoever umask allows.
    mode_t mask = umask(0);
    umask(mask);
    bool written = kern_write_all(fd, bytes, length) && fchmod(fd, 0666 & ~mask) == 0;
    int error = errno;
    if (close(fd) != 0 && written) {
        written = false;
        error = errno;
    }
    if (written) {
        renamed = rename(temporary, path) == 0;
        error = errno;
    }
    if (!renamed) {
        unlink(temporary);
        kern_fail(diag, KERN_EXIT_DEVICE, path, "cannot be written: %s", strerror(error));
    }
    kern_arena_free(&arena);
    return renamed;
}
