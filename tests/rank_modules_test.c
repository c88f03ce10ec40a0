// SPDX-License-Identifier: Apache-2.0
//
// Finding artifacts by their digest, and entries by their name and parameter layout.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "tests/rank_fixture.h"

// clang-format off
#define BUFFERS                                                                                    \
    "'buffers': {'x': {'dtype': 'i32', 'shape': [4], 'kind': 'input'},"                            \
    " 'y': {'dtype': 'i32', 'shape': [4], 'kind': 'output'}},"
#define PROGRAM                                                                                    \
    "'programs': {'step': {'calls': [{'op': 'add', 'args': [{'buf': 'x'}, {'buf': 'y'},"           \
    " {'i32': 3}, {'i32': 4}]}]}}}"
#define ADD                                                                                        \
    "'ops': {'add': {'params': ['in buffer<i32>', 'out buffer<i32>', 'i32', 'i32'],"               \
    " 'impl': {'launches': [" FIXTURE_LAUNCH("add") "}]}}},"
// clang-format on

static char scratch[] = "/tmp/kern-rank-modules-XXXXXX";

static void load(struct rank_fixture *fixture, const char *json, bool expected)
{
    assert_true(fixture_create(fixture, json));
    if (kern_rank_load_modules(fixture->rank, &fixture->diag) != expected) {
        kern_diag_print(&fixture->diag, stderr, 20);
        fail_msg("loading modules did not go as expected");
    }
}

static void copy_artifact(const char *to)
{
    struct kern_diag diag = {0};
    size_t length = 0;
    char *bytes = kern_file_read(FIXTURE_ARTIFACT, 1 << 26, &length, KERN_EXIT_USAGE, &diag);
    assert_non_null(bytes);
    assert_true(kern_file_write(to, bytes, length, &diag));
    free(bytes);
}

static void an_artifact_is_found_whatever_its_name(void **state)
{
    (void)state;
    char path[128];
    snprintf(path, sizeof(path), "%s/weights.bin", scratch);
    copy_artifact(path);
    const char *dirs[] = {"/proc/self/fdinfo", scratch};
    struct rank_fixture fixture = {.dirs = dirs, .n_dirs = 2};
    load(&fixture, FIXTURE_HEAD BUFFERS ADD PROGRAM, true);
    assert_int_equal(fixture_stats(&fixture).modules, 1);
    fixture_close(&fixture);
    unlink(path);
}

static void an_artifact_is_found_in_the_cache(void **state)
{
    (void)state;
    struct rank_fixture fixture = {.dirs = (const char *const[]){NULL}, .n_dirs = 0};
    char blobs[128], path[256];
    setenv("KERN_CACHE_DIR", scratch, 1);
    snprintf(blobs, sizeof(blobs), "%s/blobs", scratch);
    assert_int_equal(mkdir(blobs, 0700), 0);
    assert_true(fixture_create(&fixture, FIXTURE_HEAD BUFFERS ADD PROGRAM));
    snprintf(path, sizeof(path), "%s/%s", blobs, fixture.manifest->modules[0].sha256);
    copy_artifact(path);
    assert_true(kern_rank_load_modules(fixture.rank, &fixture.diag));
    fixture_close(&fixture);
    unlink(path);
    rmdir(blobs);
}

static void a_missing_artifact_is_named(void **state)
{
    (void)state;
    const char *dirs[] = {scratch};
    struct rank_fixture fixture = {.dirs = dirs, .n_dirs = 1};
    load(&fixture, FIXTURE_HEAD BUFFERS ADD PROGRAM, false);
    fixture_expect(&fixture, KERN_EXIT_ARTIFACT, "modules.k", "rank_kernels.so", scratch,
                   fixture.manifest->modules[0].sha256, NULL);
    fixture_close(&fixture);
}

static void an_artifact_with_another_digest_is_pointed_at(void **state)
{
    (void)state;
    char path[128];
    snprintf(path, sizeof(path), "%s/rank_kernels.so", scratch);
    struct kern_diag diag = {0};
    assert_true(kern_file_write(path, "abc", 3, &diag));
    const char *dirs[] = {scratch};
    struct rank_fixture fixture = {.dirs = dirs, .n_dirs = 1};
    load(&fixture, FIXTURE_HEAD BUFFERS ADD PROGRAM, false);
    fixture_expect(&fixture, KERN_EXIT_ARTIFACT, "rank_kernels.so is there but its sha256 is",
                   "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
                   "the manifest pins", NULL);
    fixture_close(&fixture);
    unlink(path);
}

static void a_directory_that_is_not_there(void **state)
{
    (void)state;
    const char *dirs[] = {"/nowhere/at/all"};
    struct rank_fixture fixture = {.dirs = dirs, .n_dirs = 1};
    load(&fixture, FIXTURE_HEAD BUFFERS ADD PROGRAM, false);
    fixture_expect(&fixture, KERN_EXIT_USAGE, "/nowhere/at/all", NULL);
    fixture_close(&fixture);
}

static void something_that_is_no_code(void **state)
{
    (void)state;
    char path[128];
    snprintf(path, sizeof(path), "%s/text", scratch);
    struct kern_diag diag = {0};
    assert_true(kern_file_write(path, "abc", 3, &diag));
    const char *dirs[] = {scratch};
    struct rank_fixture fixture = {.dirs = dirs, .n_dirs = 1};
    // clang-format off
    load(&fixture,
         "{'schema_version': 7, 'model': 'test', 'modules': {'k': {'source': 'text', 'sha256': "
         "'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'}}," BUFFERS ADD PROGRAM,
         false);
    // clang-format on
    fixture_expect(&fixture, KERN_EXIT_ARTIFACT, path, "neither a cubin nor a fatbin", NULL);
    fixture_close(&fixture);
    unlink(path);
}

static void an_entry_that_is_not_there(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    // clang-format off
    load(&fixture,
         FIXTURE_HEAD BUFFERS
         "'ops': {'add': {'params': ['in buffer<i32>', 'out buffer<i32>', 'i32', 'i32'],"
         " 'impl': {'launches': [" FIXTURE_LAUNCH("substract") "}]}}}," PROGRAM,
         false);
    // clang-format on
    fixture_expect(&fixture, KERN_EXIT_ARTIFACT, "ops.add.impl.launches[0]", "module k",
                   "rank_kernels.so", "substract", NULL);
    fixture_close(&fixture);
}

static void a_layout_mismatch_shows_parameter_and_layout(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    // clang-format off
    load(&fixture,
         FIXTURE_HEAD BUFFERS
         "'ops': {'add': {'params': ['in buffer<i32>', 'out buffer<i32>', 'i32', 'i64'],"
         " 'impl': {'launches': [" FIXTURE_LAUNCH("add") "}]}}},"
         "'programs': {'step': {'calls': [{'op': 'add', 'args': [{'buf': 'x'}, {'buf': 'y'},"
         " {'i32': 3}, {'i64': 4}]}]}}}",
         false);
    // clang-format on
    fixture_expect(&fixture, KERN_EXIT_ARTIFACT, "ops.add.impl.launches[0]",
                   "parameter 3 is declared i64, 8 bytes at 24; it is 4 bytes at 20",
                   "(all of them: 8 bytes at 0, 8 bytes at 8, 4 bytes at 16, 4 bytes at 20)", NULL);
    fixture_close(&fixture);
}

static void too_few_parameters(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    // clang-format off
    load(&fixture,
         FIXTURE_HEAD BUFFERS
         "'ops': {'add': {'params': ['in buffer<i32>', 'out buffer<i32>', 'i32'],"
         " 'impl': {'launches': [" FIXTURE_LAUNCH("add") "}]}}},"
         "'programs': {'step': {'calls': [{'op': 'add', 'args': [{'buf': 'x'}, {'buf': 'y'},"
         " {'i32': 3}]}]}}}",
         false);
    // clang-format on
    fixture_expect(&fixture, KERN_EXIT_ARTIFACT, "parameter 3 is not declared; it is 4 bytes at 20",
                   NULL);
    fixture_close(&fixture);
}

// The manifest allows 232448 bytes; with the 1024 static ones of this entry they are too many.
static void more_shared_memory_than_the_device_has(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    // clang-format off
    load(&fixture,
         FIXTURE_HEAD "'buffers': {'y': {'dtype': 'u8', 'shape': [64], 'kind': 'output'}},"
         "'vars': {'n': {'max': 227}},"
         "'ops': {'g': {'params': ['out buffer<u8>'], 'impl': {'launches': ["
         FIXTURE_LAUNCH("geometry") ", 'shared_mem': {'mul': ['n', 1024]}}]}}},"
         "'programs': {'step': {'calls': [{'op': 'g', 'args': [{'buf': 'y'}]}]}}}",
         false);
    // clang-format on
    fixture_expect(&fixture, KERN_EXIT_ARTIFACT, "ops.g.impl.launches[0]",
                   "232448 bytes of dynamic and 1024 of static", NULL);
    fixture_close(&fixture);
}

static int make_scratch(void **state)
{
    (void)state;
    return mkdtemp(scratch) == NULL;
}

static int remove_scratch(void **state)
{
    (void)state;
    return rmdir(scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_artifact_is_found_whatever_its_name),
        cmocka_unit_test(an_artifact_is_found_in_the_cache),
        cmocka_unit_test(a_missing_artifact_is_named),
        cmocka_unit_test(an_artifact_with_another_digest_is_pointed_at),
        cmocka_unit_test(a_directory_that_is_not_there),
        cmocka_unit_test(something_that_is_no_code),
        cmocka_unit_test(an_entry_that_is_not_there),
        cmocka_unit_test(a_layout_mismatch_shows_parameter_and_layout),
        cmocka_unit_test(too_few_parameters),
        cmocka_unit_test(more_shared_memory_than_the_device_has),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
