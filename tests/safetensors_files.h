// SPDX-License-Identifier: Apache-2.0
//
// Files for the tests of the safetensors reader: written by hand, right or wrong, in a directory of
// the test's own.
#ifndef KERN_TESTS_SAFETENSORS_FILES_H
#define KERN_TESTS_SAFETENSORS_FILES_H

#include <stddef.h>

#include "rank/safetensors.h"

// Set-up and tear-down of a test: an empty directory, which is the working directory meanwhile.
int enter_directory(void **state);
int leave_directory(void **state);

void write_bytes(const char *path, const void *bytes, size_t length);

// Writes a file of the header text [header] of [length] bytes and [data] bytes 0, 1, 2, … of data.
void write_tensors(const char *path, const char *header, size_t length, size_t data);

struct kern_safetensors *open_file(const char *path, struct kern_diag *diag);

// Opening [path] must fail with one error, of kind [code], at [place], whose text has [text] in it.
void assert_file_refused(const char *path, enum kern_exit code, const char *place,
                         const char *text);

#endif
