// SPDX-License-Identifier: Apache-2.0
//
// The report as people read it: aligned columns in the manner of nccl-tests.
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/table.h"
#include "base/text.h"
#include "launcher/generate.h"
#include "launcher/report.h"

// Where the stages come from, and who runs them.
static void print_stages(const struct kern_run *run, FILE *file)
{
    int size = run->stage.size;
    char id[KERN_TEXT_SHOWN];
    if (run->n_stages == 1)
        return;
    fprintf(file, "# pipeline of %zu stages, cut %s, depth %llu\n", run->n_stages,
            kern_text_shorten(run->stages[0]->cut->id, id, sizeof id),
            (unsigned long long)run->options.depth);
    for (size_t i = 0; i < run->n_stages; i++) {
        int first = (int)i * size;
        fprintf(file, "#   stage %zu on rank", i);
        if (size > 1)
            fprintf(file, "s %d to %d", first, first + size - 1);
        else
            fprintf(file, " %d", first);
        fprintf(file, ": %s\n", run->paths[i]);
    }
}

static void print_head(const struct kern_report *report, FILE *file)
{
    const struct kern_run *run = report->run;
    char hex[KERN_SHA256_HEX + 1], model[KERN_TEXT_SHOWN];
    kern_sha256_to_hex(run->manifest->digest, hex);
    fprintf(file, "# kern-rank %s  model %s  %s (sha256 %.12s)\n", KERN_VERSION,
            kern_text_shorten(run->manifest->model, model, sizeof model), run->path, hex);
    print_stages(run, file);
    fprintf(file, "# %d rank%s on %d node%s  device %s: %s\n", run->world.size,
            run->world.size == 1 ? "" : "s", run->world.n_nodes, run->world.n_nodes == 1 ? "" : "s",
            run->device->kind == KERN_DEVICE_CUDA ? "cuda" : "emu", run->device->why);
    fprintf(file, "# shared memory: %s\n#\n", run->road.why);
}

static void print_ranks(const struct kern_report *report, FILE *file)
{
    const struct kern_run *run = report->run;
    size_t groups = report->n_names;
    bool staged = run->n_stages > 1;
    static const char *const heads[] = {"rank", "host", "local", "device", "numa", "cpus"};
    enum { HEADS = sizeof heads / sizeof *heads };
    char *sides = kern_calloc(HEADS + staged + groups + 2, 1);
    memset(sides, 'l', HEADS + staged + groups + 1);
    sides[0] = 'r';
    struct kern_table table = {.sides = sides};
    for (size_t i = 0; i < HEADS; i++)
        kern_table_add(&table, "%s", heads[i]);
    if (staged)
        kern_table_add(&table, "stage");
    for (size_t g = 0; g < groups; g++)
        kern_table_add(&table, "%s", report->names[g]);
    kern_table_add(&table, "bound");
    for (int r = 0; r < run->world.size; r++) {
        const struct kern_place *place = &run->places[r];
        kern_table_add(&table, "%d", r);
        kern_table_add(&table, "%s", run->world.members[r].host);
        kern_table_add(&table, "%d", run->world.members[r].local_rank);
        kern_table_add(&table, "%d %s", place->ordinal, place->bus_id);
        if (place->numa < 0)
            kern_table_add(&table, "-");
        else
            kern_table_add(&table, "%d", place->numa);
        kern_table_add(&table, "%s", place->cpus);
        if (staged)
            kern_table_add(&table, "%d", r / run->stage.size);
        for (size_t g = 0; g < groups; g++) {
            const int *at = &report->places[2 * ((size_t)r * groups + g)];
            if (at[0] < 0)
                kern_table_add(&table, "-");
            else
                kern_table_add(&table, "%d.%d", at[0], at[1]);
        }
        kern_table_add(&table, "%s", place->bound);
    }
    kern_table_print(&table, file);
    free(sides);
    if (groups)
        fprintf(file,
                "#  groups: NUMBER.INDEX, which group of that name%s and the rank's index in it\n",
                staged ? " in the stage" : "");
}

// Where the groups lie, and how their members reach each other.
static void print_groups(const struct kern_report *report, FILE *file)
{
    const struct kern_run *run = report->run;
    const char *road = run->road.kind == KERN_HANDLE_FABRIC ? "fabric handles" : "file descriptors";
    bool staged = run->n_stages > 1;
    static const char *const heads[] = {"group",  "members", "groups",     "nodes",
                                        "memory", "exports", "collectives"};
    struct kern_table table = {.sides = staged ? "lrrrllrl" : "lrrllrl"};
    if (!report->n_groups)
        return;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        kern_table_add(&table, "%s", heads[i]);
        if (staged && i == 0)
            kern_table_add(&table, "stage");
    }
    for (size_t g = 0; g < report->n_groups; g++) {
        const struct kern_group_figures *figures = &report->groups[g];
        kern_table_add(&table, "%s", figures->name);
        if (staged)
            kern_table_add(&table, "%zu", figures->stage);
        kern_table_add(&table, "%u", figures->size);
        kern_table_add(&table, "%u", (unsigned)run->stage.size / figures->size);
        kern_table_add(&table, "%s", figures->spans_nodes ? "across nodes" : "inside a node");
        kern_table_add(&table, "%s", figures->shared ? road : "-");
        kern_table_add(&table, "%zu", figures->shared);
        kern_table_add(&table, "%s", figures->collectives ? "NCCL" : "-");
    }
    fputs("#\n", file);
    kern_table_print(&table, file);
}

// "7 (2551.8)", with the host where there are several.
static void add_rank(struct kern_table *table, const struct kern_run *run, int rank, double median)
{
    bool several = run->world.n_nodes > 1;
    kern_table_add(table, "%d%s%s (%.1f)", rank, several ? " " : "",
                   several ? run->world.members[rank].host : "", median / 1e3);
}

// "tokens=64 seqs=1", the vars that the program reads; "-" for none.
static const char *vars_text(const struct kern_report *report, size_t program,
                             struct kern_arena *arena)
{
    const struct kern_manifest *manifest = report->run->manifest;
    const char *text = NULL;
    for (uint32_t v = 0; v < manifest->n_vars; v++)
        if (report->run->driven[program].facts.reads_var[v])
            text = kern_arena_print(arena, "%s%s%s=%llu", text ? text : "", text ? " " : "",
                                    manifest->vars[v].name,
                                    (unsigned long long)report->programs[program].vars[v]);
    return text ? text : "-";
}

static void print_programs(const struct kern_report *report, FILE *file)
{
    const struct kern_run *run = report->run;
    struct kern_arena arena = {0};
    static const char *const heads[] = {
        "program", "vars", "steps",  "launches", "bytes",        "min",          "median",
        "p99",     "max",  "spread", "GB/s",     "slowest rank", "fastest rank", "graph"};
    struct kern_table table = {.sides = "llrrrrrrrrrrrl"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        kern_table_add(&table, "%s", heads[i]);
    for (size_t i = 0; i < run->n_driven; i++) {
        const struct kern_program_figures *figures = &report->programs[i];
        const double times[] = {figures->path.min, figures->path.median, figures->path.p99,
                                figures->path.max, figures->spread.median};
        kern_table_add(&table, "%s", figures->name);
        kern_table_add(&table, "%s", vars_text(report, i, &arena));
        kern_table_add(&table, "%llu", (unsigned long long)figures->steps);
        kern_table_add(&table, "%zu", figures->launches);
        kern_table_add(&table, "%llu", (unsigned long long)figures->bytes);
        for (size_t t = 0; t < sizeof times / sizeof *times; t++)
            kern_table_add(&table, "%.1f", times[t] / 1e3);
        if (figures->path.median > 0 && figures->bytes >= 4096)
            kern_table_add(&table, "%.2f", (double)figures->bytes / figures->path.median);
        else
            kern_table_add(&table, "-");
        add_rank(&table, run, figures->slowest, figures->slowest_median);
        add_rank(&table, run, figures->fastest, figures->fastest_median);
        kern_table_add(&table, "%s", figures->graph ? "yes" : "no");
    }
    fputs("#\n", file);
    kern_table_print(&table, file);
    if (run->generation)
        fputs("#  times in µs on the device; a call is as slow as its slowest rank; vars and bytes "
              "are "
              "the largest call's\n",
              file);
    else
        fprintf(file,
                "#  times in µs on the device, after %llu warm-up steps; a step is as slow as its "
                "slowest rank\n",
                (unsigned long long)run->options.warmup);
    fputs("#  spread: from the fastest rank of a step to the slowest, median over the steps; ranks "
          "with their own medians\n",
          file);
    fputs("#  bytes: what the calls of one rank declare to read and to write, at these vars\n#\n",
          file);
    kern_arena_free(&arena);
}

// Where the time of each rank went, item by item: a stage that waits for input is faster than those
// before it, one that waits for room faster than those after it.
static void print_flow(const struct kern_report *report, FILE *file)
{
    const struct kern_run *run = report->run;
    static const char *const heads[] = {"stage", "rank", "items", "busy",
                                        "input", "room", "copy",  "bubble"};
    struct kern_table table = {.sides = "rrrrrrrr"};
    if (run->n_stages == 1)
        return;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        kern_table_add(&table, "%s", heads[i]);
    for (int r = 0; r < run->world.size; r++) {
        const struct kern_flow_figures *flow = &report->ranks[r].flow;
        const uint64_t parts[] = {flow->busy, flow->input, flow->room, flow->copy};
        double items = flow->items ? (double)flow->items : 1;
        kern_table_add(&table, "%d", r / run->stage.size);
        kern_table_add(&table, "%d", r);
        kern_table_add(&table, "%llu", (unsigned long long)flow->items);
        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
            kern_table_add(&table, "%.1f", (double)parts[p] / items / 1e3);
        if (flow->span)
            kern_table_add(&table, "%.1f%%", 100 - 100 * (double)flow->busy / (double)flow->span);
        else
            kern_table_add(&table, "-");
    }
    kern_table_print(&table, file);
    fputs("#  µs of an item: in its calls, waiting for input, waiting for room, handing over; "
          "bubble: "
          "the time\n#  not spent in calls\n#\n",
          file);
}

static void print_pace(const char *what, const struct kern_pace *pace, FILE *file)
{
    double seconds = (double)pace->nanoseconds / 1e9;
    if (pace->tokens)
        fprintf(file, "%s%llu tokens in %.3f s, %.1f/s", what, (unsigned long long)pace->tokens,
                seconds, seconds > 0 ? (double)pace->tokens / seconds : 0);
}

static void print_generation(const struct kern_generation *generation, FILE *file)
{
    uint64_t ids = 0;
    for (size_t i = 0; i < generation->count; i++)
        ids += generation->sequences[i].n_ids;
    fprintf(file, "# %llu tokens follow %zu prompt%s", (unsigned long long)ids, generation->count,
            generation->count == 1 ? "" : "s");
    print_pace("; prompts: ", &generation->chunks, file);
    print_pace("; steps: ", &generation->steps, file);
    fputc('\n', file);
}

// "check ok: ", and of what.
static void print_verdict(const char *what, const struct kern_check *check,
                          const struct kern_run *run, const char *elements, FILE *file)
{
    int with_results = run->n_stages > 1 ? run->stage.size : run->world.size;
    fprintf(file, "%s %s: ", what, check->verdict == KERN_CHECK_OK ? "ok" : "WRONG");
    if (run->generation)
        fprintf(file, "%llu prompt%s, %llu tokens", (unsigned long long)check->outputs,
                check->outputs == 1 ? "" : "s", (unsigned long long)check->elements);
    else
        fprintf(file, "%llu output%s of %d rank%s, %llu %s", (unsigned long long)check->outputs,
                check->outputs == 1 ? "" : "s", with_results, with_results == 1 ? "" : "s",
                (unsigned long long)check->elements, elements);
}

static void print_verdicts(const struct kern_report *report, FILE *file)
{
    const struct kern_run *run = report->run;
    const char *other = run->options.compare;
    if (report->compared.verdict != KERN_UNCHECKED) {
        print_verdict("compare", &report->compared, run, "bytes", file);
        fprintf(file, " with those of %s\n", other);
    }
    if (run->stopped && run->options.check)
        fputs("check not made: the run was stopped\n", file);
    else if (report->check.verdict == KERN_UNCHECKED && !other)
        fputs(run->generation ? "check not asked for (--check-ids FILE)\n"
                              : "check not asked for (-c FILE)\n",
              file);
    if (report->check.verdict == KERN_UNCHECKED)
        return;
    print_verdict("check", &report->check, run, "elements", file);
    if (!run->generation)
        fprintf(file, ", largest error %g", report->check.max_error);
    fputc('\n', file);
}

static void print_trace(const struct kern_run *run, FILE *file)
{
    const struct kern_trace_facts *facts = &run->trace_facts;
    fprintf(file, "# trace: %s, %llu spans, clocks within %.1f µs of rank 0's", run->options.trace,
            (unsigned long long)facts->spans, (double)facts->clock_error / 1e3);
    if (facts->dropped)
        fprintf(file, "; %llu later spans are not in it, since all ranks together keep %zu",
                (unsigned long long)facts->dropped, KERN_TRACE_SPANS);
    fputc('\n', file);
}

// What the host made up, without which an output that is not as expected is no wonder.
static void print_made_up(const struct kern_report *report, FILE *file)
{
    enum { MOST = 8 };
    const struct kern_options *options = &report->run->options;
    size_t count = report->n_made_up;
    if (!count)
        return;
    for (size_t i = 0; i < count && i < MOST; i++)
        fprintf(file, "%s%s", i == 0 ? "# inputs made up from their domains: " : ", ",
                report->made_up[i]);
    if (count > MOST)
        fprintf(file, " and %zu more", count - MOST);
    fprintf(file, "; --seed %llu%s\n", (unsigned long long)options->seed,
            options->seed_per_rank ? " --seed-per-rank" : "");
}

// "10.5 MiB", or KiB below one.
static const char *size_text(struct kern_arena *arena, uint64_t bytes)
{
    bool small = bytes < 1 << 20;
    return kern_arena_print(arena, "%.1f %s", (double)bytes / (small ? 1 << 10 : 1 << 20),
                            small ? "KiB" : "MiB");
}

static void print_tail(const struct kern_report *report, FILE *file)
{
    const struct kern_run *run = report->run;
    double start = 0, mpi = 0;
    for (int r = 0; r < run->world.size; r++)
        if (report->ranks[r].start_seconds > start) {
            start = report->ranks[r].start_seconds;
            mpi = report->ranks[r].mpi_seconds;
        }
    const struct kern_fabric_facts *fabric = &report->ranks[0].fabric;
    const struct kern_rank_memory *memory = &report->ranks[0].memory;
    uint64_t total = memory->weights + memory->workspace + memory->carry + memory->io +
                     memory->peer + memory->scratch + memory->states;
    struct kern_arena arena = {0};
    print_made_up(report, file);
    fprintf(file,
            "# rank 0: %s on the device, %s of it exported; %zu mapping%s of peers' memory, %zu "
            "handle exchange%s\n",
            size_text(&arena, total), size_text(&arena, memory->exported), fabric->mappings,
            fabric->mappings == 1 ? "" : "s", fabric->collectives,
            fabric->collectives == 1 ? "" : "s");
    kern_arena_free(&arena);
    if (run->other)
        fprintf(file, "# start: %.3f s from the end of the other run to the first step\n", start);
    else
        fprintf(file, "# start: %.3f s from main to the first step, %.3f s of them in MPI_Init\n",
                start, mpi);
    if (run->trace)
        print_trace(run, file);
    if (run->stopped)
        fprintf(file, "# stopped by signal %d (%s); the steps shown were done\n", run->stopped,
                strsignal(run->stopped));
    if (run->generation)
        print_generation(run->generation, file);
    print_verdicts(report, file);
}

void kern_report_print(const struct kern_report *report, FILE *file)
{
    print_head(report, file);
    print_ranks(report, file);
    print_groups(report, file);
    print_programs(report, file);
    print_flow(report, file);
    print_tail(report, file);
}
