// SPDX-License-Identifier: Apache-2.0
//
// kern-rank: the way of a run, phase by phase. A phase does its work and leaves what went wrong in
// the run's diag; then all ranks agree whether to go on, and leave by the same road if not.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "launcher/run.h"
#include "launcher/watch.h"

struct phase {
    const char *name;
    void (*run)(struct kern_run *run);
};

static const struct phase phases[] = {
    {"manifest", kern_run_manifest},
    {"topology", kern_run_topology},
    {"load", kern_run_load},
    {"share", kern_run_share},
    {"peers", kern_run_peers},
    {"communicators", kern_run_communicators},
    {"plan", kern_run_plan},
    {"inputs", kern_run_inputs},
    {"once", kern_run_once},
    {"capture", kern_run_capture},
    {"drive", kern_run_drive},
    {"check", kern_run_check},
    {"report", kern_run_report},
};

// Help must come out once, also under a launcher that starts many of us.
static bool is_first_process(void)
{
    static const char *const variables[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (getenv(variables[i]))
            return strcmp(getenv(variables[i]), "0") == 0;
    return true;
}

static void take_down(struct kern_run *run)
{
    kern_communicators_close(run->communicators, run->in_flight);
    // Kernels that wait for a peer that failed hold the device; the end of the process frees both.
    if (!run->in_flight) {
        kern_fabric_close(run->fabric);
        kern_run_free_host_blocks(run);
        kern_rank_destroy(run->rank, false);
        kern_device_close(run->device);
    }
    for (size_t i = 0; i < run->n_driven; i++) {
        free(run->driven[i].vars);
        free(run->driven[i].times);
        for (size_t j = 0; j < run->driven[i].n_inputs; j++)
            free(run->driven[i].inputs[j].bytes);
        free(run->driven[i].inputs);
    }
    for (size_t i = 0; i < run->n_results; i++) {
        free(run->results[i].shape);
        free(run->results[i].bytes);
    }
    free(run->driven);
    free(run->results);
    kern_groups_free(&run->groups);
    free(run->places);
    kern_manifest_destroy(run->manifest);
    kern_options_free(&run->options);
    kern_diag_clear(&run->diag);
}

int main(int argc, char **argv)
{
    struct kern_run run = {.started = kern_now()};
    kern_options_parse(argc, argv, &run.options, &run.diag);
    if (run.options.help || run.options.version) {
        if (is_first_process() && run.options.help)
            kern_options_help(stdout);
        else if (is_first_process())
            puts("kern-rank " KERN_VERSION);
        kern_options_free(&run.options);
        kern_diag_clear(&run.diag);
        return KERN_EXIT_OK;
    }

    kern_watch_start();
    run.world.timeout = run.options.timeout;
    if (kern_world_open(&run.world, &run.diag))
        kern_world_same(&run.world, KERN_VERSION, sizeof KERN_VERSION, "the version of kern-rank",
                        "start the same program on every node", &run.diag);
    enum kern_exit code = kern_world_agree(&run.world, "start", &run.diag);
    // A run whose outputs are wrong is reported like any other.
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
        if ((code != KERN_EXIT_OK && code != KERN_EXIT_CHECK) || (run.stopped && !run.first_step))
            break;
        kern_board_phase(&run.world.board, phases[i].name);
        phases[i].run(&run);
        code = kern_exit_worse(code, kern_world_agree(&run.world, phases[i].name, &run.diag));
        if (!run.stopped)
            run.stopped = kern_watch_vote(&run.world);
    }
    int status = run.stopped && code == KERN_EXIT_OK ? 128 + run.stopped : (int)code;
    bool in_flight = run.in_flight;
    take_down(&run);
    kern_world_close(&run.world);
    fflush(stdout);
    if (in_flight)
        _exit(status);
    return status;
}
