// SPDX-License-Identifier: Apache-2.0
//
// NCCL of the emulated GPU: communicators between processes of one machine. The ranks share one
// anonymous file, which holds a slot and two stages for each of them; a message goes through the
// stages in pieces. Nothing of it has a name in a file system, so nothing is left when processes
// are killed.
//
// How a communicator comes about. ncclGetUniqueId listens on an abstract socket under a random
// name, which the id holds, in a thread of the process that called it. Each rank connects, says who
// it is, and is sent the shared file (emu/nccl_rendezvous.c). It writes its identity into its slot
// and waits for all the others to do so.
#ifndef KERN_EMU_NCCL_H
#define KERN_EMU_NCCL_H

#include "emu/libraries.h"
#include "emu/work.h"

#include <poll.h>

#define EMU_NCCL_MAX_RANKS 1024
#define EMU_NCCL_STAGE_BYTES ((size_t)256 << 10)

// ---------------------------------------------------------------------------------------------
// The shared file

enum emu_nccl_presence { EMU_NCCL_ABSENT, EMU_NCCL_JOINED, EMU_NCCL_LEFT, EMU_NCCL_ABORTED };

// A collective, as all ranks must have it.
struct emu_nccl_terms {
    uint32_t kind; // enum emu_nccl_kind
    uint32_t type; // ncclDataType_t
    uint64_t count;
};

struct emu_nccl_slot {
    _Alignas(128) _Atomic uint32_t presence; // enum emu_nccl_presence
    int32_t pid;
    int32_t device; // CUdevice in its process, for messages
    unsigned char uuid[16];
    struct emu_nccl_terms terms[2]; // of its steps, by parity

    // How many steps this rank has reached. Others that sleep until it changes count themselves.
    _Alignas(128) _Atomic uint32_t step;
    _Atomic uint32_t sleepers;
};

struct emu_nccl_shared {
    uint32_t n_ranks;
    struct emu_nccl_slot slots[];
};

size_t emu_nccl_shared_bytes(int n_ranks);

// ---------------------------------------------------------------------------------------------
// Communicators (nccl_comm.c)

enum emu_nccl_life {
    EMU_NCCL_STARTING,   // its thread waits for the other ranks
    EMU_NCCL_FAILED,     // to start: [error] says how
    EMU_NCCL_READY,      //
    EMU_NCCL_FINALIZING, //
    EMU_NCCL_GONE,       // destroyed or aborted; work of it may still be pending
};

// It belongs to its context and lives as long, so that work of it that is still pending, or stands
// in a graph, finds it and finds it gone.
struct emu_nccl_comm {
    struct emu_handle handle;
    int rank, n_ranks;
    bool blocking;
    ncclUniqueId id;

    pthread_t thread; // of the start; to be joined if [has_thread]
    bool has_thread;
    atomic_int life;       // enum emu_nccl_life
    atomic_int error;      // ncclResult_t: of the start, or of a collective that went wrong
    char message[256];     // what [error] means; written before it
    atomic_bool abort;     // nobody waits for other ranks any more
    atomic_uint users;     // workers that may look at [shared]
    atomic_bool busy;      // one of them is in a collective
    struct emu_fence last; // the last collective that was issued, its stream referenced
    pthread_mutex_t issue; // guards [last]
    struct pollfd peers[EMU_NCCL_MAX_RANKS]; // a pidfd of each rank; -1: its own, or dead already

    struct emu_nccl_shared *shared;
    uint32_t step; // that this rank has reached
};

// The communicator behind a handle, or NULL if there is none, or none any more:
// ncclInvalidArgument.
struct emu_nccl_comm *emu_nccl_get(ncclComm_t handle);

// Waits for the thread of the start; returns its result.
ncclResult_t emu_nccl_started(struct emu_nccl_comm *comm);

// ---------------------------------------------------------------------------------------------
// Meeting (nccl_rendezvous.c)

// The shared file of the communicator that [comm->id] names, as a file descriptor in [*fd].
ncclResult_t emu_nccl_meet(struct emu_nccl_comm *comm, int *file);

// ---------------------------------------------------------------------------------------------
// Steps (nccl_step.c)

enum emu_nccl_met { EMU_NCCL_MET, EMU_NCCL_MET_ABORT, EMU_NCCL_MET_OTHER_TERMS };

// Where [rank] stages what it gives to the step that follows, and where it staged it for the step
// just made.
unsigned char *emu_nccl_next_stage(const struct emu_nccl_comm *comm, int rank);
const unsigned char *emu_nccl_stage(const struct emu_nccl_comm *comm, int rank);

// One step: what this rank wrote into its next stage is given, and what the others gave can be
// read. A stage that was read from may be written again after one more step. On
// EMU_NCCL_MET_OTHER_TERMS,
// [*other] is a rank that is in another collective.
enum emu_nccl_met emu_nccl_step(struct emu_nccl_comm *comm, const struct emu_nccl_terms *terms,
                                int *other);

// Ends the waits of this process in [comm], whose abort flag is set.
void emu_nccl_wake(struct emu_nccl_comm *comm);

// ---------------------------------------------------------------------------------------------
// Collectives (nccl_collective.c, nccl_sum.c)

enum emu_nccl_kind { EMU_NCCL_ALL_REDUCE, EMU_NCCL_ALL_GATHER, EMU_NCCL_REDUCE_SCATTER };

struct emu_nccl_op {
    uint64_t comm; // a handle's value
    struct emu_nccl_terms terms;
    const void *send;
    void *recv;
};

// Bytes of an element; 0 for a type that is not emulated.
size_t emu_nccl_type_bytes(ncclDataType_t type);

// to[i] = from[0][i] + from[1][i] + …, in this order; sums of bf16 are f32 and rounded once.
void emu_nccl_sum(ncclDataType_t type, void *to, const void *const *from, int n, size_t count);

// Runs a struct emu_nccl_op, as an emu_call.
CUresult emu_nccl_run(const void *arguments);

// Submits [op] to [stream], behind the communicator's collectives on other streams.
ncclResult_t emu_nccl_submit(struct emu_nccl_comm *comm, const struct emu_nccl_op *op,
                             CUstream handle);

// ---------------------------------------------------------------------------------------------
// Errors and groups (nccl.c)

// As emu_enter, for a function of NCCL. [flags] as for emu_ready.
ncclResult_t emu_nccl_enter(const char *function, unsigned flags);

#define EMU_NCCL_ENTER(flags)                                                                      \
    do {                                                                                           \
        ncclResult_t entered_ = emu_nccl_enter(__func__, (flags));                                 \
        if (entered_ != ncclSuccess) {                                                             \
            return entered_;                                                                       \
        }                                                                                          \
    } while (0)

// Notes what ncclGetLastError will say to this thread, and returns [result].
ncclResult_t emu_nccl_fail(ncclResult_t result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// What it would say now.
const char *emu_nccl_last_error(void);

// In a group: notes that [comm] starts, or what is to be submitted, for ncclGroupEnd to do.
bool emu_nccl_in_group(void);
ncclResult_t emu_nccl_group_start(struct emu_nccl_comm *comm);
ncclResult_t emu_nccl_group_submit(struct emu_nccl_comm *comm, const struct emu_nccl_op *op,
                                   CUstream stream);

// An error of a call in a group is the group's.
ncclResult_t emu_nccl_group_error(ncclResult_t result);

#endif
