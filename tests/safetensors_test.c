// SPDX-License-Identifier: Apache-2.0
//
// The safetensors reader against files that are wrong in one way each, and against their right
// neighbours.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "safetensors_files.h"

// A header, the bytes of data behind it, and what its refusal says (NULL: it is right).
static const struct {
    const char *header;
    size_t data;
    const char *refusal;
} headers[] = {
    // Right in ways that a reader may get wrong.
    {"{}", 0, NULL},
    {"{}  \n", 0, NULL},
    {"{\"__metadata__\":{\"a\":\"1\",\"b\":\"\\n\"}}", 0, NULL},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, NULL},
    {"{\"a\":{\"data_offsets\":[0,4],\"dtype\":\"F32\",\"shape\":[]}}", 4, NULL},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0,3],\"data_offsets\":[0,0]}}", 0, NULL},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0,18446744073709551615],\"data_offsets\":[0,0]}}", 0,
     NULL},
    {"{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]},"
     "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
     3, NULL},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
     "\"z\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[4,4]}}",
     4, NULL},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],"
     "\"extra\":[1.5e3,{\"x\":null},true,\"\\ud83d\\ude00\"]}}",
     1, NULL},
    {"{\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, NULL},
    {"{\"a\":{\"dtype\":\"F4\",\"shape\":[16],\"data_offsets\":[0,8]}}", 8, NULL},

    // Not JSON, or not the JSON of a header.
    {"[]", 0, "no JSON object"},
    {" {}", 0, "no JSON object"},
    {"{", 0, "byte 1 of the header: '\"' is expected, the end is there"},
    {"{}}", 0, "'}' stands after the end"},
    {"{\"a\"}", 0, "':' is expected"},
    {"{\"a\":1}", 0, "'{' is expected, '1' is there"},
    {"{\"a\":null}", 0, "'{' is expected"},
    {"{'a':{}}", 0, "'\"' is expected"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},}", 1, "'\"' is expected"},
    {"{\"a\xff\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "not UTF-8"},
    {"{\"\\ud800\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "surrogate"},
    {"{\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "NUL"},
    {"{\"a\\n\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "control character"},
    {"{\"a\":{\"dtype\":\"U8", 0, "does not end"},
    {"{\"a\":{\"x\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
     "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}}",
     0, "nested deeper than 64"},
    {"{\"a\":{\"x\":NaN}}", 0, "a value is expected"},
    {"{\"a\":{\"x\":01}}", 0, "0 and another digit"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "'\"' is expected, '1' is there"},
    {"{\"__metadata__\":[]}", 0, "'{' is expected"},
    {"{\"__metadata__\":{\"a\":\"1\",\"\\u0061\":\"2\"}}", 0, "a key twice"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "tensor __metadata__: it stands twice"},

    // Names and members twice or missing.
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
     "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
     2, "tensor a: it stands twice"},
    {"{\"\\u0061\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
     "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
     2, "tensor a: it stands twice"},
    {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
     "tensor a: its entry has dtype twice"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "its entry has no dtype"},
    {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "its entry has no shape"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "its entry has no data_offsets"},

    // Numbers.
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]}}", 1, "at least 0"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1.0],\"data_offsets\":[0,1]}}", 1, "no fraction"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1e0],\"data_offsets\":[0,1]}}", 1, "no exponent"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[\"1\"],\"data_offsets\":[0,1]}}", 1, "an integer"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[18446744073709551616],\"data_offsets\":[0,1]}}", 1,
     "larger than 18446744073709551615"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1, "not [begin, end]"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,2]}}", 1, "more than two"},

    // Sizes.
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,7]}}", 7,
     "tensor a: its data_offsets span 7 bytes; its shape in F32 has 8"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,0]}}", 0, "in F32 has 4"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[18446744073709551615,2,0],\"data_offsets\":[0,0]}}", 0,
     "more than 2^64 bytes"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 0,
     "more than 2^64 bytes"},
    {"{\"a\":{\"dtype\":\"F64\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
     "more than 2^64 bytes"},

    // Offsets.
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,1]}}", 2, "run backwards"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 1,
     "tensor a ends at byte 2 of the data, and the file has 1: it is cut short"},
    {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2],"
     "\"data_offsets\":[18446744073709551600,18446744073709551615]}}",
     1, "bytes 0 to 18446744073709551600 of the data, before tensor a, belong to no tensor"},
    {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,18446744073709551615]}}", 1,
     "it is cut short"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 2,
     "has 2 bytes of data, and its tensors end at byte 1"},
    {"{}", 1, "has 1 bytes of data, and its tensors end at byte 0"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", 2,
     "bytes 0 to 1 of the data, before tensor a, belong to no tensor"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
     3, "tensor b begins at byte 1 of the data, inside tensor a, which ends at 2"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
     2, "inside tensor"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
     "\"z\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[1,1]}}",
     4, "tensor z begins at byte 1 of the data, inside tensor a"},
};

static void headers_are_judged(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        write_tensors("t.safetensors", headers[i].header, strlen(headers[i].header),
                      headers[i].data);
        if (headers[i].refusal) {
            assert_file_refused("t.safetensors", KERN_EXIT_ARTIFACT, "t.safetensors",
                                headers[i].refusal);
            continue;
        }
        struct kern_diag diag = {0};
        struct kern_safetensors *set = open_file("t.safetensors", &diag);
        if (!set)
            fail_msg("%s: %s", headers[i].header, diag.entries[0].text);
        kern_safetensors_close(set);
        kern_diag_clear(&diag);
    }
}

static void a_nul_ends_no_header(void **state)
{
    (void)state;
    write_tensors("t.safetensors", "{}\0{}", 5, 0);
    assert_file_refused("t.safetensors", KERN_EXIT_ARTIFACT, "t.safetensors",
                        "byte 0x00 stands after the end");
}

// What people have under such names, and what the refusal takes it for.
static const struct {
    const char *bytes;
    size_t length;
    const char *guess;
} others[] = {
#define TEXT(text) text, sizeof text - 1
    {TEXT("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"), "git LFS pointer"},
    {TEXT("<!DOCTYPE html>\n<html>"), "HTML page"},
    {TEXT("<HTML><head>"), "HTML page"},
    {TEXT("\x1f\x8b\x08\0\0\0\0\0\0\0"), "gzip"},
    {TEXT("\x28\xb5\x2f\xfd\x24\x00\x01\x00\x00"), "zstd"},
    {TEXT("PK\x03\x04\x14\0\0\0\0\0"), "zip archive"},
    {TEXT("\x80\x02}q\0X\0\0\0\0"), "pickle"},
    {TEXT("GGUF\3\0\0\0\0\0"), "GGUF"},
    {TEXT("\x93NUMPY\1\0v\0"), "NumPy"},
    {TEXT("{\"weight_map\": {}}"), "JSON"},
    {TEXT("{}"), "JSON"},
    {TEXT("\0\0\0\0\0\0\0\0\0\0"), "begins with zeros"},
    {TEXT(""), "it is empty"},
    {TEXT("\2\0\0\0"), "has 4 bytes"},
    {TEXT("\3\0\0\0\0\0\0\0{}"), "announce a header of 3 bytes; the file has 10"},
    {TEXT("\xff\xff\xff\xff\xff\xff\xff\xff{}"), "a header of 18446744073709551615 bytes"},
#undef TEXT
};

static void other_files_are_recognised(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        write_bytes("t.safetensors", others[i].bytes, others[i].length);
        assert_file_refused("t.safetensors", KERN_EXIT_ARTIFACT, "t.safetensors", others[i].guess);
    }
}

// A header of 100,000,001 bytes in a file that is large enough for it, without any of them.
static void a_header_above_the_limit_is_refused(void **state)
{
    (void)state;
    write_tensors("t.safetensors", "{}", 2, 0);
    int fd = open("t.safetensors", O_WRONLY | O_CLOEXEC);
    uint64_t announced = 100000001;
    assert_int_equal(pwrite(fd, &announced, 8, 0), 8);
    assert_int_equal(ftruncate(fd, 200000000), 0);
    close(fd);
    assert_file_refused("t.safetensors", KERN_EXIT_ARTIFACT, "t.safetensors", "at most 100000000");
}

static void what_is_no_file_is_a_usage_error(void **state)
{
    (void)state;
    assert_file_refused("absent", KERN_EXIT_USAGE, "absent", "No such file");
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_file_refused("pipe", KERN_EXIT_USAGE, "pipe", "not a regular file");
    assert_int_equal(mkdir("empty", 0700), 0);
    assert_file_refused("empty", KERN_EXIT_ARTIFACT, "empty", "no *.safetensors");
}

static void tensors_are_found_and_read(void **state)
{
    (void)state;
    const char *header = "{\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,12]},"
                         "\"a\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[12,14]}}";
    write_tensors("t.safetensors", header, strlen(header), 14);
    struct kern_diag diag = {0};
    struct kern_safetensors *set = open_file("t.safetensors", &diag);
    assert_non_null(set);
    assert_int_equal(kern_safetensors_count(set), 2);
    assert_string_equal(kern_safetensors_at(set, 0)->name, "a");
    assert_false(kern_safetensors_at(set, 0)->dtype_known);
    assert_string_equal(kern_safetensors_at(set, 0)->dtype_text, "BOOL");
    const struct kern_tensor *tensor = kern_safetensors_find(set, "b");
    assert_ptr_equal(tensor, kern_safetensors_at(set, 1));
    assert_true(tensor->dtype_known && tensor->dtype == KERN_BF16);
    assert_int_equal(tensor->rank, 2);
    assert_int_equal(tensor->shape[1], 3);
    assert_int_equal(tensor->bytes, 12);
    assert_string_equal(kern_safetensors_path(set, tensor), "t.safetensors");
    assert_null(kern_safetensors_find(set, "c"));

    char bytes[12];
    assert_true(kern_safetensors_read(set, tensor, 4, bytes, 8, &diag));
    for (char i = 0; i < 8; i++)
        assert_int_equal(bytes[(int)i], 4 + i);
    assert_true(kern_safetensors_read(set, tensor, 12, bytes, 0, &diag));
    assert_false(kern_safetensors_read(set, tensor, 5, bytes, 8, &diag));
    assert_false(kern_safetensors_read(set, tensor, 13, bytes, 0, &diag));
    assert_false(kern_safetensors_read(set, tensor, UINT64_MAX, bytes, 8, &diag));
    assert_int_equal(diag.count, 3);
    assert_string_equal(diag.entries[0].text,
                        "tensor b has 12 bytes; 8 of them from byte 5 on are asked for");
    kern_safetensors_close(set);
    kern_diag_clear(&diag);
}

static void a_changed_file_is_noticed(void **state)
{
    (void)state;
    const char *header = "{\"a\":{\"dtype\":\"U8\",\"shape\":[64],\"data_offsets\":[0,64]}}";
    for (int change = 0; change < 2; change++) {
        write_tensors("t.safetensors", header, strlen(header), 64);
        struct kern_diag diag = {0};
        struct kern_safetensors *set = open_file("t.safetensors", &diag);
        char bytes[64];
        assert_true(kern_safetensors_read(set, kern_safetensors_at(set, 0), 0, bytes, 64, &diag));
        struct timespec past[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
        if (change == 0)
            assert_int_equal(truncate("t.safetensors", 100), 0);
        else
            assert_int_equal(utimensat(AT_FDCWD, "t.safetensors", past, 0), 0);
        assert_false(kern_safetensors_read(set, kern_safetensors_at(set, 0), 0, bytes, 8, &diag));
        assert_int_equal(diag.entries[0].code, KERN_EXIT_ARTIFACT);
        assert_non_null(strstr(diag.entries[0].text, "changed after it was opened"));
        kern_safetensors_close(set);
        kern_diag_clear(&diag);
    }
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, enter_directory, leave_directory)
    const struct CMUnitTest tests[] = {
        TEST(headers_are_judged),
        TEST(a_nul_ends_no_header),
        TEST(other_files_are_recognised),
        TEST(a_header_above_the_limit_is_refused),
        TEST(what_is_no_file_is_a_usage_error),
        TEST(tensors_are_found_and_read),
        TEST(a_changed_file_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
