// SPDX-License-Identifier: Apache-2.0
//
// Loading a checkpoint: weights on the device and the host, sources in shared windows, derive
// programs call by call.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "rank/safetensors.h"
#include "tests/rank_fixture.h"

enum { COUNT = 1024, N_TENSORS = 5 };

static char checkpoint[] = "/tmp/kern-rank-load-XXXXXX";

// Tensors t0 to t4: element i of tensor t is 1000000 · t + i.
static int make_checkpoint(void **state)
{
    (void)state;
    int fd = mkstemp(checkpoint);
    if (fd < 0) {
        return 1;
    }
    close(fd);
    static int32_t values[N_TENSORS][COUNT];
    static const uint64_t shape[1] = {COUNT};
    static const char *const names[N_TENSORS] = {"t0", "t1", "t2", "t3", "t4"};
    struct kern_tensor_data tensors[N_TENSORS];
    for (int t = 0; t < N_TENSORS; t++) {
        for (int i = 0; i < COUNT; i++) {
            values[t][i] = 1000000 * t + i;
        }
        tensors[t] = (struct kern_tensor_data){.name = names[t],
                                               .dtype = KERN_I32,
                                               .shape = shape,
                                               .rank = 1,
                                               .bytes = values[t],
                                               .length = sizeof(values[t])};
    }
    struct kern_diag diag = {0};
    bool ok = kern_safetensors_write(checkpoint, tensors, N_TENSORS, &diag);
    kern_diag_print(&diag, stderr, 5);
    kern_diag_clear(&diag);
    return !ok;
}

static int remove_checkpoint(void **state)
{
    (void)state;
    return unlink(checkpoint);
}

// s1 and s2 are read by the first call only, s3 by the second: it may take the place of s1. The
// derive programs make c1 = s1 + 5, c2 = s2 + 6 and c3 = s3 + 7; the step adds 1 to the weights.
// clang-format off
#define BUFFER(name, kind, more)                                                                   \
    "'" name "': {'dtype': 'i32', 'shape': [1024], 'kind': '" kind "'" more "},"
#define ADD(from, to, a)                                                                           \
    "{'op': 'add', 'args': [{'buf': '" from "'}, {'buf': '" to "'}, {'i32': " a "}, {'i32': "      \
    "1024}]}"
#define DERIVING                                                                                   \
    FIXTURE_HEAD "'buffers': {"                                                                    \
    BUFFER("w", "weight", ", 'bind': [{'tensor': 't0'}]")                                          \
    BUFFER("h", "weight", ", 'placement': 'host', 'bind': [{'tensor': 't1'}]")                     \
    BUFFER("s1", "source", ", 'bind': [{'tensor': 't2'}]")                                         \
    BUFFER("s2", "source", ", 'bind': [{'tensor': 't3'}]")                                         \
    BUFFER("s3", "source", ", 'bind': [{'tensor': 't4'}]")                                         \
    BUFFER("c1", "carry", "") BUFFER("c2", "carry", "") BUFFER("c3", "carry", "")                  \
    BUFFER("y", "output", "")                                                                      \
    "'z': {'dtype': 'i32', 'shape': [1024], 'kind': 'output'}},"                                   \
    "'ops': {'add': {'params': ['in buffer<i32>', 'out buffer<i32>', 'i32', 'i32'],"               \
    "   'impl': {'launches': [" FIXTURE_LAUNCH("add") "}]}},"                                      \
    "  'both': {'params': ['in buffer<i32>', 'out buffer<i32>', 'in buffer<i32>',"                 \
    "    'out buffer<i32>'], 'impl': {'launches': ["                                               \
    FIXTURE_LAUNCH("add") ", 'params': ['in buffer<i32>', 'out buffer<i32>', 'i32', 'i32'],"       \
    "     'args': [{'param': 0}, {'param': 1}, {'i32': 5}, {'i32': 1024}]},"                       \
    FIXTURE_LAUNCH("add") ", 'params': ['in buffer<i32>', 'out buffer<i32>', 'i32', 'i32'],"       \
    "     'args': [{'param': 2}, {'param': 3}, {'i32': 6}, {'i32': 1024}]}]}}},"                   \
    "'programs': {"                                                                                \
    "  'a': {'derive': true, 'calls': [{'op': 'both', 'args': [{'buf': 's1'}, {'buf': 'c1'},"      \
    "    {'buf': 's2'}, {'buf': 'c2'}]}]},"                                                        \
    "  'b': {'derive': true, 'calls': [" ADD("s3", "c3", "7") "]},"                                \
    "  'step': {'calls': [" ADD("w", "y", "1") "," ADD("h", "z", "1") "]}}}"
// clang-format on

static void expect_values(struct rank_fixture *fixture, const char *buffer, int tensor, int added)
{
    static int32_t values[COUNT];
    fixture_read(fixture, buffer, values, sizeof(values));
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(values[i], 1000000 * tensor + i + added);
    }
}

static void weights_and_derived_carries(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    fixture_open(&fixture, DERIVING);
    uint64_t with_sources = fixture_stats(&fixture).live_bytes;
    assert_false(
        kern_rank_issue(fixture.rank, fixture_program(&fixture, "a"), fixture.vars, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_USAGE, "programs.a", "derive", NULL);

    assert_false(kern_rank_load_weights(fixture.rank, NULL, 0, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_USAGE, "5 buffers", NULL);
    const char *paths[] = {checkpoint};
    if (!kern_rank_load_weights(fixture.rank, paths, 1, &fixture.diag) ||
        !kern_rank_derive(fixture.rank, &fixture.diag)) {
        kern_diag_print(&fixture.diag, stderr, 5);
        fail();
    }
    // The sources are gone, and the three of them had room in two buffers' place.
    uint64_t sources = with_sources - fixture_stats(&fixture).live_bytes;
    assert_int_equal(sources, 2 * COUNT * 4);
    expect_values(&fixture, "c1", 2, 5);
    expect_values(&fixture, "c2", 3, 6);
    expect_values(&fixture, "c3", 4, 7);
    fixture_run(&fixture, "step");
    expect_values(&fixture, "y", 0, 1);
    expect_values(&fixture, "z", 1, 1);
    struct kern_rank_memory memory;
    kern_rank_memory(fixture.rank, &memory);
    assert_int_equal(memory.weights, COUNT * 4); // the other one is the host's
    assert_int_equal(memory.carry, 3 * COUNT * 4);

    assert_false(kern_rank_load_weights(fixture.rank, paths, 1, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_USAGE, "once", NULL);
    assert_false(kern_rank_derive(fixture.rank, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_USAGE, "once", NULL);
    fixture_close(&fixture);
}

// Weights of several pieces: whole, a block of columns with small gaps, one with large gaps, and
// two tensors row by row. They are exported so that the test can look at them.
enum { ROWS = 900, COLS = 1500, WIDE_ROWS = 40, WIDE_COLS = 33750 };
_Static_assert(ROWS *COLS == WIDE_ROWS * WIDE_COLS, "the large tensors have the same bytes");

// clang-format off
#define LARGE(name, shape, bind)                                                                   \
    "'" name "': {'dtype': 'i32', 'shape': " shape ", 'kind': 'weight', 'export': true,"           \
    " 'bind': [" bind "]},"
#define LARGE_WEIGHTS                                                                              \
    FIXTURE_HEAD "'buffers': {"                                                                    \
    LARGE("columns", "[900, 700]", "{'tensor': 'a', 'cols': [100, 800]}")                          \
    LARGE("narrow", "[40, 50]", "{'tensor': 'wide', 'cols': [33700, 33750]}")                      \
    LARGE("pairs", "[1800, 1500]", "{'tensor': 'a', 'interleave': {'with': 'b', 'rows': 1}}")      \
    LARGE("whole", "[900, 1500]", "{'tensor': 'b'}")                                               \
    "'y': {'dtype': 'i32', 'shape': [4], 'kind': 'output'}},"                                      \
    "'ops': {'add': {'params': ['in buffer<i32>', 'out buffer<i32>', 'i32', 'i32'],"               \
    "   'impl': {'launches': [" FIXTURE_LAUNCH("add") "}]}}},"                                     \
    "'programs': {'step': {'calls': [" USE("columns") "," USE("narrow") "," USE("pairs") ","       \
    USE("whole") "]}}}"
#define USE(from)                                                                                  \
    "{'op': 'add', 'args': [{'buf': '" from "'}, {'buf': 'y'}, {'i32': 1}, {'i32': 4}]}"
// clang-format on

static int32_t *large_values(int32_t step)
{
    int32_t *values = malloc(sizeof(*values) * ROWS * COLS);
    assert_non_null(values);
    for (int32_t i = 0; i < ROWS * COLS; i++) {
        values[i] = step * i;
    }
    return values;
}

// Compares export [index] with [count] rows of [width] elements, [pitch] apart from [rows] on, that
// are [every] rows apart in it from row [first] on.
static void expect_rows(struct rank_fixture *fixture, size_t index, const int32_t *rows,
                        size_t pitch, size_t width, size_t count, size_t first, size_t every)
{
    const struct kern_export *exports;
    assert_true(index < kern_rank_exports(fixture->rank, &exports));
    int32_t *bytes = malloc(exports[index].bytes);
    assert_non_null(bytes);
    assert_true(kern_rank_peek(fixture->rank, exports[index].address, bytes, exports[index].bytes,
                               &fixture->diag));
    for (size_t i = 0; i < count; i++) {
        assert_memory_equal(bytes + (first + i * every) * width, rows + i * pitch, width * 4);
    }
    free(bytes);
}

static void large_weights_arrive_in_pieces(void **state)
{
    (void)state;
    static const uint64_t shape[] = {ROWS, COLS}, wide[] = {WIDE_ROWS, WIDE_COLS};
    int32_t *a = large_values(3), *b = large_values(7);
    size_t length = sizeof(*a) * ROWS * COLS;
    const struct kern_tensor_data tensors[] = {{"a", KERN_I32, shape, 2, a, length},
                                               {"b", KERN_I32, shape, 2, b, length},
                                               {"wide", KERN_I32, wide, 2, b, length}};
    char path[] = "/tmp/kern-rank-large-XXXXXX";
    const char *paths[] = {path};
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    struct rank_fixture fixture = {0};
    fixture_open(&fixture, LARGE_WEIGHTS);
    bool made = kern_safetensors_write(path, tensors, 3, &fixture.diag);
    bool loaded = made && kern_rank_load_weights(fixture.rank, paths, 1, &fixture.diag) &&
                  kern_rank_derive(fixture.rank, &fixture.diag);
    unlink(path);
    if (!loaded) {
        kern_diag_print(&fixture.diag, stderr, 5);
        fail();
    }
    expect_rows(&fixture, 0, a + 100, COLS, 700, ROWS, 0, 1);
    expect_rows(&fixture, 1, b + WIDE_COLS - 50, WIDE_COLS, 50, WIDE_ROWS, 0, 1);
    expect_rows(&fixture, 2, a, COLS, COLS, ROWS, 0, 2);
    expect_rows(&fixture, 2, b, COLS, COLS, ROWS, 1, 2);
    expect_rows(&fixture, 3, b, COLS, COLS, ROWS, 0, 1);
    fixture_close(&fixture);
    free(a);
    free(b);
}

static void a_checkpoint_that_does_not_fit(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    // clang-format off
    fixture_open(&fixture,
                 FIXTURE_HEAD "'buffers': {"
                 BUFFER("w", "weight", ", 'bind': [{'tensor': 'nowhere'}]")
                 "'y': {'dtype': 'i32', 'shape': [1024], 'kind': 'output'}},"
                 "'ops': {'add': {'params': ['in buffer<i32>', 'out buffer<i32>', 'i32', 'i32'],"
                 "   'impl': {'launches': [" FIXTURE_LAUNCH("add") "}]}}},"
                 "'programs': {'step': {'calls': [" ADD("w", "y", "1") "]}}}");
    // clang-format on
    const char *paths[] = {checkpoint};
    assert_false(kern_rank_load_weights(fixture.rank, paths, 1, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_ARTIFACT, "nowhere", NULL);
    const char *nothing[] = {"/nowhere.safetensors"};
    assert_false(kern_rank_load_weights(fixture.rank, nothing, 1, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_USAGE, "/nowhere.safetensors", NULL);
    fixture_close(&fixture);
}

// An `error` output is looked at after a run of a program that writes it, and only then.
static void errors_of_kernels_are_reported(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    // clang-format off
    fixture_open(&fixture,
                 FIXTURE_HEAD "'buffers': {'e': {'dtype': 'i32', 'shape': [3], 'kind': 'output',"
                 "  'fill': 'error'}, 'c': {'dtype': 'i32', 'shape': [3], 'kind': 'carry'},"
                 " 'x': {'dtype': 'i32', 'shape': [3], 'kind': 'input'}},"
                 "'ops': {'add': {'params': ['in buffer<i32>', 'out buffer<i32>', 'i32', 'i32'],"
                 "   'impl': {'launches': [" FIXTURE_LAUNCH("add") "}]}}},"
                 "'programs': {'step': {'calls': [{'op': 'add', 'args': [{'buf': 'x'},"
                 "  {'buf': 'e'}, {'i32': 0}, {'i32': 3}]}]},"
                 " 'other': {'calls': [{'op': 'add', 'args': [{'buf': 'x'}, {'buf': 'c'},"
                 "  {'i32': 0}, {'i32': 3}]}]}}}");
    // clang-format on
    uint32_t step = fixture_program(&fixture, "step");
    fixture_run(&fixture, "step");
    assert_true(kern_rank_check_errors(fixture.rank, step, &fixture.diag));
    const int32_t codes[3] = {0, 0, 77};
    fixture_write(&fixture, "x", codes, sizeof(codes));
    fixture_run(&fixture, "step");
    assert_false(kern_rank_check_errors(fixture.rank, step, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_PEER, "programs.step", "error 77", "word 2", "buffer e",
                   NULL);
    fixture_run(&fixture, "other");
    assert_true(
        kern_rank_check_errors(fixture.rank, fixture_program(&fixture, "other"), &fixture.diag));
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_and_derived_carries),
        cmocka_unit_test(large_weights_arrive_in_pieces),
        cmocka_unit_test(a_checkpoint_that_does_not_fit),
        cmocka_unit_test(errors_of_kernels_are_reported),
    };
    return cmocka_run_group_tests(tests, make_checkpoint, remove_checkpoint);
}
