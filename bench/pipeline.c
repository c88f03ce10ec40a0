// SPDX-License-Identifier: Apache-2.0
//
// What handing over from stage to stage costs, between processes that are its stages:
//
//     mpirun -np S bench_pipeline stages MICROSECONDS BYTES ITEMS
//     mpirun -np 2 bench_pipeline handover BYTES ITEMS
//
// "stages": items through S stages that are each busy for a time that is known, and beside it the
// same calls in the same processes without a pipeline. "handover": from the end of the calls of one
// stage until the other may begin, and beside it one MPI_Send and MPI_Recv of as many bytes between
// the same two processes, by turns; medians. Rank 0 prints a row of the table of bench/pipeline.sh.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "fabric/edge.h"
#include "manifest/cut.h"

#define KERNELS KERN_BUILD_DIR "/kernels"

enum { DEPTH = 2, STAGES_MAX = 64, HEAD_START_NS = 100000 };

struct bench {
    struct kern_world world;
    struct kern_stage stage;
    struct kern_device *device;
    struct kern_manifest **stages;
    struct kern_diag diag;
};

// One rank of a stage, with edges or alone.
struct runner {
    struct kern_manifest *manifest;
    struct kern_rank *rank;
    struct kern_edges *edges;
    uint64_t *vars;
    uint32_t program;
    uint64_t items;
};

static void end_if(struct bench *bench, bool failed)
{
    if (failed) {
        kern_diag_print(&bench->diag, stderr, 10);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void check(struct bench *bench)
{
    end_if(bench, bench->diag.errors > 0);
}

// S calls of equal length, with [bytes] going on from each to the next.
static char *write_manifest(struct bench *bench, uint64_t bytes, uint64_t ns)
{
    size_t length = 0;
    char hex[KERN_SHA256_HEX + 1], *text = NULL;
    uint8_t digest[KERN_SHA256_BYTES];
    char *artifact =
        kern_file_read(KERNELS "/spin.so", 1 << 26, &length, KERN_EXIT_USAGE, &bench->diag);
    end_if(bench, !artifact);
    kern_sha256(artifact, length, digest);
    kern_sha256_to_hex(digest, hex);
    free(artifact);
    FILE *file = open_memstream(&text, &length);
    fprintf(
        file,
        "{\"schema_version\": 7, \"model\": \"spin\","
        " \"modules\": {\"k\": {\"source\": \"spin.so\", \"sha256\": \"%s\"}},"
        " \"vars\": {\"rows\": {\"max\": 1, \"axis\": \"rows\"},"
        "  \"seqs\": {\"max\": 1, \"axis\": \"groups\"}},"
        " \"buffers\": {\"x\": {\"dtype\": \"u32\", \"shape\": [\"seqs\"], \"kind\": \"input\"},"
        "  \"h\": {\"dtype\": \"u32\", \"shape\": [\"seqs\", %llu],"
        "   \"kind\": \"workspace\"},"
        "  \"y\": {\"dtype\": \"u32\", \"shape\": [\"seqs\"], \"kind\": \"output\"}},"
        " \"ops\": {\"spin\": {\"params\": [\"in buffer<u32>\", \"out buffer<u32>\", \"i64\"],"
        "   \"impl\": {\"launches\": [{\"module\": \"k\", \"entry\": \"spin\","
        "    \"grid\": [1, 1, 1], \"block\": [1, 1, 1]}]}}",
        hex, (unsigned long long)bytes / 4);
    if (bench->stage.count > 2)
        fputs(", \"spin_on\": {\"params\": [\"inout buffer<u32>\", \"i64\"],"
              " \"impl\": {\"launches\": [{\"module\": \"k\", \"entry\": \"spin_on\","
              " \"grid\": [1, 1, 1], \"block\": [1, 1, 1]}]}}",
              file);
    fputs("}, \"programs\": {\"step\": {\"batch\": {\"groups\": 1, \"rows\": \"rows\"},"
          " \"calls\": [",
          file);
    for (int s = 0; s < bench->stage.count; s++) {
        bool first = s == 0, last = s + 1 == bench->stage.count;
        fprintf(file, "%s{\"op\": \"%s\", \"args\": [%s, {\"i64\": %llu}]}", first ? "" : ", ",
                first || last ? "spin" : "spin_on",
                first  ? "{\"buf\": \"x\"}, {\"buf\": \"h\"}"
                : last ? "{\"buf\": \"h\"}, {\"buf\": \"y\"}"
                       : "{\"buf\": \"h\"}",
                (unsigned long long)ns);
    }
    fputs("]}}}", file);
    fclose(file);
    return text;
}

static void make_stages(struct bench *bench, uint64_t bytes, uint64_t ns)
{
    uint64_t points[STAGES_MAX];
    for (size_t i = 0; i < STAGES_MAX; i++)
        points[i] = i + 1;
    char *text = write_manifest(bench, bytes, ns);
    struct kern_manifest *whole = kern_manifest_parse(text, strlen(text), "spin", &bench->diag);
    end_if(bench, !whole || !kern_manifest_verify(whole, &bench->diag));
    bench->stages = kern_manifest_cut(whole, points, (size_t)bench->stage.count - 1, &bench->diag);
    end_if(bench, !bench->stages);
    kern_manifest_destroy(whole);
    free(text);
}

static void open_edges(struct bench *bench, struct runner *runner, const struct kern_road *road)
{
    struct kern_edges_config config = {
        .world = &bench->world,
        .stage = &bench->stage,
        .stages = bench->stages,
        .device = bench->device,
        .ordinal = bench->world.local_rank,
        .road = road,
        .rank = runner->rank,
        .depth = DEPTH,
    };
    runner->edges = kern_edges_open(&config, &bench->diag);
    check(bench);
    MPI_Barrier(bench->world.comm);
    end_if(bench, !kern_edges_verify(runner->edges, &bench->diag));
}

static void open_runner(struct bench *bench, struct runner *runner, bool pipelined)
{
    static const char *const folder = KERNELS;
    static const uint32_t no_groups[1];
    static struct kern_road road;
    const struct kern_stage *stage = &bench->stage;
    struct kern_groups groups = {0};
    *runner = (struct runner){.manifest = bench->stages[stage->index]};
    end_if(bench, !kern_road_choose(&bench->world, stage, runner->manifest, &groups, bench->device,
                                    bench->world.local_rank, &road, &bench->diag));
    struct kern_rank_config config = {
        .device = bench->device,
        .ordinal = bench->world.local_rank,
        .manifest = runner->manifest,
        .group_index = no_groups,
        .kernel_dirs = &folder,
        .n_kernel_dirs = 1,
        .capacity = 1,
        .seqs = 1,
        .in_flight = (uint32_t)stage->count + 1,
        .arrivals = pipelined && stage->index > 0 ? DEPTH : 0,
    };
    runner->rank = kern_rank_create(&config, &bench->diag);
    end_if(bench, !runner->rank || !kern_rank_load_modules(runner->rank, &bench->diag) ||
                      !kern_rank_allocate(runner->rank, road.kind, &bench->diag) ||
                      !kern_rank_compile(runner->rank, &bench->diag));
    if (pipelined)
        open_edges(bench, runner, &road);
    runner->vars = kern_calloc(runner->manifest->n_vars, sizeof *runner->vars);
    for (uint32_t v = 0; v < runner->manifest->n_vars; v++)
        runner->vars[v] = runner->manifest->vars[v].max;
}

static void close_runner(struct bench *bench, struct runner *runner)
{
    MPI_Barrier(bench->world.comm);
    kern_edges_close(runner->edges);
    kern_rank_destroy(runner->rank, false);
    free(runner->vars);
}

static void issue(struct bench *bench, struct runner *runner)
{
    end_if(bench, !kern_rank_issue(runner->rank, runner->program, runner->vars, &bench->diag));
}

static void wait_for(struct bench *bench, struct runner *runner)
{
    enum kern_edge_phase phase;
    end_if(bench, !kern_rank_wait(runner->rank, kern_deadline_in(60), NULL, &bench->diag) ||
                      (runner->edges && !kern_edges_sound(runner->edges, &phase, &bench->diag)));
    runner->items++;
}

// Nanoseconds from the end of the first item to that of the last, for each between.
static double run_items(struct bench *bench, struct runner *runner, uint64_t items)
{
    uint64_t issued = 0, began = 0;
    MPI_Barrier(bench->world.comm);
    for (uint64_t done = 0; done < items; done++) {
        for (; issued < items && issued - done <= (uint64_t)bench->stage.count; issued++)
            issue(bench, runner);
        wait_for(bench, runner);
        if (done == 0)
            began = kern_now();
    }
    return (double)(kern_now() - began) / (double)(items - 1);
}

// What all stages come to, on rank 0: the slowest's.
static double slowest(struct bench *bench, double mine)
{
    double most = mine;
    MPI_Reduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, 0, bench->world.comm);
    return most;
}

static void measure_stages(struct bench *bench, uint64_t us, uint64_t bytes, uint64_t items)
{
    struct runner pipeline, alone;
    make_stages(bench, bytes, us * 1000);
    open_runner(bench, &pipeline, true);
    open_runner(bench, &alone, false);
    run_items(bench, &pipeline, 8);
    run_items(bench, &alone, 8);
    double together = slowest(bench, run_items(bench, &pipeline, items));
    double apart = slowest(bench, run_items(bench, &alone, items));
    if (bench->world.rank == 0)
        printf("  stages    %6d %10llu %12.1f %12.1f %12.1f %8.3f %8.3f\n", bench->stage.count,
               (unsigned long long)bytes, together / 1e3, (double)us, apart / 1e3,
               (double)us * 1e3 / together, apart / together);
    close_runner(bench, &pipeline);
    close_runner(bench, &alone);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// The median, in microseconds, of the differences of what both ends noted; on rank 0.
static double between(const struct bench *bench, const uint64_t *mine, size_t count)
{
    uint64_t *theirs = kern_calloc(count, sizeof *theirs);
    double *spans = kern_calloc(count, sizeof *spans), median;
    if (bench->world.rank == 1)
        MPI_Send(mine, (int)count, MPI_UINT64_T, 0, 0, bench->world.comm);
    else
        MPI_Recv(theirs, (int)count, MPI_UINT64_T, 1, 0, bench->world.comm, MPI_STATUS_IGNORE);
    for (size_t i = 0; i < count; i++)
        spans[i] = ((double)theirs[i] - (double)mine[i]) / 1e3;
    qsort(spans, count, sizeof *spans, by_size);
    median = spans[count / 2];
    free(theirs);
    free(spans);
    return median;
}

// When our end of a message was there: it began to send, or has received.
static uint64_t send_once(struct bench *bench, void *bytes, int length)
{
    uint64_t began = kern_now();
    MPI_Barrier(bench->world.comm);
    if (bench->world.rank == 1) {
        MPI_Recv(bytes, length, MPI_BYTE, 0, 1, bench->world.comm, MPI_STATUS_IGNORE);
        return kern_now();
    }
    // The receiver waits already, as the stage after does.
    while (kern_now() - began < HEAD_START_NS) {}
    began = kern_now();
    MPI_Send(bytes, length, MPI_BYTE, 1, 1, bench->world.comm);
    return began;
}

static uint64_t hand_over_once(struct bench *bench, struct runner *runner)
{
    struct kern_edge_stamp stamp;
    MPI_Barrier(bench->world.comm);
    issue(bench, runner);
    wait_for(bench, runner);
    kern_edges_stamp(runner->edges, runner->items - 1, &stamp);
    return bench->world.rank == 0 ? stamp.room_began : stamp.take_ended;
}

static void measure_handover(struct bench *bench, uint64_t bytes, uint64_t items)
{
    enum { WARM = 5 };
    struct runner runner;
    void *message = kern_calloc(bytes, 1);
    uint64_t *edge = kern_calloc(items, sizeof *edge), *mpi = kern_calloc(items, sizeof *mpi);
    memset(message, 1, bytes);
    make_stages(bench, bytes, HEAD_START_NS);
    open_runner(bench, &runner, true);
    for (uint64_t i = 0; i < items + WARM; i++) {
        uint64_t at = i < WARM ? 0 : i - WARM;
        edge[at] = hand_over_once(bench, &runner);
        mpi[at] = send_once(bench, message, (int)bytes);
    }
    double ours = between(bench, edge, items), theirs = between(bench, mpi, items);
    if (bench->world.rank == 0)
        printf("  handover  %6d %10llu %12.1f %12.1f %12s %8.3f\n", 2, (unsigned long long)bytes,
               ours, theirs, "-", ours / theirs);
    close_runner(bench, &runner);
    free(message);
    free(edge);
    free(mpi);
}

static uint64_t number(const char *text)
{
    return strtoull(text, NULL, 10);
}

static void open_bench(struct bench *bench)
{
    end_if(bench,
           !kern_world_open(&bench->world, &bench->diag) ||
               !kern_stage_join(&bench->world, bench->world.size, &bench->stage, &bench->diag));
    bench->world.timeout = 60;
    bench->device =
        kern_device_open(KERN_DEVICE_AUTO, KERN_BUILD_DIR "/lib/libkern-emu.so", &bench->diag);
    end_if(bench, !bench->device);
}

int main(int argc, char **argv)
{
    struct bench bench = {0};
    bool stages = argc == 5 && strcmp(argv[1], "stages") == 0;
    bool handover = argc == 4 && strcmp(argv[1], "handover") == 0;
    if (!stages && !handover) {
        fputs("bench_pipeline: stages MICROSECONDS BYTES ITEMS, or handover BYTES ITEMS\n", stderr);
        return 2;
    }
    open_bench(&bench);
    int count = bench.stage.count;
    if (count < 2 || count > STAGES_MAX || (handover && count != 2)) {
        fputs("bench_pipeline: takes 2 processes, for stages up to 64\n", stderr);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (stages)
        measure_stages(&bench, number(argv[2]), number(argv[3]), number(argv[4]));
    else
        measure_handover(&bench, number(argv[2]), number(argv[3]));
    kern_manifest_stages_destroy(bench.stages, (size_t)count);
    kern_device_close(bench.device);
    kern_stage_leave(&bench.stage);
    kern_world_close(&bench.world);
    kern_diag_clear(&bench.diag);
    return 0;
}
