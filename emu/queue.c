// SPDX-License-Identifier: Apache-2.0
//
// A stream's ring of work and the thread that runs it.
//
// The ring holds whole units of work one behind the other. Submitters, one at a time, write at the
// tail; the worker runs the unit at the head where it lies. Nothing is allocated between a stream's
// first work and its end. A full ring makes the submitter wait, as a full launch queue of the
// driver does.
#include "emu/spin.h"
#include "emu/work.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RING_BYTES ((uint64_t)512 << 10)
// How often a wait gives the processor away before it sleeps, for a submitter and a worker that
// share a core: without it each launch wakes the worker, which takes the core for one unit of work
// and sleeps again (6 µs a launch instead of 0.4 µs).
#define YIELDS 4

_Static_assert(EMU_WORK_HEADER + EMU_MAX_PAYLOAD <= RING_BYTES / 2,
               "any unit fits into a ring even if the end of it is padded");

void emu_gate_wait(struct emu_gate *gate, bool (*holds)(const void *context, uint64_t value),
                   const void *context, uint64_t value)
{
    int looks = 0;
    do {
        if (holds(context, value)) {
            return;
        }
    } while (emu_spin(&looks, YIELDS));
    for (;;) {
        unsigned turn = atomic_load(&gate->turns);
        atomic_fetch_add(&gate->sleepers, 1);
        bool held = holds(context, value);
        if (!held) {
            syscall(SYS_futex, &gate->turns, FUTEX_WAIT_PRIVATE, turn, NULL, NULL, 0);
        }
        atomic_fetch_sub(&gate->sleepers, 1);
        if (held) {
            return;
        }
    }
}

// A sleeper counts itself before it looks at the condition for the last time; the condition is set
// before sleepers are counted here. So either it is counted here, or it has seen the condition.
void emu_gate_open(struct emu_gate *gate)
{
    if (atomic_load(&gate->sleepers) != 0) {
        atomic_fetch_add(&gate->turns, 1);
        syscall(SYS_futex, &gate->turns, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    }
}

static bool completed(const void *context, uint64_t position)
{
    const struct emu_stream *stream = context;
    return atomic_load(&stream->completed) >= position;
}

static bool retired(const void *context, uint64_t bytes)
{
    const struct emu_stream *stream = context;
    return atomic_load(&stream->head) >= bytes;
}

static bool has_work(const void *context, uint64_t head)
{
    const struct emu_stream *stream = context;
    return atomic_load(&stream->tail) != head || atomic_load(&stream->closing);
}

bool emu_fence_reached(struct emu_fence fence)
{
    return fence.stream == NULL || completed(fence.stream, fence.position);
}

void emu_fence_wait(struct emu_fence fence)
{
    if (fence.stream != NULL) {
        emu_gate_wait(&fence.stream->progress, completed, fence.stream, fence.position);
    }
}

struct emu_fence emu_stream_end(struct emu_stream *stream)
{
    return (struct emu_fence){stream, atomic_load(&stream->submitted)};
}

// ---------------------------------------------------------------------------------------------
// Delays on demand: KERN_EMU_DELAY_US_MAX microseconds at most before each unit of work, drawn from
// KERN_EMU_SEED and the stream's number, so that a missing wait shows more often than it would.

// splitmix64
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void delay(struct emu_stream *stream)
{
    uint32_t most = emu_config()->delay;
    if (most != 0) {
        uint64_t us = next_random(&stream->random) % ((uint64_t)most + 1);
        struct timespec time = {(time_t)(us / 1000000), (long)(us % 1000000 * 1000)};
        nanosleep(&time, NULL);
    }
}

// ---------------------------------------------------------------------------------------------
// The worker

static void *run_worker(void *argument)
{
    struct emu_stream *stream = argument;
    uint64_t head = 0;
    emu_trap_thread_begin();
    for (;;) {
        emu_gate_wait(&stream->work, has_work, stream, head);
        if (atomic_load(&stream->tail) == head) {
            break; // closing, and nothing is left
        }
        struct emu_work *work = (struct emu_work *)(void *)(stream->ring + head % RING_BYTES);
        uint32_t bytes = work->bytes;
        if (work->kind != EMU_WORK_PAD) {
            delay(stream);
            uint64_t position = atomic_load(&stream->completed);
            uint32_t ticks = work->ticks;
            emu_work_run(work, stream, position);
            emu_work_drop(work);
            atomic_store(&stream->completed, position + ticks);
        }
        head += bytes;
        atomic_store(&stream->head, head);
        emu_gate_open(&stream->progress);
    }
    emu_trap_thread_end();
    emu_stream_unlist(stream);
    emu_handle_put(stream);
    return NULL;
}

// Signals that arrive from outside belong to the program's own threads; faults cannot be held back.
static int create_thread(struct emu_stream *stream)
{
    sigset_t outside, before;
    sigfillset(&outside);
    const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        sigdelset(&outside, faults[i]);
    }
    pthread_attr_t attributes;
    int failed = pthread_attr_init(&attributes);
    if (failed != 0) {
        return failed;
    }
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &outside, &before);
    pthread_t thread;
    failed = pthread_create(&thread, &attributes, run_worker, stream);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return failed;
}

static bool start_worker(struct emu_stream *stream)
{
    emu_trap_install();
    emu_handle_ref(stream);
    if (create_thread(stream) != 0) {
        emu_handle_put(stream);
        return false;
    }
    stream->started = true;
    return true;
}

bool emu_queue_init(struct emu_stream *stream)
{
    stream->random = emu_config()->seed ^ (stream->serial << 32);
    stream->ring = aligned_alloc(EMU_WORK_UNIT, RING_BYTES);
    if (stream->ring == NULL) {
        return false;
    }
    pthread_mutex_init(&stream->lock, NULL);
    return true;
}

void emu_queue_free(struct emu_stream *stream)
{
    pthread_mutex_destroy(&stream->lock);
    free(stream->ring);
}

void emu_queue_close(struct emu_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    bool first = !atomic_exchange(&stream->closing, true);
    bool started = stream->started;
    pthread_mutex_unlock(&stream->lock);
    if (started) {
        emu_gate_open(&stream->work);
    } else if (first) {
        emu_stream_unlist(stream);
    }
}

// ---------------------------------------------------------------------------------------------
// Submission

CUresult emu_queue_begin(struct emu_submission *submission, size_t payload)
{
    struct emu_stream *stream = submission->stream;
    uint64_t bytes = EMU_WORK_HEADER + EMU_WORK_ROUND(payload);
    pthread_mutex_lock(&stream->lock);
    if (atomic_load(&stream->closing)) {
        pthread_mutex_unlock(&stream->lock);
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    if (!stream->started && !start_worker(stream)) {
        pthread_mutex_unlock(&stream->lock);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }

    uint64_t tail = atomic_load(&stream->tail);
    uint64_t left = RING_BYTES - tail % RING_BYTES;
    uint64_t pad = left < bytes ? left : 0;
    if (tail + pad + bytes > RING_BYTES) {
        emu_gate_wait(&stream->progress, retired, stream, tail + pad + bytes - RING_BYTES);
    }
    if (pad != 0) {
        struct emu_work *end = (struct emu_work *)(void *)(stream->ring + tail % RING_BYTES);
        end->bytes = (uint32_t)pad;
        end->kind = EMU_WORK_PAD;
    }
    submission->work = (struct emu_work *)(void *)(stream->ring + (tail + pad) % RING_BYTES);
    submission->work->bytes = (uint32_t)bytes;
    submission->position = atomic_load(&stream->submitted);
    stream->reserved = pad + bytes;
    return CUDA_SUCCESS;
}

void emu_queue_commit(struct emu_submission *submission)
{
    struct emu_stream *stream = submission->stream;
    atomic_store(&stream->submitted, submission->position + submission->work->ticks);
    atomic_store(&stream->tail, atomic_load(&stream->tail) + stream->reserved);
    emu_gate_open(&stream->work);
    pthread_mutex_unlock(&stream->lock);
}
