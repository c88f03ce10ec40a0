// SPDX-License-Identifier: Apache-2.0
//
// Steps through the shared file. A rank that has reached step s has read all that it needs of step
// s - 1, and everybody waits for all to reach s; so two stages per rank, used in turn, suffice, and
// no rank ever waits for its readers.
#include "emu/nccl.h"
#include "emu/spin.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define YIELDS 200 // then sleep: whoever computes meanwhile needs the core
#define SLEEP_NS 10000000

static size_t stages_offset(uint32_t n_ranks)
{
    size_t header = sizeof(struct emu_nccl_shared) + n_ranks * sizeof(struct emu_nccl_slot);
    return (header + 4095) / 4096 * 4096;
}

size_t emu_nccl_shared_bytes(int n_ranks)
{
    return stages_offset((uint32_t)n_ranks) + (size_t)n_ranks * 2 * EMU_NCCL_STAGE_BYTES;
}

static unsigned char *stage_of(const struct emu_nccl_comm *comm, int rank, uint32_t step)
{
    return (unsigned char *)comm->shared + stages_offset((uint32_t)comm->n_ranks) +
           ((size_t)rank * 2 + step % 2) * EMU_NCCL_STAGE_BYTES;
}

unsigned char *emu_nccl_next_stage(const struct emu_nccl_comm *comm, int rank)
{
    return stage_of(comm, rank, comm->step + 1);
}

const unsigned char *emu_nccl_stage(const struct emu_nccl_comm *comm, int rank)
{
    return stage_of(comm, rank, comm->step);
}

// Steps are numbers that wrap around.
static bool has_reached(struct emu_nccl_slot *slot, uint32_t step, uint32_t *seen)
{
    *seen = atomic_load(&slot->step);
    return (int32_t)(*seen - step) >= 0;
}

// False: aborted. The sleep is short, since whoever aborts wakes those that sleep at that moment
// and not one that is just about to.
static bool await(const struct emu_nccl_comm *comm, struct emu_nccl_slot *slot, uint32_t step)
{
    uint32_t seen;
    int looks = 0;
    do {
        if (has_reached(slot, step, &seen)) {
            return true;
        }
        if (atomic_load(&comm->abort)) {
            return false;
        }
    } while (emu_spin(&looks, YIELDS));
    const struct timespec timeout = {0, SLEEP_NS};
    bool reached = false;
    atomic_fetch_add(&slot->sleepers, 1);
    while (!atomic_load(&comm->abort) && !(reached = has_reached(slot, step, &seen))) {
        syscall(SYS_futex, &slot->step, FUTEX_WAIT, seen, &timeout, NULL, 0);
    }
    atomic_fetch_sub(&slot->sleepers, 1);
    return reached;
}

static void wake(struct emu_nccl_slot *slot)
{
    if (atomic_load(&slot->sleepers) != 0) {
        syscall(SYS_futex, &slot->step, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
}

void emu_nccl_wake(struct emu_nccl_comm *comm)
{
    for (int rank = 0; rank < comm->n_ranks; rank++) {
        wake(&comm->shared->slots[rank]);
    }
}

enum emu_nccl_met emu_nccl_step(struct emu_nccl_comm *comm, const struct emu_nccl_terms *terms,
                                int *other)
{
    struct emu_nccl_slot *slots = comm->shared->slots;
    struct emu_nccl_slot *own = &slots[comm->rank];
    uint32_t step = comm->step + 1;
    own->terms[step % 2] = *terms;
    atomic_store(&own->step, step);
    wake(own);
    for (int rank = 0; rank < comm->n_ranks; rank++) {
        if (!await(comm, &slots[rank], step)) {
            return EMU_NCCL_MET_ABORT;
        }
        const struct emu_nccl_terms *theirs = &slots[rank].terms[step % 2];
        if (theirs->kind != terms->kind || theirs->type != terms->type ||
            theirs->count != terms->count) {
            *other = rank;
            return EMU_NCCL_MET_OTHER_TERMS;
        }
    }
    comm->step = step;
    return EMU_NCCL_MET;
}
