// SPDX-License-Identifier: Apache-2.0
#include "launcher/report.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "topo/watchdog.h"

// Adds [name] to [names], of which there are *[count], unless it is there already.
static void add_name(const char **names, size_t *count, const char *name)
{
    for (size_t i = 0; i < *count; i++)
        if (strcmp(names[i], name) == 0)
            return;
    names[(*count)++] = name;
}

// What the manifests say of groups.
static void list_groups(const struct kern_run *run, struct kern_report *report)
{
    size_t most = 0;
    for (size_t s = 0; s < run->n_stages; s++)
        most += run->stages[s]->n_groups;
    report->names = kern_calloc(most, sizeof *report->names);
    report->groups = kern_calloc(most, sizeof *report->groups);
    for (size_t s = 0; s < run->n_stages; s++)
        for (uint32_t g = 0; g < run->stages[s]->n_groups; g++) {
            const struct kern_group *group = &run->stages[s]->groups[g];
            add_name(report->names, &report->n_names, group->name);
            report->groups[report->n_groups++] = (struct kern_group_figures){
                .name = group->name, .size = (uint32_t)group->size, .stage = s};
        }
}

static void gather_places(const struct kern_run *run, struct kern_report *report)
{
    size_t names = report->n_names;
    int *mine = kern_calloc(2 * names, sizeof *mine);
    for (size_t n = 0; n < names; n++) {
        uint32_t own = kern_names_find(&run->manifest->group_names, report->names[n]);
        mine[2 * n] = own == KERN_NONE ? -1 : (int)run->groups.places[own].number;
        mine[2 * n + 1] = own == KERN_NONE ? -1 : (int)run->groups.places[own].index;
    }
    int count = 2 * (int)names;
    report->places = kern_calloc((size_t)run->world.size * 2 * names, sizeof *report->places);
    KERN_WITH_OTHERS(
        &run->world, "gathering groups",
        MPI_Gather(mine, count, MPI_INT, report->places, count, MPI_INT, 0, run->world.comm));
    free(mine);
}

// What any rank of any stage made up.
static void gather_made_up(const struct kern_run *run, struct kern_report *report)
{
    size_t buffers = 0, at = 0;
    for (size_t s = 0; s < run->n_stages; s++)
        buffers += run->stages[s]->n_buffers;
    uint8_t *made_up = kern_calloc(buffers, 1);
    for (size_t s = 0; s < run->n_stages; s++)
        for (uint32_t b = 0; b < run->stages[s]->n_buffers; b++, at++)
            made_up[at] = run->stages[s] == run->manifest && run->made_up && run->made_up[b];
    KERN_WITH_OTHERS(
        &run->world, "gathering inputs",
        MPI_Allreduce(MPI_IN_PLACE, made_up, (int)buffers, MPI_UINT8_T, MPI_MAX, run->world.comm));
    report->made_up = kern_calloc(buffers, sizeof *report->made_up);
    at = 0;
    for (size_t s = 0; s < run->n_stages; s++)
        for (uint32_t b = 0; b < run->stages[s]->n_buffers; b++, at++)
            if (made_up[at])
                add_name(report->made_up, &report->n_made_up, run->stages[s]->buffers[b].name);
    free(made_up);
}

// How the members of each group reach each other, which the ranks of its stage know.
static void gather_roads(const struct kern_run *run, struct kern_report *report)
{
    enum { SPANS, SHARED, COLLECTIVES, FACTS };
    size_t width = FACTS * report->n_groups, own = 0;
    uint64_t *facts = kern_calloc(width, sizeof *facts);
    for (size_t i = 0; i < report->n_groups; i++) {
        if (run->stages[report->groups[i].stage] != run->manifest)
            continue;
        uint32_t g = (uint32_t)own++;
        facts[FACTS * i + SPANS] =
            kern_layout_spans_nodes(&run->groups.layouts[g], run->world.members, run->world.size);
        facts[FACTS * i + SHARED] = kern_fabric_shared(run->fabric, g);
        facts[FACTS * i + COLLECTIVES] = kern_rank_needs_communicator(run->rank, g);
    }
    KERN_WITH_OTHERS(
        &run->world, "gathering groups",
        MPI_Allreduce(MPI_IN_PLACE, facts, (int)width, MPI_UINT64_T, MPI_MAX, run->world.comm));
    for (size_t i = 0; i < report->n_groups; i++) {
        report->groups[i].spans_nodes = facts[FACTS * i + SPANS];
        report->groups[i].shared = facts[FACTS * i + SHARED];
        report->groups[i].collectives = facts[FACTS * i + COLLECTIVES];
    }
    free(facts);
}

static struct kern_flow_figures sum_up_flow(const struct kern_run *run)
{
    struct kern_flow_figures flow = {0};
    for (size_t i = 0; i < run->n_driven; i++) {
        const struct kern_driven *driven = &run->driven[i];
        uint64_t steps = driven->stamps ? driven->measured : 0;
        for (uint64_t s = 0; s < steps; s++) {
            const struct kern_edge_stamp *stamp = &driven->stamps[s];
            flow.input += stamp->take_ended - stamp->take_began;
            flow.busy += stamp->room_began - stamp->take_ended;
            flow.room += stamp->room_ended - stamp->room_began;
            flow.copy += stamp->posted - stamp->room_ended;
        }
        flow.items += steps;
        if (steps)
            flow.span += driven->stamps[steps - 1].posted - driven->stamps[0].take_began;
    }
    return flow;
}

// A mean of per-rank means would hide stragglers: each step is as slow as its slowest rank.
static void sum_up_program(const struct kern_run *run, const struct kern_driven *driven,
                           const uint64_t *all, struct kern_program_figures *figures)
{
    size_t steps = driven->measured;
    uint64_t *times = kern_calloc(steps, sizeof *times);
    for (int r = 0; r < run->world.size; r++) {
        memcpy(times, all + (size_t)r * steps, steps * sizeof *times);
        double median = kern_stats_of(times, steps).median;
        if (r == 0 || median > figures->slowest_median) {
            figures->slowest = r;
            figures->slowest_median = median;
        }
        if (r == 0 || median < figures->fastest_median) {
            figures->fastest = r;
            figures->fastest_median = median;
        }
    }
    uint64_t *spreads = kern_calloc(steps, sizeof *spreads);
    for (size_t s = 0; s < steps; s++) {
        uint64_t most = 0, least = UINT64_MAX;
        for (int r = 0; r < run->world.size; r++) {
            uint64_t time = all[(size_t)r * steps + s];
            most = time > most ? time : most;
            least = time < least ? time : least;
        }
        times[s] = most;
        spreads[s] = most - least;
    }
    figures->spread = kern_stats_of(spreads, steps);
    free(spreads);
    figures->path = kern_stats_of(times, steps);
    figures->name = run->manifest->programs[driven->program].name;
    figures->vars = driven->vars;
    figures->bytes = driven->facts.bytes;
    figures->launches = driven->facts.launches;
    figures->steps = steps;
    figures->graph = driven->facts.graph;
    free(times);
}

static void gather_programs(const struct kern_run *run, struct kern_report *report)
{
    bool root = run->world.rank == 0;
    for (size_t i = 0; i < run->n_driven; i++) {
        size_t steps = run->driven[i].measured;
        uint64_t *all = root ? kern_calloc((size_t)run->world.size * steps, sizeof *all) : NULL;
        KERN_WITH_OTHERS(&run->world, "gathering times",
                         MPI_Gather(run->driven[i].times, (int)steps, MPI_UINT64_T, all, (int)steps,
                                    MPI_UINT64_T, 0, run->world.comm));
        if (root)
            sum_up_program(run, &run->driven[i], all, &report->programs[i]);
        free(all);
    }
}

// Adds what one rank found to what all did.
static void add_check(struct kern_check *all, const struct kern_check *one)
{
    if (one->verdict > all->verdict)
        all->verdict = one->verdict;
    all->outputs += one->outputs;
    all->elements += one->elements;
    if (one->max_error > all->max_error)
        all->max_error = one->max_error;
}

static void gather_ranks(const struct kern_run *run, struct kern_report *report)
{
    struct kern_rank_figures mine = {
        .check = run->check, .compared = run->compared, .flow = sum_up_flow(run)};
    kern_fabric_facts(run->fabric, &mine.fabric);
    kern_edges_facts(run->edges, &mine.fabric);
    kern_rank_memory(run->rank, &mine.memory);
    // A run that follows another one begins with MPI up.
    mine.mpi_seconds = run->other ? 0 : (double)(run->mpi_up - run->started) / 1e9;
    mine.start_seconds = run->first_step ? (double)(run->first_step - run->started) / 1e9 : 0;
    KERN_WITH_OTHERS(&run->world, "gathering figures",
                     MPI_Gather(&mine, sizeof mine, MPI_BYTE, report->ranks, sizeof mine, MPI_BYTE,
                                0, run->world.comm));
    for (int r = 0; run->world.rank == 0 && r < run->world.size; r++) {
        add_check(&report->check, &report->ranks[r].check);
        add_check(&report->compared, &report->ranks[r].compared);
    }
}

void kern_run_report(struct kern_run *run)
{
    struct kern_report report = {.run = run};
    size_t world = (size_t)run->world.size;
    report.ranks = kern_calloc(world, sizeof *report.ranks);
    report.programs = kern_calloc(run->n_driven, sizeof *report.programs);
    list_groups(run, &report);
    gather_places(run, &report);
    gather_roads(run, &report);
    gather_made_up(run, &report);
    gather_programs(run, &report);
    gather_ranks(run, &report);
    if (run->world.rank == 0) {
        kern_report_print(&report, stdout);
        if (run->options.json)
            kern_report_write(&report, run->options.json, &run->diag);
        // Now, while it can be an error of this phase, and before MPI is taken down.
        if (fflush(stdout) != 0 || ferror(stdout))
            kern_fail(&run->diag, KERN_EXIT_DEVICE, "standard output",
                      "the report cannot be written to it");
    }
    free(report.programs);
    free(report.made_up);
    free(report.groups);
    free(report.places);
    free(report.names);
    free(report.ranks);
}
