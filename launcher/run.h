// SPDX-License-Identifier: Apache-2.0
//
// One run of the program on one rank, from the command line to the report. Phases fill it in turn;
// each is one function, and an agreement of all ranks stands between two.
#ifndef KERN_LAUNCHER_RUN_H
#define KERN_LAUNCHER_RUN_H

#include "fabric/communicators.h"
#include "fabric/edge.h"
#include "fabric/fabric.h"
#include "launcher/options.h"
#include "launcher/trace.h"
#include "rank/rank.h"
#include "rank/safetensors.h"

// The bytes of one input or inout buffer.
struct kern_staged {
    uint32_t buffer;
    void *bytes;
    size_t length;
};

// One program that is driven, and what came of it.
struct kern_driven {
    uint32_t program;
    uint64_t *vars;                   // dense, what it is run with
    uint64_t *times;                  // nanoseconds on the device, per measured step
    struct kern_edge_stamp *stamps;   // of a pipeline: of the same steps
    uint64_t measured;                // steps in times; fewer than asked for if the run was stopped
    size_t capacity, stamps_capacity; // if they grow as calls come
    struct kern_call_shape *seen; // of calls that come as they may (launcher/generate.h): the new
    size_t n_seen, seen_capacity; // ones; and the rows of the largest
    uint64_t most_rows;
    struct kern_staged *inputs;
    size_t n_inputs;
    struct kern_program_facts facts;
};

// What an output held after the last step, at the vars of the program that wrote it.
struct kern_result {
    const struct kern_buffer *buffer; // of the stage that wrote it
    uint64_t *shape;
    void *bytes;
    size_t length;
};

enum kern_verdict { KERN_UNCHECKED, KERN_CHECK_OK, KERN_CHECK_WRONG };

struct kern_check {
    enum kern_verdict verdict;
    uint64_t outputs;  // compared
    uint64_t elements; // compared
    double max_error;  // of floats, absolute
};

struct kern_run {
    struct kern_options options;
    struct kern_world world;
    struct kern_device *device;
    struct kern_manifest **stages; // n_stages of them; one without a pipeline
    const char **paths;            // their files; of a manifest that is cut, the same for all
    size_t n_stages;
    struct kern_stage stage; // of --compare's other run too, which has one manifest for all stages
    struct kern_manifest *manifest; // of our stage
    const char *path;
    struct kern_groups groups;
    struct kern_place *places; // by rank
    struct kern_road road;
    struct kern_digests
        *digests; // of files that were looked at for modules, also by the run before
    struct kern_rank *rank;
    CUdeviceptr *host_blocks; // per state: what --host-blocks made of it
    struct kern_fabric *fabric;
    struct kern_edges *edges; // NULL: no pipeline
    struct kern_communicators *communicators;

    struct kern_driven *driven;
    size_t n_driven;
    bool *made_up; // per buffer: an input that no file has, from its domain; NULL in generation
    struct kern_result *results; // per output that was written
    size_t n_results;
    struct kern_check check;
    struct kern_generation *generation; // launcher/generate.h; NULL: programs are driven
    const struct kern_run *other;       // of --compare: what is left of the run before; NULL: none
    bool is_other;            // this is that run: nothing of it is printed, checked or reported
    struct kern_trace *trace; // NULL without --trace; of two runs, one trace
    struct kern_trace_facts trace_facts;
    struct kern_check compared; // with it; elements are bytes, or tokens
    uint64_t items;             // of a pipeline, that were waited for
    int stopped;      // the signal that ended the run early, the same on all ranks; 0: none
    bool in_flight;   // kernels may still run when the run ends early
    uint64_t started; // base/clock.h, at the start of main
    uint64_t mpi_up;
    uint64_t first_step;
    struct kern_diag diag;
};

// launcher/stages.c: phase 2, and whose are a pipeline's inputs and outputs.
void kern_run_manifest(struct kern_run *run);
void kern_run_free_stages(struct kern_run *run);

// Whether the host writes input or inout buffer [buffer] of [stage]; else the stage before does.
bool kern_run_is_input(const struct kern_run *run, const struct kern_manifest *stage,
                       const struct kern_buffer *buffer);

// Whether output or inout buffer [buffer] of our stage is read back here.
bool kern_run_is_result(const struct kern_run *run, const struct kern_buffer *buffer);

// Whether this rank has the results: in a pipeline, the last stage.
bool kern_run_has_results(const struct kern_run *run);

// launcher/results.c: reads what the last step of the program left in the outputs. Where several
// programs write one, the last of them in the order of driving counts.
bool kern_run_read_results(struct kern_run *run, const struct kern_driven *driven);

// Brings what earlier stages have read back to the last one. Collective.
void kern_run_gather_results(struct kern_run *run);
void kern_run_free_results(struct kern_run *run);

// launcher/load.c: phases 3 to 5.
void kern_run_topology(struct kern_run *run);
void kern_run_load(struct kern_run *run);
void kern_run_share(struct kern_run *run);
void kern_run_peers(struct kern_run *run);
void kern_run_communicators(struct kern_run *run);

// What the command line says of groups, in [arena]: options.groups.count of them.
bool kern_run_group_options(struct kern_run *run, struct kern_group_option **options,
                            struct kern_arena *arena);

// launcher/picture.c: draws where everybody is for --picture. Collective.
void kern_run_picture(struct kern_run *run);

// launcher/host_blocks.c: memory for host states, which the rank's own is allocated before and its
// programs are compiled after.
bool kern_run_lend_host_blocks(struct kern_run *run);
void kern_run_free_host_blocks(struct kern_run *run);

// launcher/same_options.c: says which options differ from those of rank 0 and must not. Collective.
void kern_run_same_options(struct kern_run *run);

// launcher/plan.c: what to drive with which vars; all ranks agree on it.
void kern_run_plan(struct kern_run *run);

// Fills [vars], one per var of the manifest, with their maxima or what --var says.
bool kern_run_vars(struct kern_run *run, uint64_t *vars);

// launcher/inputs.c: the bytes of every input that a driven program reads, from --input or made up.
void kern_run_inputs(struct kern_run *run);

// Whether [tensor] of [set] has the dtype of [buffer] and these extents; [where] says whose they
// are.
bool kern_run_tensor_fits(struct kern_run *run, const struct kern_safetensors *set,
                          const struct kern_tensor *tensor, const struct kern_buffer *buffer,
                          const uint64_t *shape, const char *where);

// launcher/drive.c: phases 6 and 7, and between them the capture of what runs as graphs.
void kern_run_once(struct kern_run *run);

// The vars at which once programs run, each 1; the caller frees them.
uint64_t *kern_run_ones(const struct kern_run *run);
void kern_run_capture(struct kern_run *run);
void kern_run_drive(struct kern_run *run);

// launcher/item.c: running programs, with the deadline of the run. A rank that fails says so by the
// alarm (topo/world.h), and whoever hears it stops waiting and fails as well. An item is one run of
// a program; of a pipeline's several are in flight.
bool kern_run_issue(struct kern_run *run, uint32_t program, const uint64_t *vars);

// Waits for the oldest item in flight, a run of [program].
bool kern_run_wait(struct kern_run *run, uint32_t program);

// Runs [program] at [vars] to its end. Nothing else is in flight.
bool kern_run_program(struct kern_run *run, uint32_t program, const uint64_t *vars);

// launcher/check.c: --output and --check.
void kern_run_check(struct kern_run *run);

// Element [index] as "[row, column]" of the result, in [arena].
const char *kern_result_position(const struct kern_result *result, size_t index,
                                 struct kern_arena *arena);

// Element [index] of the array at [bytes], which is one of [buffer], as text.
const char *kern_result_value(const struct kern_buffer *buffer, const void *bytes, size_t index,
                              struct kern_arena *arena);

// launcher/compare.c: --compare, with what run->other holds, if there was another run.
void kern_run_compare(struct kern_run *run);

// launcher/trace_write.c: gathers the spans of all ranks and writes --trace. Collective.
void kern_run_trace(struct kern_run *run);

// launcher/report.c: gathers figures on rank 0, which prints them and writes --json.
void kern_run_report(struct kern_run *run);

// The bytes of the file at [path] as rank 0 reads them, with a NUL after them, on all ranks. NULL
// if it cannot be read, which rank 0 says in its diag. Collective.
char *kern_run_broadcast(struct kern_run *run, const char *path, uint64_t limit, size_t *length);

// launcher/paths.c: whether --output, --json, --picture and --trace lead to files that can be
// written, that this run does not read, and that differ, also between ranks.
bool kern_run_check_paths(struct kern_run *run);

// [pattern] with every "{rank}" replaced, in [arena].
const char *kern_run_path(const struct kern_run *run, const char *pattern,
                          struct kern_arena *arena);

// The extents of buffer [buffer] at [vars]; [shape] has buffer->rank of them.
void kern_run_shape(const struct kern_buffer *buffer, const uint64_t *vars, uint64_t *shape);

#endif
