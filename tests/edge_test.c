// SPDX-License-Identifier: Apache-2.0
//
// Two stages in one process, each on an emulated device of its own: what the kernels of an edge and
// its copies do, item by item. The exchange of handles, which takes processes, is the test's own.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "fabric/edge_parts.h"
#include "manifest/chain.h"
#include "manifest/cut.h"

#define FOLDER KERN_BUILD_DIR "/examples/chain"

enum { STAGES = 2, ITEMS = 40, ROWS = 100, IN_FLIGHT = 8 };

struct end {
    struct kern_stage stage;
    struct kern_world world;
    struct kern_rank *rank;
    struct kern_edges *edges;
    uint64_t *vars;
};

struct pair {
    struct kern_device *device;
    struct kern_manifest **stages;
    struct kern_member members[STAGES];
    struct kern_road road;
    struct end ends[STAGES];
    struct kern_diag diag;
};

// In place of fabric/edge_exchange.c.
void kern_edges_exchange(struct kern_edges *edges, bool good, struct kern_diag *diag)
{
    (void)edges;
    (void)diag;
    assert_true(good);
}

bool kern_edges_find_cookie(struct kern_edges *edges, struct kern_diag *diag)
{
    (void)edges;
    (void)diag;
    return true;
}

static void check(struct pair *pair, bool good)
{
    if (!good)
        kern_diag_print(&pair->diag, stderr, 8);
    assert_true(good);
}

static struct kern_manifest *read_whole(struct pair *pair)
{
    size_t length;
    char *text = kern_file_read(FOLDER "/model.json", KERN_MANIFEST_BYTES_MAX, &length,
                                KERN_EXIT_USAGE, &pair->diag);
    check(pair, text != NULL);
    struct kern_manifest *whole = kern_manifest_parse(text, length, "model.json", &pair->diag);
    free(text);
    check(pair, whole && kern_manifest_verify(whole, &pair->diag));
    return whole;
}

static void open_end(struct pair *pair, int index, uint32_t depth, enum kern_graphs graphs)
{
    static const char *const folder = FOLDER;
    static const uint32_t no_groups[1];
    struct end *end = &pair->ends[index];
    struct kern_manifest *manifest = pair->stages[index];
    struct kern_rank_config config = {
        .device = pair->device,
        .ordinal = index,
        .manifest = manifest,
        .group_index = no_groups,
        .kernel_dirs = &folder,
        .n_kernel_dirs = 1,
        .capacity = 1,
        .seqs = 1,
        .graphs = graphs,
        .in_flight = IN_FLIGHT,
        .arrivals = index ? depth : 0,
    };
    end->rank = kern_rank_create(&config, &pair->diag);
    check(pair, end->rank && kern_rank_load_modules(end->rank, &pair->diag) &&
                    kern_rank_allocate(end->rank, KERN_HANDLE_FABRIC, &pair->diag) &&
                    kern_rank_compile(end->rank, &pair->diag));
    end->stage = (struct kern_stage){.index = index, .count = STAGES, .first = index, .size = 1};
    end->world.rank = index;
    end->world.size = STAGES;
    end->world.members = pair->members;
    struct kern_edges_config edges = {
        .world = &end->world,
        .stage = &end->stage,
        .stages = pair->stages,
        .device = pair->device,
        .ordinal = index,
        .road = &pair->road,
        .rank = end->rank,
        .depth = depth,
    };
    end->edges = kern_edges_open(&edges, &pair->diag);
    check(pair, pair->diag.errors == 0);
    end->vars = kern_calloc(manifest->n_vars, sizeof *end->vars);
}

static void set_rows(struct pair *pair, uint64_t rows)
{
    for (int i = 0; i < STAGES; i++) {
        const struct kern_names *names = &pair->stages[i]->var_names;
        pair->ends[i].vars[kern_names_find(names, "rows")] = rows;
        pair->ends[i].vars[kern_names_find(names, "seqs")] = 1;
    }
}

// Maps the second stage's arrivals for the device of the first.
static void map_arrivals(struct pair *pair)
{
    struct kern_mapping arrivals;
    struct kern_shareable shareable;
    assert_false(kern_rank_arrivals(pair->ends[0].rank, &arrivals));
    assert_true(kern_rank_arrivals(pair->ends[1].rank, &arrivals));
    check(pair, kern_vmm_export(pair->device, &arrivals, KERN_HANDLE_FABRIC, "arrivals", &shareable,
                                &pair->diag) &&
                    kern_vmm_import(pair->device, 0, &shareable, arrivals.mapped, "arrivals",
                                    &pair->ends[0].edges->after, &pair->diag));
}

static void open_pair(struct pair *pair, uint32_t depth, enum kern_graphs graphs, double timeout)
{
    static const uint64_t point = 4;
    *pair = (struct pair){.members = {{.host = "left"}, {.host = "right"}},
                          .road = {.kind = KERN_HANDLE_FABRIC}};
    pair->device =
        kern_device_open(KERN_DEVICE_WANT_EMU, KERN_BUILD_DIR "/lib/libkern-emu.so", &pair->diag);
    check(pair, pair->device != NULL);
    struct kern_manifest *whole = read_whole(pair);
    pair->stages = kern_manifest_cut(whole, &point, 1, &pair->diag);
    check(pair, pair->stages != NULL);
    kern_manifest_destroy(whole);
    for (int i = 0; i < STAGES; i++) {
        pair->ends[i].world.timeout = timeout;
        open_end(pair, i, depth, graphs);
    }
    map_arrivals(pair);
    for (int i = 0; i < STAGES; i++)
        check(pair, kern_edges_verify(pair->ends[i].edges, &pair->diag));
    set_rows(pair, ROWS);
}

static void close_pair(struct pair *pair)
{
    for (int i = 0; i < STAGES; i++) {
        while (kern_rank_in_flight(pair->ends[i].rank))
            check(pair,
                  kern_rank_wait(pair->ends[i].rank, kern_deadline_in(20), NULL, &pair->diag));
        kern_edges_close(pair->ends[i].edges);
        kern_rank_destroy(pair->ends[i].rank, false);
        free(pair->ends[i].vars);
    }
    kern_manifest_stages_destroy(pair->stages, STAGES);
    kern_device_close(pair->device);
    kern_diag_clear(&pair->diag);
}

static bool is_sound(struct pair *pair, int stage)
{
    enum kern_edge_phase phase;
    bool sound = kern_edges_sound(pair->ends[stage].edges, &phase, &pair->diag);
    assert_int_equal(phase, sound ? KERN_EDGE_POSTED : stage ? KERN_EDGE_TAKING : KERN_EDGE_ROOM);
    return sound;
}

static uint32_t buffer_of(struct pair *pair, int stage, const char *name)
{
    uint32_t index = kern_names_find(&pair->stages[stage]->buffer_names, name);
    assert_true(index != KERN_NONE);
    return index;
}

// Item [item] begins with x = 1 / (item + 1) in every row; this is what the calls make of it.
static float input_of(int item)
{
    return 1.0f / (float)(item + 1);
}

static float output_of(int item, const char *name)
{
    // As examples/chain/generate.py has it, operation by operation.
    float left = input_of(item) * 1.5f, right;
    left = left + -0.25f;
    left = left * -0.75f;
    left = left + 1.0f;
    right = left * 0.5f;
    right = right + 2.0f;
    left = left * 1.25f;
    left = left + 0.125f;
    right = right * -1.5f;
    right = right + 0.5f;
    float y = left * 3.0f, z = right * 0.25f;
    return name[0] == 'y' ? y + -1.0f : z + 0.75f;
}

static void issue(struct pair *pair, int stage, int item)
{
    struct end *end = &pair->ends[stage];
    uint32_t program = kern_names_find(&pair->stages[stage]->program_names, "a");
    float x[ROWS];
    for (size_t i = 0; i < ROWS; i++)
        x[i] = input_of(item);
    if (stage == 0)
        check(pair, kern_rank_write(end->rank, buffer_of(pair, 0, "x"), x, sizeof x, end->vars,
                                    &pair->diag));
    check(pair, kern_rank_issue(end->rank, program, end->vars, &pair->diag));
}

static void wait_for(struct pair *pair, int stage)
{
    struct end *end = &pair->ends[stage];
    check(pair, kern_rank_wait(end->rank, kern_deadline_in(20), NULL, &pair->diag));
}

static void expect_output(struct pair *pair, int item, const char *name)
{
    float values[ROWS];
    check(pair, kern_rank_read(pair->ends[1].rank, buffer_of(pair, 1, name), values, sizeof values,
                               &pair->diag));
    for (size_t i = 0; i < ROWS; i++)
        assert_true(values[i] == output_of(item, name));
}

// The first stage runs ahead as far as the slots let it, and every item arrives whole.
static void pass_items(uint32_t depth, enum kern_graphs graphs)
{
    struct pair pair;
    open_pair(&pair, depth, graphs, 20);
    int ahead = 0;
    for (int item = 0; item < ITEMS; item++) {
        for (; ahead < ITEMS && ahead < item + IN_FLIGHT; ahead++)
            issue(&pair, 0, ahead);
        issue(&pair, 1, item);
        wait_for(&pair, 1);
        expect_output(&pair, item, "y");
        expect_output(&pair, item, "z");
        wait_for(&pair, 0);
    }
    for (int i = 0; i < STAGES; i++)
        check(&pair, is_sound(&pair, i));
    close_pair(&pair);
}

static void items_arrive_whole_and_in_order(void **state)
{
    (void)state;
    pass_items(1, KERN_GRAPHS_OFF);
    pass_items(1, KERN_GRAPHS_ON);
    pass_items(3, KERN_GRAPHS_OFF);
    pass_items(3, KERN_GRAPHS_ON);
}

static void a_stage_is_ahead_by_the_depth(void **state)
{
    (void)state;
    enum { DEPTH = 2 };
    struct pair pair;
    open_pair(&pair, DEPTH, KERN_GRAPHS_OFF, 20);
    for (int item = 0; item <= DEPTH; item++)
        issue(&pair, 0, item);
    for (int item = 0; item < DEPTH; item++)
        wait_for(&pair, 0);
    // The next one has run, and waits for the first to be taken.
    uint64_t item = 0;
    while (kern_edges_at(pair.ends[0].edges, &item) != KERN_EDGE_ROOM || item < DEPTH) {}
    assert_int_equal(item, DEPTH);
    assert_string_equal(kern_edges_awaited(pair.ends[0].edges, KERN_EDGE_ROOM),
                        "room in stage 1 (rank 1, right)");
    assert_false(kern_rank_wait(pair.ends[0].rank, kern_deadline_in(0.05), NULL, &pair.diag));
    kern_diag_clear(&pair.diag);
    issue(&pair, 1, 0);
    wait_for(&pair, 1);
    wait_for(&pair, 0);
    expect_output(&pair, 0, "y");
    struct kern_edge_stamp given, taken;
    assert_true(kern_edges_stamp(pair.ends[0].edges, DEPTH, &given));
    assert_true(kern_edges_stamp(pair.ends[1].edges, 0, &taken));
    assert_true(given.take_began <= given.take_ended && given.take_ended <= given.room_began);
    assert_true(given.room_began < given.room_ended && given.room_ended <= given.posted);
    // One clock for both devices of emu: room is there once the item is taken.
    assert_true(given.room_ended >= taken.room_ended);
    assert_false(kern_edges_stamp(pair.ends[0].edges, DEPTH + 1, &given));
    // The rest.
    issue(&pair, 1, 1);
    issue(&pair, 1, 2);
    wait_for(&pair, 1);
    wait_for(&pair, 1);
    expect_output(&pair, 2, "z");
    close_pair(&pair);
}

// What lies behind the live bytes of a slot is not touched.
static void only_live_bytes_travel(void **state)
{
    (void)state;
    enum { LIVE = 7 };
    struct pair pair;
    open_pair(&pair, 1, KERN_GRAPHS_OFF, 20);
    CUdeviceptr slot = kern_rank_address(pair.ends[1].rank, buffer_of(&pair, 1, "left"), 0);
    float marks[ROWS], after[ROWS];
    for (size_t i = 0; i < ROWS; i++)
        marks[i] = -(float)i;
    check(&pair, kern_rank_poke(pair.ends[1].rank, slot, marks, sizeof marks, &pair.diag));
    set_rows(&pair, LIVE);
    issue(&pair, 0, 3);
    wait_for(&pair, 0);
    check(&pair, kern_rank_peek(pair.ends[1].rank, slot, after, sizeof after, &pair.diag));
    for (size_t i = 0; i < ROWS; i++)
        assert_true((marks[i] != after[i]) == (i < LIVE));
    issue(&pair, 1, 3);
    wait_for(&pair, 1);
    close_pair(&pair);
}

// Ends at the deadline, says who waited for whom, and hands nothing on.
static void a_neighbour_that_never_comes(void **state)
{
    (void)state;
    const double timeout = 0.3;
    struct pair pair;
    open_pair(&pair, 1, KERN_GRAPHS_OFF, timeout);
    uint64_t began = kern_now();
    issue(&pair, 1, 0);
    issue(&pair, 1, 1);
    wait_for(&pair, 1);
    wait_for(&pair, 1);
    assert_true(kern_now() - began >= (uint64_t)(timeout * 1e9));
    // The second item does not wait again.
    struct kern_edge_stamp second;
    assert_true(kern_edges_stamp(pair.ends[1].edges, 1, &second));
    assert_true(second.take_ended - second.take_began < (uint64_t)(timeout * 1e9));
    assert_false(is_sound(&pair, 1));
    assert_int_equal(kern_diag_code(&pair.diag), KERN_EXIT_PEER);
    assert_string_equal(kern_diag_line(&pair.diag, 0),
                        "error: stage 1 (rank 1, right) waited 0.3 s for input from stage 0 (rank "
                        "0, left), for item 1; --timeout sets the limit");
    kern_diag_clear(&pair.diag);

    // Nothing was taken, so the other end runs into its deadline with the second item.
    issue(&pair, 0, 0);
    issue(&pair, 0, 1);
    wait_for(&pair, 0);
    check(&pair, is_sound(&pair, 0));
    wait_for(&pair, 0);
    assert_false(is_sound(&pair, 0));
    assert_non_null(strstr(kern_diag_line(&pair.diag, 0),
                           "stage 0 (rank 0, left) waited 0.3 s for room in stage 1 (rank 1, "
                           "right), for item 2"));
    close_pair(&pair);
}

static void what_arrives_is_not_written(void **state)
{
    (void)state;
    struct pair pair;
    const float zero = 0;
    open_pair(&pair, 2, KERN_GRAPHS_OFF, 20);
    assert_false(kern_rank_write(pair.ends[1].rank, buffer_of(&pair, 1, "left"), &zero, sizeof zero,
                                 pair.ends[1].vars, &pair.diag));
    assert_non_null(strstr(kern_diag_line(&pair.diag, 0), "the stage before writes it"));
    close_pair(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_arrive_whole_and_in_order),
        cmocka_unit_test(a_stage_is_ahead_by_the_depth),
        cmocka_unit_test(only_live_bytes_travel),
        cmocka_unit_test(a_neighbour_that_never_comes),
        cmocka_unit_test(what_arrives_is_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
