// SPDX-License-Identifier: Apache-2.0
//
// One rank: a device context with the manifest's code and memory in it, and its programs as flat
// launch lists. A rank knows its index in each group, what it exports and which peer arrays it must
// be given; it knows no other process. The order of calls is the order of this file.
//
// Var values are dense arrays of uint64_t, one per manifest var, in the manifest's order.
#ifndef KERN_RANK_RANK_H
#define KERN_RANK_RANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "device/device.h"
#include "manifest/manifest.h"
#include "rank/digests.h"
#include "rank/domain.h"
#include "rank/vmm.h"

struct kern_rank;

// Which programs run as CUDA graphs; once and derive programs never do.
enum kern_graphs {
    KERN_GRAPHS_DECLARED, // those of which the manifest says so
    KERN_GRAPHS_OFF,
    KERN_GRAPHS_ON,
};

// Told now and then how many bytes of weights, or of sources, have been read, by the thread that
// loads them.
struct kern_progress {
    void (*report)(void *context, uint64_t done, uint64_t total); // NULL: nobody wants to know
    void *context;
};

struct kern_rank_config {
    struct kern_device *device;           // libraries are loaded into it when a launch needs them
    int ordinal;                          // of the device, as cuDeviceGet counts
    const struct kern_manifest *manifest; // verified; outlives the rank
    const uint32_t *group_index;          // this rank's index in each group, by group
    const char *const *kernel_dirs;       // where artifacts are looked for, in this order, then
    size_t n_kernel_dirs;                 // $KERN_CACHE_DIR or ~/.cache/kern (blobs/<sha256>)
    struct kern_digests *digests; // of files looked at before, outlives the rank; NULL: none
    bool scan_multicast;          // on a GPU: warn of kernels that copy onto peers'
                                  // memory by multicast, for which cuobjdump is run
    uint64_t capacity;            // tokens that paged states hold; rounded up to pages,
                                  // and one page more
    uint64_t seqs;                // sequences alive at once; slots are two more
    enum kern_graphs graphs;
    unsigned local_ranks; // of this machine, which share its processors; 0: this is the only one
    uint32_t in_flight;   // items that may be issued before the first is waited for; 0: 1
    bool keep_tokens;     // each item copies out what it left in outputs with the roles tokens and
                          // count, as it does with error words (kern_rank_kept)
    uint32_t arrivals;    // slots for what arrives from the stage before, used in turn by items;
                          // 0: there is none, and arriving buffers are written like other inputs
    struct kern_progress progress;
};

// Takes the device's primary context and makes the compute stream. Nothing is loaded yet.
struct kern_rank *kern_rank_create(const struct kern_rank_config *config, struct kern_diag *diag);

// Finds every module by sha256, loads it, resolves every launch's entry, compares its parameter
// layout with the declared one, and opts in to dynamic shared memory (at var maxima).
bool kern_rank_load_modules(struct kern_rank *rank, struct kern_diag *diag);

// Allocates and zeroes buffers, scratch, states and pinned staging, and waits for the zeroing.
// Exported memory can be shared by handles of kind [kind].
bool kern_rank_allocate(struct kern_rank *rank, enum kern_handle_kind kind, struct kern_diag *diag);

// What states have now, which bounds indices into them (rank/domain.h); at first all that capacity
// and seqs ask for. It changes with leases, which may move memory between pages and slots, and when
// a host state is bound.
struct kern_provision kern_rank_provision(const struct kern_rank *rank);

// Memory that the caller lends for a host state, between allocation and compilation: [dtype] and
// the [n] extents and strides (in elements, outermost first) are those of the memory at [address],
// and must be what the manifest declares, extent by extent, where it leaves none open. The
// outermost extent, which is 1 or more, is the number of blocks that indices into the state may
// name.
struct kern_host_memory {
    CUdeviceptr address;
    enum kern_dtype dtype;
    const uint64_t *shape, *strides;
    size_t n;
};
bool kern_rank_bind_host_state(struct kern_rank *rank, uint32_t state,
                               const struct kern_host_memory *memory, struct kern_diag *diag);

// A weight with `placement: host`. The ranks of a node share one copy of its bytes.
struct kern_host_weight {
    uint32_t buffer;
    const char *name;
    uint64_t bytes;
};

// The weights placed on the host, in the manifest's order, the same on every rank. Borrowed from
// the rank.
size_t kern_rank_host_weights(const struct kern_rank *rank,
                              const struct kern_host_weight **weights);

// Takes over [memory] for the weight [buffer], between allocation and compilation: a mapping of its
// own of the weight's bytes, zeroed, which other ranks may have mapped too. One of them loads it,
// the one that is told to [fill] it. The rank registers it with the driver and unmaps it in the
// end; if this fails it remains the caller's.
bool kern_rank_adopt_host_weight(struct kern_rank *rank, uint32_t buffer, void *memory, bool fill,
                                 struct kern_diag *diag);

// Turns every program into its flat launch list. After this no name is looked up again.
bool kern_rank_compile(struct kern_rank *rank, struct kern_diag *diag);

// Plans what goes where from the safetensors files (or directories of them) at [paths], which finds
// every misfit before a byte moves, and fills the weights. A manifest that binds nothing needs no
// paths. This rank's share of the processors, at most four, read and copy, through two page-locked
// blocks of at most 1 MiB each (manifest/footprint.h). Files must not change until the derive
// programs ran: one that does is an error.
bool kern_rank_load_weights(struct kern_rank *rank, const char *const *paths, size_t n_paths,
                            struct kern_diag *diag);

// Runs the derive programs and gives the sources' memory back. They may read weights on the host,
// so the rank that fills those has loaded its weights before.
bool kern_rank_derive(struct kern_rank *rank, struct kern_diag *diag);

// One exported allocation. [mapped] is [bytes] rounded up to the granularity: importers map it
// whole.
struct kern_export {
    enum kern_target target; // buffer or state
    uint32_t index;          // in the manifest
    const char *name;
    CUdeviceptr address;
    uint64_t bytes;
    uint64_t mapped;
    CUmemGenericAllocationHandle handle;
};

// What this rank exports, buffers and states together, in byte-wise order of names (a buffer before
// a state of the same name), the same on every rank. Borrowed from the rank.
size_t kern_rank_exports(const struct kern_rank *rank, const struct kern_export **exports);

// The memory that the stage before hands its outputs to (manifest/arrivals.h), shareable like what
// is exported. False if the rank has no slots for arrivals.
bool kern_rank_arrivals(const struct kern_rank *rank, struct kern_mapping *mapping);

// What goes before and after the calls of an item, an issue of a program that is not run once, in
// the order of the stream: the hand-over from the stage before and to the one after. [item] counts
// from 0; both are called while it is issued, and may launch on the rank's stream.
struct kern_hand_over {
    bool (*take)(void *context, uint64_t item, struct kern_diag *diag);
    bool (*give)(void *context, uint64_t item, const uint64_t *vars, struct kern_diag *diag);
    void *context;
};
// [hand_over] is copied.
void kern_rank_set_hand_over(struct kern_rank *rank, const struct kern_hand_over *hand_over);
CUstream kern_rank_stream(const struct kern_rank *rank);

// Where [buffer] is for [item].
CUdeviceptr kern_rank_address(const struct kern_rank *rank, uint32_t buffer, uint64_t item);

// Writes the [count] addresses, in group order, into peer buffer [buffer] and waits for the copy.
bool kern_rank_fill_peer(struct kern_rank *rank, uint32_t buffer, const CUdeviceptr *addresses,
                         size_t count, struct kern_diag *diag);

// Whether some launch is a collective over [group]; known once the programs are compiled.
bool kern_rank_needs_communicator(const struct kern_rank *rank, uint32_t group);

// Lends the rank the communicator of [group], in which it is the member that it is of the group.
bool kern_rank_set_communicator(struct kern_rank *rank, uint32_t group, ncclComm_t comm,
                                struct kern_diag *diag);

// Forgets all communicators and the graphs, which hold them. Nothing of the rank is running.
void kern_rank_drop_communicators(struct kern_rank *rank);

// Bytes of the host, and where they are or go on the device: at an address of this rank or of a
// mapped peer.
struct kern_span {
    CUdeviceptr address;
    void *bytes;
    size_t length;
};

// Copies all spans from the host (poke) or to the host (peek) and waits once, for the last.
bool kern_rank_poke_all(struct kern_rank *rank, const struct kern_span *spans, size_t count,
                        struct kern_diag *diag);
bool kern_rank_peek_all(struct kern_rank *rank, const struct kern_span *spans, size_t count,
                        struct kern_diag *diag);

// The same for one.
bool kern_rank_poke(struct kern_rank *rank, CUdeviceptr address, const void *bytes, size_t length,
                    struct kern_diag *diag);
bool kern_rank_peek(struct kern_rank *rank, CUdeviceptr address, void *bytes, size_t length,
                    struct kern_diag *diag);

// Stages [length] bytes, a prefix of input or inout buffer [buffer], for the next item. They are
// checked against the buffer's domain at [vars]; the copy is ordered on the stream. [bytes] may be
// reused at once.
bool kern_rank_write(struct kern_rank *rank, uint32_t buffer, const void *bytes, size_t length,
                     const uint64_t *vars, struct kern_diag *diag);

// Captures [program] at [vars] if it runs as a graph, and executes nothing, so that a capture which
// fails is known before any kernel waits for a peer. A rank keeps 256 graphs, one per program and
// values of the vars that it reads, and forgets the one used least recently for one more. Refused
// where an issue would be.
bool kern_rank_prepare(struct kern_rank *rank, uint32_t program, const uint64_t *vars,
                       struct kern_diag *diag);

// Starts [program] at [vars] on the compute stream and returns without waiting, launch by launch or
// as a graph, which is captured now unless it was prepared. Every var that the program reads must
// lie in 1..max. Refused while a peer buffer that it reads is not filled or a
// communicator that it names not joined. Of more than config.in_flight items the oldest is
// forgotten: the wait for a later one covers it.
bool kern_rank_issue(struct kern_rank *rank, uint32_t program, const uint64_t *vars,
                     struct kern_diag *diag);

// What a wait asks now and then: whether to go on, to stop (another rank failed, a signal came), or
// that it has lasted too long.
enum kern_wait { KERN_WAIT_ON, KERN_WAIT_STOP, KERN_WAIT_LATE };
struct kern_interrupt {
    enum kern_wait (*asked)(void *context);
    void *context;
};

// Waits until the oldest item in flight is done, with its hand-over, the deadline (base/clock.h)
// passes (KERN_EXIT_PEER, names program and last launch), a communicator of the program fails or
// [interrupt] (may be NULL) ends it. After a failure it is still in flight.
bool kern_rank_wait(struct kern_rank *rank, uint64_t deadline,
                    const struct kern_interrupt *interrupt, struct kern_diag *diag);

// How many items are in flight: issued, and not waited for. And how many may be.
uint32_t kern_rank_in_flight(const struct kern_rank *rank);
uint32_t kern_rank_most_in_flight(const struct kern_rank *rank);

// Device time of the calls of the item last waited for, in nanoseconds.
bool kern_rank_elapsed(const struct kern_rank *rank, uint64_t *nanoseconds, struct kern_diag *diag);

// After this an event follows every launch that is not part of a graph. Programs are compiled, and
// one item is in flight at a time.
bool kern_rank_time_launches(struct kern_rank *rank, struct kern_diag *diag);

// When a launch began at the earliest, since what was before it on the stream ended then, and when
// it ended, in nanoseconds of device time from the start of its program.
struct kern_launch_time {
    const char *place; // "programs.step.calls[0] (send).launches[0]"
    uint64_t begin, end;
};

// The launches of the program last issued and waited for; none if it ran as a graph or launches are
// not timed. Borrowed until the next issue.
bool kern_rank_launch_times(struct kern_rank *rank, const struct kern_launch_time **times,
                            size_t *count, struct kern_diag *diag);

// Reads the first [length] bytes of an output, inout, carry or workspace buffer, and waits.
bool kern_rank_read(struct kern_rank *rank, uint32_t buffer, void *bytes, size_t length,
                    struct kern_diag *diag);

// What the item last waited for left in output [buffer], all of its bytes, however many were issued
// since; NULL if items do not copy it out. Valid until the next issue.
const void *kern_rank_kept(const struct kern_rank *rank, uint32_t buffer);

// Looks at every output with fill `error` that [program], the one last waited for, wrote; a
// non-zero word is a KERN_EXIT_PEER error that names buffer, value and program.
bool kern_rank_check_errors(struct kern_rank *rank, uint32_t program, struct kern_diag *diag);

// What a program is made of, for reports.
struct kern_program_facts {
    size_t launches; // kernel and built-in launches of one run, before `when` decides
    uint64_t
        bytes;  // declared operands: bytes that calls read plus bytes that they write, at [vars]
    bool graph; // it runs as a graph
    bool *reads_var;      // per var; borrowed
    bool *touches_buffer; // per buffer; borrowed
};
bool kern_rank_program_facts(const struct kern_rank *rank, uint32_t program, const uint64_t *vars,
                             struct kern_program_facts *facts, struct kern_diag *diag);

// What the rank allocated on its device, in bytes.
struct kern_rank_memory {
    uint64_t weights, workspace, carry, io, peer, scratch, states, exported;
};
void kern_rank_memory(const struct kern_rank *rank, struct kern_rank_memory *memory);

// Waits for the device (unless [abandon]: kernels may be waiting for a lost peer), then gives
// everything back. Mappings of peers must be gone before. NULL is allowed.
void kern_rank_destroy(struct kern_rank *rank, bool abandon);

#endif
