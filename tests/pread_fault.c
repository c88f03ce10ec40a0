// SPDX-License-Identifier: Apache-2.0
//
// Preloaded into a process: what happens to reads of its *.safetensors files. KERN_TEST_PREAD is
// WHAT:N[@RANK]: from the Nth read on,
//
//     error       they fail with EIO, as on a broken disk
//     truncate    the file has lost its last byte, and the 65536 before
//     sleep       each takes 50 ms longer
//
// in every process, or only in the one whose rank of Open MPI is RANK.
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_checkpoint(int fd, char *path, size_t length)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, length - 1);
    path[n > 0 ? n : 0] = '\0';
    return n > 12 && strcmp(path + n - 12, ".safetensors") == 0;
}

static bool is_meant(const char *rank)
{
    const char *own = getenv("OMPI_COMM_WORLD_RANK");
    return !rank || (own && strcmp(own, rank + 1) == 0);
}

ssize_t pread(int fd, void *bytes, size_t length, off_t offset)
{
    static atomic_long reads;
    ssize_t (*next)(int, void *, size_t, off_t) =
        (ssize_t(*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread");
    const char *what = getenv("KERN_TEST_PREAD");
    const char *count = what ? strchr(what, ':') : NULL;
    char path[4096];
    if (!count || !is_meant(strchr(what, '@')) || !is_checkpoint(fd, path, sizeof path) ||
        ++reads < atol(count + 1))
        return next(fd, bytes, length, offset);
    struct stat status;
    if (strncmp(what, "error", 5) == 0) {
        errno = EIO;
        return -1;
    }
    if (strncmp(what, "sleep", 5) == 0)
        usleep(50000);
    else if (reads == atol(count + 1) && (stat(path, &status) != 0 ||
                                          truncate(path, status.st_size - 65537) != 0))
        abort();
    return next(fd, bytes, length, offset);
}
