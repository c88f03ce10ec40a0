// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "launcher/options.h"
#include "launcher/stats.h"
#include "launcher/trace.h"
#include "topo/layout.h"

static void stats_of_few_and_many(void **state)
{
    (void)state;
    struct kern_stats none = kern_stats_of(NULL, 0);
    assert_true(none.min == 0 && none.median == 0 && none.p99 == 0 && none.max == 0);
    uint64_t one[] = {7};
    struct kern_stats stats = kern_stats_of(one, 1);
    assert_true(stats.min == 7 && stats.median == 7 && stats.p99 == 7 && stats.max == 7 &&
                stats.mean == 7);
    uint64_t four[] = {4, 1, 3, 2};
    stats = kern_stats_of(four, 4);
    assert_true(stats.min == 1 && stats.median == 2.5 && stats.p99 == 4 && stats.max == 4 &&
                stats.mean == 2.5);
    uint64_t many[200];
    for (uint64_t i = 0; i < 200; i++)
        many[i] = 200 - i;
    stats = kern_stats_of(many, 200);
    assert_true(stats.min == 1 && stats.median == 100.5 && stats.p99 == 198 && stats.max == 200);
}

// Every layout places every rank in one place of one group, and fills every place.
static void groups_are_a_partition(void **state)
{
    (void)state;
    for (uint32_t world = 1; world <= 64; world++) {
        for (uint32_t size = 1; size <= world; size++) {
            for (int layout = KERN_LAYOUT_BLOCK; world % size == 0 && layout <= KERN_LAYOUT_STRIDE;
                 layout++) {
                bool taken[64] = {false};
                for (uint32_t rank = 0; rank < world; rank++) {
                    uint32_t number, index;
                    kern_layout_locate((enum kern_layout)layout, world, size, rank, &number,
                                       &index);
                    assert_true(number < world / size && index < size);
                    assert_false(taken[number * size + index]);
                    taken[number * size + index] = true;
                }
            }
        }
    }
}

static void groups_are_where_the_option_says(void **state)
{
    (void)state;
    uint32_t number, index;
    kern_layout_locate(KERN_LAYOUT_BLOCK, 8, 4, 6, &number, &index);
    assert_true(number == 1 && index == 2);
    kern_layout_locate(KERN_LAYOUT_STRIDE, 8, 4, 6, &number, &index);
    assert_true(number == 0 && index == 3);
    kern_layout_locate(KERN_LAYOUT_STRIDE, 8, 2, 6, &number, &index);
    assert_true(number == 2 && index == 1);
}

static bool parse(const char *line, struct kern_options *options, struct kern_diag *diag)
{
    static char text[512];
    char *words[32], *rest = NULL;
    int count = 0;
    snprintf(text, sizeof text, "kern-rank %s", line);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    words[count] = NULL;
    return kern_options_parse(count, words, options, diag);
}

static void options_are_read_in_every_spelling(void **state)
{
    (void)state;
    struct kern_options options;
    struct kern_diag diag = {0};
    assert_true(parse("-n 3 -w7 --timeout=2.5 --var a=1 m.json --var=b=2 --share-devices "
                      "--device cuda --bind none --rtol 1e-3 --seed 18446744073709551615",
                      &options, &diag));
    assert_int_equal(options.steps, 3);
    assert_int_equal(options.warmup, 7);
    assert_true(options.timeout == 2.5 && options.rtol == 1e-3);
    assert_string_equal(options.manifest, "m.json");
    assert_int_equal(options.vars.count, 2);
    assert_string_equal(options.vars.items[1], "b=2");
    assert_true(options.share_devices);
    assert_int_equal(options.device, KERN_DEVICE_WANT_CUDA);
    assert_int_equal(options.bind, KERN_BIND_NONE);
    assert_true(options.seed == UINT64_MAX);
    kern_options_free(&options);
    assert_true(parse("-- -odd-name.json", &options, &diag));
    assert_string_equal(options.manifest, "-odd-name.json");
    assert_int_equal(options.n_stages, 1);
    kern_options_free(&options);
    assert_true(parse("--cut 12,24 m.json", &options, &diag));
    assert_int_equal(options.n_stages, 3);
    assert_int_equal(options.depth, 2);
    assert_true(options.cut.count == 2 && options.cut.values[1] == 24);
    kern_options_free(&options);
    assert_true(parse("b.json a.json --depth 3", &options, &diag));
    assert_int_equal(options.n_stages, 2);
    assert_int_equal(options.depth, 3);
    assert_string_equal(options.manifests.items[1], "a.json");
    kern_options_free(&options);
    assert_int_equal(diag.count, 0);
}

// All that ranks with this command line must share.
static const char *shared_text(const char *line, struct kern_arena *arena)
{
    struct kern_diag diag = {0};
    struct kern_options options;
    const char *text = "", *name, *value;
    assert_true(parse(line, &options, &diag));
    for (size_t i = 0; (name = kern_option_shared(&options, i, &value, arena)); i++)
        text = kern_arena_print(arena, "%s%s: %s;", text, name, value);
    kern_options_free(&options);
    return text;
}

static bool shared(const char *one, const char *other)
{
    struct kern_arena arena = {0};
    const char *text = shared_text(one, &arena);
    bool same = strcmp(text, shared_text(other, &arena)) == 0;
    kern_arena_free(&arena);
    return same;
}

static void ranks_share_all_but_what_is_their_own(void **state)
{
    (void)state;
    assert_true(shared("m -n 3 -w 1 --timeout 60", "-w1 --steps=3 m"));
    assert_true(shared("m --input a --weights c -J d --bind none", "m --input b"));
    static const char *const alone[] = {
        "m --input a",
        "m --groups f",
        "m -n 3",
        "m --program p",
        "m --var a=1",
        "m --cut 3",
        "m --group g=block",
        "m --compare n",
        "m --atol 1e-5",
        "m --eager",
        "m --device emu",
        "m --share-devices",
        "m --seed-per-rank",
        "m --seqs 3",
        "m --trace t",
        "m --host-blocks 1",
        "n",
    };
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
        if (shared("m", alone[i]))
            fail_msg("\"%s\" is as good as \"m\"", alone[i]);
    assert_false(shared("--cut 1,2 m", "--cut 12 m"));
    assert_false(shared("--program a --program b m", "--program b --program a m"));
    assert_false(shared("--generate 1 --prompt-ids 1 m", "--generate 1 --prompt-ids 2 m"));
}

static void wrong_options_are_refused_in_words(void **state)
{
    (void)state;
    static const struct {
        const char *line, *text;
    } cases[] = {
        {"", "error: no manifest is named; for example: mpirun -np 8 kern-rank model.json"},
        {"m.json n.json --cut 1",
         "error: --cut: cuts one manifest; 2 are named, which are stages already"},
        {"m.json --cut 1,b", "error: --cut: \"1,b\" will not do; it takes indices of calls, as in "
                             "12,24"},
        {"m.json --depth 3",
         "error: --depth: is of use with several stages only: name them, or --cut a manifest"},
        {"a.json b.json --depth 0", "error: --depth: is 1 to 64"},
        {"m.json --stesp=3",
         "error: --stesp=3: is no option; perhaps --steps; kern-rank --help lists them"},
        {"m.json -n", "error: -n: needs a value: N"},
        {"m.json -n x", "error: -n: \"x\" will not do; it takes a whole number, 0 or more"},
        {"m.json -n -1", "error: -n: \"-1\" will not do; it takes a whole number, 0 or more"},
        {"m.json -n 18446744073709551616",
         "error: -n: \"18446744073709551616\" will not do; it takes a whole number, 0 or more"},
        {"m.json --timeout 0",
         "error: --timeout: \"0\" will not do; it takes a number of seconds above 0"},
        {"m.json --atol nan", "error: --atol: \"nan\" will not do; it takes a number, 0 or more"},
        {"m.json --device gpu", "error: --device: \"gpu\" will not do; it takes auto, cuda or emu"},
        {"m.json --share-devices=yes", "error: --share-devices=yes: takes no value"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kern_options options;
        struct kern_diag diag = {0};
        assert_false(parse(cases[i].line, &options, &diag));
        assert_int_equal(diag.count, 1);
        assert_int_equal(kern_diag_code(&diag), KERN_EXIT_USAGE);
        assert_string_equal(kern_diag_line(&diag, 0), cases[i].text);
        kern_options_free(&options);
        kern_diag_clear(&diag);
    }
}

static void pairs_are_cut_at_the_last_equals_sign(void **state)
{
    (void)state;
    size_t length;
    const char *value;
    assert_true(kern_option_pair("a=b=3", &length, &value));
    assert_int_equal(length, 3);
    assert_string_equal(value, "3");
    assert_false(kern_option_pair("a", &length, &value));
    assert_false(kern_option_pair("=3", &length, &value));
    assert_false(kern_option_pair("a=", &length, &value));
}

// Phases are kept always, other spans up to the rank's share; the rest is counted.
static void a_trace_has_a_limit(void **state)
{
    (void)state;
    struct kern_trace *trace = kern_trace_open(1 << 20, 5);
    assert_int_equal(trace->limit, 1024);
    for (uint64_t i = 0; i < 2000; i++) {
        char name[16] = "step";
        kern_trace_span(trace, KERN_TRACE_STEPS, name, i + 1, 10 * i, 10 * i + 5);
        kern_trace_span(trace, KERN_TRACE_DEVICE, i % 2 ? "odd" : "even", i + 1, 10 * i, 10 * i);
    }
    kern_trace_span(trace, KERN_TRACE_PHASES, "check", 0, 30000, 20000);
    assert_int_equal(trace->count, 1025);
    assert_int_equal(trace->dropped, 4000 - 1024);
    assert_int_equal(trace->n_names, 4);
    assert_string_equal(trace->names[trace->spans[1].name], "even");
    assert_string_equal(trace->names[trace->spans[1024].name], "check");
    assert_int_equal(trace->spans[1024].end, 30000); // no span ends before it begins
    kern_trace_close(trace);
    trace = kern_trace_open(2, 0);
    assert_int_equal(trace->limit, KERN_TRACE_SPANS / 2);
    kern_trace_close(trace);
    kern_trace_span(NULL, KERN_TRACE_STEPS, "step", 1, 0, 1);
    kern_trace_issue(NULL);
    kern_trace_close(NULL);
}

// Two items in flight: the second begins, on the host and on the device, when the first has ended.
static void steps_of_a_trace_lie_beside_each_other(void **state)
{
    (void)state;
    struct kern_trace *trace = kern_trace_open(1, 0);
    kern_trace_issue(trace);
    kern_trace_issue(trace);
    uint64_t begun = trace->begun[0];
    struct kern_trace_span first = kern_trace_step(trace, "step", 1);
    struct kern_trace_span second = kern_trace_step(trace, "step", 1ull << 40);
    assert_int_equal(first.number, 1);
    assert_int_equal(second.number, 2);
    assert_int_equal(first.end - first.begin, 1);
    assert_true(second.begin == first.end && second.end >= second.begin);
    assert_int_equal(trace->count, 4);
    assert_int_equal(trace->spans[0].row, KERN_TRACE_STEPS);
    assert_int_equal(trace->spans[0].begin, begun);
    assert_int_equal(trace->spans[2].begin, trace->spans[0].end);
    kern_trace_close(trace);
}

// A clock that is 5000 ahead at first and 7000 a second later, and one that jumps nowhere.
static void clocks_drift_evenly(void **state)
{
    (void)state;
    struct kern_clock clock = {{1000000000, -5000, 30}, {2000000000, -7000, 20}};
    assert_int_equal(kern_clock_align(&clock, 1000000000), 1000000000 - 5000);
    assert_int_equal(kern_clock_align(&clock, 1500000000), 1500000000 - 6000);
    assert_int_equal(kern_clock_align(&clock, 2000000000), 2000000000 - 7000);
    assert_int_equal(kern_clock_align(&clock, 500000000), 500000000 - 4000);
    assert_int_equal(kern_clock_error(&clock), 30);
    uint64_t last = 0;
    for (uint64_t time = 900000000; time < 2100000000; time += 999983) {
        assert_true(kern_clock_align(&clock, time) > last);
        last = kern_clock_align(&clock, time);
    }
    struct kern_clock still = {{500, 1ll << 60, 1}, {500, 1ll << 60, 1}};
    assert_true(kern_clock_align(&still, 777) == (1ull << 60) + 777);
    struct kern_clock late = {{500, -1000, 1}, {500, -1000, 1}};
    assert_int_equal(kern_clock_align(&late, 600), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stats_of_few_and_many),
        cmocka_unit_test(groups_are_a_partition),
        cmocka_unit_test(groups_are_where_the_option_says),
        cmocka_unit_test(options_are_read_in_every_spelling),
        cmocka_unit_test(ranks_share_all_but_what_is_their_own),
        cmocka_unit_test(wrong_options_are_refused_in_words),
        cmocka_unit_test(a_trace_has_a_limit),
        cmocka_unit_test(steps_of_a_trace_lie_beside_each_other),
        cmocka_unit_test(clocks_drift_evenly),
        cmocka_unit_test(pairs_are_cut_at_the_last_equals_sign),
    };
    return cmocka_run_group_tests_name("launcher", tests, NULL, NULL);
}
