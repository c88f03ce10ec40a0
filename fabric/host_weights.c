// SPDX-License-Identifier: Apache-2.0
#include "fabric/host_weights.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"
#include "fabric/fds.h"
#include "topo/watchdog.h"

// The processes of this node and stage as a group; the caller frees place->members.
static struct kern_group_place node_place(const struct kern_world *world,
                                          const struct kern_stage *stage)
{
    struct kern_group_place place = {
        .name = "of the node",
        .members = kern_calloc((size_t)stage->size, sizeof *place.members),
    };
    int node = world->members[world->rank].node;
    for (int r = stage->first; r < stage->first + stage->size; r++) {
        if (world->members[r].node != node)
            continue;
        if (r == world->rank)
            place.index = place.size;
        place.members[place.size++] = r;
    }
    return place;
}

// What the weight takes of the file: whole pages, since it has a mapping of its own.
static bool add_pages(uint64_t bytes, uint64_t *total)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), end;
    if (__builtin_add_overflow(*total, bytes, &end) || end > INT64_MAX - page)
        return false;
    *total = (end + page - 1) / page * page;
    return true;
}

// The memory is taken now: to find later that there is none would be a signal in the midst of
// loading. Nobody can change its size any more, which would be another.
static bool take_memory(int fd, uint64_t bytes)
{
    int error;
    do
        error = posix_fallocate(fd, 0, (off_t)bytes);
    while (error == EINTR);
    errno = error;
    return error == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
}

static int create_memory(const struct kern_host_weight *weights, size_t count,
                         struct kern_diag *diag)
{
    uint64_t bytes = 0;
    bool fits = true;
    for (size_t i = 0; i < count; i++)
        fits = fits && add_pages(weights[i].bytes, &bytes);
    int fd = fits ? memfd_create("kern-host-weights", MFD_CLOEXEC | MFD_ALLOW_SEALING) : -1;
    if (!fits)
        errno = EFBIG;
    if (fd >= 0 && take_memory(fd, bytes))
        return fd;
    kern_fail(diag, KERN_EXIT_DEVICE, weights[0].name,
              "%zu weights are placed on the host; %llu bytes of memory that the ranks of a node "
              "share are not to be had: %s",
              count, (unsigned long long)bytes, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

// Hands the lowest rank's descriptor [fd], or the news that there is none, to all others of the
// node over connections that are there already. Returns the descriptor, or -1.
static int pass(struct kern_fds *fds, int fd, struct kern_diag *diag)
{
    bool sent;
    if (fds->place->index > 0) {
        if (!kern_fds_receive(fds, 0, &fd, 1, &sent, diag) || !sent)
            return -1;
        return fd;
    }
    for (uint32_t m = 1; m < fds->place->size; m++)
        kern_fds_send(fds, m, &fd, fd >= 0, diag);
    return fd;
}

// The descriptor of the node's memory on every rank of it, or -1.
static int distribute(const struct kern_world *world, const struct kern_stage *stage,
                      const struct kern_host_weight *weights, size_t count, struct kern_diag *diag)
{
    struct kern_group_place place = node_place(world, stage);
    struct kern_fd_address *addresses = kern_calloc(place.size, sizeof *addresses);
    struct kern_fds fds = {.listener = -1};
    // Two connections with every other, and the file.
    bool open =
        kern_fds_reserve(2 * place.size + 2, diag) && kern_fds_open(&fds, world, &place, diag);
    KERN_WITH_OTHERS(world, "sharing weights on the host",
                     MPI_Allgather(&fds.address, sizeof fds.address, MPI_BYTE, addresses,
                                   sizeof fds.address, MPI_BYTE, stage->node_comm));
    // Whoever connects waits for all others, so all must be able to.
    int fd = -1;
    if (kern_world_all(world, stage->node_comm, open) && kern_fds_connect(&fds, addresses, diag)) {
        if (place.index == 0)
            fd = create_memory(weights, count, diag);
        fd = pass(&fds, fd, diag);
    }
    kern_fds_close(&fds);
    free(addresses);
    free(place.members);
    return fd;
}

// Maps each weight by itself, so that it can be given back by itself.
static bool adopt(struct kern_rank *rank, int fd, const struct kern_host_weight *weights,
                  size_t count, bool fill, struct kern_diag *diag)
{
    uint64_t offset = 0;
    for (size_t i = 0; i < count; i++) {
        void *memory =
            mmap(NULL, weights[i].bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
        if (memory == MAP_FAILED)
            return kern_fail(diag, KERN_EXIT_DEVICE, weights[i].name,
                             "its %llu bytes on the host cannot be mapped: %s",
                             (unsigned long long)weights[i].bytes, strerror(errno));
        if (!kern_rank_adopt_host_weight(rank, weights[i].buffer, memory, fill, diag)) {
            munmap(memory, weights[i].bytes);
            return false;
        }
        add_pages(weights[i].bytes, &offset);
    }
    return true;
}

bool kern_host_weights_share(const struct kern_world *world, const struct kern_stage *stage,
                             struct kern_rank *rank, bool ready, struct kern_diag *diag)
{
    const struct kern_host_weight *weights;
    size_t count = kern_rank_host_weights(rank, &weights);
    if (count == 0 || !kern_world_all(world, stage->node_comm, ready))
        return ready && count == 0;
    int fd = distribute(world, stage, weights, count, diag);
    if (fd < 0)
        return false;
    int index;
    MPI_Comm_rank(stage->node_comm, &index);
    bool good = adopt(rank, fd, weights, count, index == 0, diag);
    close(fd);
    return good;
}

bool kern_host_weights_await(struct kern_rounds *rounds, const struct kern_stage *stage,
                             const struct kern_rank *rank, bool loaded)
{
    const struct kern_host_weight *weights;
    if (kern_rank_host_weights(rank, &weights) == 0)
        return loaded;
    int all = loaded;
    MPI_Request request;
    MPI_Iallreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, stage->node_comm, &request);
    kern_rounds_await(rounds, &request, "loading weights on the host");
    return all != 0;
}
