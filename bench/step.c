// SPDX-License-Identifier: Apache-2.0
//
// What a step costs on the host: kern_rank_issue against the driver calls that it comes down to,
// made in a bare loop with everything ready. Both are measured in turn, round by round, on the same
// stream, so that what else the machine does meets both alike. On emu the workers drop the kernels.
//
//     bench_step [ROUNDS]
//
// The targets: a launch costs 1.15 times the bare one, where the two events that a step records are
// counted to both sides if it has one launch only; a graph costs 2 µs more than the bare one. In
// the rows "new vars" every launch depends on a var that changes from step to step.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "rank/internal.h"

#define KERNELS KERN_BUILD_DIR "/kernels"
#define ARTIFACT KERNELS "/toy_scale.so"

#define TARGET_RATIO 1.15
#define TARGET_GRAPH_NS 2000

// A program is issued often enough in a round to make this many launches, or graph launches: enough
// for the clock, few enough for the queue of a stream.
#define LAUNCHES_PER_ROUND 500
#define GRAPHS_PER_ROUND 100

enum { FIXED, VARS, NEW_VARS, GRAPH };

static const struct program {
    const char *name;
    int kind;
    int launches;
} programs[] = {
    {"fixed1", FIXED, 1},   {"fixed100", FIXED, 100},   {"fixed2000", FIXED, 2000},
    {"vars1", VARS, 1},     {"vars100", VARS, 100},     {"vars2000", VARS, 2000},
    {"vars1", NEW_VARS, 1}, {"vars100", NEW_VARS, 100}, {"vars2000", NEW_VARS, 2000},
    {"graph1", GRAPH, 1},   {"graph100", GRAPH, 100},   {"graph2000", GRAPH, 2000},
};

struct bench {
    struct kern_device *device;
    struct kern_manifest *manifest;
    struct kern_rank *rank;
    struct kern_diag diag;
    uint64_t vars[2];
};

static void end_if(struct bench *bench, bool failed)
{
    if (failed) {
        kern_diag_print(&bench->diag, stderr, 10);
        exit((int)kern_diag_code(&bench->diag));
    }
}

// A call of a kernel over no elements, or, for the vars, over as many as a var says.
static void write_program(FILE *file, const struct program *program)
{
    fprintf(file, ", \"%s\": {%s\"calls\": [", program->name,
            program->kind == GRAPH ? "\"graph\": true, \"batch\": {\"groups\": 1, \"rows\": 1}, "
                                   : "");
    for (int i = 0; i < program->launches; i++) {
        fprintf(file,
                "%s{\"op\": \"%s\", \"args\": [{\"buf\": \"x\"}, {\"buf\": \"y\"}, {\"f32\": 1.5},"
                " {\"f32\": 0.5}, %s]}",
                i > 0 ? "," : "", program->kind == VARS ? "scale" : "scale_one",
                program->kind == VARS ? "{\"var\": \"n\"}" : "{\"i32\": 0}");
    }
    fputs("]}", file);
}

static void write_op(FILE *file, const char *name, const char *grid)
{
    fprintf(file,
            "\"%s\": {\"params\": [\"in buffer<f32>\", \"out buffer<f32>\", \"f32\", \"f32\","
            " \"i32\"], \"impl\": {\"launches\": [{\"module\": \"k\", \"entry\": \"toy_scale_f32\","
            " \"block\": [128, 1, 1], \"grid\": [%s, 1, 1]}]}}",
            name, grid);
}

static char *write_manifest(struct bench *bench)
{
    size_t length = 0;
    char *artifact = kern_file_read(ARTIFACT, 1 << 26, &length, KERN_EXIT_USAGE, &bench->diag);
    end_if(bench, artifact == NULL);
    uint8_t digest[KERN_SHA256_BYTES];
    char hex[KERN_SHA256_HEX + 1];
    kern_sha256(artifact, length, digest);
    kern_sha256_to_hex(digest, hex);
    free(artifact);

    char *text = NULL;
    FILE *file = open_memstream(&text, &length);
    fprintf(
        file,
        "{\"schema_version\": 7, \"model\": \"bench\","
        " \"modules\": {\"k\": {\"source\": \"toy_scale.so\", \"sha256\": \"%s\"}},"
        " \"vars\": {\"n\": {\"max\": 4096, \"axis\": \"rows\"},"
        "  \"seqs\": {\"max\": 1, \"axis\": \"groups\"}},"
        " \"buffers\": {\"x\": {\"dtype\": \"f32\", \"shape\": [\"n\"], \"kind\": \"input\"},"
        "  \"y\": {\"dtype\": \"f32\", \"shape\": [\"n\"], \"kind\": \"output\"},"
        "  \"z\": {\"dtype\": \"f32\", \"shape\": [\"seqs\"], \"kind\": \"input\"}}, \"ops\": {",
        hex);
    write_op(file, "scale", "{\"ceil_div\": [\"n\", 128]}");
    fputs(", ", file);
    write_op(file, "scale_one", "1");
    fputs("}, \"programs\": {\"warm\": {\"calls\": [{\"op\": \"scale_one\", \"args\": [{\"buf\":"
          " \"z\"}, {\"buf\": \"y\"}, {\"f32\": 1.5}, {\"f32\": 0.5}, {\"i32\": 1}]}]}",
          file);
    for (size_t p = 0; p < sizeof programs / sizeof *programs; p++) {
        if (programs[p].kind != NEW_VARS) {
            write_program(file, &programs[p]);
        }
    }
    fputs("}}", file);
    fclose(file);
    return text;
}

static void open_bench(struct bench *bench)
{
    char *text = write_manifest(bench);
    bench->manifest = kern_manifest_parse(text, strlen(text), "bench", &bench->diag);
    end_if(bench, bench->manifest == NULL || !kern_manifest_verify(bench->manifest, &bench->diag));
    free(text);
    bench->device =
        kern_device_open(KERN_DEVICE_AUTO, KERN_BUILD_DIR "/lib/libkern-emu.so", &bench->diag);
    end_if(bench, bench->device == NULL);
    static const char *const dirs[] = {KERNELS};
    struct kern_rank_config config = {.device = bench->device,
                                      .manifest = bench->manifest,
                                      .kernel_dirs = dirs,
                                      .n_kernel_dirs = 1};
    bench->rank = kern_rank_create(&config, &bench->diag);
    end_if(bench, bench->rank == NULL || !kern_rank_load_modules(bench->rank, &bench->diag) ||
                      !kern_rank_allocate(bench->rank, KERN_HANDLE_FABRIC, &bench->diag) ||
                      !kern_rank_compile(bench->rank, &bench->diag));
    bench->vars[0] = 1000;
    bench->vars[1] = 1;
    if (bench->device->kind == KERN_DEVICE_EMU) {
        void (*pause_workers)(int) = (void (*)(int))dlsym(bench->device->handle, "kern_emu_pause");
        pause_workers(1);
    }
}

// Nanoseconds for which this thread had a processor: on a busy machine the clock on the wall also
// counts what other processes took.
static double thread_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

// The calls of a step that somebody would write by hand for just this program.
struct bare {
    const struct kern_cuda *cu;
    CUstream stream;
    CUevent start, end; // NULL: launches only
    CUgraphExec exec;   // NULL: launches
    struct {
        CUlaunchConfig config;
        CUfunction function;
        void **params;
    } * launches;
    size_t n_launches;
};

static bool run_bare(const struct bare *bare)
{
    CUresult result = CUDA_SUCCESS;
    if (bare->start != NULL) {
        result = bare->cu->cuEventRecord(bare->start, bare->stream);
    }
    if (bare->exec != NULL) {
        result = bare->cu->cuGraphLaunch(bare->exec, bare->stream);
    }
    for (size_t i = 0; i < bare->n_launches && result == CUDA_SUCCESS; i++) {
        result = bare->cu->cuLaunchKernelEx(&bare->launches[i].config, bare->launches[i].function,
                                            bare->launches[i].params, NULL);
    }
    if (bare->end != NULL && result == CUDA_SUCCESS) {
        result = bare->cu->cuEventRecord(bare->end, bare->stream);
    }
    return result == CUDA_SUCCESS;
}

static double time_bare(struct bench *bench, const struct bare *bare, int repeats)
{
    double began = thread_time();
    bool ok = true;
    for (int i = 0; i < repeats && ok; i++) {
        ok = run_bare(bare);
    }
    double took = thread_time() - began;
    end_if(bench, !ok || !rank_synchronize(bench->rank, "a bare round", &bench->diag));
    return took / repeats;
}

static double time_step(struct bench *bench, const struct program *program, int repeats)
{
    uint32_t index = kern_names_find(&bench->manifest->program_names, program->name);
    double began = thread_time();
    bool ok = true;
    for (int i = 0; i < repeats && ok; i++) {
        // The grid of 1000 to 1001 elements is the same, so that all steps are alike.
        bench->vars[0] ^= program->kind == NEW_VARS;
        ok = kern_rank_issue(bench->rank, index, bench->vars, &bench->diag);
    }
    double took = thread_time() - began;
    end_if(bench, !ok || !kern_rank_wait(bench->rank, KERN_NO_DEADLINE, NULL, &bench->diag));
    return took / repeats;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, ascending);
    return values[count / 2];
}

static void make_bare(struct bench *bench, uint32_t program, struct bare *bare)
{
    struct rank_program *compiled = &bench->rank->programs[program];
    *bare = (struct bare){.cu = &bench->device->cu, .stream = bench->rank->stream};
    if (compiled->declared->graph) {
        const struct rank_graph *graph =
            rank_graph_get(bench->rank, compiled, bench->vars, &bench->diag);
        end_if(bench, graph == NULL);
        bare->exec = graph->exec;
        return;
    }
    end_if(bench, !rank_program_fit(bench->rank, compiled, bench->vars, &bench->diag));
    bare->n_launches = compiled->n_launches;
    bare->launches = kern_calloc(compiled->n_launches, sizeof *bare->launches);
    for (size_t l = 0; l < compiled->n_launches; l++) {
        const struct rank_launch *launch = &compiled->launches[l];
        bare->launches[l].config = launch->config;
        bare->launches[l].function = launch->function;
        bare->launches[l].params = launch->params;
    }
}

static int repeats_of(const struct program *program)
{
    if (program->kind == GRAPH) {
        return GRAPHS_PER_ROUND;
    }
    return program->launches < LAUNCHES_PER_ROUND ? LAUNCHES_PER_ROUND / program->launches : 1;
}

// [ns]: of the bare calls, of these with the two events, of the step.
static void print_row(const struct program *program, const double ns[3])
{
    static const char *const kinds[] = {"constant", "same vars", "new vars", "graph"};
    bool graph = program->kind == GRAPH, single = program->launches == 1;
    bool met =
        graph ? ns[2] - ns[0] <= TARGET_GRAPH_NS : ns[2] / ns[single ? 1 : 0] <= TARGET_RATIO;
    printf("  %-9s  %8d  %9.0f  %9.0f  %9.0f  %10.1f  %8.3f  %8.3f  %8.0f  %s\n",
           kinds[program->kind], program->launches, ns[0], ns[1], ns[2], ns[2] / program->launches,
           ns[2] / ns[0], ns[2] / ns[1], ns[2] - ns[0], met ? "met" : "missed");
}

static void measure(struct bench *bench, const struct program *program, size_t rounds)
{
    uint32_t index = kern_names_find(&bench->manifest->program_names, program->name);
    struct bare bare;
    make_bare(bench, index, &bare);
    struct bare timed = bare;
    timed.start = bench->rank->items[0].start;
    timed.end = bench->rank->items[0].end;
    double *times[3], medians[3];
    for (size_t t = 0; t < 3; t++) {
        times[t] = kern_calloc(rounds, sizeof *times[t]);
    }
    for (size_t r = 0; r < rounds; r++) {
        times[0][r] = time_bare(bench, &bare, repeats_of(program));
        times[1][r] = time_bare(bench, &timed, repeats_of(program));
        times[2][r] = time_step(bench, program, repeats_of(program));
    }
    for (size_t t = 0; t < 3; t++) {
        medians[t] = median(times[t], rounds);
        free(times[t]);
    }
    free(bare.launches);
    print_row(program, medians);
}

int main(int argc, char **argv)
{
    size_t rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 300;
    if (rounds == 0 || argc > 2) {
        fprintf(stderr, "bench_step: it takes the number of rounds, 1 or more\n");
        return KERN_EXIT_USAGE;
    }
    struct bench bench = {0};
    open_bench(&bench);
    printf("# issue of a step on %s: ns of the issuing thread, medians of %zu rounds in turn\n",
           bench.device->kind == KERN_DEVICE_EMU ? "emu, kernels dropped" : "a GPU", rounds);
    printf(
        "# bare: the launches, or that of the graph; events: with the two that a step records\n");
    printf("# %-9s  %8s  %9s  %9s  %9s  %10s  %8s  %8s  %8s  %s\n", "params", "launches", "bare",
           "+events", "step", "per launch", "/bare", "/+events", "-bare", "target");
    for (size_t p = 0; p < sizeof programs / sizeof *programs; p++) {
        measure(&bench, &programs[p], rounds);
    }
    kern_rank_destroy(bench.rank, false);
    kern_device_close(bench.device);
    kern_manifest_destroy(bench.manifest);
    kern_diag_clear(&bench.diag);
    return 0;
}
