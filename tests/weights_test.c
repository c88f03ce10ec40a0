// SPDX-License-Identifier: Apache-2.0
//
// Weight buffers against a reference that moves one element at a time, and every reason for which a
// checkpoint does not fit.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "manifest/footprint.h"
#include "rank/weights.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

// The checkpoint: i32 matrices in which every element is different, among other things.
#define ROWS ((size_t)6)
#define COLS ((size_t)4)

static int32_t first[ROWS * COLS], second[ROWS * COLS];
static const uint64_t shape[] = {ROWS, COLS}, cube[] = {ROWS, 2, 2}, line[] = {ROWS * COLS},
                      flat[] = {COLS, ROWS}, none[] = {0, COLS};

static const struct kern_tensor_data tensors[] = {
    {"first", KERN_I32, shape, 2, first, sizeof first},
    {"second", KERN_I32, shape, 2, second, sizeof second},
    {"cube", KERN_I32, cube, 3, second, sizeof second},
    {"line", KERN_I32, line, 1, first, sizeof first},
    {"flat", KERN_I32, flat, 2, first, sizeof first},
    {"none", KERN_I32, none, 2, NULL, 0},
    {"scalar", KERN_I32, NULL, 0, second, sizeof *second},
    {"floats", KERN_F32, shape, 2, first, sizeof first},
};

static struct kern_safetensors *open_tensors(const struct kern_tensor_data *data, size_t count)
{
    struct kern_diag diag = {0};
    char path[] = "/tmp/kern-weights-XXXXXX";
    int fd = mkstemp(path);
    const char *const paths[] = {path};
    assert_true(fd >= 0 && kern_safetensors_write(path, data, count, &diag));
    close(fd);
    struct kern_safetensors *set = kern_safetensors_open(paths, 1, &diag);
    assert_non_null(set);
    // The open set holds the file; nothing needs its name any more.
    unlink(path);
    kern_diag_clear(&diag);
    return set;
}

static int open_checkpoint(void **state)
{
    for (int32_t i = 0; i < (int32_t)(ROWS * COLS); i++) {
        first[i] = 100 + i;
        second[i] = 900 + i;
    }
    *state = open_tensors(tensors, LENGTH(tensors));
    return 0;
}

static int close_checkpoint(void **state)
{
    kern_safetensors_close(*state);
    return 0;
}

static const uint32_t member_0[] = {0}, member_1[] = {1};

static struct kern_buffer buffer_of(const struct kern_segment *bind, size_t count, uint64_t bytes)
{
    return (struct kern_buffer){.name = "w",
                                .dtype = KERN_I32,
                                .kind = KERN_WEIGHT,
                                .bind = bind,
                                .n_bind = count,
                                .bytes = bytes};
}

// Fills [buffer] piece by piece, as a rank fills a weight on the host.
static bool assemble(const struct kern_weights *weights, const struct kern_safetensors *checkpoint,
                     void *buffer, struct kern_diag *diag)
{
    char *staging = malloc(KERN_UPLOAD_BLOCK);
    bool right = true;
    for (size_t i = 0; right && i < weights->pieces.count; i++) {
        const struct kern_piece *piece = &weights->pieces.items[i];
        assert_true(kern_piece_staging(piece) <= KERN_UPLOAD_BLOCK);
        right = kern_piece_read(checkpoint, piece, staging, diag);
        if (right)
            kern_piece_place(piece, staging, buffer);
    }
    free(staging);
    return right;
}

// Assembles the segments for [member] and compares with [expected].
static void assert_assembled(const struct kern_safetensors *checkpoint,
                             const struct kern_segment *bind, size_t count, const uint32_t *member,
                             const int32_t *expected, size_t n_expected)
{
    struct kern_diag diag = {0};
    struct kern_buffer buffer = buffer_of(bind, count, n_expected * sizeof *expected);
    struct kern_manifest manifest = {.buffers = &buffer, .n_buffers = 1};
    struct kern_weights weights;
    int32_t *bytes = malloc(n_expected * sizeof *bytes);
    if (!kern_weights_plan(&manifest, member, checkpoint, &weights, &diag) ||
        !assemble(&weights, checkpoint, bytes, &diag))
        fail_msg("%s: %s", diag.entries[0].place, diag.entries[0].text);
    for (size_t i = 0; i < n_expected; i++)
        assert_int_equal(bytes[i], expected[i]);
    free(bytes);
    kern_weights_free(&weights);
    kern_diag_clear(&diag);
}

// What stands in the braces of a tensor's source.
#define FIXED(tensor_name) .name = tensor_name, .count = 1

#define RANGE(from, to)                                                                            \
    &(const struct kern_ranges)                                                                    \
    {                                                                                              \
        .ranges = (const uint64_t[][2]){{from, to}}, .count = 1                                    \
    }

static void segments_follow_each_other(void **state)
{
    const struct kern_segment bind[] = {{.tensor = {FIXED("second")}},
                                        {.tensor = {FIXED("scalar")}},
                                        {.tensor = {FIXED("none")}},
                                        {.tensor = {FIXED("line")}}};
    int32_t expected[2 * ROWS * COLS + 1];
    memcpy(expected, second, sizeof second);
    expected[ROWS * COLS] = second[0];
    memcpy(expected + ROWS * COLS + 1, first, sizeof first);
    assert_assembled(*state, bind, LENGTH(bind), member_0, expected, LENGTH(expected));
}

static void rows_and_columns_are_cut_out(void **state)
{
    const struct kern_segment rows[] = {{.tensor = {FIXED("first")}, .rows = RANGE(2, 5)}};
    assert_assembled(*state, rows, 1, member_0, first + 2 * COLS, 3 * COLS);

    const struct kern_segment block[] = {
        {.tensor = {FIXED("cube")}, .rows = RANGE(1, 6), .cols = RANGE(1, 3)}};
    int32_t expected[5 * 2];
    for (size_t i = 0; i < 5; i++)
        for (size_t j = 0; j < 2; j++)
            expected[i * 2 + j] = second[(i + 1) * COLS + 1 + j];
    assert_assembled(*state, block, 1, member_0, expected, LENGTH(expected));

    // A vector is one row, so that it is cut by columns.
    const struct kern_segment part[] = {{.tensor = {FIXED("line")}, .cols = RANGE(7, 24)}};
    assert_assembled(*state, part, 1, member_0, first + 7, 17);
}

static void rows_of_two_are_interleaved(void **state)
{
    const struct kern_tensor_source with = {FIXED("second")};
    for (uint64_t n = 1; n <= ROWS; n++) {
        if (ROWS % n)
            continue;
        const struct kern_segment bind[] = {
            {.tensor = {FIXED("first")}, .interleave = &with, .interleave_rows = n}};
        int32_t expected[2 * ROWS * COLS], *next = expected;
        for (uint64_t row = 0; row < ROWS; row += n) {
            next = mempcpy(next, first + row * COLS, n * COLS * sizeof *next);
            next = mempcpy(next, second + row * COLS, n * COLS * sizeof *next);
        }
        assert_assembled(*state, bind, 1, member_0, expected, LENGTH(expected));
    }
}

static const char *const ranked_names[] = {"second", "first"};
#define RANKED_TENSOR                                                                              \
    {                                                                                              \
        .group = {.name = "tp", .index = 0}, .names = ranked_names, .count = 2                     \
    }
static const uint64_t halves[][2] = {{0, 3}, {3, 6}};
static const struct kern_ranges ranked_rows = {
    .group = {.name = "tp", .index = 0}, .ranges = halves, .count = 2};

static void each_member_takes_its_own(void **state)
{
    const struct kern_segment bind[] = {{.tensor = RANKED_TENSOR, .rows = &ranked_rows}};
    assert_assembled(*state, bind, 1, member_0, second, 3 * COLS);
    assert_assembled(*state, bind, 1, member_1, first + 3 * COLS, 3 * COLS);
}

// Element [i] of a large tensor, different in every tensor and almost everywhere.
static int32_t large_value(int32_t tensor, size_t i)
{
    return (int32_t)((i + 1) * 2654435761u) ^ tensor;
}

static int32_t *large_tensor(int32_t tensor, size_t count)
{
    int32_t *data = malloc(count * sizeof *data);
    for (size_t i = 0; i < count; i++)
        data[i] = large_value(tensor, i);
    return data;
}

// Column blocks of matrices that take many pieces: with small gaps between the rows, with gaps that
// are left out, and of rows that are larger than a piece.
static void large_matrices_are_cut_alike(void **state)
{
    (void)state;
    static const uint64_t shapes[][4] = {// rows, columns, from, to
                                         {90000, 31, 3, 29},
                                         {5, 150001, 3, 149999},
                                         {3000, 2500, 700, 1200},
                                         {3, 1200000, 10, 1199990}};
    for (size_t s = 0; s < LENGTH(shapes); s++) {
        uint64_t rows = shapes[s][0], cols = shapes[s][1], from = shapes[s][2], to = shapes[s][3];
        size_t count = (size_t)(rows * cols), n = 0;
        int32_t *data = large_tensor(0, count), *expected = malloc(count * sizeof *data);
        for (size_t i = 0; i < count; i++)
            if (i % cols >= from && i % cols < to)
                expected[n++] = data[i];
        const struct kern_tensor_data large[] = {
            {"t", KERN_I32, shapes[s], 2, data, count * sizeof *data}};
        struct kern_safetensors *checkpoint = open_tensors(large, 1);
        const struct kern_segment bind[] = {{.tensor = {FIXED("t")}, .cols = RANGE(from, to)}};
        assert_assembled(checkpoint, bind, 1, member_0, expected, n);
        kern_safetensors_close(checkpoint);
        free(data);
        free(expected);
    }
}

// Rows in twos, blocks of rows, and blocks that are larger than a piece.
static void large_matrices_are_interleaved(void **state)
{
    (void)state;
    static const uint64_t wide[] = {4, 700000};
    size_t count = (size_t)(wide[0] * wide[1]);
    int32_t *a = large_tensor(1, count), *b = large_tensor(2, count);
    int32_t *expected = malloc(2 * count * sizeof *expected);
    const struct kern_tensor_data large[] = {{"a", KERN_I32, wide, 2, a, count * sizeof *a},
                                             {"b", KERN_I32, wide, 2, b, count * sizeof *b}};
    struct kern_safetensors *checkpoint = open_tensors(large, 2);
    const struct kern_tensor_source with = {FIXED("b")};
    for (uint64_t n = 1; n <= wide[0]; n *= 2) {
        int32_t *next = expected;
        for (uint64_t at = 0; at < count; at += n * wide[1]) {
            next = mempcpy(next, a + at, n * wide[1] * sizeof *next);
            next = mempcpy(next, b + at, n * wide[1] * sizeof *next);
        }
        const struct kern_segment bind[] = {
            {.tensor = {FIXED("a")}, .interleave = &with, .interleave_rows = n}};
        assert_assembled(checkpoint, bind, 1, member_0, expected, 2 * count);
    }
    kern_safetensors_close(checkpoint);
    free(a);
    free(b);
    free(expected);
}

static const struct kern_tensor_source with_flat = {FIXED("flat")}, with_floats = {FIXED("floats")},
                                       with_missing = {FIXED("thrid")},
                                       with_second = {FIXED("second")};

// A segment, who takes it, and what is wrong with that.
static const struct {
    struct kern_segment segment;
    uint32_t member;
    const char *error;
} misfits[] = {
    {{.tensor = {FIXED("secnd")}},
     0,
     "tensor secnd is not in the checkpoint, which has 8 tensors; did you mean \"second\"?"},
    {{.tensor = {FIXED("floats")}}, 0, "is F32, and the buffer i32: loading converts nothing"},
    {{.tensor = {FIXED("first")}, .rows = RANGE(0, 7)},
     0,
     "rows [0, 7) are not a range of tensor first"},
    {{.tensor = {FIXED("first")}, .rows = RANGE(6, 6)}, 0, "rows [6, 6)"},
    {{.tensor = {FIXED("first")}, .rows = RANGE(5, 2)}, 0, "rows [5, 2)"},
    {{.tensor = {FIXED("first")}, .cols = RANGE(1, 5)}, 0, "which has 4 columns"},
    {{.tensor = {FIXED("line")}, .rows = RANGE(0, 2)}, 0, "which has 1 rows"},
    {{.tensor = {FIXED("none")}, .rows = RANGE(0, 1)}, 0, "which has 0 rows"},
    {{.tensor = {FIXED("first")}, .cols = RANGE(0, UINT64_MAX)},
     0,
     "columns [0, 18446744073709551615)"},
    {{.tensor = RANKED_TENSOR}, 2, "names 2 tensors for group tp; this is member 2"},
    {{.tensor = {FIXED("first")}, .rows = &ranked_rows},
     3,
     "has 2 ranges of rows for group tp; this is member 3"},
    {{.tensor = {FIXED("first")}, .interleave = &with_flat, .interleave_rows = 1},
     0,
     "tensors first and flat have different shapes"},
    {{.tensor = {FIXED("first")}, .interleave = &with_floats, .interleave_rows = 1},
     0,
     "tensor floats"},
    {{.tensor = {FIXED("first")}, .interleave = &with_missing, .interleave_rows = 1},
     0,
     "tensor thrid is not in the checkpoint"},
    {{.tensor = {FIXED("first")}, .interleave = &with_second, .interleave_rows = 4},
     0,
     "interleaves 4 rows at a time; tensor first has 6"},
};

static void what_does_not_fit_is_refused(void **state)
{
    for (size_t i = 0; i < LENGTH(misfits); i++) {
        struct kern_diag diag = {0};
        struct kern_buffer buffer = buffer_of(&misfits[i].segment, 1, sizeof first);
        struct kern_manifest manifest = {.buffers = &buffer, .n_buffers = 1};
        struct kern_weights weights;
        assert_false(kern_weights_plan(&manifest, &misfits[i].member, *state, &weights, &diag));
        assert_null(weights.pieces.items);
        assert_int_equal(diag.count, 1);
        assert_int_equal(diag.entries[0].code, KERN_EXIT_ARTIFACT);
        assert_string_equal(diag.entries[0].place, "buffers.w.bind[0]");
        if (!strstr(diag.entries[0].text, misfits[i].error))
            fail_msg("\"%s\" does not say \"%s\"", diag.entries[0].text, misfits[i].error);
        kern_diag_clear(&diag);
    }
}

static void a_plan_reports_every_problem(void **state)
{
    const struct kern_segment wrong[] = {
        {.tensor = {FIXED("absent")}},
        {.tensor = {FIXED("first")}, .rows = RANGE(0, 9), .cols = RANGE(0, 9)}};
    const struct kern_segment right[] = {{.tensor = {FIXED("first")}}};
    struct kern_buffer buffers[] = {buffer_of(wrong, 2, 96),
                                    buffer_of(right, 1, 96),
                                    buffer_of(right, 1, 95),
                                    {.name = "input", .kind = KERN_INPUT, .bytes = 4}};
    buffers[2].name = "source";
    buffers[2].kind = KERN_SOURCE;
    struct kern_manifest manifest = {.buffers = buffers, .n_buffers = 4};
    struct kern_diag diag = {0};
    struct kern_weights weights;
    assert_false(kern_weights_plan(&manifest, member_0, *state, &weights, &diag));
    assert_int_equal(diag.count, 4);
    assert_string_equal(diag.entries[0].place, "buffers.w.bind[0]");
    assert_string_equal(diag.entries[1].place, "buffers.w.bind[1]");
    assert_string_equal(diag.entries[2].place, "buffers.w.bind[1]");
    assert_string_equal(diag.entries[3].place, "buffers.source");
    assert_string_equal(diag.entries[3].text,
                        "its segments have 96 bytes in this checkpoint, and the "
                        "buffer 95: they must add up to it");
    kern_diag_clear(&diag);
}

static void an_unknown_dtype_is_an_error_where_it_is_bound(void **state)
{
    (void)state;
    static const char header[] = "{\"t\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}";
    char bytes[8 + sizeof header - 1 + 8] = {0};
    uint64_t length = sizeof header - 1;
    memcpy(bytes, &length, sizeof length);
    memcpy(bytes + 8, header, sizeof header - 1);
    char path[] = "/tmp/kern-weights-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && kern_write_all(fd, bytes, sizeof bytes));
    close(fd);
    const char *const paths[] = {path};
    struct kern_diag diag = {0};
    struct kern_safetensors *checkpoint = kern_safetensors_open(paths, 1, &diag);
    unlink(path);
    assert_non_null(checkpoint);
    const struct kern_segment bind[] = {{.tensor = {FIXED("t")}}};
    struct kern_buffer buffer = buffer_of(bind, 1, 8);
    struct kern_manifest manifest = {.buffers = &buffer, .n_buffers = 1};
    struct kern_weights weights;
    assert_false(kern_weights_plan(&manifest, member_0, checkpoint, &weights, &diag));
    assert_non_null(strstr(diag.entries[0].text, "is F64, and the buffer i32"));
    assert_non_null(strstr(diag.entries[0].text, path));
    kern_safetensors_close(checkpoint);
    kern_diag_clear(&diag);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments_follow_each_other),
        cmocka_unit_test(rows_and_columns_are_cut_out),
        cmocka_unit_test(rows_of_two_are_interleaved),
        cmocka_unit_test(each_member_takes_its_own),
        cmocka_unit_test(large_matrices_are_cut_alike),
        cmocka_unit_test(large_matrices_are_interleaved),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(a_plan_reports_every_problem),
        cmocka_unit_test(an_unknown_dtype_is_an_error_where_it_is_bound),
    };
    return cmocka_run_group_tests(tests, open_checkpoint, close_checkpoint);
}
