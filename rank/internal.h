// SPDX-License-Identifier: Apache-2.0
//
// What the files of the rank share. A rank is made in the order context, modules, memory, launch
// lists, weights, and is undone in the reverse order; each of these is a struct here that is all
// zero until it is made and again when it is undone, so undoing what was never made does nothing.
#ifndef KERN_RANK_INTERNAL_H
#define KERN_RANK_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "manifest/sources.h"
#include "rank/digests.h"
#include "rank/domain.h"
#include "rank/graph.h"
#include "rank/launch_list.h"
#include "rank/leases.h"
#include "rank/pool.h"
#include "rank/rank.h"
#include "rank/safetensors.h"

// A function of a loaded module, shared by every launch that names it.
struct rank_function {
    CUfunction handle;
    const char *place;       // of the first launch that names it
    uint64_t dynamic_shared; // the most that any launch asks for
    bool cluster_beyond_portable;
};

struct rank_modules {
    CUmodule *handles;  // every container that was loaded, in order of the modules
    uint32_t *artifact; // of each handle: index of its artifact
    size_t count, capacity, artifact_capacity;
    uint32_t *artifact_of; // per manifest module
    struct rank_function *functions;
    size_t n_functions, functions_capacity;
    bool loaded;                 // and every launch has its function
    uint32_t **launch_functions; // per op, per launch: index in functions; KERN_NONE for built-ins
};

struct rank_buffer {
    CUdeviceptr address;
    struct kern_mapping mapping; // exported ones
    void *host;                  // a host-placed weight, mapped at address
    bool fill;                   // of one: this rank is the one that loads it
    bool arrives;                // it is in the arrivals, at the same place of every slot
    uint8_t *staging;            // page-locked blocks of the buffer's size: input, inout, output
    uint64_t block;              // bytes from one to the next: inputs and what is kept have one for
                                 // every item that may be in flight
    CUevent *staged;             // input, inout, by block: the last copy out of it is done
    uint64_t writes;             // input, inout: so far
    bool filled;                 // peers: their addresses are there
};

struct rank_state {
    CUdeviceptr address;         // never changes; 0: of a host state that is not bound
    uint64_t bytes;              // from there on, all that there could ever be
    struct kern_mapping mapping; // of one that is not in the pool
    uint64_t object;             // bytes of a page of a paged one, of a slot of a per-sequence one
    enum rank_kind kind;         // of its objects, if it has any
};

struct rank_leases {
    uint32_t *page_users; // leases that have the page, by id
    uint64_t row_pages;   // the most that a row of every page table names
    uint64_t longest;     // the most pages of one sequence with nothing else there
    struct kern_lease *padding;
};

struct rank_sources {
    CUdeviceptr base; // 0: no sources, or given back
    struct kern_source_area area;
};

// What the matrix products of a rank share.
struct rank_blas {
    cublasLtHandle_t lt;   // NULL: no launch needs it, like the next two
    cublasHandle_t cublas; // on the compute stream
    CUdeviceptr workspace;
    struct rank_gemm *gemms; // every one that keeps something (rank/builtin.h)
};

// An event behind every launch of a program, if somebody wants to know.
struct rank_timing {
    CUevent *events; // n_events of them; 0: nobody does
    struct kern_launch_time *times;
    size_t n_events;
    size_t count; // launches of the program last issued that an event follows
    bool marking; // launches are issued by themselves now
};

// The slots for what the stage before hands over.
struct rank_arrivals {
    struct kern_mapping mapping;
    uint64_t slot_bytes;
    uint32_t slots; // 0: no stage is before
};

// An item in flight, or one whose place is free.
struct rank_item {
    CUevent start, end; // round the calls
    CUevent done;       // what follows them is done as well
    CUevent last;       // of the two, the one that ends the item
    const struct rank_program *program;
    uint64_t number;                       // items before it
    size_t launches;                       // that were issued
    const struct rank_launch *last_launch; // the last one that was launched, or NULL
};

struct rank_communicator {
    bool needed;     // some launch names the group
    ncclComm_t comm; // NULL: not joined
};

struct kern_rank {
    struct kern_device *device;
    const struct kern_manifest *manifest;
    int ordinal;
    const uint32_t *group_index;
    const char *const *kernel_dirs;
    size_t n_kernel_dirs;
    struct kern_digests *digests;
    bool scan_multicast;
    uint64_t capacity;
    uint64_t seqs;
    unsigned local_ranks;
    bool keep_tokens;
    struct kern_progress progress;

    CUdevice cu_device;
    CUcontext context;
    CUstream stream;
    struct rank_item *items; // most_in_flight of them, used in turn
    uint32_t most_in_flight;
    uint64_t issued, waited; // items, so far
    struct kern_hand_over hand_over;
    bool hands_over;
    uint64_t handed; // items that went through the hand-over, so far

    struct rank_modules modules;

    struct rank_buffer *buffers; // by manifest index, like the next four
    struct rank_state *states;
    uint64_t page; // tokens
    struct rank_pool pool;
    struct rank_leases leases;
    CUdeviceptr **scratch; // per op, per scratch
    struct rank_arrivals arrivals;
    struct rank_program *programs; // by slot of the arrivals; within it, by manifest index
    enum kern_graphs graph_use;
    struct rank_graphs *graphs; // NULL: none was captured
    struct kern_export *exports;
    size_t n_exports;
    struct kern_host_weight *host_weights;
    size_t n_host_weights;
    struct rank_sources sources;
    struct rank_checkpoint *checkpoint; // open until the derive programs ran; NULL: it is not
    struct rank_blas blas;
    struct rank_communicator *communicators; // by group
    struct kern_provision provision;
    uint64_t *blocks;                  // per state, what provision points to
    enum kern_handle_kind handle_kind; // of exported memory
    struct kern_rank_memory memory;
    bool allocated;
    bool derived; // weights are loaded and the derive programs ran

    // Of the item that is being issued, or the graph that is being captured.
    size_t issued_launches;
    const struct rank_launch *last_launch; // the last one that was launched, or NULL
    struct rank_timing timing;

    struct kern_arena arena; // names, tables and launch lists: what lives as long as the rank
};

// A line of text in memory of the caller, cut off where it does not fit: what a driver call is for.
#define RANK_WHAT 192
const char *rank_print(char text[RANK_WHAT], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// context.c
bool rank_context_open(struct kern_rank *rank, struct kern_diag *diag);
// Everything else of the rank is gone before.
void rank_context_close(struct kern_rank *rank);
// Makes the rank's context current, which every public function does first: a process may hold
// several ranks, and a rank may change threads.
bool rank_enter(const struct kern_rank *rank, struct kern_diag *diag);
// Makes the events of as many items as may be in flight.
bool rank_items_open(struct kern_rank *rank, struct kern_diag *diag);
void rank_items_close(struct kern_rank *rank);
// Waits for the stream.
bool rank_synchronize(const struct kern_rank *rank, const char *what, struct kern_diag *diag);

// artifacts.c
struct rank_artifact {
    const uint8_t *digest; // the manifest's
    char *path;
    uint8_t *bytes; // a NUL follows them; aligned for any type
    size_t length;
};
struct rank_artifacts {
    struct rank_artifact *items; // one per distinct digest
    size_t count;
    uint32_t *of_module; // per manifest module
};
struct rank_search {
    const struct kern_manifest *manifest;
    const char *const *kernel_dirs; // in this order, then the content-addressed cache
    size_t n_kernel_dirs;
    struct kern_digests *digests; // NULL: none from before
};
// Finds the bytes of every module by their digest, or says for each that is missing where it was
// looked for.
bool rank_artifacts_find(const struct rank_search *asked, struct rank_artifacts *artifacts,
                         struct kern_diag *diag);
void rank_artifacts_free(struct rank_artifacts *artifacts);

// multicast.c
// Warns of launches that are given memory of peers and whose kernels copy by multicast, if there is
// a cuobjdump to tell; else of not knowing it. A manifest without peers is not warned of.
void rank_multicast_warn(const struct kern_manifest *manifest,
                         const struct rank_artifacts *artifacts, struct kern_diag *diag);

// fatbin.c
enum rank_image_kind {
    RANK_IMAGE_UNKNOWN,
    RANK_IMAGE_CUBIN,
    RANK_IMAGE_FATBIN,
    RANK_IMAGE_PTX,
    RANK_IMAGE_SHARED_OBJECT,
};
// What [length] bytes seem to be, by their first bytes.
enum rank_image_kind rank_image_kind(const uint8_t *bytes, size_t length);
// Whether every section of the ELF file lies inside it: a driver that is given no length would read
// past the end of a truncated one.
bool rank_elf_check(const uint8_t *bytes, size_t length, const char *place, struct kern_diag *diag);
struct rank_span {
    size_t offset;
    size_t length;
};
// The fatbin containers of a shared object's .nv_fatbin sections or of a plain fatbin, in order;
// the caller frees *[containers].
bool rank_fatbin_split(const uint8_t *bytes, size_t length, const char *place,
                       struct rank_span **containers, size_t *count, struct kern_diag *diag);

// modules.c
void rank_modules_unload(struct kern_rank *rank);

// functions.c
// Resolves the entry of every launch in the modules just loaded.
bool rank_functions_resolve(struct kern_rank *rank, struct kern_diag *diag);

// memory.c
void rank_memory_free(struct kern_rank *rank);
bool rank_zero(const struct kern_rank *rank, CUdeviceptr address, uint64_t bytes, const char *what,
               struct kern_diag *diag);

// states.c
bool rank_states_allocate(struct kern_rank *rank, struct kern_diag *diag);
void rank_states_free(struct kern_rank *rank);
// Says in the rank's provision which pages and slots exist now.
void rank_states_count(struct kern_rank *rank);

// host_states.c
// Whether every host state is bound.
bool rank_host_states_bound(const struct kern_rank *rank, struct kern_diag *diag);

// leases.c
// Leases what padding uses, once the pool is there.
bool rank_leases_open(struct kern_rank *rank, struct kern_diag *diag);
void rank_leases_close(struct kern_rank *rank);

// host_weights.c
// Lists the weights that are placed on the host.
void rank_host_weights_list(struct kern_rank *rank);
// Whether every one of them has its memory.
bool rank_host_weights_adopted(const struct kern_rank *rank, struct kern_diag *diag);
// Makes a fault of what would write to them on this side of the device.
bool rank_host_weights_protect(const struct kern_rank *rank, struct kern_diag *diag);
void rank_host_weight_free(const struct kern_rank *rank, uint32_t buffer);

// load.c
// Closes the checkpoint if it is open.
void rank_checkpoint_close(struct kern_rank *rank);

// sources.c
bool rank_sources_allocate(struct kern_rank *rank, struct kern_diag *diag);
void rank_sources_free(struct kern_rank *rank);

// arrivals.c
// Says which buffers arrive and makes the memory for them.
bool rank_arrivals_allocate(struct kern_rank *rank, struct kern_diag *diag);
void rank_arrivals_free(struct kern_rank *rank);
// [program] as it is compiled for the slot of [item].
struct rank_program *rank_arrivals_program(const struct kern_rank *rank,
                                           struct rank_program *program, uint64_t item);

// peers.c
// Lists what is exported, once everything is allocated.
void rank_exports_list(struct kern_rank *rank);

// builtin.c
// Issues the built-in at [vars]; *[issued] is false if there was nothing to do.
bool rank_builtin_launch(struct kern_rank *rank, const struct rank_launch *launch,
                         const uint64_t *vars, bool *issued, struct kern_diag *diag);

// blas.c
// Frees the handles and the workspace, which waits for the device. The products are gone before.
void rank_blas_close(struct kern_rank *rank);

// gemm_plan.c
// Frees what the products keep on the host.
void rank_gemms_free(struct kern_rank *rank);

// communicator.c
// Whether every communicator that [program] names is joined.
bool rank_communicators_joined(const struct kern_rank *rank, const struct rank_program *program,
                               struct kern_diag *diag);
// Whether none of them has met an error since.
bool rank_communicators_sound(const struct kern_rank *rank, const struct rank_program *program,
                              struct kern_diag *diag);

// io.c
// Whether items that write [buffer] copy it out.
bool rank_keeps(const struct kern_rank *rank, const struct kern_buffer *buffer);

// Copies what [program] keeps out on the stream, to where it is found after the wait for item
// [number].
bool rank_kept_fetch(const struct kern_rank *rank, const struct rank_program *program,
                     uint64_t number, struct kern_diag *diag);

// fit.c
// Makes the kernel launch ready for the values that its slots have, if there are any.
bool rank_launch_fit(struct rank_launch *launch, struct kern_diag *diag);
// Makes all launches of the program ready for [vars], if they are not, before any is launched.
bool rank_program_fit(const struct kern_rank *rank, struct rank_program *program,
                      const uint64_t *vars, struct kern_diag *diag);

// timing.c
// Follows [launch] by an event if launches are timed.
bool rank_timing_mark(struct kern_rank *rank, const struct rank_launch *launch,
                      struct kern_diag *diag);
void rank_timing_close(struct kern_rank *rank);

// step.c
// The program, if it can run now with these values of the vars; NULL and why it cannot.
struct rank_program *rank_step_check(const struct kern_rank *rank, uint32_t program,
                                     const uint64_t *vars, struct kern_diag *diag);
// Launches [first, end) of the program's list at [vars], which it has been made ready for.
bool rank_launch_range(struct kern_rank *rank, const struct rank_program *program, size_t first,
                       size_t end, const uint64_t *vars, struct kern_diag *diag);

#endif
