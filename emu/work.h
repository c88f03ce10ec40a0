// SPDX-License-Identifier: Apache-2.0
//
// Work of the emulated GPU: what a stream holds, how it is handed to the stream's worker, and how a
// capture takes it instead.
//
// A unit of work is a struct emu_work: a header and a payload behind it, movable as one block of
// bytes. The same block stands in the ring of a stream, in a node of a graph and in an executable
// graph. Work that names an object (a function, an event, a stream, an executable graph) holds one
// reference to it; emu_work_drop gives them back.
//
// Positions. A stream counts what was submitted to it and what is completed. A point in a stream's
// work is a fence: the stream and a count; it is reached when the stream has completed that many.
// Events, waits between streams and synchronisation are nothing but fences.
//
// Locks of level 1 (internal.h), in the order in which they may be nested: an executable graph's,
// the capture lock, a stream's submission lock, the list of streams, an event's.
#ifndef KERN_EMU_WORK_H
#define KERN_EMU_WORK_H

#include "device/abi/host_module.h"
#include "emu/api.h"
#include "emu/internal.h"

#include <pthread.h>

// ---------------------------------------------------------------------------------------------
// Gates (queue.c): sleeping until a condition over atomics holds

struct emu_gate {
    atomic_uint turns;
    atomic_uint sleepers;
};

// Waits until holds(context, value) is true: a hundred pauses, a few yields, then asleep. Whoever
// makes the condition true does so with sequentially consistent stores and calls emu_gate_open
// afterwards.
void emu_gate_wait(struct emu_gate *gate, bool (*holds)(const void *context, uint64_t value),
                   const void *context, uint64_t value);
void emu_gate_open(struct emu_gate *gate);

// ---------------------------------------------------------------------------------------------
// Units of work (run.c)

#define EMU_MAX_PARAM_BYTES 32764u // of one kernel, as on compute capability 9.0

enum emu_work_kind {
    EMU_WORK_PAD, // the unused end of a ring
    EMU_WORK_KERNEL,
    EMU_WORK_COPY,
    EMU_WORK_FILL,
    EMU_WORK_CALL,
    EMU_WORK_RECORD,
    EMU_WORK_WAIT,  // for a fence
    EMU_WORK_AWAIT, // for an event, in graphs only: its fence is found when the graph is launched
    EMU_WORK_GRAPH,
};

struct emu_fence {
    struct emu_stream *stream; // NULL: no work at all, always reached
    uint64_t position;
};

// Work of another file of emu (a GEMM, a collective). Returns CUDA_SUCCESS or the error that
// poisons the context.
typedef CUresult emu_call(const void *arguments);

struct emu_kernel_work {
    struct emu_function *function; // referenced
    struct kern_host_grid grid;    // payload: the parameter block, then pointers into it
};

struct emu_copy_work {
    unsigned char *to;
    const unsigned char *from; // NULL: the payload, staged when the copy was submitted
    size_t to_pitch, from_pitch, width, height;
};

struct emu_fill_work {
    unsigned char *to;
    size_t count;
    uint32_t value;
    uint32_t width; // bytes of an element: 1 or 4
};

struct emu_call_work {
    const char *name;
    emu_call *run; // on the payload
};

struct emu_work {
    uint32_t bytes; // the whole block, a multiple of EMU_WORK_UNIT
    uint16_t kind;
    uint32_t ticks; // positions of the stream that it takes
    union {
        struct emu_kernel_work kernel;
        struct emu_copy_work copy;
        struct emu_fill_work fill;
        struct emu_call_work call;
        struct emu_event *event;      // RECORD, AWAIT; referenced
        struct emu_fence wait;        // its stream referenced
        struct emu_graph_exec *graph; // referenced; payload: a fence for each AWAIT of it
    };
};

// Blocks start at multiples of this, and so does the payload: the strictest alignment of a kernel
// parameter (CUtensorMap).
#define EMU_WORK_UNIT ((size_t)64)
#define EMU_WORK_ROUND(bytes) (((bytes) + EMU_WORK_UNIT - 1) / EMU_WORK_UNIT * EMU_WORK_UNIT)
#define EMU_WORK_HEADER EMU_WORK_ROUND(sizeof(struct emu_work))
#define EMU_MAX_PAYLOAD ((size_t)128 << 10)

static inline void *emu_work_payload(struct emu_work *work)
{
    return (unsigned char *)work + EMU_WORK_HEADER;
}

// Runs [work] as the work of [stream] whose position before it is [position]. Whatever goes wrong
// poisons the stream's context, and work of a poisoned context is not run.
void emu_work_run(struct emu_work *work, struct emu_stream *stream, uint64_t position);

// Takes, or gives back, one more set of the references that [work] holds.
void emu_work_hold(struct emu_work *work);
void emu_work_drop(struct emu_work *work);

// While paused, kernels and calls are dropped unexecuted (kern_emu_pause).
bool emu_paused(void);

// ---------------------------------------------------------------------------------------------
// Faults (trap.c)

struct emu_fault {
    int signal;
    uintptr_t address;
};

// Installs the handler of SIGSEGV, SIGBUS and SIGFPE, once in the process. Faults that arise
// outside of emu_trap_run go to the handlers that were there before.
void emu_trap_install(void);

// Gives the calling thread the alternate stack that its faults are handled on, and takes it back.
void emu_trap_thread_begin(void);
void emu_trap_thread_end(void);

// body(argument); false if it ended with a fault, which is then in [fault].
bool emu_trap_run(void (*body)(void *argument), void *argument, struct emu_fault *fault);

// One line on stderr: what faulted, where, and what device memory is near.
void emu_trap_report(const char *what, const char *name, const struct emu_fault *fault);

// ---------------------------------------------------------------------------------------------
// Streams (stream.c: the functions; queue.c: the ring and its worker)

struct emu_stream {
    struct emu_handle handle; // value 0: the legacy default stream of its context
    struct emu_stream *next;  // of the context's streams, guarded by the list's lock
    uint64_t serial;          // ascending in that list
    unsigned flags;           // CU_STREAM_NON_BLOCKING or 0

    pthread_mutex_t lock; // of submission, and of [started]
    bool started;         // there is a worker
    atomic_bool closing;  // no more work comes; the worker leaves when it has done the rest
    unsigned char *ring;
    uint64_t reserved;     // bytes written behind tail by the submission in progress
    _Atomic uint64_t tail; // bytes handed to the worker since the stream was made
    _Atomic uint64_t head; // bytes that the worker is done with
    _Atomic uint64_t submitted;
    _Atomic uint64_t completed;
    struct emu_gate work;     // opens when tail or closing changes
    struct emu_gate progress; // opens when head or completed changes
    uint64_t random;          // state of the worker's delays

    // What follows is guarded by the capture lock; [capture] may be read without it.
    struct emu_capture *_Atomic capture;
    struct emu_stream *next_member; // of the same capture
    struct emu_tails {
        uint32_t *node; // numbers of the nodes that the next node comes after
        size_t count, room;
    } tails;
};

// The stream behind a handle of the current context's thread, with a reference; NULL and
// CU_STREAM_LEGACY are the current context's default stream. On failure sets [*error].
struct emu_stream *emu_stream_get(CUstream handle, CUresult *error);

bool emu_stream_is_legacy(const struct emu_stream *stream);

// Initialises and releases ring, locks and gates (queue.c).
bool emu_queue_init(struct emu_stream *stream);
void emu_queue_free(struct emu_stream *stream);

// No more work: the worker leaves after what is pending. Takes the stream off the list of streams
// when nothing is left to be done.
void emu_queue_close(struct emu_stream *stream);

// Takes [stream] off its context's list (stream.c); by whoever did its last work. The list keeps no
// reference: whoever holds one until then keeps the stream on it.
void emu_stream_unlist(struct emu_stream *stream);

// Submits what the implicit order between the legacy stream and blocking streams demands before
// work on [stream].
CUresult emu_stream_order_legacy(struct emu_stream *stream);

bool emu_fence_reached(struct emu_fence fence);
void emu_fence_wait(struct emu_fence fence);

// The end of all that was submitted to [stream] so far. Borrows the stream.
struct emu_fence emu_stream_end(struct emu_stream *stream);

// ---------------------------------------------------------------------------------------------
// Submission (submit.c): to a stream's ring, or to the graph that the stream is being captured into

struct emu_submission {
    struct emu_stream *stream;
    struct emu_graph_node *node; // NULL: not captured
    struct emu_work *work;       // header and payload to be filled by the caller
    uint64_t position;           // of the stream before this work; not captured only
};

// Opens a submission of [payload] bytes. On success the caller fills work's union and payload, and
// calls _commit, which never fails; in between the stream (or the capture) is locked.
CUresult emu_submit_begin(struct emu_submission *submission, struct emu_stream *stream,
                          enum emu_work_kind kind, size_t payload);
void emu_submit_commit(struct emu_submission *submission);

// Makes later work of [stream] wait for [fence]; nothing if that is always so. Never captured.
CUresult emu_submit_wait(struct emu_stream *stream, struct emu_fence fence);

// Submits a call of [run] with a copy of [arguments]; captured like a kernel. [name] is for
// messages and has static storage. The caller has checked the memory that it will touch.
CUresult emu_submit_call(CUstream handle, const char *name, emu_call *run, const void *arguments,
                         size_t bytes);

// The two halves that submit.c chooses from.
CUresult emu_queue_begin(struct emu_submission *submission, size_t payload);
void emu_queue_commit(struct emu_submission *submission);
CUresult emu_capture_begin_node(struct emu_submission *submission, size_t payload);
void emu_capture_commit_node(struct emu_submission *submission);

// ---------------------------------------------------------------------------------------------
// Events (event.c)

struct emu_event {
    struct emu_handle handle;
    unsigned flags;
    pthread_mutex_t lock;
    struct emu_fence fence; // the last record, its stream referenced; none: never recorded
    bool stamped;           // the worker has passed it
    uint64_t nanoseconds;   // then: when, by CLOCK_MONOTONIC

    // Guarded by the capture lock: the last record was captured, in this capture, after these
    // nodes.
    uint64_t capture;
    struct emu_tails tails;
};

// The event now stands for [position] of [stream].
void emu_event_mark(struct emu_event *event, struct emu_stream *stream, uint64_t position);

// The worker of [stream] has got to [position]: takes the time if the event still stands for it.
void emu_event_stamp(struct emu_event *event, struct emu_stream *stream, uint64_t position);

// What the event stands for; the fence's stream is referenced for the caller.
struct emu_fence emu_event_fence(struct emu_event *event);

// ---------------------------------------------------------------------------------------------
// Modules and functions (module.c, host_image.c, function.c)

struct emu_image {
    void *library; // of dlopen
    const struct kern_host_module *table;
};

// Loads the host half of a kernel artifact from its bytes. On failure says why on stderr where the
// code does not tell.
CUresult emu_image_load(const void *bytes, struct emu_image *image);
void emu_image_unload(struct emu_image *image);

struct emu_module {
    struct emu_handle handle;
    struct emu_image image;
    uint64_t *functions;  // handle values, one per entry of the table
    atomic_bool unloaded; // by the caller; graphs with its kernels are refused from then on
};

struct emu_function {
    struct emu_handle handle;
    struct emu_module *module; // referenced: code stays loaded while work of it is pending
    const struct kern_host_entry *entry;
    size_t param_bytes;
    atomic_int max_dynamic_shared;
    atomic_int non_portable_cluster;
    atomic_int carveout;
    atomic_int cluster_policy;
};

struct emu_function *emu_function_new(struct emu_module *module,
                                      const struct kern_host_entry *entry);

// ---------------------------------------------------------------------------------------------
// Capture (capture.c) and graphs (graph.c)

struct emu_graph_node {
    struct emu_handle handle;
    struct emu_work *work;
    uint32_t *after; // numbers of the nodes that it comes after, all smaller than its own
    size_t n_after;
};

struct emu_graph {
    struct emu_handle handle;
    struct emu_graph_node **nodes; // in the order of capture, each referenced
    size_t count, room;
};

// Room in [tails] for [more] nodes; all of [from] into [to]. False, and no change, without memory.
bool emu_tails_room(struct emu_tails *tails, size_t more);
bool emu_tails_add(struct emu_tails *to, const struct emu_tails *from);

struct emu_graph *emu_graph_new(struct emu_context *context);

// Adds a node with room for [payload] bytes, to come after [tails]. NULL without memory.
struct emu_graph_node *emu_graph_add(struct emu_graph *graph, size_t payload,
                                     const struct emu_tails *tails);

// Whether every node is one of [tails] or comes before one of them.
bool emu_graph_joined(const struct emu_graph *graph, const struct emu_tails *tails);

// CUDA_SUCCESS if [stream] is not being captured, else an error, and its capture is invalid from
// now on: for calls that a capture does not allow on its streams.
CUresult emu_capture_refuse(struct emu_stream *stream);

// The same for every stream of [context], and for its blocking streams, with the error that the
// legacy stream gives.
CUresult emu_capture_refuse_context(struct emu_context *context);
CUresult emu_capture_refuse_legacy(struct emu_context *context);

// CUDA_SUCCESS if the event's last record was not captured, else CUDA_ERROR_CAPTURED_EVENT, and
// that capture is invalid.
CUresult emu_capture_refuse_event(struct emu_event *event);

// If recording [event] on [stream], or waiting for it, concerns a capture alone, does it, sets
// [*taken] and returns the result. Else leaves it to the caller, as it leaves an external record,
// which is a node like others.
CUresult emu_capture_record(struct emu_stream *stream, struct emu_event *event, bool external,
                            bool *taken);
CUresult emu_capture_wait(struct emu_stream *stream, struct emu_event *event, bool external,
                          bool *taken);

// Ends the captures that streams of [context] take part in.
void emu_capture_abandon(struct emu_context *context);

struct emu_graph_exec {
    struct emu_handle handle;
    pthread_mutex_t lock;    // of launching
    struct emu_work **works; // into [block], in order
    size_t count;
    unsigned char *block;
    struct emu_work **fencing; // the RECORD and AWAIT among the works, in order
    size_t n_fencing, n_records, n_awaits;
    struct emu_fence last; // the last launch, its stream referenced
};

#endif
