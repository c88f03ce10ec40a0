// SPDX-License-Identifier: Apache-2.0
//
// kern-rank: the way of a run, phase by phase. A phase does its work and leaves what went wrong in
// the run's diag; then all ranks agree whether to go on, and leave by the same road if not.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "launcher/generate.h"
#include "launcher/watch.h"

// Which runs have a phase, and whether it judges what they put out.
enum { DRIVEN = 1, GENERATED = 2, LAST = 4, PICTURED = 8, TRACED = 16, JUDGES = 32 };

struct phase {
    const char *name;
    void (*run)(struct kern_run *run);
    unsigned of; // runs that drive programs, or generate; of two runs, the last one only; only with
                 // --picture or --trace
};

static const struct phase phases[] = {
    {"manifest", kern_run_manifest, DRIVEN | GENERATED},
    {"prompts", kern_generate_prompts, GENERATED},
    {"topology", kern_run_topology, DRIVEN | GENERATED},
    {"picture", kern_run_picture, DRIVEN | GENERATED | LAST | PICTURED},
    {"load", kern_run_load, DRIVEN | GENERATED},
    {"share", kern_run_share, DRIVEN | GENERATED},
    {"peers", kern_run_peers, DRIVEN | GENERATED},
    {"communicators", kern_run_communicators, DRIVEN | GENERATED},
    {"plan", kern_run_plan, DRIVEN},
    {"plan", kern_generate_plan, GENERATED},
    {"inputs", kern_run_inputs, DRIVEN},
    {"once", kern_run_once, DRIVEN | GENERATED},
    {"capture", kern_run_capture, DRIVEN},
    {"drive", kern_run_drive, DRIVEN},
    {"generate", kern_generate, GENERATED},
    {"check", kern_run_check, DRIVEN | LAST | JUDGES},
    {"check", kern_generate_check, GENERATED | LAST | JUDGES},
    {"compare", kern_run_compare, DRIVEN | GENERATED | LAST | JUDGES},
    {"trace", kern_run_trace, DRIVEN | GENERATED | LAST | TRACED},
    {"report", kern_run_report, DRIVEN | GENERATED | LAST},
};

// Help must come out once, also under a launcher that starts many of us.
static bool is_first_process(void)
{
    static const char *const variables[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *rank = getenv(variables[i]);
        if (rank)
            return strcmp(rank, "0") == 0;
    }
    return true;
}

static enum kern_exit print_about(const struct kern_options *options)
{
    if (options->help)
        kern_options_help(stdout);
    else
        puts("kern-rank " KERN_VERSION);
    if (fflush(stdout) == 0 && !ferror(stdout))
        return KERN_EXIT_OK;
    fprintf(stderr, "kern-rank: standard output cannot be written: %s\n", strerror(errno));
    return KERN_EXIT_DEVICE;
}

// Gives back what a run has of the device and of its peers. Its results stay.
static void take_down(struct kern_run *run)
{
    kern_communicators_close(run->communicators, run->in_flight);
    // Kernels that wait for a peer that failed hold the device; the end of the process frees both.
    if (!run->in_flight) {
        kern_edges_close(run->edges);
        kern_fabric_close(run->fabric);
        kern_run_free_host_blocks(run);
        kern_rank_destroy(run->rank, false);
        kern_device_close(run->device);
    }
    run->communicators = NULL;
    run->fabric = NULL;
    run->edges = NULL;
    run->rank = NULL;
    run->device = NULL;
}

static void free_results(struct kern_run *run)
{
    kern_generation_free(run->generation);
    for (size_t i = 0; i < run->n_driven; i++) {
        free(run->driven[i].vars);
        free(run->driven[i].times);
        free(run->driven[i].stamps);
        free(run->driven[i].seen);
        for (size_t j = 0; j < run->driven[i].n_inputs; j++)
            free(run->driven[i].inputs[j].bytes);
        free(run->driven[i].inputs);
    }
    free(run->driven);
    free(run->made_up);
    kern_run_free_results(run);
    kern_groups_free(&run->groups);
    free(run->places);
    kern_run_free_stages(run);
    kern_diag_clear(&run->diag);
}

static bool is_wanted(const struct kern_run *run, unsigned of)
{
    if (!(of & (run->options.generate ? GENERATED : DRIVEN)) || (of & LAST && run->is_other))
        return false;
    return !(of & PICTURED && !run->options.picture) && !(of & TRACED && !run->options.trace);
}

// The agreement that ends the phase [name], which began at [begin].
static enum kern_exit agree(struct kern_run *run, const char *name, uint64_t begin)
{
    uint64_t done = kern_now();
    enum kern_exit code = kern_world_agree(&run->world, name, &run->diag);
    kern_trace_span(run->trace, KERN_TRACE_PHASES, name, 0, begin, done);
    kern_trace_span(run->trace, KERN_TRACE_PHASES, "wait for others", 0, done, kern_now());
    return code;
}

// Of a run that a signal ended before there was anything to report.
static void say_stopped(const struct kern_run *run, const char *phase)
{
    fprintf(stderr, "kern-rank: %s: stopped by signal %d (%s)%s: there is no report\n", phase,
            run->stopped, strsignal(run->stopped), run->first_step ? "" : " before the first step");
}

// Runs the phases, from what the start came to, until one fails on some rank or a signal comes. A
// run whose outputs are judged wrong is reported like any other; one whose ranks did not do the
// same has nothing that could be.
static enum kern_exit run_phases(struct kern_run *run, enum kern_exit code)
{
    struct kern_arena arena = {0};
    const char *name = NULL;
    bool goes_on = code == KERN_EXIT_OK;
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
        if (!goes_on || (run->stopped && !run->first_step))
            break;
        if (!is_wanted(run, phases[i].of))
            continue;
        name = phases[i].name;
        if (run->is_other)
            name = kern_arena_print(&arena, "%s of %s", name, run->options.compare);
        kern_board_phase(&run->world.board, name);
        uint64_t begin = kern_now();
        phases[i].run(run);
        enum kern_exit end = agree(run, name, begin);
        goes_on = end == KERN_EXIT_OK || (end == KERN_EXIT_CHECK && phases[i].of & JUDGES);
        code = kern_exit_worse(code, end);
        if (!run->stopped)
            run->stopped = kern_watch_vote(&run->world);
    }
    if (name && run->stopped && (run->is_other || !run->first_step) && run->world.rank == 0)
        say_stopped(run, name);
    kern_arena_free(&arena);
    return code;
}

// The run of the other manifest, before that of this one: it is taken down, but for what it left.
static enum kern_exit run_other(struct kern_run *run, struct kern_run *other, enum kern_exit code)
{
    *other = (struct kern_run){.options = run->options,
                               .world = run->world,
                               .trace = run->trace,
                               .digests = run->digests,
                               .is_other = true,
                               .started = run->started};
    code = run_phases(other, code);
    take_down(other);
    run->other = other;
    run->stopped = other->stopped;
    run->in_flight = other->in_flight;
    run->started = kern_now();
    return code;
}

int main(int argc, char **argv)
{
    struct kern_digests digests = {0};
    struct kern_run run = {.started = kern_now(), .digests = &digests};
    kern_options_parse(argc, argv, &run.options, &run.diag);
    if (run.options.help || run.options.version) {
        enum kern_exit code = is_first_process() ? print_about(&run.options) : KERN_EXIT_OK;
        kern_options_free(&run.options);
        kern_diag_clear(&run.diag);
        return (int)code;
    }

    kern_watch_start();
    run.world.timeout = run.options.timeout;
    bool opened = kern_world_open(&run.world, &run.diag);
    run.mpi_up = kern_now();
    if (opened) {
        bool same = kern_world_same(&run.world, KERN_VERSION, sizeof KERN_VERSION,
                                    "the version of kern-rank",
                                    "start the same program on every node", &run.diag);
        // Another version may have other options.
        if (kern_world_all(&run.world, run.world.comm, same))
            kern_run_same_options(&run);
    }
    if (run.options.trace)
        run.trace = kern_trace_open((size_t)run.world.size, run.started);
    enum kern_exit code = agree(&run, "start", run.started);
    struct kern_run other = {0};
    if (run.options.compare)
        code = run_other(&run, &other, code);
    code = run_phases(&run, code);
    int status = run.stopped && code == KERN_EXIT_OK ? 128 + run.stopped : (int)code;
    bool in_flight = run.in_flight;
    kern_board_phase(&run.world.board, "leave");
    take_down(&run);
    free_results(&run);
    free_results(&other);
    kern_digests_free(&digests);
    kern_trace_close(run.trace);
    kern_options_free(&run.options);
    kern_world_close(&run.world);
    if (in_flight)
        _exit(status);
    return status;
}
