// SPDX-License-Identifier: Apache-2.0
//
// Sets of safetensors files: directories, indexes, what the writer makes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "safetensors_files.h"

static void write_one(const char *path, const char *tensor)
{
    char header[128];
    int length =
        snprintf(header, sizeof header,
                 "{\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", tensor);
    write_tensors(path, header, (size_t)length, 1);
}

static void a_directory_is_the_files_in_it(void **state)
{
    (void)state;
    assert_int_equal(mkdir("d", 0700), 0);
    write_one("d/2.safetensors", "b");
    write_one("d/1.safetensors", "c");
    write_one("d/.hidden.safetensors", "h");
    write_bytes("d/readme.txt", "no", 2);
    write_one("extra.safetensors", "a");
    struct kern_diag diag = {0};
    const char *paths[] = {"d", "extra.safetensors"};
    struct kern_safetensors *set = kern_safetensors_open(paths, 2, &diag);
    assert_non_null(set);
    assert_int_equal(kern_safetensors_count(set), 3);
    assert_string_equal(kern_safetensors_at(set, 0)->name, "a");
    assert_string_equal(kern_safetensors_path(set, kern_safetensors_find(set, "c")),
                        "d/1.safetensors");
    kern_safetensors_close(set);

    // A name in two files, and a file given twice.
    write_one("d/3.safetensors", "a");
    assert_null(kern_safetensors_open(paths, 2, &diag));
    assert_string_equal(diag.entries[0].place, "extra.safetensors");
    assert_string_equal(diag.entries[0].text,
                        "tensor a is also in d/3.safetensors; a tensor may be in one file only");
    kern_diag_clear(&diag);
    const char *same[] = {"extra.safetensors", "./extra.safetensors"};
    assert_null(kern_safetensors_open(same, 2, &diag));
    kern_diag_clear(&diag);
}

static void every_bad_file_is_reported(void **state)
{
    (void)state;
    write_bytes("a.safetensors", "GGUF\3\0\0\0", 8);
    write_bytes("b.safetensors", "", 0);
    struct kern_diag diag = {0};
    assert_null(open_file(".", &diag));
    assert_int_equal(diag.count, 2);
    assert_string_equal(diag.entries[1].place, "./b.safetensors");
    kern_diag_clear(&diag);
}

static void write_text(const char *path, const char *text)
{
    write_bytes(path, text, strlen(text));
}

#define INDEX "model.safetensors.index.json"

static void an_index_names_the_shards(void **state)
{
    (void)state;
    write_one("x.safetensors", "a");
    write_one("y.safetensors", "b");
    write_bytes("z.safetensors", "no", 2);
    write_text(INDEX, "{\"metadata\":{\"total_size\":2e0},\"weight_map\":"
                      "{\"b\":\"y.safetensors\",\"a\":\"x.safetensors\"}}");
    struct kern_diag diag = {0};
    struct kern_safetensors *set = open_file(".", &diag);
    assert_non_null(set);
    assert_int_equal(kern_safetensors_count(set), 2);
    assert_string_equal(kern_safetensors_path(set, kern_safetensors_find(set, "b")),
                        "./y.safetensors");
    kern_safetensors_close(set);
    kern_diag_clear(&diag);
}

static void a_wrong_index_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *refusal;
    } indexes[] = {
        {"{}", "it has no weight_map"},
        {"[]", "byte 0 of the text: '{' is expected"},
        {"{\"weight_map\":[]}", "'{' is expected"},
        {"{\"weight_map\":{\"a\":1}}", "'\"' is expected"},
        {"{\"weight_map\":{},\"weight_map\":{}}", "it has weight_map twice"},
        {"{\"weight_map\":{\"a\":\"x.safetensors\",\"\\u0061\":\"x.safetensors\"}}",
         "tensor a twice"},
        {"{\"weight_map\":{\"a\":\"../x.safetensors\"}}", "the name of a file beside the index"},
        {"{\"weight_map\":{\"a\":\"\"}}", "the name of a file beside the index"},
        {"{\"weight_map\":{\"a\":\"w.safetensors\"}}",
         "in shard ./w.safetensors, which is not there"},
        {"{\"weight_map\":{\"a\":\"x.safetensors\",\"c\":\"y.safetensors\"}}",
         "tensor c should be in shard y.safetensors, which lacks it"},
        {"{\"weight_map\":{\"a\":\"x.safetensors\",\"b\":\"x.safetensors\",\"d\":\"y.safetensors\"}"
         "}",
         "tensor b should be in shard x.safetensors, but is in ./y.safetensors"},
    };
    write_one("x.safetensors", "a");
    const char *header = "{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                         "\"d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}";
    write_tensors("y.safetensors", header, strlen(header), 2);
    for (size_t i = 0; i < sizeof indexes / sizeof *indexes; i++) {
        write_text(INDEX, indexes[i].text);
        assert_file_refused(".", KERN_EXIT_ARTIFACT, "./" INDEX, indexes[i].refusal);
    }
}

// The open descriptors that an exec closes, or those that it keeps.
static int count_descriptors(bool closed_by_exec)
{
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;
    for (struct dirent *entry; (entry = readdir(directory));) {
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] == '.' || fd == dirfd(directory))
            continue;
        count += ((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0) == closed_by_exec;
    }
    closedir(directory);
    return count;
}

static void descriptors_are_closed(void **state)
{
    (void)state;
    write_one("a.safetensors", "a");
    write_one("b.safetensors", "b");
    int before = count_descriptors(true), kept = count_descriptors(false);
    struct kern_diag diag = {0};
    struct kern_safetensors *set = open_file(".", &diag);
    assert_int_equal(count_descriptors(true), before + 2);
    kern_safetensors_close(set);
    assert_int_equal(count_descriptors(true), before);
    write_text("c.safetensors", "no");
    assert_null(open_file(".", &diag));
    assert_int_equal(count_descriptors(true), before);
    assert_int_equal(count_descriptors(false), kept);
    kern_diag_clear(&diag);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    const uint64_t shape[] = {2, 3}, empty[] = {0};
    const char bytes[48] = "twenty-four bytes and as many others, unaligned";
    const struct kern_tensor_data tensors[] = {
        {"u8", KERN_U8, shape, 2, bytes + 1, 6},
        {"quoted \"\\ \xc3\xa9", KERN_BF16, shape, 2, bytes, 12},
        {"wide", KERN_I64, shape, 2, bytes, 48},
        {"scalar", KERN_F32, NULL, 0, bytes + 3, 4},
        {"none", KERN_FP8E4M3, empty, 1, NULL, 0},
    };
    struct kern_diag diag = {0};
    assert_true(kern_safetensors_write("t.safetensors", tensors, 5, &diag));
    struct kern_safetensors *set = open_file("t.safetensors", &diag);
    assert_non_null(set);
    assert_int_equal(kern_safetensors_count(set), 5);
    for (size_t i = 0; i < 5; i++) {
        const struct kern_tensor *tensor = kern_safetensors_find(set, tensors[i].name);
        char read[48];
        assert_non_null(tensor);
        assert_true(tensor->dtype_known && tensor->dtype == tensors[i].dtype);
        assert_int_equal(tensor->rank, tensors[i].rank);
        assert_int_equal(tensor->bytes, tensors[i].length);
        assert_true(kern_safetensors_read(set, tensor, 0, read, tensor->bytes, &diag));
        if (tensor->bytes)
            assert_memory_equal(read, tensors[i].bytes, tensor->bytes);
        assert_int_equal(tensor->offset % kern_dtype_bytes(tensor->dtype), 0);
    }
    kern_safetensors_close(set);
    assert_true(kern_safetensors_write("empty.safetensors", NULL, 0, &diag));
    set = open_file("empty.safetensors", &diag);
    assert_non_null(set);
    kern_safetensors_close(set);
    kern_diag_clear(&diag);
}

static void what_cannot_be_read_is_not_written(void **state)
{
    (void)state;
    const uint64_t shape[] = {2}, large[] = {UINT64_MAX, 2};
    const struct kern_tensor_data tensors[] = {
        {"short", KERN_I32, shape, 1, "1234567", 7},  {"large", KERN_U8, large, 2, "", 0},
        {"__metadata__", KERN_U8, shape, 1, "12", 2}, {"a\n", KERN_U8, shape, 1, "12", 2},
        {"twice", KERN_U8, shape, 1, "12", 2},        {"twice", KERN_BF16, shape, 1, "1234", 4},
    };
    struct kern_diag diag = {0};
    assert_false(kern_safetensors_write("t.safetensors", tensors, 6, &diag));
    assert_int_equal(diag.count, 5);
    assert_string_equal(diag.entries[0].text,
                        "tensor short is given with 7 bytes; its shape in i32 has 8");
    assert_string_equal(diag.entries[4].text, "tensor twice is given twice");
    assert_int_equal(access("t.safetensors", F_OK), -1);
    kern_diag_clear(&diag);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, enter_directory, leave_directory)
    const struct CMUnitTest tests[] = {
        TEST(a_directory_is_the_files_in_it),
        TEST(every_bad_file_is_reported),
        TEST(an_index_names_the_shards),
        TEST(a_wrong_index_is_refused),
        TEST(descriptors_are_closed),
        TEST(what_is_written_is_read),
        TEST(what_cannot_be_read_is_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
