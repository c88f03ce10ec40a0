// SPDX-License-Identifier: Apache-2.0
//
// Whole files, with errors that name them.
#ifndef KERN_BASE_FILE_H
#define KERN_BASE_FILE_H

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

// Writes [length] bytes to [path] through a temporary file beside it that is renamed when whole, so
// that a reader sees the old file or the new one. Nothing is left behind on failure. What is no
// plain file (a pipe, a device) is written to as it is, and a link stays one: its target is
// written.
bool kern_file_write(const char *path, const void *bytes, size_t length, struct kern_diag *diag);

// pread and write that go on after a signal or a short count. pread returns the bytes read, fewer
// than [length] only at the end of the file, or -1 with errno; write returns false with errno.
ssize_t kern_pread_all(int fd, void *bytes, size_t length, off_t offset);
bool kern_write_all(int fd, const void *bytes, size_t length);

#endif
