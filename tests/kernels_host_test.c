// SPDX-License-Identifier: Apache-2.0
//
// The host halves of kernels, called as emu calls them.
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/abi/host_module.h"

#define ARGS(...) ((void *[]){__VA_ARGS__})

static void *probe;

static const struct kern_host_module *module_of(void *library)
{
    const struct kern_host_module *module = dlsym(library, KERN_HOST_MODULE_SYMBOL);
    assert_non_null(module);
    assert_int_equal(module->abi, KERN_HOST_MODULE_ABI);
    return module;
}

static const struct kern_host_entry *entry_of(void *library, const char *name)
{
    const struct kern_host_module *module = module_of(library);
    for (uint32_t i = 0; i < module->n_entries; i++) {
        if (strcmp(module->entries[i].name, name) == 0) {
            return &module->entries[i];
        }
    }
    fail_msg("no entry %s", name);
    return NULL;
}

static struct kern_host_grid line(uint32_t blocks, uint32_t threads)
{
    return (struct kern_host_grid){
        .grid = {blocks, 1, 1}, .block = {threads, 1, 1}, .cluster = {1, 1, 1}};
}

static int launch(const struct kern_host_entry *entry, struct kern_host_grid grid,
                  void *const *args)
{
    return entry->run(&grid, 0, (uint64_t)grid.grid[0] * grid.grid[1] * grid.grid[2], args);
}

static int open_probe(void **state)
{
    (void)state;
    probe = dlopen(KERN_BUILD_DIR "/tests/kernels_probe.so", RTLD_NOW | RTLD_LOCAL);
    return probe ? 0 : -1;
}

static int close_probe(void **state)
{
    (void)state;
    return dlclose(probe);
}

static void layout_is_cudas(void **state)
{
    (void)state;
    const struct kern_host_entry *entry = entry_of(probe, "probe_params");
    const struct kern_host_param want[] = {{0, 1}, {8, 8}, {16, 4}, {32, 16}, {48, 4}, {56, 8}};
    assert_int_equal(entry->n_params, 6);
    assert_memory_equal(entry->params, want, sizeof(want));
    assert_int_equal(entry->static_shared, 0);
    assert_int_equal(entry_of(probe, "probe_nothing")->n_params, 0);
    assert_int_equal(entry_of(probe, "probe_early_end")->static_shared, 8);
}

static void arguments_arrive(void **state)
{
    (void)state;
    struct {
        double wide;
        int32_t narrow;
    } pack = {2.5, -7};
    uint8_t byte = 200;
    int64_t wide = -(INT64_C(1) << 40);
    float real = 0.5f;
    int32_t narrow = -3;
    double out[6] = {0};
    double *to = out;
    // A driver promises no alignment of what args points at.
    char moved[sizeof(pack) + 1];
    memcpy(moved + 1, &pack, sizeof(pack));
    assert_int_equal(launch(entry_of(probe, "probe_params"), line(2, 3),
                            ARGS(&byte, &wide, &real, moved + 1, &narrow, &to)),
                     0);
    const double want[6] = {200, -1099511627776.0, 0.5, 2.5, -7, -3};
    assert_memory_equal(out, want, sizeof(want));
    assert_int_equal(launch(entry_of(probe, "probe_nothing"), line(1000, 1024), NULL), 0);
}

static void every_thread_runs_once(void **state)
{
    (void)state;
    const struct kern_host_entry *entry = entry_of(probe, "probe_index");
    struct kern_host_grid grid = {.grid = {3, 4, 5}, .block = {7, 2, 3}, .cluster = {1, 1, 1}};
    enum { BLOCKS = 60, THREADS = 42 };
    uint32_t out[BLOCKS * THREADS] = {0};
    uint32_t *to = out;
    // In two pieces, as emu may hand a grid to two threads.
    assert_int_equal(entry->run(&grid, 0, 17, ARGS(&to)), 0);
    for (int i = 0; i < BLOCKS * THREADS; i++) {
        assert_int_equal(out[i], i < 17 * THREADS);
    }
    assert_int_equal(entry->run(&grid, 17, BLOCKS - 17, ARGS(&to)), 0);
    for (int i = 0; i < BLOCKS * THREADS; i++) {
        assert_int_equal(out[i], 1);
    }
}

static void ranges_cover_every_index_once(void **state)
{
    (void)state;
    const struct kern_host_entry *entry = entry_of(probe, "probe_ranges");
    const int32_t sizes[] = {0, 1, 2, 31, 256, 1000};
    const uint32_t blocks[] = {1, 2, 7, 300};
    for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
        for (size_t b = 0; b < sizeof(blocks) / sizeof(*blocks); b++) {
            uint32_t *out = calloc((size_t)sizes[s] + 1, sizeof(*out));
            int32_t n = sizes[s];
            assert_non_null(out);
            assert_int_equal(launch(entry, line(blocks[b], 128), ARGS(&out, &n)), 0);
            for (int32_t i = 0; i < n; i++) {
                assert_int_equal(out[i], 1001);
            }
            assert_int_equal(out[n], 0);
            free(out);
        }
    }
}

static void run_barrier(struct kern_host_grid grid, int32_t rounds)
{
    const uint32_t threads = grid.block[0] * grid.block[1] * grid.block[2];
    uint32_t *out = calloc((size_t)threads * grid.grid[0], sizeof(*out));
    assert_non_null(out);
    grid.dynamic_shared = threads * (uint32_t)sizeof(uint32_t);
    assert_int_equal(launch(entry_of(probe, "probe_barrier"), grid, ARGS(&out, &rounds)), 0);
    for (uint32_t i = 0; i < threads * grid.grid[0]; i++) {
        const uint32_t number = (i + (uint32_t)rounds) % threads;
        assert_int_equal(out[i], number + (uint32_t)rounds);
    }
    free(out);
}

static void barriers_hold_any_number_of_threads(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 1024; threads += threads < 66 ? 1 : 79) {
        run_barrier(line(2, threads), 5);
    }
    run_barrier(line(3, 1024), 10);
    struct kern_host_grid cube = line(2, 8);
    cube.block[1] = 4;
    cube.block[2] = 2;
    run_barrier(cube, 70);
}

static void barriers_pass_threads_that_ended(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 9; threads++) {
        uint32_t out[9] = {0};
        uint32_t *to = out;
        assert_int_equal(launch(entry_of(probe, "probe_early_end"), line(1, threads), ARGS(&to)),
                         0);
        for (uint32_t i = 0; i < threads; i += 2) {
            assert_int_equal(out[i], (threads + 1) / 2 * 10000 + threads / 2);
        }
    }
}

static void threads_wait_for_each_other(void **state)
{
    (void)state;
    uint32_t flags[300] = {0};
    uint32_t *to = flags;
    assert_int_equal(launch(entry_of(probe, "probe_wait"), line(1, 300), ARGS(&to)), 0);
    for (uint32_t i = 0; i < 300; i++) {
        assert_int_equal(flags[i], i + 1);
    }
}

struct shared_words {
    uint32_t sum, swapped, lock[2];
    int32_t most;
};

static void *run_atomics(void *opaque)
{
    struct shared_words *words = opaque;
    uint32_t *sum = &words->sum, *swapped = &words->swapped, *lock = words->lock;
    int32_t *most = &words->most;
    const int done = launch(entry_of(probe, "probe_atomics"), line(100, 100),
                            ARGS(&sum, &most, &swapped, &lock));
    return done == 0 ? words : NULL;
}

static void atomics_are_atomic(void **state)
{
    (void)state;
    struct shared_words words = {.most = INT32_MIN};
    pthread_t other;
    void *done;
    assert_int_equal(pthread_create(&other, NULL, run_atomics, &words), 0);
    assert_ptr_equal(run_atomics(&words), &words);
    assert_int_equal(pthread_join(other, &done), 0);
    assert_ptr_equal(done, &words);
    assert_int_equal(words.sum, 2u * (9999u * 10000u / 2));
    assert_int_equal(words.most, 9994);
    assert_int_equal(words.swapped, 9999);
    assert_int_not_equal(words.lock[0], 0);
    assert_int_equal(words.lock[1], words.lock[0]);
}

static void a_trap_ends_the_launch(void **state)
{
    (void)state;
    const char *const names[] = {"probe_trap", "probe_trap_fiber"};
    for (int kind = 0; kind < 2; kind++) {
        const struct kern_host_entry *entry = entry_of(probe, names[kind]);
        for (int32_t who = 0; who < 40; who += 13) {
            uint32_t out[3] = {0};
            uint32_t *to = out;
            assert_int_equal(launch(entry, line(3, 40), ARGS(&to, &who)), 1);
            // Plain threads before it have run; fibers stood at the barrier behind it.
            assert_int_equal(out[0], kind == 0 ? who : 0);
            assert_int_equal(out[1] + out[2], 0);
        }
        // The next launch is none the worse.
        uint32_t out[3] = {0};
        uint32_t *to = out;
        int32_t nobody = -1;
        assert_int_equal(launch(entry, line(3, 40), ARGS(&to, &nobody)), 0);
        assert_int_equal(out[0] + out[1] + out[2], 120);
    }
}

static void a_wrong_launch_is_refused(void **state)
{
    (void)state;
    uint32_t out = 0;
    uint32_t *to = &out;
    const struct kern_host_entry *wrong = entry_of(probe, "probe_wrong_loop");
    assert_int_equal(launch(wrong, line(1, 2), ARGS(&to)), 1);
    assert_int_equal(out, 0);
    assert_int_equal(launch(wrong, line(1, 1), ARGS(&to)), 0);
    assert_int_equal(out, 1);
    assert_int_equal(launch(wrong, line(1, 0), ARGS(&to)), 1);
    assert_int_equal(launch(wrong, line(1, 1025), ARGS(&to)), 1);
}

static void bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    const float x[] = {0.0f,      -0.0f,   1.0f,      1.00390625f, 1.01171875f,
                       1.003907f, 3.4e38f, -INFINITY, NAN,         1e-40f};
    const uint16_t want[] = {0,      0x8000, 0x3f80, 0x3f80, 0x3f82,
                             0x3f81, 0x7f80, 0xff80, 0x7fc0, 0x1};
    enum { N = sizeof(x) / sizeof(*x) };
    uint16_t y[N];
    float back[N];
    const float *from = x;
    uint16_t *to = y;
    float *wide = back;
    int32_t n = N;
    assert_int_equal(launch(entry_of(probe, "probe_bf16"), line(3, 4), ARGS(&from, &to, &wide, &n)),
                     0);
    for (int i = 0; i < N; i++) {
        assert_int_equal(y[i], want[i]);
        const uint32_t bits = (uint32_t)want[i] << 16;
        assert_memory_equal(&back[i], &bits, sizeof(bits));
    }
}

static void the_clock_counts_nanoseconds(void **state)
{
    (void)state;
    uint64_t out[2];
    uint64_t *to = out;
    assert_int_equal(launch(entry_of(probe, "probe_clock"), line(1, 32), ARGS(&to)), 0);
    assert_true(out[1] - out[0] >= 2000000);
}

static void *run_many_blocks(void *opaque)
{
    for (int i = 0; i < 20; i++) {
        uint32_t out[128] = {0};
        uint32_t *to = out;
        int32_t rounds = 3;
        struct kern_host_grid grid = line(1, 128);
        grid.dynamic_shared = sizeof(out);
        if (launch(entry_of(probe, "probe_barrier"), grid, ARGS(&to, &rounds)) != 0 ||
            out[5] != 11) {
            return opaque;
        }
    }
    return NULL;
}

static void host_threads_run_blocks_at_once(void **state)
{
    (void)state;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, run_many_blocks, probe), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *wrong;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
}

static void argmax_takes_the_lowest_of_the_largest(void **state)
{
    (void)state;
    void *library = dlopen(KERN_BUILD_DIR "/kernels/argmax.so", RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    enum { ROWS = 5, N = 100 };
    float x[ROWS][N];
    uint16_t half[ROWS][N];
    for (int row = 0; row < ROWS; row++) {
        for (int i = 0; i < N; i++) {
            x[row][i] = (float)((i * 37 + row) % N) - 200;
        }
    }
    const int32_t want[ROWS] = {27, 12, 0, 40, 0};
    for (int i = 0; i < N; i++) {
        x[2][i] = NAN;
        x[3][i] = i < 40 ? NAN : -INFINITY;
        x[4][i] = -INFINITY;
    }
    x[1][12] = x[1][71] = 3;
    memset(half, 0, sizeof(half));
    for (int row = 0; row < ROWS; row++) {
        for (int i = 0; i < N; i++) {
            uint32_t bits;
            memcpy(&bits, &x[row][i], sizeof(bits));
            half[row][i] = (uint16_t)(bits >> 16);
        }
    }
    const void *const from[] = {x, half};
    const char *const names[] = {"argmax_f32", "argmax_bf16"};
    for (int kind = 0; kind < 2; kind++) {
        int32_t places[ROWS];
        int32_t *to = places;
        int32_t n = N;
        const void *rows = from[kind];
        assert_int_equal(
            launch(entry_of(library, names[kind]), line(ROWS, 32), ARGS(&rows, &to, &n)), 0);
        assert_memory_equal(places, want, sizeof(want));
    }
    dlclose(library);
}

static void allreduce_refuses_a_shape_that_it_cannot_run(void **state)
{
    (void)state;
    void *library = dlopen(KERN_BUILD_DIR "/kernels/allreduce.so", RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    void *nothing = NULL;
    int32_t rank = 0, ranks = 1, n = 12, capacity = 16;
    int64_t timeout = 0;
    assert_int_equal(launch(entry_of(library, "allreduce_f32"), line(1, 32),
                            ARGS(&nothing, &nothing, &nothing, &nothing, &nothing, &nothing,
                                 &nothing, &nothing, &rank, &ranks, &n, &capacity, &timeout)),
                     1);
    dlclose(library);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout_is_cudas),
        cmocka_unit_test(arguments_arrive),
        cmocka_unit_test(every_thread_runs_once),
        cmocka_unit_test(ranges_cover_every_index_once),
        cmocka_unit_test(barriers_hold_any_number_of_threads),
        cmocka_unit_test(barriers_pass_threads_that_ended),
        cmocka_unit_test(threads_wait_for_each_other),
        cmocka_unit_test(atomics_are_atomic),
        cmocka_unit_test(a_trap_ends_the_launch),
        cmocka_unit_test(a_wrong_launch_is_refused),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(the_clock_counts_nanoseconds),
        cmocka_unit_test(host_threads_run_blocks_at_once),
        cmocka_unit_test(argmax_takes_the_lowest_of_the_largest),
        cmocka_unit_test(allreduce_refuses_a_shape_that_it_cannot_run),
    };
    return cmocka_run_group_tests(tests, open_probe, close_probe);
}
