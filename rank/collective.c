// SPDX-License-Identifier: Apache-2.0
//
// Collectives of NCCL: [count] is the elements of one member; an all-gather receives and a
// reduce-scatter sends those of all members, in group order.
#include "rank/builtin.h"

#include "base/clock.h"

// How long NCCL may take to put a collective on the stream. The peers have no part in that, since
// their connections were made when they joined.
#define ENQUEUE_SECONDS 60.0

struct extent {
    uint64_t count;      // elements of one member
    uint64_t send, recv; // UINT64_MAX: more than 64 bits can count
};

static const struct kern_group *group_of(const struct kern_rank *rank,
                                         const struct rank_builtin *builtin)
{
    return &rank->manifest->groups[builtin->group];
}

static bool find_extent(const struct kern_rank *rank, const struct rank_builtin *builtin,
                        const uint64_t *vars, struct extent *extent, struct kern_diag *diag)
{
    uint64_t all;
    if (!rank_operand_value(builtin, KERN_ROLE_COUNT, vars, &extent->count, diag)) {
        return false;
    }
    if (__builtin_mul_overflow(extent->count, group_of(rank, builtin)->size, &all)) {
        all = UINT64_MAX;
    }
    bool sends_all = builtin->info->builtin == KERN_BUILTIN_NCCL_REDUCESCATTER;
    bool receives_all = builtin->info->builtin == KERN_BUILTIN_NCCL_ALLGATHER;
    extent->send = sends_all ? all : extent->count;
    extent->recv = receives_all ? all : extent->count;
    return true;
}

// Whether send and recv have nothing in common or are what NCCL calls in place: the same memory, or
// this member's block of the larger one (NCCL documentation, "In-place Operations").
static bool check_overlap(const struct kern_rank *rank, const struct rank_builtin *builtin,
                          const struct extent *extent, struct kern_diag *diag)
{
    uint64_t size = kern_dtype_bytes(builtin->info->operand);
    uint64_t send = builtin->operands[KERN_ROLE_SEND].value, send_bytes = extent->send * size;
    uint64_t recv = builtin->operands[KERN_ROLE_RECV].value, recv_bytes = extent->recv * size;
    uint64_t block = rank->group_index[builtin->group] * extent->count * size;
    const char *right = "be the same memory";
    uint64_t own_send = send, own_recv = recv; // this member's block of either
    if (builtin->info->builtin == KERN_BUILTIN_NCCL_ALLGATHER) {
        own_recv += block;
        right = "send must be this member's block of recv";
    } else if (builtin->info->builtin == KERN_BUILTIN_NCCL_REDUCESCATTER) {
        own_send += block;
        right = "recv must be this member's block of send";
    }
    return send + send_bytes <= recv || recv + recv_bytes <= send || own_send == own_recv ||
           kern_fail(diag, KERN_EXIT_MANIFEST, builtin->place,
                     "send (%llu bytes at 0x%llx) and recv (%llu bytes at 0x%llx) overlap; they "
                     "must lie apart or %s",
                     (unsigned long long)send_bytes, (unsigned long long)send,
                     (unsigned long long)recv_bytes, (unsigned long long)recv, right);
}

static bool check_extent(const struct kern_rank *rank, const struct rank_builtin *builtin,
                         const struct extent *extent, struct kern_diag *diag)
{
    bool holds_send = rank_operand_holds(builtin, KERN_ROLE_SEND, extent->send);
    if (holds_send && rank_operand_holds(builtin, KERN_ROLE_RECV, extent->recv)) {
        return check_overlap(rank, builtin, extent, diag);
    }
    const struct kern_group *group = group_of(rank, builtin);
    const char *shape = kern_arena_print(
        &diag->arena, "%llu elements of %s for each of the %llu members of group %s",
        (unsigned long long)extent->count, kern_dtype_name(builtin->info->operand),
        (unsigned long long)group->size, group->name);
    return holds_send ? rank_operand_refuse(builtin, KERN_ROLE_RECV, extent->recv, shape, diag)
                      : rank_operand_refuse(builtin, KERN_ROLE_SEND, extent->send, shape, diag);
}

static bool visit_extent(struct kern_rank *rank, const struct rank_builtin *builtin,
                         const uint64_t *vars, struct kern_diag *diag)
{
    struct extent extent;
    return find_extent(rank, builtin, vars, &extent, diag) &&
           (extent.count == 0 || check_extent(rank, builtin, &extent, diag));
}

bool rank_collective_compile(struct rank_call_site *site, const struct kern_launch *declared,
                             struct kern_diag *diag)
{
    struct kern_rank *rank = site->rank;
    struct rank_builtin *builtin = site->launch->builtin;
    // The value of the last argument is this rank's index; which group it is in says the manifest.
    const struct kern_value *group = &declared->args[declared->n_args - 1];
    if (group->kind == KERN_VALUE_PARAM) {
        group = &site->call->args[group->param];
    }
    builtin->group = group->ref.index;
    site->program->uses_communicator[builtin->group] = true;
    rank->communicators[builtin->group].needed = true;
    return kern_device_need_nccl(rank->device, diag) &&
           rank_builtin_visit(rank, site->launch, false, visit_extent, diag);
}

static ncclDataType_t nccl_type(enum kern_dtype dtype)
{
    switch (dtype) {
    case KERN_BF16:
        return ncclBfloat16;
    case KERN_F32:
        return ncclFloat32;
    case KERN_I32:
        return ncclInt32;
    default:
        return ncclUint8;
    }
}

static ncclResult_t call(struct kern_rank *rank, const struct rank_builtin *builtin, uint64_t count,
                         ncclComm_t comm)
{
    const struct kern_nccl *nccl = &rank->device->nccl;
    ncclDataType_t type = nccl_type(builtin->info->operand);
    const void *send = rank_operand_pointer(builtin, KERN_ROLE_SEND);
    void *recv = rank_operand_pointer(builtin, KERN_ROLE_RECV);
    switch (builtin->info->builtin) {
    case KERN_BUILTIN_NCCL_ALLGATHER:
        return nccl->ncclAllGather(send, recv, count, type, comm, rank->stream);
    case KERN_BUILTIN_NCCL_REDUCESCATTER:
        return nccl->ncclReduceScatter(send, recv, count, type, ncclSum, comm, rank->stream);
    default:
        return nccl->ncclAllReduce(send, recv, count, type, ncclSum, comm, rank->stream);
    }
}

// A communicator that was made without blocking may still be at work on a collective when the call
// returns. What follows on the stream must come after it.
static ncclResult_t await_enqueued(struct kern_rank *rank, ncclComm_t comm, ncclResult_t result)
{
    uint64_t deadline = kern_deadline_in(ENQUEUE_SECONDS);
    struct kern_patience patience = {0};
    while (result == ncclInProgress && !kern_deadline_passed(deadline)) {
        kern_relax(&patience);
        ncclResult_t asked = rank->device->nccl.ncclCommGetAsyncError(comm, &result);
        result = asked == ncclSuccess ? result : asked;
    }
    return result;
}

bool rank_collective_launch(struct kern_rank *rank, const struct rank_builtin *builtin,
                            const uint64_t *vars, bool *issued, struct kern_diag *diag)
{
    struct extent extent;
    if (!find_extent(rank, builtin, vars, &extent, diag)) {
        return false;
    }
    if (extent.count == 0) {
        return true;
    }
    if (!check_extent(rank, builtin, &extent, diag)) {
        return false;
    }
    ncclComm_t comm = rank->communicators[builtin->group].comm;
    ncclResult_t result = await_enqueued(rank, comm, call(rank, builtin, extent.count, comm));
    *issued =
        kern_nccl_check(rank->device, result, comm, builtin->info->name, builtin->place, diag);
    return *issued;
}
