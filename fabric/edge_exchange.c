// SPDX-License-Identifier: Apache-2.0
//
// How the two ends of an edge come to share the arrivals of the stage after: one message each way,
// then, where handles are file descriptors, a connection between the two processes.
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "fabric/edge_parts.h"
#include "fabric/fds.h"
#include "topo/watchdog.h"

// What each end tells the other. An end that cannot take part says KERN_HANDLE_NONE.
struct offer {
    uint32_t kind;
    uint64_t mapped;                // of the stage that receives
    uint8_t fabric[64];             // of the stage that receives
    struct kern_fd_address address; // where file descriptors are handed out
};

// One edge from this end, as a group of two: the stage before is its member 0.
struct end {
    int peer; // MPI_PROC_NULL: there is no such edge
    int members[2];
    struct kern_group_place place;
    struct kern_fds fds;
    struct offer mine, theirs;
};

static void open_end(struct kern_edges *edges, struct end *end, int away, bool good,
                     struct kern_diag *diag)
{
    const struct kern_edges_config *config = &edges->config;
    uint32_t index = away < 0;
    *end = (struct end){.peer = kern_stage_neighbour(config->stage, away), .fds.listener = -1};
    if (end->peer == MPI_PROC_NULL)
        return;
    end->members[index] = config->world->rank;
    end->members[!index] = end->peer;
    end->place = (struct kern_group_place){
        .name = "of an edge", .size = 2, .index = index, .members = end->members};
    if (good && config->road->kind == KERN_HANDLE_POSIX_FD) {
        good =
            kern_fds_reserve(8, diag) && kern_fds_open(&end->fds, config->world, &end->place, diag);
        end->mine.address = end->fds.address;
    }
    if (good)
        end->mine.kind = config->road->kind;
}

static void close_end(struct end *end)
{
    if (end->peer != MPI_PROC_NULL)
        kern_fds_close(&end->fds);
}

// The arrivals, as the stage before will import them.
static bool export_arrivals(struct kern_edges *edges, struct kern_shareable *shareable,
                            struct kern_diag *diag)
{
    struct kern_mapping arrivals;
    kern_rank_arrivals(edges->config.rank, &arrivals);
    return kern_vmm_export(edges->config.device, &arrivals, edges->config.road->kind,
                           "what arrives from the stage before", shareable, diag);
}

static void make_offer(struct kern_edges *edges, struct end *before, struct kern_diag *diag)
{
    struct kern_shareable shareable;
    struct kern_mapping arrivals;
    if (before->peer == MPI_PROC_NULL || before->mine.kind == KERN_HANDLE_NONE)
        return;
    kern_rank_arrivals(edges->config.rank, &arrivals);
    before->mine.mapped = arrivals.mapped;
    if (before->mine.kind != KERN_HANDLE_FABRIC)
        return;
    if (export_arrivals(edges, &shareable, diag))
        memcpy(before->mine.fabric, shareable.fabric, sizeof before->mine.fabric);
    else
        before->mine.kind = KERN_HANDLE_NONE;
}

// A word that is not in memory by accident, other for every edge.
static uint64_t cookie(int before, int after)
{
    return (0x6b65726e65646765ull ^ (uint64_t)(unsigned)before << 20 ^ (uint64_t)(unsigned)after) *
           0x9e3779b97f4a7c15ull;
}

static bool import_arrivals(struct kern_edges *edges, const struct end *after,
                            const struct kern_shareable *shareable, struct kern_diag *diag)
{
    const struct kern_edges_config *config = &edges->config;
    const char *what = kern_arena_print(&edges->arena, "the arrivals of stage %d (rank %d, %s)",
                                        config->stage->index + 1, after->peer,
                                        config->world->members[after->peer].host);
    uint64_t word = cookie(config->world->rank, after->peer), back = 0;
    if (!kern_vmm_import(config->device, config->ordinal, shareable, after->theirs.mapped, what,
                         &edges->after, diag))
        return false;
    CUdeviceptr at = edges->after.address + KERN_EDGE_COOKIE;
    return kern_rank_poke(config->rank, at, &word, sizeof word, diag) &&
           kern_rank_peek(config->rank, at, &back, sizeof back, diag) &&
           (back == word || kern_fail(diag, KERN_EXIT_DEVICE, what,
                                      "a word written through the mapping reads back as %016" PRIx64
                                      ", not %016" PRIx64,
                                      back, word));
}

// Both ends are able, so each meets the other here.
static bool connect_end(struct end *end, struct kern_diag *diag)
{
    struct kern_fd_address addresses[2];
    addresses[end->place.index] = end->mine.address;
    addresses[!end->place.index] = end->theirs.address;
    return kern_fds_connect(&end->fds, addresses, diag);
}

static void hand_descriptor(struct kern_edges *edges, struct end *before, struct kern_diag *diag)
{
    struct kern_shareable shareable = {.fd = -1};
    if (!connect_end(before, diag))
        return;
    bool exported = export_arrivals(edges, &shareable, diag);
    kern_fds_send(&before->fds, 0, &shareable.fd, exported, diag);
    if (exported)
        close(shareable.fd);
}

static void take_descriptor(struct kern_edges *edges, struct end *after, struct kern_diag *diag)
{
    struct kern_shareable shareable = {.kind = KERN_HANDLE_POSIX_FD, .fd = -1};
    bool sent = false;
    if (!connect_end(after, diag) ||
        !kern_fds_receive(&after->fds, 1, &shareable.fd, 1, &sent, diag) || !sent)
        return;
    import_arrivals(edges, after, &shareable, diag);
    close(shareable.fd);
}

static bool is_able(const struct end *end)
{
    return end->peer != MPI_PROC_NULL && end->mine.kind != KERN_HANDLE_NONE &&
           end->theirs.kind != KERN_HANDLE_NONE;
}

void kern_edges_exchange(struct kern_edges *edges, bool good, struct kern_diag *diag)
{
    const struct kern_world *world = edges->config.world;
    struct end before, after;
    open_end(edges, &before, -1, good, diag);
    open_end(edges, &after, 1, good, diag);
    make_offer(edges, &before, diag);
    KERN_WITH_OTHERS(world, "exchanging handles between stages",
                     MPI_Sendrecv(&before.mine, sizeof before.mine, MPI_BYTE, before.peer, 0,
                                  &after.theirs, sizeof after.theirs, MPI_BYTE, after.peer, 0,
                                  world->comm, MPI_STATUS_IGNORE));
    KERN_WITH_OTHERS(world, "exchanging handles between stages",
                     MPI_Sendrecv(&after.mine, sizeof after.mine, MPI_BYTE, after.peer, 0,
                                  &before.theirs, sizeof before.theirs, MPI_BYTE, before.peer, 0,
                                  world->comm, MPI_STATUS_IGNORE));
    // The first stage begins, so that nobody waits in a circle.
    if (is_able(&before) && before.mine.kind == KERN_HANDLE_POSIX_FD)
        hand_descriptor(edges, &before, diag);
    if (is_able(&after) && after.mine.kind == KERN_HANDLE_POSIX_FD) {
        take_descriptor(edges, &after, diag);
    } else if (is_able(&after)) {
        struct kern_shareable shareable = {.kind = KERN_HANDLE_FABRIC, .fd = -1};
        memcpy(shareable.fabric, after.theirs.fabric, sizeof shareable.fabric);
        import_arrivals(edges, &after, &shareable, diag);
    }
    close_end(&before);
    close_end(&after);
}

bool kern_edges_find_cookie(struct kern_edges *edges, struct kern_diag *diag)
{
    const struct kern_edges_config *config = &edges->config;
    const uint64_t zero = 0;
    int before = kern_stage_neighbour(config->stage, -1);
    uint64_t word = 0, expected = cookie(before, config->world->rank);
    CUdeviceptr at = edges->arrivals + KERN_EDGE_COOKIE;
    if (before == MPI_PROC_NULL)
        return true;
    if (!kern_rank_peek(config->rank, at, &word, sizeof word, diag))
        return false;
    if (word != expected)
        return kern_fail(diag, KERN_EXIT_DEVICE, "what arrives from the stage before",
                         "stage %d (rank %d, %s) wrote a word into its mapping of this memory, and "
                         "it did not arrive here",
                         config->stage->index - 1, before, config->world->members[before].host);
    return kern_rank_poke(config->rank, at, &zero, sizeof zero, diag);
}
