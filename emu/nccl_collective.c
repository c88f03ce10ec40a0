// SPDX-License-Identifier: Apache-2.0
//
// The three collectives, in pieces of at most a stage. Every sum is made in the order of the ranks,
// an all-reduce's by one rank for all, so all ranks have the same bits.
#include "emu/nccl.h"
#include "emu/spin.h"

#include <stdio.h>
#include <string.h>

static const char *const kind_names[] = {
    [EMU_NCCL_ALL_REDUCE] = "ncclAllReduce",
    [EMU_NCCL_ALL_GATHER] = "ncclAllGather",
    [EMU_NCCL_REDUCE_SCATTER] = "ncclReduceScatter",
};

struct collective {
    struct emu_nccl_comm *comm;
    struct emu_nccl_terms terms;
    size_t width; // bytes of an element
    const unsigned char *send;
    unsigned char *recv;
    int other; // after EMU_NCCL_MET_OTHER_TERMS
};

static enum emu_nccl_met step(struct collective *c)
{
    return emu_nccl_step(c->comm, &c->terms, &c->other);
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static enum emu_nccl_met all_gather(struct collective *c)
{
    size_t count = c->terms.count;
    size_t piece = EMU_NCCL_STAGE_BYTES / c->width;
    for (size_t at = 0; at < count; at += piece) {
        size_t bytes = smaller(piece, count - at) * c->width;
        memcpy(emu_nccl_next_stage(c->comm, c->comm->rank), c->send + at * c->width, bytes);
        enum emu_nccl_met met = step(c);
        if (met != EMU_NCCL_MET) {
            return met;
        }
        for (int rank = 0; rank < c->comm->n_ranks; rank++) {
            memcpy(c->recv + ((size_t)rank * count + at) * c->width, emu_nccl_stage(c->comm, rank),
                   bytes);
        }
    }
    return EMU_NCCL_MET;
}

// Sums what all ranks staged for the step just made, from byte [offset] of their stages on.
static void sum_stages(struct collective *c, void *to, size_t offset, size_t count)
{
    const void *from[EMU_NCCL_MAX_RANKS];
    for (int rank = 0; rank < c->comm->n_ranks; rank++) {
        from[rank] = emu_nccl_stage(c->comm, rank) + offset;
    }
    emu_nccl_sum((ncclDataType_t)c->terms.type, to, from, c->comm->n_ranks, count);
}

static enum emu_nccl_met reduce_scatter(struct collective *c)
{
    size_t count = c->terms.count;
    size_t n_ranks = (size_t)c->comm->n_ranks;
    size_t piece = EMU_NCCL_STAGE_BYTES / c->width / n_ranks;
    for (size_t at = 0; at < count; at += piece) {
        size_t some = smaller(piece, count - at);
        unsigned char *stage = emu_nccl_next_stage(c->comm, c->comm->rank);
        for (size_t rank = 0; rank < n_ranks; rank++) {
            memcpy(stage + rank * some * c->width, c->send + (rank * count + at) * c->width,
                   some * c->width);
        }
        enum emu_nccl_met met = step(c);
        if (met != EMU_NCCL_MET) {
            return met;
        }
        sum_stages(c, c->recv + at * c->width, (size_t)c->comm->rank * some * c->width, some);
    }
    return EMU_NCCL_MET;
}

// Two steps for a piece: each rank sums its part of it, and gives the sums to all.
static enum emu_nccl_met all_reduce(struct collective *c)
{
    size_t count = c->terms.count;
    size_t n_ranks = (size_t)c->comm->n_ranks;
    size_t own = (size_t)c->comm->rank;
    size_t piece = EMU_NCCL_STAGE_BYTES / c->width;
    for (size_t at = 0; at < count; at += piece) {
        size_t some = smaller(piece, count - at);
        memcpy(emu_nccl_next_stage(c->comm, c->comm->rank), c->send + at * c->width,
               some * c->width);
        enum emu_nccl_met met = step(c);
        if (met != EMU_NCCL_MET) {
            return met;
        }
        size_t begin = some * own / n_ranks, end = some * (own + 1) / n_ranks;
        sum_stages(c, emu_nccl_next_stage(c->comm, c->comm->rank), begin * c->width, end - begin);
        met = step(c);
        if (met != EMU_NCCL_MET) {
            return met;
        }
        for (size_t rank = 0; rank < n_ranks; rank++) {
            begin = some * rank / n_ranks;
            end = some * (rank + 1) / n_ranks;
            memcpy(c->recv + (at + begin) * c->width, emu_nccl_stage(c->comm, (int)rank),
                   (end - begin) * c->width);
        }
    }
    return EMU_NCCL_MET;
}

// All ranks must have issued the same; a real NCCL would hang here, or give wrong results.
static CUresult report_terms(struct collective *c)
{
    struct emu_nccl_comm *comm = c->comm;
    const struct emu_nccl_slot *slot = &comm->shared->slots[c->other];
    const struct emu_nccl_terms *theirs = &slot->terms[(comm->step + 1) % 2];
    bool known = theirs->kind < sizeof kind_names / sizeof kind_names[0];
    snprintf(comm->message, sizeof comm->message,
             "rank %d is in %s of %llu elements of type %u while rank %d is in %s of %llu elements "
             "of type %u",
             comm->rank, kind_names[c->terms.kind], (unsigned long long)c->terms.count,
             c->terms.type, c->other, known ? kind_names[theirs->kind] : "nothing known",
             (unsigned long long)theirs->count, theirs->type);
    fprintf(stderr, "kern-emu: NCCL: %s\n", comm->message);
    atomic_store(&comm->error, ncclInvalidUsage);
    return CUDA_ERROR_LAUNCH_FAILED;
}

static CUresult run(struct emu_nccl_comm *comm, const struct emu_nccl_op *op)
{
    static enum emu_nccl_met (*const kinds[])(struct collective *) = {
        [EMU_NCCL_ALL_REDUCE] = all_reduce,
        [EMU_NCCL_ALL_GATHER] = all_gather,
        [EMU_NCCL_REDUCE_SCATTER] = reduce_scatter,
    };
    struct collective c = {
        .comm = comm,
        .terms = op->terms,
        .width = emu_nccl_type_bytes((ncclDataType_t)op->terms.type),
        .send = op->send,
        .recv = op->recv,
    };
    enum emu_nccl_met met = kinds[op->terms.kind](&c);
    return met == EMU_NCCL_MET_OTHER_TERMS ? report_terms(&c) : CUDA_SUCCESS;
}

// Collectives of one communicator run one at a time, whatever their streams.
static bool take_turn(struct emu_nccl_comm *comm)
{
    int looks = 0;
    while (atomic_exchange(&comm->busy, true)) {
        if (atomic_load(&comm->abort)) {
            return false;
        }
        emu_relax(&looks);
    }
    return true;
}

// Work of an aborted communicator does nothing, in whatever state it leaves its results.
CUresult emu_nccl_run(const void *arguments)
{
    const struct emu_nccl_op *op = arguments;
    struct emu_nccl_comm *comm = emu_handle_get(op->comm, EMU_COMMUNICATOR);
    if (comm == NULL) {
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    CUresult result = CUDA_SUCCESS;
    atomic_fetch_add(&comm->users, 1);
    if (atomic_load(&comm->abort)) {
        result = CUDA_SUCCESS;
    } else if (atomic_load(&comm->life) == EMU_NCCL_GONE) {
        fprintf(stderr, "kern-emu: NCCL: %s of a communicator that was destroyed\n",
                kind_names[op->terms.kind]);
        result = CUDA_ERROR_LAUNCH_FAILED;
    } else if (take_turn(comm)) {
        result = run(comm, op);
        atomic_store(&comm->busy, false);
    }
    atomic_fetch_sub(&comm->users, 1);
    emu_handle_put(comm);
    return result;
}

// ---------------------------------------------------------------------------------------------
// Issuing

static ncclResult_t cuda_failed(CUresult result)
{
    return emu_nccl_fail(ncclUnhandledCudaError, "CUDA error %d", (int)result);
}

// [comm->issue] is held.
static CUresult submit_after_last(struct emu_nccl_comm *comm, const struct emu_nccl_op *op,
                                  struct emu_stream *stream, CUstream handle)
{
    bool captured = atomic_load(&stream->capture) != NULL;
    CUresult result = captured ? CUDA_SUCCESS : emu_submit_wait(stream, comm->last);
    if (result == CUDA_SUCCESS) {
        result = emu_submit_call(handle, kind_names[op->terms.kind], emu_nccl_run, op, sizeof *op);
    }
    if (result == CUDA_SUCCESS && !captured) {
        emu_handle_ref(stream);
        if (comm->last.stream != NULL) {
            emu_handle_put(comm->last.stream);
        }
        comm->last = emu_stream_end(stream);
    }
    return result;
}

ncclResult_t emu_nccl_submit(struct emu_nccl_comm *comm, const struct emu_nccl_op *op,
                             CUstream handle)
{
    CUresult result;
    struct emu_stream *stream = emu_stream_get(handle, &result);
    if (stream == NULL) {
        return cuda_failed(result);
    }
    if (stream->handle.context != comm->handle.context) {
        emu_handle_put(stream);
        return emu_nccl_fail(ncclInvalidArgument, "the stream is not of the communicator's device");
    }
    pthread_mutex_lock(&comm->issue);
    result = submit_after_last(comm, op, stream, handle);
    pthread_mutex_unlock(&comm->issue);
    emu_handle_put(stream);
    return result == CUDA_SUCCESS ? ncclSuccess : cuda_failed(result);
}

// Bytes that an operation sends and receives; false if they are more than there can be.
static bool measure(const struct emu_nccl_comm *comm, const struct emu_nccl_op *op, size_t *send,
                    size_t *recv)
{
    size_t width = emu_nccl_type_bytes((ncclDataType_t)op->terms.type);
    size_t block, all;
    if (__builtin_mul_overflow(op->terms.count, width, &block) ||
        __builtin_mul_overflow(block, (size_t)comm->n_ranks, &all)) {
        return false;
    }
    *send = op->terms.kind == EMU_NCCL_REDUCE_SCATTER ? all : block;
    *recv = op->terms.kind == EMU_NCCL_ALL_GATHER ? all : block;
    return true;
}

// In place means that a rank's own block is where it would be in the larger of the two buffers.
static bool overlap_is_in_place(const struct emu_nccl_comm *comm, const struct emu_nccl_op *op,
                                size_t send_bytes, size_t recv_bytes)
{
    uintptr_t send = (uintptr_t)op->send, recv = (uintptr_t)op->recv;
    if (send >= recv + recv_bytes || recv >= send + send_bytes) {
        return true;
    }
    size_t rank = (size_t)comm->rank;
    switch (op->terms.kind) {
    case EMU_NCCL_ALL_GATHER:
        return send == recv + rank * send_bytes;
    case EMU_NCCL_REDUCE_SCATTER:
        return recv == send + rank * recv_bytes;
    default:
        return send == recv;
    }
}

static ncclResult_t check(const struct emu_nccl_comm *comm, const struct emu_nccl_op *op)
{
    const char *name = kind_names[op->terms.kind];
    size_t width = emu_nccl_type_bytes((ncclDataType_t)op->terms.type);
    size_t send_bytes, recv_bytes;
    int device = comm->handle.context->device;
    if (!measure(comm, op, &send_bytes, &recv_bytes)) {
        return emu_nccl_fail(ncclInvalidArgument, "%s: the count is too large", name);
    }
    if ((uintptr_t)op->send % width != 0 || (uintptr_t)op->recv % width != 0) {
        return emu_nccl_fail(ncclInvalidArgument, "%s: a buffer is not aligned to its type", name);
    }
    if (!emu_memory_ok(device, (uintptr_t)op->send, send_bytes, false)) {
        return emu_nccl_fail(ncclInvalidArgument, "%s: %zu bytes to send are not all device memory",
                             name, send_bytes);
    }
    if (!emu_memory_ok(device, (uintptr_t)op->recv, recv_bytes, true)) {
        return emu_nccl_fail(ncclInvalidArgument,
                             "%s: room for %zu bytes to receive is not all device memory", name,
                             recv_bytes);
    }
    if (!overlap_is_in_place(comm, op, send_bytes, recv_bytes)) {
        return emu_nccl_fail(ncclInvalidUsage,
                             "%s: the buffers overlap and the operation is not in place", name);
    }
    return ncclSuccess;
}

// A communicator that is not ready, or where something went wrong, takes no work.
static ncclResult_t check_ready(struct emu_nccl_comm *comm)
{
    int error = atomic_load(&comm->error);
    if (error != ncclSuccess) {
        return (ncclResult_t)error;
    }
    return atomic_load(&comm->life) == EMU_NCCL_READY
               ? ncclSuccess
               : emu_nccl_fail(ncclInvalidArgument, "the communicator is not ready: it is starting "
                                                    "or was finalized");
}

static ncclResult_t issue(ncclComm_t handle, CUstream stream, struct emu_nccl_op op)
{
    struct emu_nccl_comm *comm = emu_nccl_get(handle);
    ncclResult_t result = comm == NULL ? ncclInvalidArgument : check_ready(comm);
    if (result == ncclSuccess && emu_nccl_type_bytes((ncclDataType_t)op.terms.type) == 0) {
        result = emu_nccl_fail(ncclInvalidArgument, "%s: type %u is none that is emulated",
                               kind_names[op.terms.kind], op.terms.type);
    }
    if (result != ncclSuccess || op.terms.count == 0) {
        return result;
    }
    op.comm = comm->handle.value;
    result = check(comm, &op);
    if (result != ncclSuccess) {
        return result;
    }
    return emu_nccl_in_group() ? emu_nccl_group_submit(comm, &op, stream)
                               : emu_nccl_submit(comm, &op, stream);
}

static struct emu_nccl_op make_op(enum emu_nccl_kind kind, const void *send, void *recv,
                                  size_t count, ncclDataType_t type)
{
    return (struct emu_nccl_op){
        .terms = {(uint32_t)kind, (uint32_t)type, count}, .send = send, .recv = recv};
}

static ncclResult_t check_sum(enum emu_nccl_kind kind, ncclRedOp_t op)
{
    return op == ncclSum ? ncclSuccess
                         : emu_nccl_fail(ncclInvalidArgument,
                                         "%s: operation %d is none that is "
                                         "emulated: sums are",
                                         kind_names[kind], (int)op);
}

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, CUstream stream)
{
    EMU_NCCL_ENTER(EMU_NEEDS_CONTEXT);
    ncclResult_t result = check_sum(EMU_NCCL_ALL_REDUCE, op);
    if (result == ncclSuccess) {
        result = issue(comm, stream, make_op(EMU_NCCL_ALL_REDUCE, send, recv, count, type));
    }
    return emu_nccl_group_error(result);
}

ncclResult_t ncclAllGather(const void *send, void *recv, size_t send_count, ncclDataType_t type,
                           ncclComm_t comm, CUstream stream)
{
    EMU_NCCL_ENTER(EMU_NEEDS_CONTEXT);
    return emu_nccl_group_error(
        issue(comm, stream, make_op(EMU_NCCL_ALL_GATHER, send, recv, send_count, type)));
}

ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t recv_count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, CUstream stream)
{
    EMU_NCCL_ENTER(EMU_NEEDS_CONTEXT);
    ncclResult_t result = check_sum(EMU_NCCL_REDUCE_SCATTER, op);
    if (result == ncclSuccess) {
        result =
            issue(comm, stream, make_op(EMU_NCCL_REDUCE_SCATTER, send, recv, recv_count, type));
    }
    return emu_nccl_group_error(result);
}
