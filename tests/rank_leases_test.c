// SPDX-License-Identifier: Apache-2.0
//
// Leases against a model: whatever is opened, grown, forked, put to sleep and closed, every lease
// has what it should have and holds what was written, what is refused is refused for the right
// reason, and the driver has nothing to complain of, also when it refuses a call itself.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "rank/ids.h"
#include "tests/lease_model.h"
#include "tests/rank_fixture.h"

// States with their members, and page tables of [row] pages of 4 tokens into state k. A state that
// is shown to peers is not in the pool.
// clang-format off
#define STATES(states, uses, row)                                                                  \
    "{'schema_version': 7, 'model': 'test', 'vars': {'s': {'max': 4}}, 'states': {" states "},"    \
    "'modules': {'m': {'source': 'm.so', 'sha256': "                                               \
    "  '0000000000000000000000000000000000000000000000000000000000000000'}},"                      \
    "'buffers': {'pages': {'dtype': 'i32', 'shape': ['s', " row "], 'kind': 'input',"              \
    "  'domain': {'index_into': 'k', 'stride': 4}}},"                                              \
    "'ops': {'touch': {'params': ['inout state'], 'impl': {'launches': [{'module': 'm',"           \
    "    'entry': 'e', 'block': [1,1,1], 'grid': [1,1,1]}]}},"                                     \
    "  'look': {'params': ['in buffer<i32>'], 'impl': {'launches': [{'module': 'm',"               \
    "    'entry': 'e', 'block': [1,1,1], 'grid': [1,1,1]}]}}},"                                    \
    "'programs': {'p': {'calls': [{'op': 'look', 'args': [{'buf': 'pages'}]}" uses "]}}}"
#define USE(state) ",{'op': 'touch', 'args': [{'state': '" state "'}]}"
#define SMALL                                                                                      \
    "'k': {'bytes_per_token': 24}, 'v': {'bytes_per_token': 10}, 'l': {'bytes_per_seq': 150},"     \
    "'r': {'bytes_per_seq': 70}, 'f': {'bytes': 100}"
#define SMALL_USES USE("k") USE("v") USE("l") USE("r") USE("f")
#define LARGE "'k': {'bytes_per_token': 300}, 'l': {'bytes_per_seq': 2000}, 'r': {'bytes_per_seq': 900}"
#define LARGE_USES USE("k") USE("l") USE("r")
#define PAGES_ONLY "'k': {'bytes_per_token': 24}, 'v': {'bytes_per_token': 10}"
// clang-format on

static const struct setting {
    const char *name;
    const char *json;
    size_t granule;
    uint64_t capacity, seqs;
} settings[] = {
    {"small objects, chunks of several", STATES(SMALL, SMALL_USES, "12"), 64, 200, 30},
    {"small objects, chunks of one granule", STATES(SMALL, SMALL_USES, "12"), 16, 90, 9},
    {"objects larger than chunks", STATES(LARGE, LARGE_USES, "12"), 16, 100, 12},
    {"objects and chunks of like size", STATES(LARGE, LARGE_USES, "40"), 256, 60, 20},
    {"chunks so large that none can move", STATES(SMALL, SMALL_USES, "12"), 1 << 16, 40, 5},
    {"no slots", STATES(PAGES_ONLY, USE("k") USE("v"), "12"), 64, 200, 4},
    {"one sequence", STATES(LARGE, LARGE_USES, "12"), 64, 30, 1},
};

#define SETTINGS (sizeof(settings) / sizeof(*settings))

static void open_setting(struct model *model, const struct setting *setting, uint64_t seed)
{
    print_message("  %s\n", setting->name);
    if (!model_open(model, setting->json, setting->granule, setting->capacity, setting->seqs,
                    seed)) {
        kern_diag_print(&model->diag, stderr, 5);
        fail_msg("allocating");
    }
}

static size_t pick(struct model *model, bool live)
{
    for (size_t tries = 0; tries < 200; tries++) {
        size_t at = model_random(model, MODEL_LEASES);
        if ((model->leases[at].lease != NULL) == live) {
            return at;
        }
    }
    return MODEL_LEASES;
}

// A length that a lease can be cut to: not within what it shares.
static uint64_t random_length(struct model *model, const struct model_lease *lease)
{
    uint64_t page = kern_rank_page_tokens(model->rank);
    return lease->shared * page + model_random(model, (lease->n_pages - lease->shared) * page + 1);
}

// One operation on leases that chance picks, 20 to 60 of them mostly live.
static void random_operation(struct model *model)
{
    uint64_t page = kern_rank_page_tokens(model->rank);
    uint64_t tokens = model_random(model, model_random(model, 4) == 0 ? 60 : 14);
    size_t at = pick(model, true), free_at = pick(model, false);
    struct model_lease *lease = at < MODEL_LEASES ? &model->leases[at] : NULL;
    uint64_t operation = model_random(model, 12);
    if (lease == NULL || (operation < 4 && free_at < MODEL_LEASES)) {
        model_lease_open(model, free_at, tokens, false);
    } else if (operation < 6) {
        model_lease_grow(model, at, lease->n_pages * page + tokens, false);
    } else if (operation < 8 && free_at < MODEL_LEASES) {
        uint64_t length = model_random(model, lease->n_pages * page + 1);
        model_lease_fork(model, at, free_at, length, length + tokens, false);
    } else if (operation < 9 && !lease->asleep) {
        model_lease_keep(model, at, random_length(model, lease));
    } else if (operation < 10 && !lease->asleep) {
        model_lease_write(model, at);
    } else {
        model_lease_close(model, at);
    }
}

static void random_lives(void **state)
{
    (void)state;
    static struct model model;
    for (size_t i = 0; i < SETTINGS; i++) {
        open_setting(&model, &settings[i], 1000 + i);
        for (int operation = 0; operation < 4000; operation++) {
            // Now and then everything ends, so that pages and slots change places as a whole.
            for (size_t at = 0; operation % 500 == 499 && at < MODEL_LEASES; at++) {
                if (model.leases[at].lease != NULL) {
                    model_lease_close(&model, at);
                }
            }
            random_operation(&model);
            model_check(&model);
        }
        model_close(&model);
    }
}

// A lease that grows page by page, then leases without pages: as many as the chunks make, no more.
static void capacity_is_exact(void **state)
{
    (void)state;
    static struct model model;
    for (size_t i = 0; i < SETTINGS; i++) {
        open_setting(&model, &settings[i], 1);
        const uint64_t page = kern_rank_page_tokens(model.rank);
        uint64_t most = model_most_pages(&model), row = model.rank->leases.row_pages;
        uint64_t longest = most < row ? most : row;
        assert_int_equal(kern_rank_longest_sequence(model.rank), longest * page);
        assert_true(most * page >= settings[i].capacity || row < most);
        model_lease_open(&model, 0, 0, false);
        for (uint64_t pages = 1; pages <= longest; pages++) {
            assert_int_equal(model_lease_grow(&model, 0, pages * page, false), KERN_LEASE_GRANTED);
        }
        model_lease_write(&model, 0);
        assert_int_equal(model_lease_grow(&model, 0, longest * page + 1, false),
                         longest == row ? KERN_LEASE_EXCEEDS_ROW : KERN_LEASE_EXCEEDS_POOL);
        model_check(&model);
        model_lease_close(&model, 0);
        if (model.rank->pool.kinds[RANK_SLOTS].first != 0) {
            uint64_t leases = model_most_leases(&model);
            assert_true(leases >= settings[i].seqs && leases < MODEL_LEASES);
            for (uint64_t at = 0; at < leases; at++) {
                assert_int_equal(model_lease_open(&model, at, 0, false), KERN_LEASE_GRANTED);
                model_lease_write(&model, at);
            }
            assert_int_equal(model_lease_open(&model, leases, 0, false), KERN_LEASE_BUSY);
            model_check(&model);
        }
        model_close(&model);
    }
}

// Pages for many tokens, then many slots, then pages again, with one lease that lives through it.
static void change_places(struct model *model)
{
    while (model_lease_open(model, 0, 6, true) == KERN_LEASE_FAILED) {
    }
    model_lease_write(model, 0);
    for (int round = 0; round < 2; round++) {
        for (size_t at = 1; at < MODEL_LEASES; at++) {
            uint64_t tokens = round == 0 ? 0 : 40;
            enum kern_denial said = model_lease_open(model, at, tokens, true);
            if (said == KERN_LEASE_FAILED) {
                said = model_lease_open(model, at, tokens, true);
            }
            if (said != KERN_LEASE_GRANTED) {
                break;
            }
            model_lease_write(model, at);
            model_check(model);
        }
        while (model_lease_fork(model, 0, MODEL_LEASES - 1, 6, 7, true) == KERN_LEASE_FAILED) {
        }
        for (size_t at = 1; at < MODEL_LEASES; at++) {
            if (model->leases[at].lease != NULL) {
                model_lease_close(model, at);
            }
        }
    }
    while (model_lease_grow(model, 0, 40, true) == KERN_LEASE_FAILED) {
    }
    model_check(model);
}

static void the_driver_refuses_a_call(void **state)
{
    (void)state;
    static struct model model;
    for (size_t i = 0; i < 3; i++) {
        for (enum tiny_function function = 0; function < TINY_FUNCTIONS; function++) {
            bool met = true;
            for (unsigned nth = 1; met; nth++) {
                // The failure comes while the rank is made, at the second try of which it is past.
                struct kern_device device = tiny_device(settings[i].granule);
                (void)device;
                if (!model_open(&model, settings[i].json, settings[i].granule,
                                settings[i].capacity, settings[i].seqs, 7)) {
                    fail_msg("allocating");
                }
                tiny_fail(function, nth);
                change_places(&model);
                met = tiny_fail(function, 0);
                model_close(&model);
            }
        }
    }
}

static void ids_are_found(void **state)
{
    (void)state;
    static const uint32_t bounds[] = {1, 63, 64, 65, 4096, 4097, 300000};
    for (size_t b = 0; b < sizeof(bounds) / sizeof(*bounds); b++) {
        struct rank_ids ids;
        uint32_t bound = bounds[b], step = bound / 50 + 1, last = (bound - 1) / step * step;
        rank_ids_open(&ids, bound);
        for (uint32_t id = 0; id < bound; id += step) {
            rank_ids_add(&ids, id);
            assert_int_equal(rank_ids_lowest(&ids), 0);
            assert_int_equal(rank_ids_highest(&ids), id);
        }
        for (uint32_t low = 0, high = last; low < high; low += step, high -= step) {
            assert_int_equal(rank_ids_lowest(&ids), low);
            assert_int_equal(rank_ids_highest(&ids), high);
            rank_ids_remove(&ids, low);
            rank_ids_remove(&ids, high);
        }
        assert_true(ids.count <= 1);
        rank_ids_close(&ids);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_found),
        cmocka_unit_test(random_lives),
        cmocka_unit_test(capacity_is_exact),
        cmocka_unit_test(the_driver_refuses_a_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
