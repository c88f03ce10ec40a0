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

// States, what else the manifest has, its buffers and the calls of its program: page tables of
// [row] pages of 4 tokens into state k, and one call for every state.
// clang-format off
#define OP(name, param)                                                                            \
    "'" name "': {'params': ['" param "'], 'impl': {'launches': [{'module': 'm', 'entry': 'e',"    \
    "  'block': [1,1,1], 'grid': [1,1,1]}]}}"
#define STATES(states, more, buffers, calls, row)                                                  \
    "{'schema_version': 7, 'model': 'test', 'vars': {'s': {'max': 4}}, 'states': {" states "},"    \
    more "'modules': {'m': {'source': 'm.so', 'sha256': "                                          \
    "  '0000000000000000000000000000000000000000000000000000000000000000'}},"                      \
    "'buffers': {'pages': {'dtype': 'i32', 'shape': ['s', " row "], 'kind': 'input',"              \
    "  'domain': {'index_into': 'k', 'stride': 4}}" buffers "},"                                   \
    "'ops': {" OP("touch", "inout state") "," OP("look", "in buffer<i32>") calls "]}}}"
#define PROGRAM                                                                                    \
    "}, 'programs': {'p': {'calls': [{'op': 'look', 'args': [{'buf': 'pages'}]}"
#define USE(state) ",{'op': 'touch', 'args': [{'state': '" state "'}]}"
#define SMALL(row)                                                                                 \
    STATES("'k': {'bytes_per_token': 24}, 'v': {'bytes_per_token': 10}, 'f': {'bytes': 100},"      \
           "'l': {'bytes_per_seq': 150}, 'r': {'bytes_per_seq': 70}", "", "",                      \
           PROGRAM USE("k") USE("v") USE("l") USE("r") USE("f"), row)
#define LARGE(row)                                                                                 \
    STATES("'k': {'bytes_per_token': 300}, 'l': {'bytes_per_seq': 2000},"                          \
           "'r': {'bytes_per_seq': 900}", "", "", PROGRAM USE("k") USE("l") USE("r"), row)
#define PAGES_ONLY                                                                                 \
    STATES("'k': {'bytes_per_token': 24}, 'v': {'bytes_per_token': 10}", "", "",                   \
           PROGRAM USE("k") USE("v"), "12")
// Peers see v, so there are never more pages than at first.
#define SHOWN                                                                                      \
    STATES("'k': {'bytes_per_token': 24}, 'v': {'bytes_per_token': 10}, 'l': {'bytes_per_seq': 700}",\
           "'topology': {'groups': {'g': 1}},",                                                    \
           ", 'p': {'dtype': 'u64', 'shape': [1], 'kind': 'peer', 'of': 'v', 'group': 'g'}",       \
           "," OP("peek", "in buffer<u64>") PROGRAM USE("k") USE("v") USE("l")                     \
           ",{'op': 'peek', 'args': [{'buf': 'p'}]}", "12")
// clang-format on

static const struct setting {
    const char *name;
    const char *json;
    size_t granule;
    uint64_t capacity, seqs;
    bool moves; // chunks can move between pages and slots
} settings[] = {
    {"small objects, chunks of several", SMALL("12"), 64, 200, 30, true},
    {"small objects, chunks of one granule", SMALL("12"), 16, 90, 9, true},
    {"objects larger than chunks", LARGE("12"), 16, 100, 12, true},
    {"objects and chunks of like size", LARGE("40"), 256, 60, 20, true},
    {"chunks so large that none can move", SMALL("12"), 1 << 16, 40, 5, false},
    {"no slots", PAGES_ONLY, 64, 200, 4, false},
    {"one sequence", LARGE("12"), 64, 30, 1, true},
    {"a paged state that peers see", SHOWN, 64, 120, 3, true},
};

#define SETTINGS (sizeof(settings) / sizeof(*settings))

static void open_setting(struct model *model, const struct setting *setting, uint64_t seed)
{
    model_create(model, setting->json, setting->granule, setting->capacity, setting->seqs, seed);
    if (!model_allocate(model)) {
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
        print_message("  %s\n", settings[i].name);
        open_setting(&model, &settings[i], 1000 + i);
        unsigned moves = 0;
        uint32_t absent = model.rank->pool.kinds[RANK_PAGES].absent.count;
        for (int operation = 0; operation < 4000; operation++) {
            // Now and then everything ends, so that pages and slots change places as a whole.
            for (size_t at = 0; operation % 500 == 499 && at < MODEL_LEASES; at++) {
                if (model.leases[at].lease != NULL) {
                    model_lease_close(&model, at);
                }
            }
            random_operation(&model);
            model_check(&model);
            moves += model.rank->pool.kinds[RANK_PAGES].absent.count != absent;
            absent = model.rank->pool.kinds[RANK_PAGES].absent.count;
        }
        print_message("    %u remaps\n", moves);
        assert_true(settings[i].moves ? moves > 5 : moves == 0);
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
    while (model_lease_open(model, 0, 6, true) == KERN_LEASE_FAILED) {}
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
        while (model_lease_fork(model, 0, MODEL_LEASES - 1, 6, 7, true) == KERN_LEASE_FAILED) {}
        for (size_t at = 1; at < MODEL_LEASES; at++) {
            if (model->leases[at].lease != NULL) {
                model_lease_close(model, at);
            }
        }
    }
    while (model_lease_grow(model, 0, 40, true) == KERN_LEASE_FAILED) {}
    model_check(model);
}

// How often a life with remaps calls each function at least, after the rank has its memory, so that
// a failure which is never met does not look like one that is handled.
static const unsigned calls_of[TINY_FUNCTIONS] = {
    [TINY_MAP] = 5,  [TINY_SET_ACCESS] = 3,  [TINY_UNMAP] = 5,        [TINY_MEMSET] = 20,
    [TINY_COPY] = 3, [TINY_SYNCHRONIZE] = 1, [TINY_SET_CURRENT] = 20,
};

static void the_driver_refuses_a_call(void **state)
{
    (void)state;
    static struct model model;
    for (size_t i = 0; i < 3; i++) {
        print_message("  %s\n", settings[i].name);
        for (enum tiny_function function = 0; function < TINY_FUNCTIONS; function++) {
            unsigned nth = 0;
            for (bool met = true; met;) {
                open_setting(&model, &settings[i], 7);
                tiny_fail(function, ++nth);
                change_places(&model);
                met = tiny_fail(function, 0);
                model_close(&model);
            }
            print_message("    %u calls of %s\n", nth - 1, tiny_function_name(function));
            assert_true(nth > calls_of[function]);
        }
    }
}

static void a_rank_is_not_given_its_memory(void **state)
{
    (void)state;
    static struct model model;
    const struct setting *setting = &settings[2];
    for (enum tiny_function function = 0; function < TINY_FUNCTIONS; function++) {
        unsigned nth = 0;
        for (bool met = true; met;) {
            model_create(&model, setting->json, setting->granule, setting->capacity, setting->seqs,
                         7);
            tiny_fail(function, ++nth);
            bool allocated = model_allocate(&model);
            met = tiny_fail(function, 0);
            // A wait that fails in the course of giving up is not what made it give up.
            assert_int_equal(allocated, !met);
            if (!allocated) {
                struct tiny_counts counts = tiny_counts();
                assert_int_equal(kern_diag_code(&model.diag), KERN_EXIT_DEVICE);
                assert_int_equal(counts.handles + counts.mappings + counts.reservations, 0);
                kern_diag_clear(&model.diag);
                assert_true(model_allocate(&model));
            }
            change_places(&model);
            model_close(&model);
        }
        assert_true(nth > 1 || function == TINY_UNMAP || function == TINY_COPY);
    }
}

// The same on the emulated device, where an access to what is not mapped ends the process.
// clang-format off
#define EMULATED                                                                                   \
    FIXTURE_HEAD                                                                                   \
    "'states': {'kv': {'bytes_per_token': 1048576}, 'l': {'bytes_per_seq': 5242880}},"             \
    "'buffers': {'a': {'dtype': 'i32', 'shape': [2], 'kind': 'input',"                             \
    "   'domain': {'index_into': 'kv', 'stride': 4}},"                                             \
    "  'y': {'dtype': 'i32', 'shape': [2], 'kind': 'output'}},"                                    \
    "'ops': {'add': {'params': ['in buffer<i32>', 'out buffer<i32>', 'i32', 'i32'],"               \
    "   'impl': {'launches': [" FIXTURE_LAUNCH("add") "}]}},"                                      \
    "  'touch': {'params': ['inout state', 'i32'], 'impl': {'launches': ["                         \
    FIXTURE_LAUNCH("count_up") "}]}}},"                                                            \
    "'programs': {'step': {'calls': ["                                                             \
    "  {'op': 'touch', 'args': [{'state': 'kv', 'offset': 4194304}, {'i32': 1}]},"                 \
    "  {'op': 'touch', 'args': [{'state': 'l', 'offset': 10485760}, {'i32': 1}]},"                 \
    "  {'op': 'add', 'args': [{'buf': 'a'}, {'buf': 'y'}, {'i32': 0}, {'i32': 2}]}]}}}"
// clang-format on

static int32_t first_word(const struct rank_fixture *fixture, const char *state, uint32_t object)
{
    uint32_t index = kern_names_find(&fixture->manifest->state_names, state);
    const struct rank_state *memory = &fixture->rank->states[index];
    struct kern_diag diag = {0};
    int32_t word = -1;
    assert_true(kern_rank_peek(fixture->rank, memory->address + object * memory->object, &word,
                               sizeof(word), &diag));
    return word;
}

static void kernels_write_what_is_leased(void **state)
{
    (void)state;
    struct rank_fixture fixture = {.capacity = 40, .seqs = 6};
    enum kern_denial denial;
    size_t count = 0;
    fixture_open(&fixture, EMULATED);
    struct kern_lease *lease = kern_lease_open(fixture.rank, 4, &denial, &fixture.diag);
    assert_non_null(lease);
    assert_int_equal(kern_lease_pages(lease, &count)[0], 1);
    assert_int_equal(kern_lease_slot(lease), 2);
    assert_int_equal(kern_lease_token_slot(lease, 3), 7);
    assert_int_equal(kern_lease_token_slot(kern_rank_padding_lease(fixture.rank), 6), 2);
    fixture_run(&fixture, "step");
    assert_int_equal(first_word(&fixture, "kv", 1), 1);
    assert_int_equal(first_word(&fixture, "l", 2), 1);

    // As many tokens as the slots of the other sequences give room for.
    uint64_t longest = kern_rank_longest_sequence(fixture.rank);
    assert_true(longest > 40);
    assert_true(kern_lease_grow(lease, longest, &denial, &fixture.diag));
    assert_false(kern_lease_grow(lease, longest + 1, &denial, &fixture.diag));
    assert_int_equal(denial, KERN_LEASE_EXCEEDS_POOL);
    kern_lease_explain(fixture.rank, longest + 1, denial, "sequence 0", &fixture.diag);
    fixture_expect(&fixture, KERN_EXIT_USAGE, "sequence 0", "40 tokens of 6 sequences", NULL);
    kern_lease_pages(lease, &count);
    assert_int_equal(first_word(&fixture, "kv", (uint32_t)count), 0);
    fixture_run(&fixture, "step");
    assert_int_equal(first_word(&fixture, "kv", 1), 2);
    assert_int_equal(first_word(&fixture, "l", 2), 2);

    // Indices go up to the highest page that there is now.
    const int32_t last[2] = {0, (int32_t)count}, beyond[2] = {0, (int32_t)count + 1};
    fixture_write(&fixture, "a", last, sizeof(last));
    assert_false(kern_rank_write(fixture.rank, fixture_buffer(&fixture, "a"), beyond,
                                 sizeof(beyond), fixture.vars, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_ARTIFACT, "domain", NULL);
    kern_lease_close(lease);

    // What the kernels left there is gone when it is leased again.
    lease = kern_lease_open(fixture.rank, 4, &denial, &fixture.diag);
    assert_int_equal(kern_lease_slot(lease), 2);
    assert_int_equal(first_word(&fixture, "kv", 1), 0);
    assert_int_equal(first_word(&fixture, "l", 2), 0);
    kern_lease_close(lease);
    fixture_close(&fixture);
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

// With pages of one token there are as many pages of the most tokens, with which no sum may wrap.
static void all_tokens_there_are(void **state)
{
    (void)state;
    struct rank_fixture fixture = {.capacity = 40, .seqs = 1};
    enum kern_denial denial;
    // clang-format off
    fixture_open(&fixture,
                 FIXTURE_HEAD
                 "'states': {'kv': {'bytes_per_token': 4096}}, 'buffers': {},"
                 "'ops': {'touch': {'params': ['inout state', 'i32'], 'impl': {'launches': ["
                 FIXTURE_LAUNCH("count_up") "}]}}},"
                 "'programs': {'step': {'calls': ["
                 "  {'op': 'touch', 'args': [{'state': 'kv'}, {'i32': 1}]}]}}}");
    // clang-format on
    assert_int_equal(kern_rank_page_tokens(fixture.rank), 1);
    assert_null(kern_lease_open(fixture.rank, UINT64_MAX, &denial, &fixture.diag));
    assert_int_equal(denial, KERN_LEASE_EXCEEDS_POOL);
    struct kern_lease *lease = kern_lease_open(fixture.rank, 4, &denial, &fixture.diag);
    assert_non_null(lease);
    assert_false(kern_lease_grow(lease, UINT64_MAX, &denial, &fixture.diag));
    assert_int_equal(denial, KERN_LEASE_EXCEEDS_POOL);
    assert_null(kern_lease_fork(lease, 4, UINT64_MAX, &denial, &fixture.diag));
    assert_int_equal(denial, KERN_LEASE_EXCEEDS_POOL);
    kern_lease_close(lease);
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_found),
        cmocka_unit_test(random_lives),
        cmocka_unit_test(capacity_is_exact),
        cmocka_unit_test(the_driver_refuses_a_call),
        cmocka_unit_test(a_rank_is_not_given_its_memory),
        cmocka_unit_test(kernels_write_what_is_leased),
        cmocka_unit_test(all_tokens_there_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
