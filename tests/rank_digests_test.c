// SPDX-License-Identifier: Apache-2.0
//
// Which files a search for artifacts reads: none twice that is not one, none that its name says to
// be something else, and always what is used.
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "rank/digests.h"
#include "rank/internal.h"

static const char artifact[] = "// PTX of no kernel\n.version 8.0\n";

static char folder[] = "/tmp/kern-rank-digests-XXXXXX";

// A file of the folder, with a time of modification that is the same again and again.
static void put(const char *name, const char *text, long second)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    // Written in place: a file of the same inode.
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    const struct timespec times[2] = {{second, 0}, {second, 0}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void remove_file(const char *name)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(unlink(path), 0);
}

// Looks for the artifact as the module of a manifest that has nothing else.
static bool find(struct kern_digests *digests, const char *source)
{
    struct kern_module module = {.name = "k", .source = source};
    kern_sha256(artifact, strlen(artifact), module.digest);
    struct kern_manifest manifest = {.modules = &module, .n_modules = 1};
    const char *const dirs[] = {folder};
    const struct rank_search search = {&manifest, dirs, 1, digests};
    struct rank_artifacts artifacts;
    struct kern_diag diag = {0};
    bool found = rank_artifacts_find(&search, &artifacts, &diag);
    if (found) {
        assert_memory_equal(artifacts.items[0].bytes, artifact, strlen(artifact));
        rank_artifacts_free(&artifacts);
    }
    kern_diag_clear(&diag);
    return found;
}

static void a_file_is_read_once(void **state)
{
    (void)state;
    struct kern_digests digests = {0};
    put("a", "something", 1);
    put("b", artifact, 1);
    assert_true(find(&digests, "k.ptx"));
    assert_int_equal(digests.count, 2);
    assert_int_equal(digests.hits, 0);
    assert_true(find(&digests, "k.ptx"));
    assert_int_equal(digests.count, 2);
    assert_int_equal(digests.hits, 2);
    kern_digests_free(&digests);
}

static void a_file_that_changed_is_read_again(void **state)
{
    (void)state;
    struct kern_digests digests = {0};
    char same_size[sizeof(artifact)];
    memset(same_size, 'x', sizeof(artifact) - 1);
    same_size[sizeof(artifact) - 1] = '\0';
    put("a", same_size, 1);
    put("b", "something", 1);
    assert_false(find(&digests, "k.ptx"));
    put("a", artifact, 1); // as before to all that is looked at
    assert_false(find(&digests, "k.ptx"));
    put("a", artifact, 2);
    assert_true(find(&digests, "k.ptx"));
    kern_digests_free(&digests);
}

// What the cache says of a file is never enough to use it.
static void what_is_used_is_read(void **state)
{
    (void)state;
    struct kern_digests digests = {0};
    char other[sizeof(artifact)];
    memset(other, 'x', sizeof(artifact) - 1);
    other[sizeof(artifact) - 1] = '\0';
    put("a", artifact, 1);
    put("b", "something", 1);
    assert_true(find(&digests, "k.ptx"));
    put("a", other, 1);
    assert_false(find(&digests, "k.ptx"));
    kern_digests_free(&digests);
}

static void manifests_and_checkpoints_are_not_read(void **state)
{
    (void)state;
    struct kern_digests digests = {0};
    put("a", "something", 1);
    put("b", "something", 1);
    put("model.json", artifact, 1);
    put("weights.safetensors", artifact, 1);
    assert_false(find(&digests, "k.ptx"));
    assert_int_equal(digests.count, 2);
    assert_true(find(&digests, "kernels/model.json"));
    kern_digests_free(&digests);
    remove_file("model.json");
    remove_file("weights.safetensors");
}

static int make_folder(void **state)
{
    (void)state;
    unsetenv("KERN_CACHE_DIR");
    unsetenv("HOME");
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    remove_file("a");
    remove_file("b");
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_read_once),
        cmocka_unit_test(a_file_that_changed_is_read_again),
        cmocka_unit_test(what_is_used_is_read),
        cmocka_unit_test(manifests_and_checkpoints_are_not_read),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
