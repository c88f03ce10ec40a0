// SPDX-License-Identifier: Apache-2.0
#include "safetensors_files.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

int enter_directory(void **state)
{
    char *directory = strdup("/tmp/kern-safetensors-XXXXXX");
    *state = directory;
    return mkdtemp(directory) && chdir(directory) == 0 ? 0 : -1;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status, (void)type, (void)walk;
    return remove(path);
}

int leave_directory(void **state)
{
    int result = chdir("/") || nftw(*state, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    free(*state);
    return result;
}

void write_bytes(const char *path, const void *bytes, size_t length)
{
    struct kern_diag diag = {0};
    assert_true(kern_file_write(path, bytes, length, &diag));
    kern_diag_clear(&diag);
}

void write_tensors(const char *path, const char *header, size_t length, size_t data)
{
    char *bytes = calloc(1, 8 + length + data);
    uint64_t announced = length;
    memcpy(bytes, &announced, sizeof announced);
    memcpy(bytes + 8, header, length);
    for (size_t i = 0; i < data; i++)
        bytes[8 + length + i] = (char)i;
    write_bytes(path, bytes, 8 + length + data);
    free(bytes);
}

struct kern_safetensors *open_file(const char *path, struct kern_diag *diag)
{
    return kern_safetensors_open(&path, 1, diag);
}

void assert_file_refused(const char *path, enum kern_exit code, const char *place, const char *text)
{
    struct kern_diag diag = {0};
    assert_null(open_file(path, &diag));
    assert_int_equal(diag.count, 1);
    assert_int_equal(diag.entries[0].code, code);
    assert_string_equal(diag.entries[0].place, place);
    if (!strstr(diag.entries[0].text, text))
        fail_msg("\"%s\" does not say \"%s\"", diag.entries[0].text, text);
    kern_diag_clear(&diag);
}
