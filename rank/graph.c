// SPDX-License-Identifier: Apache-2.0
#include "rank/graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "rank/internal.h"

bool rank_graph_wanted(const struct kern_rank *rank, const struct rank_program *program)
{
    if (program->declared->once || program->declared->derive) {
        return false;
    }
    return rank->graph_use == KERN_GRAPHS_ON ||
           (rank->graph_use == KERN_GRAPHS_DECLARED && program->declared->graph);
}

// Writes the key of [program] at [vars] and returns its hash.
static uint64_t make_key(const struct kern_rank *rank, const struct rank_program *program,
                         const uint64_t *vars, uint64_t *key)
{
    const uint64_t prime = 0x100000001b3; // FNV-1a, by words
    uint64_t hash = (0xcbf29ce484222325 ^ (uint64_t)(program - rank->programs)) * prime;
    for (uint32_t v = 0; v < rank->manifest->n_vars; v++) {
        key[v] = program->reads_var[v] ? vars[v] : 1;
        hash = (hash ^ key[v]) * prime;
    }
    return hash ^ (hash >> 32);
}

static struct rank_graph *find(const struct kern_rank *rank, const struct rank_program *program,
                               uint64_t hash)
{
    const struct rank_graphs *graphs = rank->graphs;
    size_t bytes = rank->manifest->n_vars * sizeof(uint64_t);
    struct rank_graph *graph = graphs->buckets[hash % RANK_GRAPHS_MAX];
    while (graph != NULL && (graph->hash != hash || graph->program != program ||
                             memcmp(graph->vars, graphs->key, bytes) != 0)) {
        graph = graph->next;
    }
    return graph;
}

// Records the program's launches. Whatever fails in between, the capture is ended: a stream that is
// left capturing can do nothing else any more.
static bool capture(struct kern_rank *rank, const struct rank_program *program,
                    const uint64_t *vars, CUgraph *graph, struct kern_diag *diag)
{
    if (!KERN_CU(rank->device, diag, program->place, cuStreamBeginCapture, rank->stream,
                 CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)) {
        return false;
    }
    bool ok = rank_launch_range(rank, program, 0, program->n_launches, vars, diag);
    CUresult ended = rank->device->cu.cuStreamEndCapture(rank->stream, graph);
    if (!ok) {
        // The end only says that the capture became invalid, and has made no graph then.
        if (ended == CUDA_SUCCESS) {
            rank->device->cu.cuGraphDestroy(*graph);
        }
        return false;
    }
    return kern_cuda_check(rank->device, ended, "cuStreamEndCapture", program->place, diag);
}

static bool instantiate(struct kern_rank *rank, struct rank_program *program, const uint64_t *vars,
                        CUgraphExec *exec, struct kern_diag *diag)
{
    CUgraph graph = NULL;
    if (!rank_program_fit(rank, program, vars, diag) ||
        !capture(rank, program, vars, &graph, diag)) {
        return false;
    }
    bool ok =
        KERN_CU(rank->device, diag, program->place, cuGraphInstantiateWithFlags, exec, graph, 0);
    CUresult destroyed = rank->device->cu.cuGraphDestroy(graph);
    if (ok && !kern_cuda_check(rank->device, destroyed, "cuGraphDestroy", program->place, diag)) {
        rank->device->cu.cuGraphExecDestroy(*exec);
        return false;
    }
    return ok;
}

// A place for one more graph. One that is running is freed by the driver when it has ended.
static struct rank_graph *make_room(struct kern_rank *rank)
{
    struct rank_graphs *graphs = rank->graphs;
    if (graphs->count < RANK_GRAPHS_MAX) {
        struct rank_graph *graph = &graphs->items[graphs->count++];
        graph->vars = kern_calloc(rank->manifest->n_vars, sizeof(*graph->vars));
        return graph;
    }
    struct rank_graph *oldest = &graphs->items[0];
    for (size_t i = 1; i < RANK_GRAPHS_MAX; i++) {
        if (graphs->items[i].last_use < oldest->last_use) {
            oldest = &graphs->items[i];
        }
    }
    rank->device->cu.cuGraphExecDestroy(oldest->exec);
    struct rank_graph **link = &graphs->buckets[oldest->hash % RANK_GRAPHS_MAX];
    while (*link != oldest) {
        link = &(*link)->next;
    }
    *link = oldest->next;
    return oldest;
}

static struct rank_graph *add(struct kern_rank *rank, struct rank_program *program,
                              const uint64_t *vars, uint64_t hash, struct kern_diag *diag)
{
    // Launches of a capture are counted like others; what was issued before may still be running.
    size_t issued_launches = rank->issued_launches;
    const struct rank_launch *last_launch = rank->last_launch;
    rank->issued_launches = 0;
    rank->last_launch = NULL;
    CUgraphExec exec = NULL;
    struct rank_graph *graph = NULL;
    if (instantiate(rank, program, vars, &exec, diag)) {
        struct rank_graphs *graphs = rank->graphs;
        graph = make_room(rank);
        graph->exec = exec;
        graph->program = program;
        graph->hash = hash;
        graph->launches = rank->issued_launches;
        graph->last_launch = rank->last_launch;
        memcpy(graph->vars, graphs->key, rank->manifest->n_vars * sizeof(*graph->vars));
        graph->next = graphs->buckets[hash % RANK_GRAPHS_MAX];
        graphs->buckets[hash % RANK_GRAPHS_MAX] = graph;
    }
    rank->issued_launches = issued_launches;
    rank->last_launch = last_launch;
    return graph;
}

const struct rank_graph *rank_graph_get(struct kern_rank *rank, struct rank_program *program,
                                        const uint64_t *vars, struct kern_diag *diag)
{
    if (rank->graphs == NULL) {
        rank->graphs = kern_calloc(1, sizeof(*rank->graphs));
        rank->graphs->key = kern_calloc(rank->manifest->n_vars, sizeof(*rank->graphs->key));
    }
    uint64_t hash = make_key(rank, program, vars, rank->graphs->key);
    struct rank_graph *graph = find(rank, program, hash);
    if (graph == NULL) {
        graph = add(rank, program, vars, hash, diag);
    }
    if (graph != NULL) {
        graph->last_use = ++rank->graphs->uses;
    }
    return graph;
}

bool kern_rank_prepare(struct kern_rank *rank, uint32_t program, const uint64_t *vars,
                       struct kern_diag *diag)
{
    struct rank_program *run = rank_step_check(rank, program, vars, diag);
    if (run == NULL) {
        return false;
    }
    if (!rank_graph_wanted(rank, run)) {
        return true;
    }
    uint32_t variants = run->takes ? rank->arrivals.slots : 1;
    bool ok = rank_enter(rank, diag);
    for (uint32_t i = 0; ok && i < variants; i++) {
        ok = rank_graph_get(rank, rank_arrivals_program(rank, run, i), vars, diag) != NULL;
    }
    return ok;
}

void rank_graphs_destroy(struct kern_rank *rank)
{
    for (size_t i = 0; rank->graphs != NULL && i < rank->graphs->count; i++) {
        rank->device->cu.cuGraphExecDestroy(rank->graphs->items[i].exec);
    }
}

void rank_graphs_free(struct rank_graphs *graphs)
{
    if (graphs == NULL) {
        return;
    }
    for (size_t i = 0; i < graphs->count; i++) {
        free(graphs->items[i].vars);
    }
    free(graphs->key);
    free(graphs);
}
