// SPDX-License-Identifier: Apache-2.0
//
// V-OP V-WHEN V-LAUNCH-KERNEL V-EXPR
#include "tests/manifest_rules_case.h"

#define L0 "ops.f.impl.launches[0]"
#define BLOCK(block)                                                                               \
    {                                                                                              \
        "[32, 1, 1]", block                                                                        \
    }
#define GRID(grid)                                                                                 \
    {                                                                                              \
        "['n', 1, 1]", grid                                                                        \
    }
#define LAUNCH(more)                                                                               \
    {                                                                                              \
        "'entry': 'g'", "'entry': 'g', " more                                                      \
    }

static const struct rules_case ops[] = {
    REFUSED("an image in the interface", "V-OP", "ops.f.params[3]",
            {"'out buffer<bf16>', 'i32'", "'out buffer<bf16>', 'bytes<8>'"}),
    REFUSED("no launches", "V-OP", "ops.f.impl.launches",
            {"[{'module': 'k', 'entry': 'g', 'block': [32, 1, 1], 'grid': ['n', 1, 1]}]", "[]"},
            {"'k': {'source': 'k.cubin', 'sha256': "
             "'00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF'}",
             ""}),
    ACCEPTED("two launches", {"'launches': [", "'launches': [{'module': 'k', 'entry': 'h', "
                                               "'block': [64, 1, 1], 'grid': [1, 1, 1]}, "}),
};

static const struct rules_case kernels[] = {
    REFUSED("an empty entry", "V-LAUNCH-KERNEL", L0 ".entry", {"'entry': 'g'", "'entry': ''"}),
    REFUSED("a built-in in a module", "V-LAUNCH-KERNEL", L0 ".entry",
            {"'entry': 'g'", "'entry': 'extern:cublaslt_bf16_tn'"}),
    REFUSED_SAYING("an unknown module", "V-LAUNCH-KERNEL", L0 ".module", "did you mean \"krn\"?",
                   {"'module': 'k'", "'module': 'kern'"}, {"'modules': {'k'", "'modules': {'krn'"}),

    REFUSED("a block without threads", "V-LAUNCH-KERNEL", L0 ".block", BLOCK("[32, 0, 1]")),
    ACCEPTED("a block of 1024", BLOCK("[16, 1, 64]")),
    REFUSED("a block of 2048", "V-LAUNCH-KERNEL", L0 ".block", BLOCK("[1024, 2, 1]")),
    REFUSED("a block of 2^96", "V-LAUNCH-KERNEL", L0 ".block",
            BLOCK("[4294967295, 4294967295, 4294967295]")),
    REFUSED("a block of 2^64", "V-LAUNCH-KERNEL", L0 ".block",
            BLOCK("[2147483648, 4, 2147483648]")),
    REFUSED("a block 65 deep", "V-LAUNCH-KERNEL", L0 ".block", BLOCK("[1, 1, 65]")),

    ACCEPTED("the largest grid", GRID("[2147483647, 65535, 65535]")),
    REFUSED("a grid too wide", "V-LAUNCH-KERNEL", L0 ".grid[0]", GRID("[2147483648, 1, 1]")),
    REFUSED("a grid too high", "V-LAUNCH-KERNEL", L0 ".grid[1]", GRID("[1, 65536, 1]")),
    REFUSED("a grid too deep", "V-LAUNCH-KERNEL", L0 ".grid[2]", GRID("[1, 1, 65536]")),
    REFUSED("a grid too high with the vars at their max", "V-LAUNCH-KERNEL", L0 ".grid[1]",
            GRID("[1, {'mul': ['n', 4096]}, 1]")),
    REFUSED("a grid of nothing", "V-LAUNCH-KERNEL", L0 ".grid[0]", GRID("[0, 1, 1]")),
    ACCEPTED("a tile of the rows", GRID("[{'clamp': ['n', 8, 8]}, 1, 1]")),
    ACCEPTED("a tile past the rows", GRID("[{'ceil_div': [{'clamp': ['n', 100, 8]}, 4]}, 1, 1]")),

    ACCEPTED("the most shared memory", LAUNCH("'shared_mem': 232448")),
    REFUSED("too much shared memory", "V-LAUNCH-KERNEL", L0 ".shared_mem",
            LAUNCH("'shared_mem': 232449")),
    REFUSED("too much shared memory with the vars at their max", "V-LAUNCH-KERNEL",
            L0 ".shared_mem", LAUNCH("'shared_mem': {'mul': ['n', 16384]}")),

    ACCEPTED("a cluster", LAUNCH("'cluster': [4, 1, 1]"), GRID("[{'mul': ['n', 4]}, 1, 1]")),
    REFUSED("a cluster without blocks", "V-LAUNCH-KERNEL", L0 ".cluster",
            LAUNCH("'cluster': [1, 0, 1]")),
    REFUSED("a cluster of 32", "V-LAUNCH-KERNEL", L0 ".cluster", LAUNCH("'cluster': [4, 4, 2]"),
            GRID("[4, 4, 2]")),
    ACCEPTED("a cluster of 16", LAUNCH("'cluster': [4, 2, 2]"), GRID("[4, 4, 2]")),
    REFUSED_SAYING("a grid of no whole clusters at the least", "V-LAUNCH-KERNEL", L0 ".grid[0]",
                   "at their least", LAUNCH("'cluster': [2, 1, 1]")),
    REFUSED_SAYING("a grid of no whole clusters at the most", "V-LAUNCH-KERNEL", L0 ".grid[0]",
                   "at their max", LAUNCH("'cluster': [2, 1, 1]"),
                   GRID("[{'add': ['n', 1]}, 1, 1]")),
    REFUSED("a grid of no whole clusters in z", "V-LAUNCH-KERNEL", L0 ".grid[2]",
            LAUNCH("'cluster': [1, 1, 2]"), GRID("[1, 1, 3]")),
};

static const struct rules_case whens[] = {
    ACCEPTED("a range", LAUNCH("'when': {'var': 'n', 'min': 2, 'max': 4}")),
    ACCEPTED("an open range", LAUNCH("'when': {'var': 'n'}")),
    ACCEPTED("a range of one", LAUNCH("'when': {'var': 'n', 'min': 3, 'max': 3}")),
    REFUSED("an empty range", "V-WHEN", L0 ".when",
            LAUNCH("'when': {'var': 'n', 'min': 5, 'max': 2}")),
    REFUSED("an unknown var", "V-WHEN", L0 ".when", LAUNCH("'when': {'var': 'q', 'min': 5}")),
    ACCEPTED("a range that keeps the grid in bounds", LAUNCH("'when': {'var': 'n', 'max': 8}"),
             GRID("[1, {'mul': ['n', 8191]}, 1]")),
    REFUSED("a range that does not", "V-LAUNCH-KERNEL", L0 ".grid[1]",
            LAUNCH("'when': {'var': 'n', 'max': 9}"), GRID("[1, {'mul': ['n', 8191]}, 1]")),
    ACCEPTED("a range that keeps clusters whole",
             LAUNCH("'when': {'var': 'n', 'min': 2}, 'cluster': [2, 1, 1]")),
    ACCEPTED("a range that no var reaches", LAUNCH("'when': {'var': 'n', 'min': 17}"),
             GRID("[1, 70000, 1]")),
    ACCEPTED("a range below every var", LAUNCH("'when': {'var': 'n', 'max': 0}"),
             GRID("[0, 1, 1]")),
    ACCEPTED("a range that keeps an expression in 64 bits",
             LAUNCH("'when': {'var': 'n', 'max': 1}, "
                    "'shared_mem': {'clamp': [{'mul': ['n', 9223372036854775808]}, 0, 4]}")),
};

static const struct rules_case expressions[] = {
    ACCEPTED(
        "all of them",
        GRID("[{'add': [{'ceil_div': ['n', 4]}, {'mul': [{'clamp': ['n', 2, 4]}, 2]}]}, 1, 1]")),
    REFUSED("an unknown var", "V-EXPR", L0 ".grid[0]", GRID("['q', 1, 1]")),
    REFUSED("an unknown var inside", "V-EXPR", L0 ".grid[1]",
            GRID("[1, {'add': [1, {'mul': ['q', 2]}]}, 1]")),
    REFUSED("a division by 0", "V-EXPR", L0 ".grid[0]", GRID("[{'ceil_div': ['n', 0]}, 1, 1]")),
    REFUSED("a multiplication by 0", "V-EXPR", L0 ".grid[0]", GRID("[{'mul': ['n', 0]}, 1, 1]")),
    REFUSED("a division by 0 of shared memory", "V-EXPR", L0 ".shared_mem",
            LAUNCH("'shared_mem': {'ceil_div': ['n', 0]}")),
    REFUSED("a grid past 64 bits", "V-EXPR", L0 ".grid[0]",
            GRID("[{'mul': ['n', 2305843009213693952]}, 1, 1]")),
    REFUSED("shared memory past 64 bits", "V-EXPR", L0 ".shared_mem",
            LAUNCH("'shared_mem': {'add': [18446744073709551615, 'n']}")),
    REFUSED(
        "past 64 bits on the way", "V-EXPR", L0 ".shared_mem",
        LAUNCH("'shared_mem': {'ceil_div': [{'mul': ['n', 2305843009213693952]}, 4294967296]}")),
    ACCEPTED("a division that adds nothing",
             LAUNCH("'shared_mem': {'ceil_div': [18446744073709551615, 18446744073709551615]}")),
    REFUSED("an unknown var of an argument", "V-EXPR", "programs.p.calls[0] arg 3",
            {"{'var': 'n'}", "{'expr': {'mul': ['q', 2]}}"}),
    REFUSED("a division by 0 of an argument", "V-EXPR", "programs.p.calls[0] arg 3",
            {"{'var': 'n'}", "{'expr': {'ceil_div': ['n', 0]}}"}),
    REFUSED("an argument past 64 bits", "V-EXPR", "programs.p.calls[0] arg 3",
            {"{'var': 'n'}", "{'expr': {'mul': ['n', 2305843009213693952]}}"}),
};

int rules_of_launches(void)
{
    const struct CMUnitTest tests[] = {
        RULES_TEST(RULES_BASE, ops),
        RULES_TEST(RULES_BASE, kernels),
        RULES_TEST(RULES_BASE, whens),
        RULES_TEST(RULES_BASE, expressions),
    };
    return cmocka_run_group_tests_name("launches", tests, NULL, NULL);
}
