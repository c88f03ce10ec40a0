// SPDX-License-Identifier: Apache-2.0
//
// The figures of a run, gathered on rank 0.
#ifndef KERN_LAUNCHER_REPORT_H
#define KERN_LAUNCHER_REPORT_H

#include "launcher/run.h"
#include "launcher/stats.h"

// How the measured items of a pipeline went through a rank, in nanoseconds of its device, summed
// up.
struct kern_flow_figures {
    uint64_t items;
    uint64_t busy;  // in the calls
    uint64_t input; // waiting for the stage before
    uint64_t room;  // waiting for the stage after
    uint64_t copy;  // handing over
    uint64_t span;  // from the first item to the last, program by program
};

// What rank 0 gathers from each rank.
struct kern_rank_figures {
    struct kern_flow_figures flow;
    struct kern_fabric_facts fabric;
    struct kern_rank_memory memory;
    struct kern_check check, compared;
    double start_seconds; // from main to the first step
    double mpi_seconds;   // of them until MPI was up
};

// One driven program over all ranks.
struct kern_program_figures {
    const char *name;
    const uint64_t *vars;
    uint64_t bytes; // declared operands of one rank and step
    size_t launches;
    uint64_t steps;           // that were measured
    bool graph;               // it ran as one
    struct kern_stats path;   // nanoseconds: the slowest rank of each step, over the steps
    struct kern_stats spread; // and what the fastest rank of the step was ahead of it
    int slowest;              // the rank with the largest median, and that median
    int fastest;
    double slowest_median, fastest_median;
};

// All groups of one name in a stage, or in all of a run that is no pipeline.
struct kern_group_figures {
    const char *name;
    uint32_t size;
    size_t stage;
    bool spans_nodes; // some of them do
    size_t shared;    // exports that the members map of each other
    bool collectives; // they have a communicator
};

struct kern_report {
    const struct kern_run *run;
    struct kern_rank_figures *ranks; // by rank
    const char **names;              // of groups, each once, whatever the stages that have it
    size_t n_names;
    int *places; // [rank][name][number, index]; -1: the rank's stage has no such group
    struct kern_group_figures *groups; // stage by stage, in the manifests' order
    size_t n_groups;
    const char **made_up; // inputs that some rank made up, each once, stage by stage
    size_t n_made_up;
    struct kern_program_figures *programs; // n_driven
    struct kern_check check, compared;     // of all ranks
};

// launcher/report_text.c
void kern_report_print(const struct kern_report *report, FILE *file);
// launcher/report_json.c: an earlier report is kept beside the new one, as FILE~.
// The path at which a report at [path] will be kept, or NULL if there is none.
const char *kern_report_kept(const char *path, struct kern_arena *arena);
bool kern_report_write(const struct kern_report *report, const char *path, struct kern_diag *diag);

#endif
