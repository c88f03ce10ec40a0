// SPDX-License-Identifier: Apache-2.0
//
// Layouts over nodes, and the picture of machines that this one is not.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "topo/layout.h"
#include "topo/picture.h"
#include "topo/svg.h"

enum { RANKS = 16 };

static const struct kern_ranks all = {0, RANKS, RANKS};

// 16 ranks with [per_node] on each node, one node after the other or, if [cyclic], in turn.
static void place(struct kern_member *members, int per_node, bool cyclic)
{
    int nodes = RANKS / per_node;
    for (int r = 0; r < RANKS; r++) {
        members[r] = (struct kern_member){.node = cyclic ? r % nodes : r / per_node,
                                          .local_rank = cyclic ? r / nodes : r % per_node};
        snprintf(members[r].host, sizeof members[r].host, "node%d", members[r].node);
    }
}

static void lay(struct kern_group_layout *layout, enum kern_layout way, uint32_t size)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        uint32_t number, index;
        kern_layout_locate(way, RANKS, size, r, &number, &index);
        layout->number_of[r] = (int)number;
        layout->index_of[r] = (int)index;
    }
    layout->size = size;
}

static void groups_that_cross_nodes_without_need_are_told(void **state)
{
    (void)state;
    static const struct {
        int per_node;
        bool cyclic;
        enum kern_layout way;
        uint32_t size;
        const char *remedy; // NULL: no warning
    } cases[] = {
        {8, false, KERN_LAYOUT_BLOCK, 8, NULL},
        {8, false, KERN_LAYOUT_STRIDE, 8, "--group tp=block lays"},
        {8, false, KERN_LAYOUT_STRIDE, 2, "--group tp=block lays"},
        {8, true, KERN_LAYOUT_BLOCK, 8, "--group tp=stride lays"},
        {8, true, KERN_LAYOUT_STRIDE, 8, NULL},
        {4, true, KERN_LAYOUT_BLOCK, 4, "--group tp=stride lays"},
        {4, true, KERN_LAYOUT_STRIDE, 4, NULL},
        {8, false, KERN_LAYOUT_STRIDE, 16, NULL}, // no node has 16
        {4, false, KERN_LAYOUT_BLOCK, 8, NULL},
        {1, false, KERN_LAYOUT_BLOCK, 2, NULL},
        {16, false, KERN_LAYOUT_STRIDE, 4, NULL}, // one node
        // Two groups of each node would be neither consecutive nor 16 / 2 apart.
        {4, true, KERN_LAYOUT_BLOCK, 2, "--group tp=stride lays"},
    };
    int number_of[RANKS], index_of[RANKS];
    struct kern_member members[RANKS];
    struct kern_group_layout layout = {"tp", 0, number_of, index_of};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kern_diag diag = {0};
        place(members, cases[i].per_node, cases[i].cyclic);
        lay(&layout, cases[i].way, cases[i].size);
        kern_layout_warn(&layout, members, &all, &diag);
        assert_int_equal(diag.errors, 0);
        assert_int_equal(diag.count, cases[i].remedy != NULL);
        if (cases[i].remedy)
            assert_non_null(strstr(kern_diag_line(&diag, 0), cases[i].remedy));
        kern_diag_clear(&diag);
    }
}

// Ranks 0 and 3, 1 and 2 and so on of each four share a node: no layout but a list fits.
static void a_list_is_told_where_no_layout_fits(void **state)
{
    (void)state;
    int number_of[RANKS], index_of[RANKS];
    struct kern_member members[RANKS];
    struct kern_group_layout layout = {"tp", 0, number_of, index_of};
    struct kern_diag diag = {0};
    for (int r = 0; r < RANKS; r++)
        members[r].node = r % 4 == 0 || r % 4 == 3 ? r / 4 * 2 : r / 4 * 2 + 1;
    lay(&layout, KERN_LAYOUT_BLOCK, 2);
    kern_layout_warn(&layout, members, &all, &diag);
    assert_int_equal(diag.count, 1);
    assert_non_null(strstr(kern_diag_line(&diag, 0), "the first one \"tp 0 3\""));
    kern_diag_clear(&diag);
}

static void names_are_escaped(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"plain", "plain"},
        {"a<b>&\"c\"", "a&lt;b&gt;&amp;&quot;c&quot;"},
        {"\xc3\xb6 \xe6\xa8\xa1 \xf0\x9f\x98\x80", "\xc3\xb6 \xe6\xa8\xa1 \xf0\x9f\x98\x80"},
        {"tab\tbell\a", "tab\xef\xbf\xbd"
                        "bell\xef\xbf\xbd"},
        {"\xff", "\xef\xbf\xbd"},
        {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},                 // overlong
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, // a surrogate
        {"\xef\xbf\xbf", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, // no character
        {"cut \xe6\xa8", "cut \xef\xbf\xbd\xef\xbf\xbd"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = NULL;
        size_t length;
        FILE *file = open_memstream(&text, &length);
        kern_svg_escape(file, cases[i][0]);
        fclose(file);
        assert_string_equal(text, cases[i][1]);
        free(text);
    }
}

static void texts_are_readable_on_every_colour(void **state)
{
    (void)state;
    assert_int_equal(kern_svg_ink(0xffffff), 0x111111);
    assert_int_equal(kern_svg_ink(0x000000), 0xffffff);
    for (uint32_t i = 0; i < 24; i++)
        for (uint32_t j = 0; j < i; j++)
            assert_int_not_equal(kern_svg_colour(i), kern_svg_colour(j));
    assert_int_equal(kern_svg_tint(0x000000, 0), 0xffffff);
    assert_int_equal(kern_svg_tint(0x123456, 1), 0x123456);
}

// Two nodes of two NUMA nodes with four GPUs each. KERN_PICTURE names a folder for those who want
// to look at it.
static void machines_with_gpus_are_drawn(void **state)
{
    (void)state;
    struct kern_numa numa[] = {{0, "0-47,96-143", 1ull << 40}, {1, "48-95,144-191", 1ull << 40}};
    struct kern_place devices[2][8], places[RANKS];
    struct kern_machine machines[2];
    struct kern_member members[RANKS];
    int number_of[2][RANKS], index_of[2][RANKS];
    struct kern_group_layout layouts[] = {{"tp", 0, number_of[0], index_of[0]},
                                          {"ep", 0, number_of[1], index_of[1]}};
    place(members, 8, false);
    lay(&layouts[0], KERN_LAYOUT_BLOCK, 8);
    lay(&layouts[1], KERN_LAYOUT_STRIDE, 4);
    for (int n = 0; n < 2; n++) {
        machines[n] =
            (struct kern_machine){"a-host-with-a-name-so-long-that-it-would-run-far-into-the-rest",
                                  192,
                                  numa,
                                  2,
                                  devices[n],
                                  8};
        for (int d = 0; d < 8; d++) {
            devices[n][d] = (struct kern_place){.ordinal = d, .name = "NVIDIA H200", .numa = d / 4};
            snprintf(devices[n][d].bus_id, sizeof devices[n][d].bus_id, "0000:%02x:00.0", d * 17);
            devices[n][d].uuid[0] = (unsigned char)(n * 8 + d);
        }
    }
    for (int r = 0; r < RANKS; r++)
        places[r] = devices[r / 8][r % 8 < 7 ? r % 8 : 6]; // the last device is idle
    struct kern_picture picture = {"a model", "a test", machines, 2, members,
                                   places,    RANKS,    layouts,  2};
    struct kern_diag diag = {0};
    char path[4096];
    const char *folder = getenv("KERN_PICTURE");
    snprintf(path, sizeof path, "%s/kern-picture-XXXXXX", folder ? folder : "/tmp");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_true(kern_picture_write(&picture, path, &diag));
    size_t length;
    char *text = kern_file_read(path, 1 << 20, &length, KERN_EXIT_USAGE, &diag);
    assert_non_null(text);
    assert_non_null(strstr(text, ">rank 15</text>"));
    assert_non_null(strstr(text, ">NUMA node 1 \xc2\xb7 processors 48-95,144-191"));
    assert_non_null(strstr(text, ">idle</text>"));
    assert_non_null(strstr(text, ">ep: 4 groups of 4, across nodes</text>"));
    assert_null(strstr(text, "near no NUMA node"));
    free(text);
    if (!folder)
        unlink(path);
    assert_false(kern_picture_write(&picture, "/no such folder/a.svg", &diag));
    assert_int_equal(kern_diag_code(&diag), KERN_EXIT_USAGE);
    kern_diag_clear(&diag);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_that_cross_nodes_without_need_are_told),
        cmocka_unit_test(a_list_is_told_where_no_layout_fits),
        cmocka_unit_test(names_are_escaped),
        cmocka_unit_test(texts_are_readable_on_every_colour),
        cmocka_unit_test(machines_with_gpus_are_drawn),
    };
    return cmocka_run_group_tests_name("topo", tests, NULL, NULL);
}
