// SPDX-License-Identifier: Apache-2.0
//
// Graphs and executable graphs. A graph has its nodes in the order of their capture, which respects
// their dependencies; an executable graph is the nodes' work in that order, in one block, and its
// launch is one unit of work of a stream.
#include "emu/work.h"

#include <stdlib.h>
#include <string.h>

bool emu_tails_room(struct emu_tails *tails, size_t more)
{
    size_t need = tails->count + more;
    if (need > tails->room) {
        size_t room = need * 2;
        uint32_t *node = realloc(tails->node, room * sizeof *node);
        if (node == NULL) {
            return false;
        }
        tails->node = node;
        tails->room = room;
    }
    return true;
}

bool emu_tails_add(struct emu_tails *to, const struct emu_tails *from)
{
    if (!emu_tails_room(to, from->count)) {
        return false;
    }
    size_t had = to->count;
    for (size_t i = 0; i < from->count; i++) {
        bool known = false;
        for (size_t j = 0; j < had && !known; j++) {
            known = to->node[j] == from->node[i];
        }
        if (!known) {
            to->node[to->count++] = from->node[i];
        }
    }
    return true;
}

static void destroy_node(void *object)
{
    struct emu_graph_node *node = object;
    if (node->work != NULL) {
        emu_work_drop(node->work);
        free(node->work);
    }
    free(node->after);
    free(node);
}

static void destroy_graph(void *object)
{
    struct emu_graph *graph = object;
    for (size_t i = 0; i < graph->count; i++) {
        emu_handle_free(graph->nodes[i]);
        emu_handle_put(graph->nodes[i]);
    }
    free(graph->nodes);
    free(graph);
}

struct emu_graph *emu_graph_new(struct emu_context *context)
{
    return emu_handle_new(EMU_GRAPH, sizeof(struct emu_graph), context, destroy_graph);
}

static bool make_room(struct emu_graph *graph)
{
    if (graph->count < graph->room) {
        return true;
    }
    size_t room = graph->room == 0 ? 64 : graph->room * 2;
    struct emu_graph_node **nodes =
        room > UINT32_MAX ? NULL : realloc(graph->nodes, room * sizeof(struct emu_graph_node *));
    if (nodes == NULL) {
        return false;
    }
    graph->nodes = nodes;
    graph->room = room;
    return true;
}

static bool fill_node(struct emu_graph_node *node, size_t payload, const struct emu_tails *tails)
{
    size_t bytes = EMU_WORK_HEADER + EMU_WORK_ROUND(payload);
    node->work = aligned_alloc(EMU_WORK_UNIT, bytes);
    node->after = malloc((tails->count + 1) * sizeof *node->after);
    if (node->work == NULL || node->after == NULL) {
        return false;
    }
    memset(node->work, 0, bytes);
    node->work->bytes = (uint32_t)bytes;
    node->n_after = tails->count;
    for (size_t i = 0; i < tails->count; i++) {
        node->after[i] = tails->node[i];
    }
    return true;
}

struct emu_graph_node *emu_graph_add(struct emu_graph *graph, size_t payload,
                                     const struct emu_tails *tails)
{
    if (!make_room(graph)) {
        return NULL;
    }
    struct emu_graph_node *node =
        emu_handle_new(EMU_GRAPH_NODE, sizeof *node, graph->handle.context, destroy_node);
    if (node == NULL) {
        return NULL;
    }
    if (!fill_node(node, payload, tails)) {
        emu_handle_free(node);
        return NULL;
    }
    emu_handle_ref(node);
    graph->nodes[graph->count++] = node;
    return node;
}

bool emu_graph_joined(const struct emu_graph *graph, const struct emu_tails *tails)
{
    bool *reached = calloc(graph->count + 1, sizeof *reached);
    if (reached == NULL) {
        return false;
    }
    for (size_t i = 0; i < tails->count; i++) {
        reached[tails->node[i]] = true;
    }
    bool all = true;
    for (size_t i = graph->count; i-- > 0 && all;) {
        const struct emu_graph_node *node = graph->nodes[i];
        all = reached[i];
        for (size_t j = 0; j < node->n_after; j++) {
            reached[node->after[j]] = true;
        }
    }
    free(reached);
    return all;
}

CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode *nodes, size_t *count)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT);
    if (count == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct emu_graph *graph = emu_handle_get(EMU_VALUE(handle), EMU_GRAPH);
    if (graph == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (nodes == NULL) {
        *count = graph->count;
    } else {
        for (size_t i = 0; i < *count; i++) {
            nodes[i] = i < graph->count ? EMU_HANDLE(CUgraphNode, graph->nodes[i]) : NULL;
        }
        *count = *count < graph->count ? *count : graph->count;
    }
    emu_handle_put(graph);
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph handle)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT | EMU_IGNORE_STICKY);
    struct emu_graph *graph = emu_handle_get(EMU_VALUE(handle), EMU_GRAPH);
    if (graph == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    bool freed = emu_handle_free(graph);
    emu_handle_put(graph);
    return freed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

// ---------------------------------------------------------------------------------------------
// Executable graphs

static void destroy_exec(void *object)
{
    struct emu_graph_exec *exec = object;
    for (size_t i = 0; i < exec->count; i++) {
        emu_work_drop(exec->works[i]);
    }
    if (exec->last.stream != NULL) {
        emu_handle_put(exec->last.stream);
    }
    pthread_mutex_destroy(&exec->lock);
    free(exec->fencing);
    free(exec->works);
    free(exec->block);
    free(exec);
}

static bool is_fencing(const struct emu_work *work)
{
    return work->kind == EMU_WORK_RECORD || work->kind == EMU_WORK_AWAIT;
}

static CUresult allocate(struct emu_graph_exec *exec, const struct emu_graph *graph)
{
    size_t bytes = EMU_WORK_UNIT;
    for (size_t i = 0; i < graph->count; i++) {
        bytes += graph->nodes[i]->work->bytes;
        exec->n_records += graph->nodes[i]->work->kind == EMU_WORK_RECORD;
        exec->n_awaits += graph->nodes[i]->work->kind == EMU_WORK_AWAIT;
    }
    exec->n_fencing = exec->n_records + exec->n_awaits;
    if (exec->n_awaits * sizeof(struct emu_fence) > EMU_MAX_PAYLOAD) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    exec->block = aligned_alloc(EMU_WORK_UNIT, bytes);
    exec->works = malloc((graph->count + 1) * sizeof(struct emu_work *));
    exec->fencing = malloc((exec->n_fencing + 1) * sizeof(struct emu_work *));
    bool enough = exec->block != NULL && exec->works != NULL && exec->fencing != NULL;
    return enough ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static void copy_works(struct emu_graph_exec *exec, const struct emu_graph *graph)
{
    size_t offset = 0, fencing = 0;
    for (size_t i = 0; i < graph->count; i++) {
        const struct emu_work *from = graph->nodes[i]->work;
        struct emu_work *work = (struct emu_work *)(void *)(exec->block + offset);
        memcpy(work, from, from->bytes);
        emu_work_hold(work);
        exec->works[exec->count++] = work;
        if (is_fencing(work)) {
            exec->fencing[fencing++] = work;
        }
        offset += from->bytes;
    }
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *handle, CUgraph graph_handle,
                                     unsigned long long flags)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT);
    // Neither memory nodes nor priorities exist here, so these two flags change nothing.
    const unsigned long long harmless = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                        CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
    const unsigned long long known =
        harmless | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD | CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
    if (handle == NULL || (flags & ~known) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if ((flags & ~harmless) != 0) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    struct emu_graph *graph = emu_handle_get(EMU_VALUE(graph_handle), EMU_GRAPH);
    if (graph == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    struct emu_graph_exec *exec =
        emu_handle_new(EMU_GRAPH_EXEC, sizeof *exec, graph->handle.context, destroy_exec);
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (exec != NULL) {
        pthread_mutex_init(&exec->lock, NULL);
        result = allocate(exec, graph);
        if (result == CUDA_SUCCESS) {
            copy_works(exec, graph);
            *handle = EMU_HANDLE(CUgraphExec, exec);
        } else {
            emu_handle_free(exec);
        }
    }
    emu_handle_put(graph);
    return result;
}

CUresult cuGraphExecDestroy(CUgraphExec handle)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT | EMU_IGNORE_STICKY);
    struct emu_graph_exec *exec = emu_handle_get(EMU_VALUE(handle), EMU_GRAPH_EXEC);
    if (exec == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    bool freed = emu_handle_free(exec);
    emu_handle_put(exec);
    return freed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

// Gives the events of the graph's record nodes their place in this launch, and finds the fences of
// its waits, in the order of the nodes.
static void place_events(const struct emu_graph_exec *exec, struct emu_submission *submission)
{
    struct emu_fence *fence = emu_work_payload(submission->work);
    uint64_t position = submission->position;
    for (size_t i = 0; i < exec->n_fencing; i++) {
        struct emu_work *work = exec->fencing[i];
        if (work->kind == EMU_WORK_RECORD) {
            emu_event_mark(work->event, submission->stream, ++position);
        } else {
            *fence++ = emu_event_fence(work->event);
        }
    }
}

static void remember_launch(struct emu_graph_exec *exec, struct emu_stream *stream,
                            uint64_t position)
{
    if (exec->last.stream != stream) {
        if (exec->last.stream != NULL) {
            emu_handle_put(exec->last.stream);
        }
        emu_handle_ref(stream);
    }
    exec->last = (struct emu_fence){stream, position};
}

static bool code_is_loaded(const struct emu_graph_exec *exec)
{
    for (size_t i = 0; i < exec->count; i++) {
        const struct emu_work *work = exec->works[i];
        if (work->kind == EMU_WORK_KERNEL &&
            atomic_load(&work->kernel.function->module->unloaded)) {
            return false;
        }
    }
    return true;
}

// With the executable graph locked: its launches run one after another, whatever their streams.
static CUresult submit_graph(struct emu_graph_exec *exec, struct emu_stream *stream)
{
    CUresult result =
        code_is_loaded(exec) ? emu_submit_wait(stream, exec->last) : CUDA_ERROR_INVALID_HANDLE;
    struct emu_submission submission;
    if (result == CUDA_SUCCESS) {
        result = emu_submit_begin(&submission, stream, EMU_WORK_GRAPH,
                                  exec->n_awaits * sizeof(struct emu_fence));
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    emu_handle_ref(exec);
    submission.work->graph = exec;
    submission.work->ticks = (uint32_t)exec->n_records + 1;
    place_events(exec, &submission);
    remember_launch(exec, stream, submission.position + submission.work->ticks);
    emu_submit_commit(&submission);
    return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT);
    struct emu_graph_exec *exec = emu_handle_get(EMU_VALUE(handle), EMU_GRAPH_EXEC);
    if (exec == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    CUresult result;
    struct emu_stream *stream = emu_stream_get(stream_handle, &result);
    if (stream != NULL) {
        result = CUDA_ERROR_INVALID_HANDLE;
        if (stream->handle.context == exec->handle.context) {
            pthread_mutex_lock(&exec->lock);
            result = submit_graph(exec, stream);
            pthread_mutex_unlock(&exec->lock);
        }
        emu_handle_put(stream);
    }
    emu_handle_put(exec);
    return result;
}
