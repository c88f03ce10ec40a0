// SPDX-License-Identifier: Apache-2.0
//
// Running one unit of work, on the thread of the worker.
#include "emu/work.h"

#include <stdio.h>
#include <string.h>

static atomic_bool paused;

// Declared in emu/stats.h.
void kern_emu_pause(int pause)
{
    atomic_store(&paused, pause != 0);
}

bool emu_paused(void)
{
    return atomic_load_explicit(&paused, memory_order_relaxed);
}

// What a worker is at. It is read after a fault, so [work] is volatile.
struct run {
    struct emu_stream *stream;
    uint64_t position;
    struct emu_work *volatile work;
};

static void poison(const struct run *run, CUresult error)
{
    emu_context_poison(run->stream->handle.context, error);
}

static bool sound(const struct run *run)
{
    return atomic_load(&run->stream->handle.context->sticky) == CUDA_SUCCESS;
}

static void run_kernel(struct run *run, struct emu_work *work)
{
    if (emu_paused()) {
        return;
    }
    const struct kern_host_entry *entry = work->kernel.function->entry;
    unsigned char *block = emu_work_payload(work);
    // The pointers are made here and not at the launch, because a block of work moves into graphs.
    void **arguments = (void **)(void *)(block + (work->kernel.function->param_bytes + 7) / 8 * 8);
    for (uint32_t i = 0; i < entry->n_params; i++) {
        arguments[i] = block + entry->params[i].offset;
    }
    const uint32_t *grid = work->kernel.grid.grid;
    uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2];
    if (entry->run(&work->kernel.grid, 0, blocks, arguments) != 0) {
        emu_log("kernel %s trapped", entry->name);
        poison(run, CUDA_ERROR_LAUNCH_FAILED);
    }
}

static void run_copy(struct run *run, struct emu_work *work)
{
    (void)run;
    const struct emu_copy_work *copy = &work->copy;
    const unsigned char *from = copy->from != NULL ? copy->from : emu_work_payload(work);
    if (copy->to_pitch == copy->width && copy->from_pitch == copy->width) {
        memmove(copy->to, from, copy->width * copy->height);
        return;
    }
    for (size_t row = 0; row < copy->height; row++) {
        memmove(copy->to + row * copy->to_pitch, from + row * copy->from_pitch, copy->width);
    }
}

static void run_fill(struct run *run, struct emu_work *work)
{
    (void)run;
    const struct emu_fill_work *fill = &work->fill;
    if (fill->value == 0) {
        emu_clear(fill->to, fill->count * fill->width);
        return;
    }
    if (fill->width == 1) {
        memset(fill->to, (int)fill->value, fill->count);
        return;
    }
    uint32_t *to = (uint32_t *)(void *)fill->to;
    for (size_t i = 0; i < fill->count; i++) {
        to[i] = fill->value;
    }
}

static void run_call(struct run *run, struct emu_work *work)
{
    if (emu_paused()) {
        return;
    }
    CUresult result = work->call.run(emu_work_payload(work));
    if (result != CUDA_SUCCESS) {
        poison(run, result);
    }
}

static void run_record(struct run *run, struct emu_work *work)
{
    run->position++;
    emu_event_stamp(work->event, run->stream, run->position);
}

static void run_wait(struct run *run, struct emu_work *work)
{
    (void)run;
    emu_fence_wait(work->wait);
}

typedef void run_kind(struct run *run, struct emu_work *work);

static run_kind *const simple[] = {
    [EMU_WORK_KERNEL] = run_kernel, [EMU_WORK_COPY] = run_copy,     [EMU_WORK_FILL] = run_fill,
    [EMU_WORK_CALL] = run_call,     [EMU_WORK_RECORD] = run_record, [EMU_WORK_WAIT] = run_wait,
};

// An event recorded inside a graph is complete before the graph is, so that other streams can go
// on.
static void run_graph(struct run *run, struct emu_work *launch)
{
    const struct emu_graph_exec *graph = launch->graph;
    const struct emu_fence *fence = emu_work_payload(launch);
    for (size_t i = 0; i < graph->count && sound(run); i++) {
        struct emu_work *work = graph->works[i];
        run->work = work;
        if (work->kind == EMU_WORK_AWAIT) {
            emu_fence_wait(*fence++);
            continue;
        }
        simple[work->kind](run, work);
        if (work->kind == EMU_WORK_RECORD) {
            atomic_store(&run->stream->completed, run->position);
            emu_gate_open(&run->stream->progress);
        }
    }
}

static void run_any(void *argument)
{
    struct run *run = argument;
    struct emu_work *work = run->work;
    if (work->kind == EMU_WORK_GRAPH) {
        run_graph(run, work);
    } else {
        simple[work->kind](run, work);
    }
}

static void report_fault(struct emu_work *work, const struct emu_fault *fault)
{
    switch (work->kind) {
    case EMU_WORK_KERNEL:
        emu_trap_report("kernel", work->kernel.function->entry->name, fault);
        break;
    case EMU_WORK_CALL:
        emu_trap_report("call", work->call.name, fault);
        break;
    default:
        emu_trap_report("copy or memset", "", fault);
        break;
    }
}

void emu_work_run(struct emu_work *work, struct emu_stream *stream, uint64_t position)
{
    struct run run = {stream, position, work};
    struct emu_fault fault;
    if (sound(&run) && !emu_trap_run(run_any, &run, &fault)) {
        report_fault(run.work, &fault);
        poison(&run, CUDA_ERROR_ILLEGAL_ADDRESS);
    }
}

// The object that [work] itself refers to; the fences behind a graph launch come on top.
static void *referenced(const struct emu_work *work)
{
    switch (work->kind) {
    case EMU_WORK_KERNEL:
        return work->kernel.function;
    case EMU_WORK_RECORD:
    case EMU_WORK_AWAIT:
        return work->event;
    case EMU_WORK_WAIT:
        return work->wait.stream;
    case EMU_WORK_GRAPH:
        return work->graph;
    default:
        return NULL;
    }
}

void emu_work_hold(struct emu_work *work)
{
    void *object = referenced(work);
    if (object != NULL) {
        emu_handle_ref(object);
    }
}

void emu_work_drop(struct emu_work *work)
{
    if (work->kind == EMU_WORK_GRAPH) {
        const struct emu_fence *fences = emu_work_payload(work);
        for (size_t i = 0; i < work->graph->n_awaits; i++) {
            if (fences[i].stream != NULL) {
                emu_handle_put(fences[i].stream);
            }
        }
    }
    void *object = referenced(work);
    if (object != NULL) {
        emu_handle_put(object);
    }
}
