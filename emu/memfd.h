// SPDX-License-Identifier: Apache-2.0
//
// The memfds that device memory is made of. The name of one carries what a process that opened it
// needs to know, and a memfd's name cannot be changed, so it also proves that a file descriptor is
// the memory that a handle meant and not a later file under the same number.
#ifndef KERN_EMU_MEMFD_H
#define KERN_EMU_MEMFD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct emu_memfd_name {
    unsigned char key[16]; // random: names this memory among all of the machine
    uint64_t node;         // emu_node_id() of the maker
    unsigned device;       // the installed device where it lies
    unsigned types;        // CUmemAllocationHandleType bits that the maker asked for
};

// A memfd of [bytes] bytes, close-on-exec, that can neither shrink nor grow. -1 with errno set.
int emu_memfd_create(const struct emu_memfd_name *name, size_t bytes);

// Reads back what [fd] is. False if it is no memfd of emu's, sealed and open for reading and
// writing.
bool emu_memfd_inspect(int fd, struct emu_memfd_name *name, size_t *bytes);

#endif
