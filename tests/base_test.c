// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/diag.h"
#include "base/file.h"
#include "base/names.h"
#include "base/sha256.h"
#include "base/text.h"

static void arena_memory_is_zeroed_and_apart(void **state)
{
    (void)state;
    struct kern_arena arena = {0};
    unsigned char *pieces[300];
    for (size_t i = 0; i < 300; i++) {
        pieces[i] = kern_arena_alloc(&arena, i * 37);
        assert_int_equal((uintptr_t)pieces[i] % 16, 0);
        for (size_t j = 0; j < i * 37; j++)
            assert_int_equal(pieces[i][j], 0);
        memset(pieces[i], (int)i, i * 37);
    }
    for (size_t i = 1; i < 300; i++)
        for (size_t j = 0; j < i * 37; j++)
            assert_int_equal(pieces[i][j], (unsigned char)i);
    kern_arena_free(&arena);
    assert_int_equal(arena.reserved, 0);
}

static void arena_prints_texts_of_any_length(void **state)
{
    (void)state;
    struct kern_arena arena = {0};
    const char *text = kern_arena_print(&arena, "%0100000d", 7);
    assert_int_equal(strlen(text), 100000);
    assert_string_equal(kern_arena_print(&arena, "%s-%d", "x", -3), "x--3");
    assert_string_equal(kern_arena_copy(&arena, "abcdef", 3), "abc");
    kern_arena_free(&arena);
}

static void diag_lines_name_kind_place_and_rule(void **state)
{
    (void)state;
    struct kern_diag diag = {0};
    assert_false(kern_fail(&diag, KERN_EXIT_DEVICE, NULL, "a %d", 1));
    assert_false(kern_fail_rule(&diag, "V-VAR", 9, "vars.n", "max is 0"));
    kern_warn(&diag, NULL, 4, "x", "slow");
    assert_int_equal(diag.errors, 2);
    assert_string_equal(kern_diag_line(&diag, 0), "error: a 1");
    assert_string_equal(kern_diag_line(&diag, 1), "error: vars.n: max is 0 [V-VAR]");
    assert_string_equal(kern_diag_line(&diag, 2), "warning: x: slow");
    kern_diag_sort(&diag);
    assert_int_equal(diag.entries[1].order, 4);
    assert_int_equal(diag.entries[2].order, 9);
    kern_diag_clear(&diag);
    assert_int_equal(diag.count, 0);
}

static void diag_entries_are_one_line_each(void **state)
{
    (void)state;
    struct kern_diag diag = {0};
    kern_fail(&diag, KERN_EXIT_MANIFEST, "a\x1b[2J", "no \"%s\"",
              "x\nerror: forged\x1b[31m\xc3\xb6\xff");
    assert_string_equal(kern_diag_line(&diag, 0),
                        "error: a?[2J: no \"x?error: forged?[31m\xc3\xb6?\"");
    kern_warn(&diag, NULL, 0, NULL, "%s", "\r");
    assert_string_equal(diag.entries[1].text, "?");
    kern_diag_clear(&diag);
}

static void diag_sorts_by_order_and_keeps_equals(void **state)
{
    (void)state;
    struct kern_diag diag = {0}, copy = {0};
    for (uint64_t i = 0; i < 1000; i++)
        kern_warn(&diag, NULL, 7 - i % 8, NULL, "%llu", (unsigned long long)i);
    kern_diag_sort(&diag);
    for (size_t i = 1; i < 1000; i++) {
        const struct kern_diag_entry *a = &diag.entries[i - 1], *b = &diag.entries[i];
        assert_true(a->order < b->order || (a->order == b->order && atoi(a->text) < atoi(b->text)));
    }
    kern_fail_rule(&diag, "V-VAR", 3, "p", "last");
    diag.entries[diag.count - 1].library_code = 42;
    kern_diag_append(&copy, &diag);
    assert_int_equal(copy.count, 1001);
    assert_int_equal(copy.errors, 1);
    assert_string_equal(kern_diag_line(&copy, 1000), "error: p: last [V-VAR]");
    assert_int_equal(copy.entries[1000].library_code, 42);
    assert_int_equal(copy.entries[1000].order, 3);
    kern_diag_clear(&diag);
    kern_diag_clear(&copy);
}

static void diag_code_is_the_cause(void **state)
{
    (void)state;
    static const enum kern_exit causes[] = {
        KERN_EXIT_OK,       KERN_EXIT_PEER,     KERN_EXIT_CHECK, KERN_EXIT_DEVICE,
        KERN_EXIT_ARTIFACT, KERN_EXIT_MANIFEST, KERN_EXIT_USAGE};
    for (size_t i = 0; i < 7; i++)
        for (size_t j = 0; j < 7; j++)
            assert_int_equal(kern_exit_worse(causes[i], causes[j]), causes[i > j ? i : j]);
    struct kern_diag diag = {0};
    kern_warn(&diag, NULL, 0, NULL, "only a warning");
    assert_int_equal(kern_diag_code(&diag), KERN_EXIT_OK);
    kern_fail(&diag, KERN_EXIT_PEER, NULL, "lost");
    kern_fail(&diag, KERN_EXIT_DEVICE, NULL, "broken");
    assert_int_equal(kern_diag_code(&diag), KERN_EXIT_DEVICE);
    kern_diag_clear(&diag);
}

static void names_find_what_was_added_and_nothing_else(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    struct kern_names names = {0};
    struct kern_arena arena = {0};
    assert_int_equal(kern_names_find(&names, "x"), KERN_NONE);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(kern_names_add(&names, kern_arena_print(&arena, "layer.%u.weight", i), i),
                         KERN_NONE);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(kern_names_find(&names, kern_arena_print(&arena, "layer.%u.weight", i)),
                         i);
    assert_int_equal(kern_names_add(&names, "layer.7.weight", 99), 7);
    assert_int_equal(kern_names_find(&names, "layer.7.weight"), 7);
    assert_int_equal(kern_names_find(&names, "layer.7.weigh"), KERN_NONE);
    assert_int_equal(kern_names_find(&names, ""), KERN_NONE);
    assert_int_equal(names.count, COUNT);
    kern_names_free(&names);
    kern_arena_free(&arena);
}

static void texts_do_not_steer_a_terminal(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", ""},
        {"\xc3\xb6 \xe6\xa8\xa1 \xf0\x9f\x98\x80 ~", "\xc3\xb6 \xe6\xa8\xa1 \xf0\x9f\x98\x80 ~"},
        {"a\tb\x1b[2J\x7f", "a?b?[2J?"},
        {"\xc2\x80\xc2\x9b\xc2\xa0", "????\xc2\xa0"}, // controls of Latin-1, and a space
        {"\xff\xc0\xaf\xed\xa0\x80", "??????"},       // no UTF-8
        {"cut \xe6\xa8", "cut ??"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[32];
        assert_true(strlen(cases[i][0]) < sizeof text);
        strcpy(text, cases[i][0]);
        kern_text_tame(text);
        assert_string_equal(text, cases[i][1]);
    }
    char shown[16];
    assert_string_equal(kern_text_shorten("short\n", shown, sizeof shown), "short?");
    assert_string_equal(kern_text_shorten("12345678901\xc3\xb6"
                                          "4567",
                                          shown, sizeof shown),
                        "12345678901...");
}

static void sha256_of_known_texts(void **state)
{
    (void)state;
    uint8_t digest[KERN_SHA256_BYTES], read[KERN_SHA256_BYTES];
    char hex[KERN_SHA256_HEX + 1];
    // FIPS 180-4, example of one block.
    kern_sha256("abc", 3, digest);
    kern_sha256_to_hex(digest, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_true(kern_sha256_from_hex(
        "BA7816BF8F01CFEA414140DE5DAE2223b00361a396177a9cb410ff61f20015ad", read));
    assert_memory_equal(read, digest, sizeof digest);
    assert_false(kern_sha256_from_hex(hex + 1, read));
    hex[5] = 'g';
    assert_false(kern_sha256_from_hex(hex, read));
}

static void files_are_written_whole_and_read_back(void **state)
{
    (void)state;
    char folder[] = "base_test.XXXXXX";
    assert_non_null(mkdtemp(folder));
    struct kern_arena arena = {0};
    struct kern_diag diag = {0};
    const char *path = kern_arena_print(&arena, "%s/file", folder);
    assert_true(kern_file_write(path, "one\0two", 7, &diag));
    size_t length;
    char *bytes = kern_file_read(path, 7, &length, KERN_EXIT_USAGE, &diag);
    assert_non_null(bytes);
    assert_int_equal(length, 7);
    assert_memory_equal(bytes, "one\0two\0", 8);
    free(bytes);
    assert_null(kern_file_read(path, 6, &length, KERN_EXIT_USAGE, &diag));
    assert_null(kern_file_read(folder, 99, &length, KERN_EXIT_ARTIFACT, &diag));
    assert_null(kern_file_read("/nonexistent", 99, &length, KERN_EXIT_USAGE, &diag));
    assert_false(kern_file_write("/nonexistent/file", "x", 1, &diag));
    assert_int_equal(diag.errors, 4);
    unlink(path);
    assert_true(kern_file_try(path, &diag));
    // A directory is refused by the try that comes before a run, not by the write after it.
    assert_false(kern_file_try(folder, &diag));
    assert_false(kern_file_write(folder, "x", 1, &diag));
    for (size_t i = 4; i < 6; i++) {
        assert_int_equal(diag.entries[i].code, KERN_EXIT_USAGE);
        assert_non_null(strstr(diag.entries[i].text, "is a directory"));
    }
    assert_int_equal(rmdir(folder), 0); // nothing else was left there
    kern_diag_clear(&diag);
    kern_arena_free(&arena);
}

static void deadlines_are_absolute(void **state)
{
    (void)state;
    assert_int_equal(kern_deadline_in(0), KERN_NO_DEADLINE);
    assert_false(kern_deadline_passed(KERN_NO_DEADLINE));
    assert_false(kern_deadline_passed(kern_deadline_in(1000)));
    assert_true(kern_deadline_passed(kern_now() - 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arena_memory_is_zeroed_and_apart),
        cmocka_unit_test(arena_prints_texts_of_any_length),
        cmocka_unit_test(diag_lines_name_kind_place_and_rule),
        cmocka_unit_test(diag_entries_are_one_line_each),
        cmocka_unit_test(diag_sorts_by_order_and_keeps_equals),
        cmocka_unit_test(diag_code_is_the_cause),
        cmocka_unit_test(names_find_what_was_added_and_nothing_else),
        cmocka_unit_test(texts_do_not_steer_a_terminal),
        cmocka_unit_test(sha256_of_known_texts),
        cmocka_unit_test(files_are_written_whole_and_read_back),
        cmocka_unit_test(deadlines_are_absolute),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
