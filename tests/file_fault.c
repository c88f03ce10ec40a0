// SPDX-License-Identifier: Apache-2.0
//
// Preloaded into a process: what happens to its files. KERN_TEST_READ is WHAT:N[@RANK] and is about
// reads of 64 KiB and more of *.safetensors files, which are of tensors and not of headers. From
// the Nth on
//
//     error       they fail with EIO, as on a broken disk
//     truncate    the file has lost the last 65537 bytes
//     sleep       each takes 50 ms longer
//     slow        each takes a second longer
//     hang        they do not return
//
// in every process, or only in the one whose rank of Open MPI is RANK. With KERN_TEST_NO_MEMORY
// files in memory that have a name of kern's cannot grow.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LARGE (64 << 10)

struct path {
    char text[4096];
};

static struct path path_of(int fd)
{
    struct path path;
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path.text, sizeof path.text - 1);
    path.text[n > 0 ? n : 0] = '\0';
    return path;
}

static bool is_checkpoint(const struct path *path)
{
    size_t n = strlen(path->text);
    return n > 12 && strcmp(path->text + n - 12, ".safetensors") == 0;
}

static bool is_meant(const char *rank)
{
    const char *own = getenv("OMPI_COMM_WORLD_RANK");
    return !rank || (own && strcmp(own, rank + 1) == 0);
}

static void cut(const struct path *path)
{
    struct stat status;
    if (stat(path->text, &status) != 0 || truncate(path->text, status.st_size - LARGE - 1) != 0)
        abort();
}

ssize_t pread(int fd, void *buf, size_t nbytes, off_t offset)
{
    static atomic_long reads;
    ssize_t (*next)(int, void *, size_t, off_t) =
        (ssize_t(*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread");
    const char *what = getenv("KERN_TEST_READ");
    const char *colon = what ? strchr(what, ':') : NULL;
    struct path path = path_of(fd);
    if (!colon || nbytes < LARGE || !is_meant(strchr(what, '@')) || !is_checkpoint(&path))
        return next(fd, buf, nbytes, offset);
    long first = atol(colon + 1), nth = ++reads;
    if (nth >= first && strncmp(what, "error", 5) == 0) {
        errno = EIO;
        return -1;
    }
    if (nth >= first && strncmp(what, "sleep", 5) == 0)
        usleep(50000);
    if (nth >= first && strncmp(what, "slow", 4) == 0)
        sleep(1);
    while (nth >= first && strncmp(what, "hang", 4) == 0)
        pause();
    if (nth == first && strncmp(what, "truncate", 8) == 0)
        cut(&path);
    return next(fd, buf, nbytes, offset);
}

int posix_fallocate(int fd, off_t offset, off_t len)
{
    int (*next)(int, off_t, off_t) =
        (int (*)(int, off_t, off_t))dlsym(RTLD_NEXT, "posix_fallocate");
    struct path path = path_of(fd);
    if (getenv("KERN_TEST_NO_MEMORY") && strncmp(path.text, "/memfd:kern-", 12) == 0)
        return ENOSPC;
    return next(fd, offset, len);
}
