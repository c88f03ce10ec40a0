// SPDX-License-Identifier: Apache-2.0
//
// Whole files, with errors that name them.
#ifndef KERN_BASE_FILE_H
#define KERN_BASE_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/diag.h"

// The bytes of the file at [path] ("-": standard input) with a NUL after them, to be freed by the
// caller; *[length] is without the NUL. A file of more than [limit] bytes is refused before it is
// read, and so is a pipe that has no writer. Failures are of kind [code].
char *kern_file_read(const char *path, uint64_t limit, size_t *length, enum kern_exit code,
                     struct kern_diag *diag);

// A file that is being written: a temporary one beside [path] that is renamed when whole, so that a
// reader sees the old file or the new one. What is no plain file (a pipe, a device) is written to
// as it is, and a link stays one: its target is written.
struct kern_file_out {
    int fd; // to be written to
    char path[PATH_MAX];
    char temporary[PATH_MAX + 8]; // empty: written in place
};

bool kern_file_create(struct kern_file_out *out, const char *path, struct kern_diag *diag);

// Closes the file; [written] says whether everything was written to it (else errno why not).
// Nothing is left behind on failure.
bool kern_file_finish(struct kern_file_out *out, bool written, struct kern_diag *diag);

// All of that for [length] bytes at once.
bool kern_file_write(const char *path, const void *bytes, size_t length, struct kern_diag *diag);

// Whether [path] could be written to now; nothing of it is changed.
bool kern_file_try(const char *path, struct kern_diag *diag);

// pread and write that go on after a signal or a short count. pread returns the bytes read, fewer
// than [length] only at the end of the file, or -1 with errno; write returns false with errno.
ssize_t kern_pread_all(int fd, void *bytes, size_t length, off_t offset);
bool kern_write_all(int fd, const void *bytes, size_t length);

#endif
