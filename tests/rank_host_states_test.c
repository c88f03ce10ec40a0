// SPDX-License-Identifier: Apache-2.0
//
// States in memory of an embedding program, which here is the test: their layout is proven, and
// kernels write what the program lends.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/rank_fixture.h"

// Blocks of 8 lines of 4 words, a line being 6 words apart from the next. Index b names blocks, h
// halves of them, and w has no index at all into it.
// clang-format off
#define HOSTED                                                                                     \
    FIXTURE_HEAD                                                                                   \
    "'states': {'kv': {'host': {'dtype': 'i32', 'shape': [0, 8, 4], 'strides': [48, 6, 1]}},"      \
    "  'w': {'host': {'dtype': 'f32', 'shape': [3, 2], 'strides': [2, 1]}},"                       \
    "  'own': {'bytes': 64}},"                                                                     \
    "'buffers': {'b': {'dtype': 'i32', 'shape': [2], 'kind': 'input',"                             \
    "   'domain': {'index_into': 'kv', 'stride': 8}},"                                             \
    "  'h': {'dtype': 'i32', 'shape': [2], 'kind': 'input',"                                       \
    "   'domain': {'index_into': 'kv', 'stride': 4}},"                                             \
    "  'y': {'dtype': 'i32', 'shape': [2], 'kind': 'output'}},"                                    \
    "'ops': {'add': {'params': ['in buffer<i32>', 'out buffer<i32>', 'i32', 'i32'],"               \
    "   'impl': {'launches': [" FIXTURE_LAUNCH("add") "}]}},"                                      \
    "  'touch': {'params': ['inout state', 'i32'], 'impl': {'launches': ["                         \
    FIXTURE_LAUNCH("count_up") "}]}}},"                                                            \
    "'programs': {'step': {'calls': ["                                                             \
    "  {'op': 'touch', 'args': [{'state': 'kv', 'offset': 192}, {'i32': 5}]},"                     \
    "  {'op': 'touch', 'args': [{'state': 'w'}, {'i32': 1}]},"                                     \
    "  {'op': 'touch', 'args': [{'state': 'own'}, {'i32': 1}]},"                                   \
    "  {'op': 'add', 'args': [{'buf': 'b'}, {'buf': 'y'}, {'i32': 0}, {'i32': 2}]},"               \
    "  {'op': 'add', 'args': [{'buf': 'h'}, {'buf': 'y'}, {'i32': 0}, {'i32': 2}]}]}}}"
// clang-format on

#define BLOCKS 7
#define KV_BYTES                                                                                   \
    ((size_t)4 * (48 * (BLOCKS - 1) + 6 * 7 + 4)) // to the last element, not to a whole block

static const uint64_t kv_shape[] = {BLOCKS, 8, 4}, kv_strides[] = {48, 6, 1};
static const uint64_t w_shape[] = {3, 2}, w_strides[] = {2, 1};

static uint32_t state_index(const struct rank_fixture *fixture, const char *name)
{
    return kern_names_find(&fixture->manifest->state_names, name);
}

static bool bind(struct rank_fixture *fixture, const char *state, struct kern_host_memory memory)
{
    return kern_rank_bind_host_state(fixture->rank, state_index(fixture, state), &memory,
                                     &fixture->diag);
}

static void open_unbound(struct rank_fixture *fixture)
{
    assert_true(fixture_create(fixture, HOSTED));
    assert_true(kern_rank_load_modules(fixture->rank, &fixture->diag));
    assert_true(kern_rank_allocate(fixture->rank, KERN_HANDLE_FABRIC, &fixture->diag));
}

static void a_layout_that_differs_is_refused(void **state)
{
    (void)state;
    static const uint64_t none[] = {0, 8, 4}, fewer[] = {BLOCKS, 7, 4}, wide[] = {48, 8, 1},
                          beyond[] = {UINT64_MAX / 100, 8, 4};
    const struct {
        const char *state;
        struct kern_host_memory memory;
        const char *says;
    } cases[] = {
        {"kv", {0, KERN_I32, kv_shape, kv_strides, 3}, "address 0"},
        {"kv",
         {4096, KERN_F32, kv_shape, kv_strides, 3},
         "holds f32, the state is declared as i32"},
        {"kv",
         {4096, KERN_I32, kv_shape, kv_strides, 2},
         "2 extents, the state is declared with 3"},
        {"kv", {4096, KERN_I32, none, kv_strides, 3}, "extent 0 of the memory is 0; it must be"},
        {"kv", {4096, KERN_I32, fewer, kv_strides, 3}, "extent 1 of the memory is 7; the state"},
        {"kv", {4096, KERN_I32, kv_shape, wide, 3}, "stride 1 of the memory is 8 elements"},
        {"kv", {4096, KERN_I32, beyond, kv_strides, 3}, "blocks span 2^64"},
        {"w", {4096, KERN_F32, kv_shape, w_strides, 2}, "extent 0 of the memory is 7; the state"},
        {"own", {4096, KERN_F32, w_shape, w_strides, 2}, "no host layout"},
    };
    struct rank_fixture fixture = {0};
    open_unbound(&fixture);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char place[32];
        snprintf(place, sizeof(place), "states.%s", cases[i].state);
        assert_false(bind(&fixture, cases[i].state, cases[i].memory));
        fixture_expect(&fixture, KERN_EXIT_USAGE, place, cases[i].says, NULL);
    }
    // Nothing was bound, so there is nothing to compile with.
    assert_false(kern_rank_compile(fixture.rank, &fixture.diag));
    fixture_expect(&fixture, KERN_EXIT_USAGE, "states.kv", "bound none", NULL);
    fixture_close(&fixture);
}

static void check_index(struct rank_fixture *fixture, const char *buffer, int32_t last)
{
    const int32_t good[2] = {0, last}, bad[2] = {0, last + 1};
    fixture_write(fixture, buffer, good, sizeof(good));
    assert_false(kern_rank_write(fixture->rank, fixture_buffer(fixture, buffer), bad, sizeof(bad),
                                 fixture->vars, &fixture->diag));
    fixture_expect(fixture, KERN_EXIT_ARTIFACT, buffer, "element 1", NULL);
}

static void kernels_write_what_is_lent(void **state)
{
    (void)state;
    struct rank_fixture fixture = {0};
    CUdeviceptr kv = 0, w = 0;
    open_unbound(&fixture);
    const struct kern_cuda *cu = &fixture.device->cu;
    assert_int_equal(cu->cuMemAlloc(&kv, KV_BYTES), CUDA_SUCCESS);
    assert_int_equal(cu->cuMemAlloc(&w, 24), CUDA_SUCCESS);
    assert_true(
        bind(&fixture, "kv", (struct kern_host_memory){kv, KERN_I32, kv_shape, kv_strides, 3}));
    assert_true(bind(&fixture, "w", (struct kern_host_memory){w, KERN_F32, w_shape, w_strides, 2}));
    assert_true(kern_rank_compile(fixture.rank, &fixture.diag));
    assert_false(
        bind(&fixture, "w", (struct kern_host_memory){w, KERN_F32, w_shape, w_strides, 2}));
    fixture_expect(&fixture, KERN_EXIT_USAGE, "states.w", "before programs are compiled", NULL);

    int32_t word = 37;
    assert_true(kern_rank_poke(fixture.rank, kv + 192, &word, 4, &fixture.diag));
    fixture_run(&fixture, "step");
    assert_true(kern_rank_peek(fixture.rank, kv + 192, &word, 4, &fixture.diag));
    assert_int_equal(word, 42);
    check_index(&fixture, "b", BLOCKS - 1);
    check_index(&fixture, "h", 2 * BLOCKS - 1);

    // It is no memory of the rank's.
    struct kern_rank_memory memory;
    kern_rank_memory(fixture.rank, &memory);
    assert_int_equal(memory.states, 2 << 20);
    assert_int_equal(cu->cuMemFree(kv), CUDA_SUCCESS);
    assert_int_equal(cu->cuMemFree(w), CUDA_SUCCESS);
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layout_that_differs_is_refused),
        cmocka_unit_test(kernels_write_what_is_lent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
