// SPDX-License-Identifier: Apache-2.0
//
// What the files of the emulated GPU share. emu implements the CUDA driver's functions on the CPU
// and refuses what the driver would refuse, with the driver's error code. It knows device/abi and
// nothing else of this repository.
//
// Locks. Four levels, always taken in this order:
//   0. the lock of cuDevicePrimaryCtxRetain and _Release, inside context.c only;
//   1. a stream's or a graph's own lock (stream.c and its neighbours);
//   2. emu_lock(): the address space;
//   3. the handle table's lock, inside registry.c only.
// Nobody waits for a stream, runs a kernel or calls the user's code while holding level 1, 2 or 3.
// emu_memory_ok(), emu_place(), emu_memory_bounds() and emu_clear() lock for themselves and are not
// called with emu_lock() held; the emu_handle_* functions may be. emu_enter() takes no lock as a
// rule.
#ifndef KERN_EMU_INTERNAL_H
#define KERN_EMU_INTERNAL_H

#include "emu/api.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Entry of an exported function (entry.c)

// Every exported function begins with EMU_ENTER(flags), which returns from it with
//   CUDA_ERROR_NOT_INITIALIZED            before cuInit, and in a child made by fork after it;
//   CUDA_ERROR_INVALID_CONTEXT            EMU_NEEDS_CONTEXT, and the thread has no current context;
//   CUDA_ERROR_CONTEXT_IS_DESTROYED       EMU_NEEDS_CONTEXT, and the current one was released;
//   the sticky error of the current context, unless EMU_IGNORE_STICKY;
//   CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED EMU_UNSAFE_IN_CAPTURE, and a capture forbids it;
//   the fault that KERN_EMU_FAIL asks for at this call, after the wait that KERN_EMU_DELAY asks
//   for.
enum emu_entry_flags {
    EMU_PLAIN = 0,
    EMU_NEEDS_CONTEXT = 1u << 0,
    EMU_UNSAFE_IN_CAPTURE = 1u << 1,
    EMU_IGNORE_STICKY = 1u << 2,
};

CUresult emu_enter(const char *function, unsigned flags);

// The same without the faults: for functions of the other libraries, whose faults have other codes.
CUresult emu_ready(unsigned flags);

#define EMU_ENTER(flags)                                                                           \
    do {                                                                                           \
        CUresult entered_ = emu_enter(__func__, (flags));                                          \
        if (entered_ != CUDA_SUCCESS) {                                                            \
            return entered_;                                                                       \
        }                                                                                          \
    } while (0)

// Configuration (config.c): the environment, read once by the first cuInit

#define EMU_MAX_DEVICES 256

enum emu_fabric {
    EMU_FABRIC_NONE,    // KERN_EMU_FABRIC=0: the device has no fabric handles
    EMU_FABRIC_REFUSED, // KERN_EMU_FABRIC=refuse: it has, and this process may not make any
    EMU_FABRIC_READY,   // KERN_EMU_FABRIC=1, the default
};

struct emu_config {
    unsigned n_installed;              // KERN_EMU_DEVICES: devices of the machine
    unsigned n_visible;                // of those, the ones that CUDA_VISIBLE_DEVICES shows
    unsigned visible[EMU_MAX_DEVICES]; // by CUdevice: the installed device's number
    uint64_t memory;                   // KERN_EMU_MEMORY: bytes per device and process
    enum emu_fabric fabric;
    bool node_limit; // KERN_EMU_NODE_LIMIT: POSIX handles stay within one host name
    int numa;        // KERN_EMU_NUMA: HOST_NUMA_ID of every device, -1: not known
    uint64_t node;   // emu_node_id()
    uint32_t delay;  // KERN_EMU_DELAY_US_MAX: microseconds before a unit of work, at most
    uint64_t seed;   // KERN_EMU_SEED: of the delays
};

// Valid from a successful cuInit on, and constant from then on.
const struct emu_config *emu_config(void);

// Reads the environment. On a malformed value prints one line on stderr and returns false.
bool emu_config_read(struct emu_config *config);

// log.c: a line on stderr, with the rank of this process if it is one of a job; of what concerns
// the environment of all processes, only the first says it.
void emu_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
void emu_log_once(const char *format, ...) __attribute__((format(printf, 1, 2)));
// This process's rank as its launcher tells it, or -1.
long emu_own_rank(void);

// Prints that one line: which variable, its value, and what was expected. Returns false.
bool emu_config_refuse(const char *variable, const char *value, const char *expected);

// "12", "16G", "512M": a decimal number and an optional suffix K, M, G or T (powers of 1024).
bool emu_parse_bytes(const char *text, uint64_t *bytes);

// Faults on demand (fault.c)

// Reads KERN_EMU_FAIL and KERN_EMU_DELAY; like emu_config_read on a malformed one.
bool emu_fault_read(void);

// Counts this call of [function] (its plain name), waits if a delay is asked for, and returns the
// error that it shall fail with, or 0: a CUresult, a cublasStatus_t or an ncclResult_t, as the
// function has it.
int emu_fault_next(const char *function);

// What was called, for KERN_EMU_CALLS (calls.c).

// Reads KERN_EMU_CALLS; from then on calls are counted if it is set.
void emu_calls_read(void);
void emu_calls_count(const char *function);

// The error called [name] ("CUDA_ERROR_OUT_OF_MEMORY", "2"); false if there is none.
bool emu_error_parse(const char *name, CUresult *error);

// Whether an error ends its context: every later call returns it.
bool emu_error_is_sticky(CUresult error);

// Contexts (context.c). One primary context per device. The structures are never freed, so that a
// pointer to one is always safe to follow; [live] says whether somebody retains it.

struct emu_streams;

struct emu_context {
    int device; // CUdevice
    atomic_bool live;
    atomic_int sticky;           // CUresult; CUDA_SUCCESS while the context is sound
    unsigned retained;           // context.c's
    struct emu_streams *streams; // stream.c's own: NULL until it makes something of it
};

// The calling thread's current context, or NULL. It may have been released: see [live].
struct emu_context *emu_context_current(void);

// The context behind a CUcontext that a caller passed, or NULL if it is none.
struct emu_context *emu_context_of(CUcontext handle);
CUcontext emu_context_handle(struct emu_context *context);

// Every later call in [context] fails with [error] (CUDA_ERROR_LAUNCH_FAILED, _ILLEGAL_ADDRESS and
// their like); the first one stays.
void emu_context_poison(struct emu_context *context, CUresult error);

// Waits for the streams of every live context, as the driver does before it takes memory away.
// Errors of their work are left for the next call that looks for them.
void emu_wait_all(void);

// Provided by stream.c: waits until all work of [context] has ended; returns its sticky error.
CUresult emu_streams_wait(struct emu_context *context);

// Provided by stream.c: the context goes. Waits for its work, ends its workers and frees
// [context->streams]. Its streams, events, modules and graphs are retired by the caller afterwards.
void emu_streams_close(struct emu_context *context);

// Provided by capture.c: whether a stream capture forbids the calling thread a call that is unsafe
// in a capture (cuThreadExchangeStreamCaptureMode has the rules); invalidates the captures that do.
bool emu_capture_forbids(void);

// The process-wide lock (space.c)

void emu_lock(void);
void emu_unlock(void);

// Handles (registry.c). What a caller holds is never an address: it is a number made of a magic
// number, the kind, a slot and the slot's generation. A handle that is stale, foreign, of another
// kind or plain rubbish is told from a live one without touching memory that it does not own.

enum emu_kind {
    EMU_STREAM,
    EMU_EVENT,
    EMU_MODULE,
    EMU_FUNCTION,
    EMU_GRAPH,
    EMU_GRAPH_NODE,
    EMU_GRAPH_EXEC,
    EMU_MEMORY, // what cuMemCreate and cuMemImportFromShareableHandle give
    EMU_CUBLAS,
    EMU_CUBLASLT,
    EMU_MATRIX_LAYOUT,
    EMU_MATMUL_DESC,
    EMU_MATMUL_PREFERENCE,
    EMU_COMMUNICATOR,
    EMU_KINDS
};

// The first member of every object that has a handle.
struct emu_handle {
    uint64_t value; // what the caller holds
    struct emu_context *context;
    atomic_uint references;
    void (*destroy)(void *object);
};

// A zeroed object of [bytes] bytes whose first member is a struct emu_handle, with a live handle
// and one reference, the handle's own. [destroy] is called, with no lock of this file held, when
// the last reference goes, and ends with free(object); NULL stands for free itself. [context] may
// be NULL for what belongs to no context. Returns NULL when there is no memory left.
void *emu_handle_new(enum emu_kind kind, size_t bytes, struct emu_context *context,
                     void (*destroy)(void *object));

// The object behind [handle] (a CUstream, CUevent, … cast to uint64_t by EMU_VALUE), or NULL if it
// is no live handle of this kind. _live borrows: for use while nobody else can free the handle, or
// to test only. _get takes a reference, which _put gives back.
void *emu_handle_live(uint64_t handle, enum emu_kind kind);
void *emu_handle_get(uint64_t handle, enum emu_kind kind);
void emu_handle_ref(void *object);
void emu_handle_put(void *object);

// Ends the handle: it is refused from now on, and its own reference goes. False if it had ended.
// The caller has a reference of its own (_get), since another thread may end the handle at this
// moment.
bool emu_handle_free(void *object);

// Ends every handle of [context].
void emu_handle_free_all(struct emu_context *context);

size_t emu_handle_count(enum emu_kind kind);

#define EMU_VALUE(handle) ((uint64_t)(uintptr_t)(handle))
// The handle of [object], as a value of the opaque pointer type [type].
#define EMU_HANDLE(type, object) ((type)(uintptr_t)((const struct emu_handle *)(object))->value)

// Memory (space.c; space.h has what only the files about memory need)

#define EMU_GRANULARITY ((size_t)2 << 20)
#define EMU_ALIGNMENT ((size_t)256) // of cuMemAlloc

// Whether a kernel or copy of [device] may read (or write) [bytes] bytes from [p] on: every one of
// them lies in live memory that is mapped and whose access was granted to [device], or in
// page-locked host memory. True for 0 bytes at any place.
bool emu_memory_ok(int device, CUdeviceptr p, size_t bytes, bool write);

enum emu_place {
    EMU_PLACE_PAGEABLE, // ordinary memory of the process, or no memory at all
    EMU_PLACE_PINNED,   // page-locked by cuMemHostAlloc or cuMemHostRegister
    EMU_PLACE_DEVICE,   // device memory, or reserved for it
};

// Where the byte at [p] lies. A host pointer of a copy that is EMU_PLACE_DEVICE is an error of the
// caller, and a unified copy (cuMemcpyAsync) finds its direction by it.
enum emu_place emu_place(const void *p);

// The live allocation, mapping or page-locked range that holds the byte at [p]. False if none does.
bool emu_memory_bounds(CUdeviceptr p, CUdeviceptr *begin, size_t *bytes);

// Sets [bytes] bytes from [to] on to zero, without giving memory to pages that never had any
// (clear.c).
void emu_clear(unsigned char *to, size_t bytes);

// Devices (device.c)

bool emu_device_ok(CUdevice device);

// Names this node: made of the machine's id and the host name, so that processes of one machine in
// different UTS namespaces stand on different nodes.
uint64_t emu_node_id(void);

// The UUID of device number [installed] of the node: the same in every process there.
void emu_device_uuid(uint64_t node, unsigned installed, unsigned char uuid[16]);

#endif
