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

// A result is for whoever umask allows; mkostemp makes files that only their owner may read.
static bool open_temporary(struct kern_file_out *out)
{
    snprintf(out->temporary, sizeof out->temporary, "%s.XXXXXX", out->path);
    out->fd = mkostemp(out->temporary, O_CLOEXEC);
    if (out->fd < 0)
        return false;
    mode_t mask = umask(0);
    umask(mask);
    fchmod(out->fd, 0666 & ~mask);
    return true;
}

bool kern_file_create(struct kern_file_out *out, const char *path, struct kern_diag *diag)
{
    struct stat status;
    char real[PATH_MAX];
    bool in_place = stat(path, &status) == 0 && !S_ISREG(status.st_mode);
    const char *target = !in_place && realpath(path, real) ? real : path;
    *out = (struct kern_file_out){.fd = -1};
    if (in_place && S_ISDIR(status.st_mode))
        return kern_fail(diag, KERN_EXIT_USAGE, path, "is a directory; a file is needed here");
    errno = ENAMETOOLONG;
    bool good = snprintf(out->path, sizeof out->path, "%s", target) < (int)sizeof out->path;
    if (good && in_place)
        out->fd = open(path, O_WRONLY | O_CLOEXEC);
    else if (good)
        open_temporary(out);
    bool full = errno == ENOSPC || errno == EDQUOT || errno == EIO;
    return out->fd >= 0 || kern_fail(diag, in_place || full ? KERN_EXIT_DEVICE : KERN_EXIT_USAGE,
                                     path, "cannot be written: %s", strerror(errno));
}

bool kern_file_finish(struct kern_file_out *out, bool written, struct kern_diag *diag)
{
    int error = errno;
    bool good = written;
    if (close(out->fd) != 0 && good) {
        good = false;
        error = errno;
    }
    if (good && *out->temporary) {
        good = rename(out->temporary, out->path) == 0;
        error = errno;
    }
    if (!good && *out->temporary)
        unlink(out->temporary);
    return good ||
           kern_fail(diag, KERN_EXIT_DEVICE, out->path, "cannot be written: %s", strerror(error));
}

bool kern_file_write(const char *path, const void *bytes, size_t length, struct kern_diag *diag)
{
    struct kern_file_out out;
    return kern_file_create(&out, path, diag) &&
           kern_file_finish(&out, kern_write_all(out.fd, bytes, length), diag);
}

bool kern_file_try(const char *path, struct kern_diag *diag)
{
    struct stat status;
    bool in_place = stat(path, &status) == 0 && !S_ISREG(status.st_mode);
    if (in_place && !S_ISDIR(status.st_mode))
        return access(path, W_OK) == 0 ||
               kern_fail(diag, KERN_EXIT_USAGE, path, "cannot be written: %s", strerror(errno));
    struct kern_file_out out;
    if (!kern_file_create(&out, path, diag))
        return false;
    close(out.fd);
    unlink(out.temporary);
    return true;
}
