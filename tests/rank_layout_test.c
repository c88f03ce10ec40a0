// SPDX-License-Identifier: Apache-2.0
//
// Parameter layouts in code that nvcc made (tests/data/layouts) and in text, and what is made of
// damaged code.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "rank/codes.h"

#define DATA KERN_SOURCE_DIR "/tests/data/layouts/"

struct artifact {
    uint8_t *bytes;
    size_t length;
    struct rank_codes codes;
    struct kern_arena arena;
};

static void open_artifact(struct artifact *artifact, const char *path)
{
    struct kern_diag diag = {0};
    *artifact = (struct artifact){0};
    artifact->bytes =
        (uint8_t *)kern_file_read(path, 1 << 26, &artifact->length, KERN_EXIT_USAGE, &diag);
    assert_non_null(artifact->bytes);
    assert_true(rank_codes_list(artifact->bytes, artifact->length, path, &artifact->arena,
                                &artifact->codes, &diag));
    kern_diag_clear(&diag);
}

static void close_artifact(struct artifact *artifact)
{
    rank_codes_free(&artifact->codes);
    kern_arena_free(&artifact->arena);
    free(artifact->bytes);
}

static enum rank_lookup look(const struct artifact *artifact, size_t code, const char *entry,
                             const char **text, const char **why)
{
    static struct kern_arena arena;
    struct rank_layout layout = {0};
    kern_arena_free(&arena);
    enum rank_lookup found = rank_code_layout(&artifact->codes.items[code], entry, &layout, why);
    *text = rank_layout_text(&arena, &layout);
    *text = kern_arena_print(&arena, "%s", *text);
    free(layout.items);
    return found;
}

#define MIXED                                                                                      \
    "8 bytes at 0, 4 bytes at 8, 8 bytes at 16, 1 bytes at 24, 4 bytes at 28, 48 bytes at 32, "    \
    "3 bytes at 80, 8 bytes at 88"

static void check_mixed(const struct artifact *artifact, size_t code)
{
    const char *text, *why;
    assert_int_equal(look(artifact, code, "mixed", &text, &why), RANK_FOUND);
    assert_string_equal(text, MIXED);
    assert_int_equal(look(artifact, code, "none", &text, &why), RANK_FOUND);
    assert_string_equal(text, "");
    static const char *const absent[] = {
        "mixe", "mixed2", "", "$mixed$_ZN35_INTERNAL_0643281e_8_mixed_cu_mixed6helperEPKfi",
        "_ZN35_INTERNAL_0643281e_8_mixed_cu_mixed6helperEPKfi"};
    for (size_t i = 0; i < sizeof(absent) / sizeof(*absent); i++) {
        assert_int_equal(look(artifact, code, absent[i], &text, &why), RANK_ABSENT);
    }
}

static void code_of_every_kind(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        const char *targets[3];
    } files[] = {
        {DATA "mixed_sm_90.cubin", {"sm_90"}},
        {DATA "mixed_sm_100.cubin", {"sm_100"}},
        {DATA "mixed.ptx", {"PTX"}},
        {DATA "mixed.fatbin", {"compute_90", "sm_90", "sm_100"}},
    };
    for (size_t f = 0; f < sizeof(files) / sizeof(*files); f++) {
        struct artifact artifact;
        open_artifact(&artifact, files[f].path);
        size_t count = artifact.codes.count;
        assert_int_equal(count, f == 3 ? 3 : 1);
        for (size_t i = 0; i < count; i++) {
            assert_string_equal(artifact.codes.targets[artifact.codes.items[i].target],
                                files[f].targets[i]);
            check_mixed(&artifact, i);
        }
        close_artifact(&artifact);
    }
}

static void a_large_parameter_block(void **state)
{
    (void)state;
    struct artifact artifact;
    const char *text, *why;
    open_artifact(&artifact, DATA "large.cubin");
    assert_int_equal(look(&artifact, 0, "big", &text, &why), RANK_FOUND);
    assert_string_equal(text, "8 bytes at 0, 4400 bytes at 8, 4 bytes at 4408, 8 bytes at 4416");
    close_artifact(&artifact);
}

static void compressed_code_is_not_guessed(void **state)
{
    (void)state;
    struct artifact artifact;
    const char *text, *why = NULL;
    open_artifact(&artifact, DATA "mixed_compressed.fatbin");
    assert_int_equal(artifact.codes.count, 1);
    assert_int_equal(look(&artifact, 0, "mixed", &text, &why), RANK_UNREADABLE);
    assert_string_equal(why, "compressed");
    close_artifact(&artifact);
}

static void the_host_half(void **state)
{
    (void)state;
    struct artifact artifact;
    const char *text, *why;
    open_artifact(&artifact, KERN_BUILD_DIR "/kernels/toy_scale.so");
    size_t last = artifact.codes.count - 1;
    assert_int_equal(artifact.codes.items[last].kind, RANK_CODE_HOST);
    for (size_t i = 0; i <= last; i++) { // both halves of the same source
        assert_int_equal(look(&artifact, i, "toy_scale_f32", &text, &why), RANK_FOUND);
        assert_string_equal(
            text, "8 bytes at 0, 8 bytes at 8, 4 bytes at 16, 4 bytes at 20, 4 bytes at 24");
        assert_int_equal(look(&artifact, i, "toy_scale_f64", &text, &why), RANK_ABSENT);
    }
    close_artifact(&artifact);
}

static void ptx_text(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum rank_lookup found;
        const char *layout;
    } cases[] = {
        {".entry k { ret; }", RANK_FOUND, ""},
        {".entry k() { ret; }", RANK_FOUND, ""},
        {".visible .entry k ( .param .u8 a, .param .b16 b,.param .f64 c )", RANK_FOUND,
         "1 bytes at 0, 2 bytes at 2, 8 bytes at 8"},
        {".entry k(.param .u64 .ptr .global .align 4 p, .param .u32 n)", RANK_FOUND,
         "8 bytes at 0, 4 bytes at 8"},
        {".entry k(.param .u32 n, .param .align 64 .b8 t[128])", RANK_FOUND,
         "4 bytes at 0, 128 bytes at 64"},
        {"// .entry k(.param .u32 n)\n/* .entry k(.param .u32 n) */ .entry k(.param .u8 n)",
         RANK_FOUND, "1 bytes at 0"},
        {".file 1 \".entry k(.param .u32 n)\"\n .entry kk(.param .u8 n)", RANK_ABSENT, ""},
        {".entry kk(.param .u8 n) .entry k(.param .u16 n)", RANK_FOUND, "2 bytes at 0"},
        {".func k(.param .u8 n)", RANK_ABSENT, ""},
        {".entry k(.param .texref t)", RANK_UNREADABLE, ""},
        {".entry k(.param .u32 n", RANK_UNREADABLE, "4 bytes at 0"},
        {".entry k(.param .align 0 .b8 t[4])", RANK_UNREADABLE, ""},
        {".entry k(.param .align 8 .b8 t[99999999999999999999])", RANK_UNREADABLE, ""},
        {".entry k(", RANK_UNREADABLE, ""},
        {".entry", RANK_ABSENT, ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct kern_arena arena = {0};
        struct rank_layout layout = {0};
        const char *why;
        assert_int_equal(rank_layout_of_ptx((const uint8_t *)cases[i].text, strlen(cases[i].text),
                                            "k", &layout, &why),
                         cases[i].found);
        assert_string_equal(rank_layout_text(&arena, &layout), cases[i].layout);
        free(layout.items);
        kern_arena_free(&arena);
    }
}

// Lists a copy of just [length] bytes, so that a sanitizer sees what is read beside it, and looks
// up an entry in all that it has.
static void look_into(const uint8_t *bytes, size_t length)
{
    uint8_t *copy = malloc(length + 1);
    assert_non_null(copy);
    memcpy(copy, bytes, length);
    struct kern_diag diag = {0};
    struct artifact artifact = {0};
    if (rank_codes_list(copy, length, "artifact", &artifact.arena, &artifact.codes, &diag)) {
        for (size_t i = 0; i < artifact.codes.count; i++) {
            const char *text, *why = NULL;
            if (look(&artifact, i, "mixed", &text, &why) == RANK_UNREADABLE) {
                assert_non_null(why);
            }
        }
    } else {
        assert_int_equal(kern_diag_code(&diag), KERN_EXIT_ARTIFACT);
    }
    artifact.bytes = copy;
    close_artifact(&artifact);
    kern_diag_clear(&diag);
}

static void damaged_code(void **state)
{
    (void)state;
    static const char *const paths[] = {DATA "mixed_sm_90.cubin", DATA "mixed.fatbin",
                                        KERN_BUILD_DIR "/kernels/toy_scale.so"};
    uint32_t random = 1;
    for (size_t p = 0; p < sizeof(paths) / sizeof(*paths); p++) {
        struct kern_diag diag = {0};
        size_t length;
        uint8_t *bytes =
            (uint8_t *)kern_file_read(paths[p], 1 << 26, &length, KERN_EXIT_USAGE, &diag);
        assert_non_null(bytes);
        for (int i = 0; i < 500; i++) {
            random = random * 1664525u + 1013904223u;
            look_into(bytes, random % length);
            size_t at = random / 7 % length;
            uint8_t was = bytes[at];
            bytes[at] = (uint8_t)(random >> 24);
            look_into(bytes, length);
            bytes[at] = was;
        }
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_of_every_kind),
        cmocka_unit_test(a_large_parameter_block),
        cmocka_unit_test(compressed_code_is_not_guessed),
        cmocka_unit_test(the_host_half),
        cmocka_unit_test(ptx_text),
        cmocka_unit_test(damaged_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
