// SPDX-License-Identifier: Apache-2.0
//
// The safetensors reader against files that are wrong in one way each, and against their right
// neighbours; then sets of files, and what the writer makes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "rank/safetensors.h"

// Every test has an empty directory of its own, which is the working directory.
static int enter_directory(void **state)
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

static int leave_directory(void **state)
{
    int result = chdir("/") || nftw(*state, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    free(*state);
    return result;
}

static void write_bytes(const char *path, const void *bytes, size_t length)
{
    struct kern_diag diag = {0};
    assert_true(kern_file_write(path, bytes, length, &diag));
    kern_diag_clear(&diag);
}

// Writes a file of the header text [header] of [length] bytes and [data] bytes of data.
static void write_tensors(const char *path, const char *header, size_t length, size_t data)
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

static struct kern_safetensors *open_one(const char *path, struct kern_diag *diag)
{
    return kern_safetensors_open(&path, 1, diag);
}

// Opening [path] must fail with one error, of kind [code], at [place], whose text has [text] in it.
static void assert_refused(const char *path, enum kern_exit code, const char *place,
                           const char *text)
{
    struct kern_diag diag = {0};
    assert_null(open_one(path, &diag));
    assert_int_equal(diag.count, 1);
    assert_int_equal(diag.entries[0].code, code);
    assert_string_equal(diag.entries[0].place, place);
    if (!strstr(diag.entries[0].text, text))
        fail_msg("\"%s\" does not say \"%s\"", diag.entries[0].text, text);
    kern_diag_clear(&diag);
}

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
            assert_refused("t.safetensors", KERN_EXIT_ARTIFACT, "t.safetensors",
                           headers[i].refusal);
            continue;
        }
        struct kern_diag diag = {0};
        struct kern_safetensors *set = open_one("t.safetensors", &diag);
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
    assert_refused("t.safetensors", KERN_EXIT_ARTIFACT, "t.safetensors",
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
        assert_refused("t.safetensors", KERN_EXIT_ARTIFACT, "t.safetensors", others[i].guess);
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
    assert_refused("t.safetensors", KERN_EXIT_ARTIFACT, "t.safetensors", "at most 100000000");
}

static void what_is_no_file_is_a_usage_error(void **state)
{
    (void)state;
    assert_refused("absent", KERN_EXIT_USAGE, "absent", "No such file");
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_refused("pipe", KERN_EXIT_USAGE, "pipe", "not a regular file");
    assert_int_equal(mkdir("empty", 0700), 0);
    assert_refused("empty", KERN_EXIT_ARTIFACT, "empty", "no *.safetensors");
}

static void tensors_are_found_and_read(void **state)
{
    (void)state;
    const char *header = "{\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,12]},"
                         "\"a\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[12,14]}}";
    write_tensors("t.safetensors", header, strlen(header), 14);
    struct kern_diag diag = {0};
    struct kern_safetensors *set = open_one("t.safetensors", &diag);
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
        struct kern_safetensors *set = open_one("t.safetensors", &diag);
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
    assert_null(open_one(".", &diag));
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
    struct kern_safetensors *set = open_one(".", &diag);
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
        assert_refused(".", KERN_EXIT_ARTIFACT, "./" INDEX, indexes[i].refusal);
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
    struct kern_safetensors *set = open_one(".", &diag);
    assert_int_equal(count_descriptors(true), before + 2);
    kern_safetensors_close(set);
    assert_int_equal(count_descriptors(true), before);
    write_text("c.safetensors", "no");
    assert_null(open_one(".", &diag));
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
    struct kern_safetensors *set = open_one("t.safetensors", &diag);
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
    set = open_one("empty.safetensors", &diag);
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
        TEST(headers_are_judged),
        TEST(a_nul_ends_no_header),
        TEST(other_files_are_recognised),
        TEST(a_header_above_the_limit_is_refused),
        TEST(what_is_no_file_is_a_usage_error),
        TEST(tensors_are_found_and_read),
        TEST(a_changed_file_is_noticed),
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
