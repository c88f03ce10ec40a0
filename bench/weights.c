// SPDX-License-Identifier: Apache-2.0
//
// How fast a checkpoint is loaded: bytes per second of kern_rank_load_weights from a warm page
// cache, and their ratio to those of memcpy, measured in turns.
//
//     bench_weights [MB]     (2000) the checkpoint is made beside the program and removed
//     afterwards
//
// All tensors are bound whole, then by half of their columns, then interleaved in pairs. The target
// is for whole ones, by the clock on the wall. What the processor spent, of all threads together,
// tells how much of that is due to others on a busy machine.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "rank/rank.h"
#include "rank/safetensors.h"

#define KERNELS KERN_BUILD_DIR "/kernels"
#define ARTIFACT KERNELS "/toy_scale.so"
#define CHECKPOINT KERN_BUILD_DIR "/bench/weights.safetensors"

#define ROUNDS 3
#define TARGET 0.6

// Tensors are bf16 matrices of ROWS by COLS, 32 MiB each, as a model's projections are.
enum { ROWS = 4096, COLS = 4096, TENSOR_BYTES = 2 * ROWS * COLS };

// memcpy goes between areas of so many tensors, which no cache holds, as none holds a checkpoint.
enum { AREA_TENSORS = 8 };

// How the tensors are bound.
static const struct shape {
    const char *name;
    double target; // 0: none
} shapes[] = {{"whole tensors", TARGET}, {"halves of columns", 0}, {"pairs, interleaved", 0}};

enum { WHOLE, COLUMNS, PAIRS, N_SHAPES };

struct bench {
    struct kern_device *device;
    struct kern_diag diag;
    char digest[KERN_SHA256_HEX + 1];
    size_t n_tensors;
    char *bytes, *copy; // areas of AREA_TENSORS
};

// Seconds, on the wall and of the processor for all threads of the process.
struct instant {
    double wall, processor;
};

// Bytes per second of either.
struct rate {
    double wall, processor;
};

static struct instant now(void)
{
    struct timespec processor;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &processor);
    return (struct instant){(double)kern_now() / (double)KERN_NS_PER_SECOND,
                            (double)processor.tv_sec + (double)processor.tv_nsec * 1e-9};
}

static void end_if(struct bench *bench, bool failed)
{
    if (failed) {
        kern_diag_print(&bench->diag, stderr, 10);
        unlink(CHECKPOINT);
        exit((int)kern_diag_code(&bench->diag));
    }
}

static void fill(struct bench *bench)
{
    uint64_t *words = (uint64_t *)bench->bytes;
    for (size_t i = 0; i < (size_t)AREA_TENSORS * TENSOR_BYTES / sizeof *words; i++)
        words[i] = (i + 1) * 0x9e3779b97f4a7c15u;
}

static char *tensor_in(char *area, size_t tensor)
{
    return area + tensor % AREA_TENSORS * TENSOR_BYTES;
}

static void make_checkpoint(struct bench *bench)
{
    static const uint64_t shape[] = {ROWS, COLS};
    struct kern_tensor_data *tensors = kern_calloc(bench->n_tensors, sizeof *tensors);
    char(*names)[24] = kern_calloc(bench->n_tensors, sizeof *names);
    for (size_t i = 0; i < bench->n_tensors; i++) {
        snprintf(names[i], sizeof names[i], "t%zu", i);
        tensors[i] = (struct kern_tensor_data){.name = names[i],
                                               .dtype = KERN_BF16,
                                               .shape = shape,
                                               .rank = 2,
                                               .bytes = tensor_in(bench->bytes, i),
                                               .length = TENSOR_BYTES};
    }
    bool made = kern_safetensors_write(CHECKPOINT, tensors, bench->n_tensors, &bench->diag);
    free(names);
    free(tensors);
    end_if(bench, !made);
}

static void write_weight(FILE *file, int shape, size_t tensor)
{
    fprintf(file,
            ", \"w%zu\": {\"dtype\": \"bf16\", \"shape\": [%d, %d], \"kind\": \"weight\","
            " \"bind\": [{\"tensor\": \"t%zu\"",
            tensor, shape == PAIRS ? 2 * ROWS : ROWS, shape == COLUMNS ? COLS / 2 : COLS, tensor);
    if (shape == COLUMNS)
        fprintf(file, ", \"cols\": [%d, %d]", COLS / 4, COLS / 4 * 3);
    else if (shape == PAIRS)
        fprintf(file, ", \"interleave\": {\"with\": \"t%zu\", \"rows\": 1}", tensor + 1);
    fputs("}]}", file);
}

// A manifest with a weight for each tensor, or for each pair of them, and a call that reads it.
static char *write_manifest(const struct bench *bench, int shape)
{
    char *text = NULL;
    size_t length = 0, step = shape == PAIRS ? 2 : 1;
    FILE *file = open_memstream(&text, &length);
    fprintf(file,
            "{\"schema_version\": 7, \"model\": \"bench\","
            " \"modules\": {\"k\": {\"source\": \"toy_scale.so\", \"sha256\": \"%s\"}},"
            " \"ops\": {\"scale\": {\"params\": [\"in buffer<bf16>\", \"out buffer<bf16>\","
            "  \"f32\", \"f32\", \"i32\"], \"impl\": {\"launches\": [{\"module\": \"k\","
            "  \"entry\": \"toy_scale_bf16\", \"block\": [1, 1, 1], \"grid\": [1, 1, 1]}]}}},"
            " \"buffers\": {\"y\": {\"dtype\": \"bf16\", \"shape\": [4], \"kind\": \"output\"}",
            bench->digest);
    for (size_t t = 0; t < bench->n_tensors; t += step)
        write_weight(file, shape, t);
    fputs("}, \"programs\": {\"step\": {\"calls\": [", file);
    for (size_t t = 0; t < bench->n_tensors; t += step)
        fprintf(file,
                "%s{\"op\": \"scale\", \"args\": [{\"buf\": \"w%zu\"}, {\"buf\": \"y\"},"
                " {\"f32\": 1}, {\"f32\": 0}, {\"i32\": 4}]}",
                t > 0 ? ", " : "", t);
    fputs("]}}}", file);
    fclose(file);
    return text;
}

static struct rate rate_of(double bytes, const struct instant *start)
{
    struct instant end = now();
    return (struct rate){bytes / (end.wall - start->wall),
                         bytes / (end.processor - start->processor)};
}

static struct rate load(struct bench *bench, int shape)
{
    static const char *const dirs[] = {KERNELS}, *const paths[] = {CHECKPOINT};
    char *text = write_manifest(bench, shape);
    struct kern_manifest *manifest = kern_manifest_parse(text, strlen(text), "bench", &bench->diag);
    free(text);
    end_if(bench, manifest == NULL || !kern_manifest_verify(manifest, &bench->diag));
    struct kern_rank_config config = {
        .device = bench->device, .manifest = manifest, .kernel_dirs = dirs, .n_kernel_dirs = 1};
    struct kern_rank *rank = kern_rank_create(&config, &bench->diag);
    end_if(bench, rank == NULL || !kern_rank_load_modules(rank, &bench->diag) ||
                      !kern_rank_allocate(rank, KERN_HANDLE_FABRIC, &bench->diag) ||
                      !kern_rank_compile(rank, &bench->diag));
    struct kern_rank_memory memory;
    kern_rank_memory(rank, &memory);
    struct instant start = now();
    end_if(bench, !kern_rank_load_weights(rank, paths, 1, &bench->diag));
    struct rate rate = rate_of((double)memory.weights, &start);
    end_if(bench, !kern_rank_derive(rank, &bench->diag));
    kern_rank_destroy(rank, false);
    kern_manifest_destroy(manifest);
    return rate;
}

// As many bytes as a load of all whole tensors.
static struct rate copy(const struct bench *bench)
{
    struct instant start = now();
    for (size_t i = 0; i < bench->n_tensors; i++) {
        memcpy(tensor_in(bench->copy, i), tensor_in(bench->bytes, i), TENSOR_BYTES);
        // Each of them counts.
        __asm__ volatile("" : : "r"(bench->copy) : "memory");
    }
    return rate_of((double)bench->n_tensors * TENSOR_BYTES, &start);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct rate median(const struct rate *rates)
{
    double wall[ROUNDS], processor[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        wall[r] = rates[r].wall;
        processor[r] = rates[r].processor;
    }
    qsort(wall, ROUNDS, sizeof *wall, by_size);
    qsort(processor, ROUNDS, sizeof *processor, by_size);
    return (struct rate){wall[ROUNDS / 2], processor[ROUNDS / 2]};
}

static bool print_all(const struct rate *copies, struct rate loads[N_SHAPES][ROUNDS])
{
    struct rate copied = median(copies);
    bool held = true;
    printf("%-20s %10s %8s %8s %8s\n", "# weights, GB/s", "processor", "wall", "/ memcpy",
           "target");
    printf("%-20s %10.2f %8.2f\n", "memcpy, one thread", copied.processor / 1e9, copied.wall / 1e9);
    for (int s = 0; s < N_SHAPES; s++) {
        struct rate loaded = median(loads[s]);
        double ratio = loaded.wall / copied.wall;
        bool below = ratio < shapes[s].target;
        held = held && !below;
        printf("%-20s %10.2f %8.2f %8.2f", shapes[s].name, loaded.processor / 1e9,
               loaded.wall / 1e9, ratio);
        if (shapes[s].target > 0)
            printf(" %8.2f%s", shapes[s].target, below ? "  below" : "");
        putchar('\n');
    }
    return held;
}

int main(int argc, char **argv)
{
    struct bench bench = {0};
    double megabytes = argc > 1 ? strtod(argv[1], NULL) : 2000;
    // Pairs take two.
    bench.n_tensors = (size_t)(megabytes * 1e6 / TENSOR_BYTES / 2) * 2;
    if (bench.n_tensors < 2 || argc > 2) {
        fprintf(stderr, "usage: bench_weights [MB], 70 or more\n");
        return KERN_EXIT_USAGE;
    }
    size_t length = 0;
    char *artifact = kern_file_read(ARTIFACT, 1 << 26, &length, KERN_EXIT_USAGE, &bench.diag);
    end_if(&bench, artifact == NULL);
    uint8_t digest[KERN_SHA256_BYTES];
    kern_sha256(artifact, length, digest);
    kern_sha256_to_hex(digest, bench.digest);
    free(artifact);
    bench.bytes = kern_calloc(AREA_TENSORS, TENSOR_BYTES);
    bench.copy = kern_calloc(AREA_TENSORS, TENSOR_BYTES);
    fill(&bench);
    make_checkpoint(&bench);
    bench.device =
        kern_device_open(KERN_DEVICE_AUTO, KERN_BUILD_DIR "/lib/libkern-emu.so", &bench.diag);
    end_if(&bench, bench.device == NULL);

    // Once to warm up: the file into the cache, the areas into memory.
    load(&bench, WHOLE);
    copy(&bench);
    struct rate copies[ROUNDS], loads[N_SHAPES][ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        copies[r] = copy(&bench);
        for (int s = 0; s < N_SHAPES; s++)
            loads[s][r] = load(&bench, s);
    }
    unlink(CHECKPOINT);
    bool held = print_all(copies, loads);
    kern_device_close(bench.device);
    kern_diag_clear(&bench.diag);
    free(bench.bytes);
    free(bench.copy);
    return held ? KERN_EXIT_OK : KERN_EXIT_CHECK;
}
