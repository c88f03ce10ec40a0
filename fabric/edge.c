// SPDX-License-Identifier: Apache-2.0
#include "fabric/edge.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "fabric/edge_parts.h"
#include "manifest/arrivals.h"
#include "manifest/cut.h"

// fabric/edge_image.S
extern const uint8_t kern_edge_host_half[], kern_edge_ptx[];

static bool load_kernels(struct kern_edges *edges, struct kern_diag *diag)
{
    const struct kern_device *device = edges->config.device;
    const char *what = "loading the kernels of edges between stages";
    const void *image = device->kind == KERN_DEVICE_EMU ? kern_edge_host_half : kern_edge_ptx;
    return KERN_CU(device, diag, what, cuModuleLoadData, &edges->module, image) &&
           KERN_CU(device, diag, what, cuModuleGetFunction, &edges->take, edges->module,
                   "kern_edge_take") &&
           KERN_CU(device, diag, what, cuModuleGetFunction, &edges->room, edges->module,
                   "kern_edge_room") &&
           KERN_CU(device, diag, what, cuModuleGetFunction, &edges->post, edges->module,
                   "kern_edge_post");
}

// The board for the host and the word for the kernels, both zero.
static bool make_board(struct kern_edges *edges, struct kern_diag *diag)
{
    const struct kern_device *device = edges->config.device;
    const char *what = "making the board of a stage's edges";
    const uint64_t zero = 0;
    void *board = NULL;
    if (!KERN_CU(device, diag, what, cuMemHostAlloc, &board, sizeof *edges->board,
                 CU_MEMHOSTALLOC_DEVICEMAP))
        return false;
    edges->board = board;
    memset(edges->board, 0, sizeof *edges->board);
    return KERN_CU(device, diag, what, cuMemHostGetDevicePointer, &edges->board_address, board,
                   0) &&
           KERN_CU(device, diag, what, cuMemAlloc, &edges->failed, sizeof zero) &&
           kern_rank_poke(edges->config.rank, edges->failed, &zero, sizeof zero, diag);
}

// What leaves this stage is what arrives at the next, under the same names.
static bool list_leaving(struct kern_edges *edges, struct kern_diag *diag)
{
    const struct kern_stage *stage = edges->config.stage;
    const struct kern_manifest *own = edges->config.stages[stage->index];
    const struct kern_manifest *next = edges->config.stages[stage->index + 1];
    uint64_t *offsets = kern_calloc(next->n_buffers, sizeof *offsets);
    edges->leaving = kern_calloc(next->n_buffers, sizeof *edges->leaving);
    bool good = kern_arrivals_layout(next, offsets, &edges->slot_bytes) ||
                kern_fail(diag, KERN_EXIT_MANIFEST, NULL, "what leaves exceeds 2^64 bytes");
    for (uint32_t b = 0; good && b < next->n_buffers; b++)
        if (kern_manifest_arrives(next, &next->buffers[b]))
            edges->leaving[edges->n_leaving++] = (struct kern_leaving){
                .buffer = kern_names_find(&own->buffer_names, next->buffers[b].name),
                .offset = KERN_ARRIVALS_HEAD + offsets[b],
            };
    free(offsets);
    return good;
}

static const char *neighbour_text(struct kern_edges *edges, const char *what, int away)
{
    const struct kern_stage *stage = edges->config.stage;
    int rank = kern_stage_neighbour(stage, away);
    return rank == MPI_PROC_NULL ? ""
                                 : kern_arena_print(&edges->arena, "%s stage %d (rank %d, %s)",
                                                    what, stage->index + away, rank,
                                                    edges->config.world->members[rank].host);
}

struct kern_edges *kern_edges_open(const struct kern_edges_config *config, struct kern_diag *diag)
{
    struct kern_edges *edges = kern_calloc(1, sizeof *edges);
    edges->config = *config;
    edges->input_text = neighbour_text(edges, "input from", -1);
    edges->room_text = neighbour_text(edges, "room in", 1);
    bool last = config->stage->index + 1 == config->stage->count;
    bool good =
        load_kernels(edges, diag) && make_board(edges, diag) && (last || list_leaving(edges, diag));
    struct kern_mapping arrivals;
    if (kern_rank_arrivals(config->rank, &arrivals))
        edges->arrivals = arrivals.address;
    kern_edges_exchange(edges, good, diag);
    return edges;
}

static bool launch(struct kern_edges *edges, CUfunction function, void **params,
                   struct kern_diag *diag)
{
    CUlaunchConfig config = {
        .gridDimX = 1,
        .gridDimY = 1,
        .gridDimZ = 1,
        .blockDimX = 1,
        .blockDimY = 1,
        .blockDimZ = 1,
        .hStream = kern_rank_stream(edges->config.rank),
    };
    return KERN_CU(edges->config.device, diag, "an edge between stages", cuLaunchKernelEx, &config,
                   function, params, NULL);
}

static bool take(void *context, uint64_t item, struct kern_diag *diag)
{
    struct kern_edges *edges = context;
    CUdeviceptr full = edges->arrivals ? edges->arrivals + KERN_EDGE_FULL : 0;
    void *params[] = {&full, &item, &edges->timeout_ns, &edges->board_address, &edges->failed};
    return launch(edges, edges->take, params, diag);
}

// Only the bytes that the item's vars make live, straight into the slot of the stage after. If that
// had no room the run has failed, and the slot is lost with it.
static bool copy_leaving(struct kern_edges *edges, uint64_t item, const uint64_t *vars,
                         struct kern_diag *diag)
{
    const struct kern_edges_config *config = &edges->config;
    const struct kern_manifest *own = config->stages[config->stage->index];
    CUdeviceptr slot = edges->after.address + item % config->depth * edges->slot_bytes;
    for (size_t i = 0; i < edges->n_leaving; i++) {
        const struct kern_leaving *leaving = &edges->leaving[i];
        const struct kern_buffer *buffer = &own->buffers[leaving->buffer];
        uint64_t bytes;
        if (!kern_shape_bytes(buffer->dtype, buffer->shape, buffer->rank, vars, &bytes))
            return kern_fail(diag, KERN_EXIT_MANIFEST, buffer->name, "has too many bytes to count");
        if (!KERN_CU(config->device, diag, buffer->name, cuMemcpyDtoDAsync, slot + leaving->offset,
                     kern_rank_address(config->rank, leaving->buffer, item), bytes,
                     kern_rank_stream(config->rank)))
            return false;
    }
    return true;
}

static bool give(void *context, uint64_t item, const uint64_t *vars, struct kern_diag *diag)
{
    struct kern_edges *edges = context;
    CUdeviceptr room = edges->after.address ? edges->after.address + KERN_EDGE_TAKEN : 0;
    CUdeviceptr full = edges->after.address ? edges->after.address + KERN_EDGE_FULL : 0;
    CUdeviceptr taken = edges->arrivals ? edges->arrivals + KERN_EDGE_TAKEN : 0;
    uint64_t depth = edges->config.depth;
    void *room_params[] = {&room,         &item, &depth, &edges->timeout_ns, &edges->board_address,
                           &edges->failed};
    void *post_params[] = {&full, &taken, &item, &edges->board_address, &edges->failed};
    return launch(edges, edges->room, room_params, diag) && copy_leaving(edges, item, vars, diag) &&
           launch(edges, edges->post, post_params, diag);
}

bool kern_edges_verify(struct kern_edges *edges, struct kern_diag *diag)
{
    const struct kern_hand_over hand_over = {take, give, edges};
    double seconds = edges->config.world->timeout;
    // About a century is as good as for ever, and fits into the kernels' counts.
    const double longest = 3e9;
    edges->timeout_ns = (int64_t)((seconds > 0 && seconds < longest ? seconds : longest) * 1e9);
    if (!kern_edges_find_cookie(edges, diag))
        return false;
    kern_rank_set_hand_over(edges->config.rank, &hand_over);
    return true;
}

enum kern_edge_phase kern_edges_at(const struct kern_edges *edges, uint64_t *item)
{
    uint64_t at = __atomic_load_n(&edges->board->at, __ATOMIC_ACQUIRE);
    *item = at >> KERN_EDGE_PHASE_BITS;
    return (enum kern_edge_phase)(at & ((1u << KERN_EDGE_PHASE_BITS) - 1));
}

const char *kern_edges_awaited(const struct kern_edges *edges, enum kern_edge_phase phase)
{
    return phase == KERN_EDGE_TAKING ? edges->input_text
           : phase == KERN_EDGE_ROOM ? edges->room_text
                                     : "";
}

bool kern_edges_sound(const struct kern_edges *edges, enum kern_edge_phase *phase,
                      struct kern_diag *diag)
{
    uint64_t failed = __atomic_load_n(&edges->board->failed, __ATOMIC_ACQUIRE);
    *phase = (enum kern_edge_phase)failed;
    if (!failed)
        return true;
    const struct kern_world *world = edges->config.world;
    return kern_fail(
        diag, KERN_EXIT_PEER, NULL,
        "stage %d (rank %d, %s) waited %g s for %s, for item %" PRIu64 "; --timeout sets the limit",
        edges->config.stage->index, world->rank, world->members[world->rank].host, world->timeout,
        kern_edges_awaited(edges, *phase), edges->board->failed_item + 1);
}

bool kern_edges_stamp(const struct kern_edges *edges, uint64_t item, struct kern_edge_stamp *stamp)
{
    const struct kern_edge_stamp *from = &edges->board->stamps[item % KERN_EDGE_STAMPS];
    if (__atomic_load_n(&from->count, __ATOMIC_ACQUIRE) != item + 1)
        return false;
    *stamp = *from;
    // The device may have begun to write over it meanwhile, which it says first.
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&from->count, __ATOMIC_RELAXED) == item + 1;
}

void kern_edges_facts(const struct kern_edges *edges, struct kern_fabric_facts *facts)
{
    if (!edges)
        return;
    facts->handles += edges->arrivals != 0;
    facts->mappings += edges->after.mapped != 0;
    facts->mapped += edges->after.mapped;
}

void kern_edges_close(struct kern_edges *edges)
{
    if (!edges)
        return;
    const struct kern_cuda *cu = &edges->config.device->cu;
    kern_vmm_destroy(edges->config.device, &edges->after);
    if (edges->failed)
        cu->cuMemFree(edges->failed);
    if (edges->board)
        cu->cuMemFreeHost(edges->board);
    if (edges->module)
        cu->cuModuleUnload(edges->module);
    free(edges->leaving);
    kern_arena_free(&edges->arena);
    free(edges);
}
