// SPDX-License-Identifier: Apache-2.0
#include "emu/memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const int SEALS = F_SEAL_SHRINK | F_SEAL_GROW;

enum { NAME_BYTES = 128 };

static void format_name(const struct emu_memfd_name *name, char text[NAME_BYTES])
{
    char key[33];
    for (size_t i = 0; i < sizeof name->key; i++) {
        sprintf(key + 2 * i, "%02x", name->key[i]);
    }
    snprintf(text, NAME_BYTES, "kern-emu-%s-%016" PRIx64 "-%u-%x", key, name->node, name->device,
             name->types);
}

int emu_memfd_create(const struct emu_memfd_name *name, size_t bytes)
{
    char text[NAME_BYTES];
    format_name(name, text);
    int fd = memfd_create(text, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return -1;
    }
    if (ftruncate(fd, (off_t)bytes) != 0 || fcntl(fd, F_ADD_SEALS, SEALS) != 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static bool parse_name(const char *text, struct emu_memfd_name *name)
{
    char key[33];
    if (sscanf(text, "/memfd:kern-emu-%32[0-9a-f]-%" SCNx64 "-%u-%x", key, &name->node,
               &name->device, &name->types) != 4 ||
        strlen(key) != 32) {
        return false;
    }
    for (size_t i = 0; i < sizeof name->key; i++) {
        unsigned byte;
        sscanf(key + 2 * i, "%2x", &byte);
        name->key[i] = (unsigned char)byte;
    }
    return true;
}

bool emu_memfd_inspect(int fd, struct emu_memfd_name *name, size_t *bytes)
{
    int seals = fcntl(fd, F_GET_SEALS);
    int mode = fcntl(fd, F_GETFL);
    struct stat status;
    if (seals < 0 || (seals & SEALS) != SEALS || mode < 0 || (mode & O_ACCMODE) != O_RDWR ||
        fstat(fd, &status) != 0 || status.st_size <= 0) {
        return false;
    }
    char path[64];
    char text[NAME_BYTES];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(path, text, sizeof text - 1);
    if (n < 0) {
        return false;
    }
    text[n] = '\0';
    *bytes = (size_t)status.st_size;
    return parse_name(text, name);
}
