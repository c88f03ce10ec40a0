// SPDX-License-Identifier: Apache-2.0
//
// Writing zeros. A page that nobody has written yet is zero and takes no memory, and both stay so:
// a slab for the worst case costs what is used of it, as long as nothing else is.
#include "emu/space.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

// Below this, to ask where pages are costs more than to write.
enum { WORTH_ASKING = 1 << 20 };

// Of a memfd, which other processes write as well, the file knows.
static void clear_file(int fd, off_t begin, unsigned char *to, size_t bytes)
{
    off_t end = begin + (off_t)bytes;
    for (off_t at = lseek(fd, begin, SEEK_DATA); at >= 0 && at < end;) {
        off_t hole = lseek(fd, at, SEEK_HOLE);
        off_t until = hole < end ? hole : end;
        memset(to + (at - begin), 0, (size_t)(until - at));
        at = lseek(fd, until, SEEK_DATA);
    }
}

// Of private memory the page table knows: /proc/self/pagemap has a word for each page, with these
// bits if it is in memory or swapped out.
#define PAGE_EXISTS ((uint64_t)3 << 62)

static void clear_private(unsigned char *to, size_t bytes)
{
    uint64_t words[512];
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)to, end = at + bytes;
    int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    while (at < end) {
        size_t first = at / page, n = (end - 1) / page + 1 - first;
        n = n < 512 ? n : 512;
        ssize_t size = (ssize_t)(n * sizeof *words);
        if (pread(pagemap, words, (size_t)size, (off_t)(first * sizeof *words)) != size) {
            memset((void *)at, 0, end - at);
            break;
        }
        for (size_t i = 0; i < n; i++) {
            uintptr_t next = (first + i + 1) * page;
            next = next < end ? next : end;
            if (words[i] & PAGE_EXISTS) {
                memset((void *)at, 0, next - at);
            }
            at = next;
        }
    }
    close(pagemap);
}

void emu_clear(unsigned char *to, size_t bytes)
{
    enum emu_space_kind kind = EMU_SPACE_HOST_ALLOCATION;
    size_t offset = 0;
    int fd = -1;
    // What is mapped stays mapped as long as work is under way.
    emu_lock();
    const struct emu_space *space = emu_space_find((uintptr_t)to);
    if (space != NULL && bytes >= WORTH_ASKING) {
        offset = (uintptr_t)to - space->range.begin;
        kind = bytes <= space->range.bytes - offset ? space->kind : kind;
        fd = kind == EMU_SPACE_MAPPING ? space->memory->fd : -1;
    }
    emu_unlock();
    if (kind == EMU_SPACE_MAPPING) {
        clear_file(fd, (off_t)offset, to, bytes);
    } else if (kind == EMU_SPACE_ALLOCATION) {
        clear_private(to, bytes);
    } else {
        memset(to, 0, bytes);
    }
}
