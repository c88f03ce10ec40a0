// SPDX-License-Identifier: Apache-2.0
#include "fabric/fabric.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "fabric/fds.h"
#include "fabric/internal.h"
#include "topo/watchdog.h"

// Where export [export] of member [world_rank] stands, whether it is ours or mapped.
static CUdeviceptr *address_of(struct kern_fabric *fabric, int world_rank, size_t export)
{
    return &fabric->addresses[(size_t)world_rank * fabric->n_exports + export];
}

static void index_exports(struct kern_fabric *fabric)
{
    fabric->of_buffer = kern_calloc(fabric->manifest->n_buffers, sizeof *fabric->of_buffer);
    fabric->of_state = kern_calloc(fabric->manifest->n_states, sizeof *fabric->of_state);
    for (size_t e = 0; e < fabric->n_exports; e++) {
        const struct kern_export *export = &fabric->exports[e];
        size_t *of = export->target == KERN_TARGET_STATE ? fabric->of_state : fabric->of_buffer;
        of[export->index] = e;
    }
}

// The export whose addresses [peer] holds.
static size_t export_of(const struct kern_fabric *fabric, const struct kern_buffer *peer)
{
    bool state = peer->of_target == KERN_TARGET_STATE;
    return (state ? fabric->of_state : fabric->of_buffer)[peer->of.index];
}

// The exports that peer buffers of [group] want, as indices into the rank's exports, ascending.
static size_t find_targets(const struct kern_fabric *fabric, uint32_t group, size_t *targets)
{
    const struct kern_manifest *manifest = fabric->manifest;
    bool *wanted = kern_calloc(fabric->n_exports, sizeof *wanted);
    for (uint32_t b = 0; b < manifest->n_buffers; b++) {
        const struct kern_buffer *peer = &manifest->buffers[b];
        if (peer->kind == KERN_PEER && peer->group.index == group)
            wanted[export_of(fabric, peer)] = true;
    }
    size_t count = 0;
    for (size_t e = 0; e < fabric->n_exports; e++)
        if (wanted[e])
            targets[count++] = e;
    free(wanted);
    return count;
}

// What travels for one export. A member that could not export sends KERN_HANDLE_NONE, so that its
// peers skip it instead of waiting.
struct entry {
    uint32_t kind;
    uint32_t export;
    uint64_t mapped;
    uint8_t handle[64];
};

static bool export_handle(struct kern_fabric *fabric, size_t e, struct kern_shareable *shareable,
                          struct kern_diag *diag)
{
    const struct kern_export *export = &fabric->exports[e];
    struct kern_mapping mapping = {export->address, export->mapped, export->handle};
    return kern_vmm_export(fabric->device, &mapping, fabric->kind, export->name, shareable, diag);
}

// A fabric handle travels in its entry; of file descriptors the entry says where they are handed
// out.
static void make_entry(struct kern_fabric *fabric, size_t e, const struct kern_fds *fds,
                       struct entry *entry, struct kern_diag *diag)
{
    struct kern_shareable shareable = {.kind = KERN_HANDLE_NONE};
    *entry = (struct entry){.export = (uint32_t)e, .mapped = fabric->exports[e].mapped};
    if (fds->place) {
        entry->kind = KERN_HANDLE_POSIX_FD;
        memcpy(entry->handle, &fds->address, sizeof fds->address);
    } else if (fabric->kind == KERN_HANDLE_FABRIC && export_handle(fabric, e, &shareable, diag)) {
        entry->kind = shareable.kind;
        memcpy(entry->handle, shareable.fabric, sizeof entry->handle);
    }
    fabric->facts.handles += entry->kind != KERN_HANDLE_NONE;
}

static bool check_entry(const struct kern_fabric *fabric, int peer, size_t e,
                        const struct entry *entry, struct kern_diag *diag)
{
    const struct kern_export *own = &fabric->exports[e];
    if (entry->kind == KERN_HANDLE_NONE) // the peer says itself why
        return false;
    if (entry->export != e || entry->kind != fabric->kind)
        return kern_fail(
            diag, KERN_EXIT_DEVICE, own->name,
            "rank %d (%s) sent a %s handle of export %u, not a %s handle of export %zu", peer,
            fabric->world->members[peer].host,
            kern_handle_kind_name((enum kern_handle_kind)entry->kind), entry->export,
            kern_handle_kind_name(fabric->kind), e);
    if (entry->mapped != own->mapped)
        return kern_fail(diag, KERN_EXIT_DEVICE, own->name,
                         "has %llu bytes on rank %d (%s) but %llu here; do both devices have one "
                         "allocation granularity?",
                         (unsigned long long)entry->mapped, peer, fabric->world->members[peer].host,
                         (unsigned long long)own->mapped);
    return true;
}

// Maps export [e] of world rank [peer].
static bool import_handle(struct kern_fabric *fabric, int peer, size_t e,
                          const struct kern_shareable *shareable, struct kern_diag *diag)
{
    struct kern_arena arena = {0};
    const char *what = kern_arena_print(&arena, "%s of rank %d (%s)", fabric->exports[e].name, peer,
                                        fabric->world->members[peer].host);
    struct kern_mapping *mapping = &fabric->mappings[fabric->facts.mappings];
    bool good = kern_vmm_import(fabric->device, fabric->ordinal, shareable,
                                fabric->exports[e].mapped, what, mapping, diag);
    if (good) {
        fabric->origins[fabric->facts.mappings++] = (struct kern_origin){peer, e};
        fabric->facts.mapped += mapping->mapped;
        *address_of(fabric, peer, e) = mapping->address;
    }
    kern_arena_free(&arena);
    return good;
}

static bool import_entry(struct kern_fabric *fabric, int peer, const struct entry *entry,
                         struct kern_diag *diag)
{
    struct kern_shareable shareable = {.kind = (enum kern_handle_kind)entry->kind, .fd = -1};
    memcpy(shareable.fabric, entry->handle, sizeof shareable.fabric);
    return import_handle(fabric, peer, entry->export, &shareable, diag);
}

// Exports [count] targets as file descriptors and hands them to [member]. If one cannot be exported
// the member gets none, and is not left waiting.
static bool send_batch(struct kern_fabric *fabric, struct kern_fds *fds, uint32_t member,
                       const size_t *targets, size_t count, struct kern_diag *diag)
{
    int fd[KERN_FDS_BATCH];
    size_t exported = 0;
    struct kern_shareable shareable;
    while (exported < count && export_handle(fabric, targets[exported], &shareable, diag))
        fd[exported++] = shareable.fd;
    bool good = kern_fds_send(fds, member, fd, exported == count ? count : 0, diag);
    for (size_t i = 0; i < exported; i++)
        close(fd[i]);
    return good && exported == count;
}

static bool receive_batch(struct kern_fabric *fabric, struct kern_fds *fds, uint32_t member,
                          const size_t *targets, size_t count, struct kern_diag *diag)
{
    int fd[KERN_FDS_BATCH], peer = fds->place->members[member];
    bool sent;
    if (!kern_fds_receive(fds, member, fd, count, &sent, diag) || !sent)
        return false;
    bool good = true;
    for (size_t i = 0; i < count; i++) {
        struct kern_shareable shareable = {.kind = KERN_HANDLE_POSIX_FD, .fd = fd[i]};
        if (!*address_of(fabric, peer, targets[i])) // else mapped for another group
            good = import_handle(fabric, peer, targets[i], &shareable, diag) && good;
        close(fd[i]);
    }
    return good;
}

// Everybody hands a batch to the member [turn] places on and takes one from the member as far back,
// so that nobody waits for one who waits for another.
static bool pass_descriptors(struct kern_fabric *fabric, struct kern_fds *fds,
                             const size_t *targets, size_t count, struct kern_diag *diag)
{
    uint32_t size = fds->place->size, index = fds->place->index;
    bool good = true;
    for (uint32_t turn = 1; turn < size; turn++)
        for (size_t at = 0; at < count; at += KERN_FDS_BATCH) {
            size_t batch = count - at < KERN_FDS_BATCH ? count - at : KERN_FDS_BATCH;
            good =
                send_batch(fabric, fds, (index + turn) % size, targets + at, batch, diag) && good;
            good = receive_batch(fabric, fds, (index + size - turn) % size, targets + at, batch,
                                 diag) &&
                   good;
        }
    return good;
}

// Opens the way for file descriptors if that is the road; fds->place stays NULL if it is not, or if
// it could not be opened.
static void open_descriptors(struct kern_fabric *fabric, const struct kern_group_place *place,
                             struct kern_fds *fds, struct kern_diag *diag)
{
    *fds = (struct kern_fds){.listener = -1};
    if (fabric->kind != KERN_HANDLE_POSIX_FD)
        return;
    kern_fds_open(fds, fabric->world, place, diag);
}

static bool connect_descriptors(struct kern_fds *fds, const struct entry *all, size_t count,
                                struct kern_diag *diag)
{
    uint32_t size = fds->place->size;
    struct kern_fd_address *addresses = kern_calloc(size, sizeof *addresses);
    bool everywhere = true;
    for (uint32_t m = 0; m < size; m++) {
        everywhere = everywhere && all[m * count].kind == KERN_HANDLE_POSIX_FD;
        memcpy(&addresses[m], all[m * count].handle, sizeof *addresses);
    }
    bool good = everywhere && kern_fds_connect(fds, addresses, diag);
    free(addresses);
    return good;
}

// One all-gather in [place]'s group, whatever the number of targets, then the mappings.
static bool share_group(struct kern_fabric *fabric, const struct kern_group_place *place,
                        const size_t *targets, size_t count, struct kern_diag *diag)
{
    size_t bytes = count * sizeof(struct entry);
    struct entry *mine = kern_calloc(count, sizeof *mine);
    struct entry *all = kern_calloc(count * place->size, sizeof *all);
    struct kern_fds fds;
    open_descriptors(fabric, place, &fds, diag);
    for (size_t t = 0; t < count; t++)
        make_entry(fabric, targets[t], &fds, &mine[t], diag);
    KERN_WITH_OTHERS(
        fabric->world, "exchanging handles",
        MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, place->comm));
    fabric->facts.collectives++;
    bool good = true;
    for (uint32_t m = 0; m < place->size; m++) {
        int peer = place->members[m];
        for (size_t t = 0; t < count; t++) {
            const struct entry *entry = &all[m * count + t];
            if (peer != fabric->world->rank)
                good = check_entry(fabric, peer, targets[t], entry, diag) && good;
            bool mapped = *address_of(fabric, peer, targets[t]) != 0; // ours, or for another group
            if (good && !mapped && entry->kind == KERN_HANDLE_FABRIC)
                good = import_entry(fabric, peer, entry, diag);
        }
    }
    // Whoever connects waits for all others, so all must be able to.
    bool ready =
        fabric->kind == KERN_HANDLE_POSIX_FD && kern_world_all(fabric->world, place->comm, good);
    if (fds.place && ready)
        good = connect_descriptors(&fds, all, count, diag) &&
               pass_descriptors(fabric, &fds, targets, count, diag);
    kern_fds_close(&fds);
    free(all);
    free(mine);
    return good;
}

// The mappings that all groups together can need, so that the array never moves.
static size_t count_mappings(const struct kern_fabric *fabric, size_t *targets)
{
    size_t count = 0;
    for (uint32_t g = 0; g < fabric->groups->count; g++)
        count += find_targets(fabric, g, targets) * fabric->groups->places[g].size;
    return count;
}

struct kern_fabric *
kern_fabric_share(const struct kern_world *world, const struct kern_manifest *manifest,
                  const struct kern_groups *groups, const struct kern_device *device, int ordinal,
                  const struct kern_road *road, struct kern_rank *rank, struct kern_diag *diag)
{
    struct kern_fabric *fabric = kern_calloc(1, sizeof *fabric);
    *fabric = (struct kern_fabric){.world = world,
                                   .manifest = manifest,
                                   .groups = groups,
                                   .device = device,
                                   .ordinal = ordinal,
                                   .kind = road->kind,
                                   .rank = rank};
    fabric->n_exports = kern_rank_exports(rank, &fabric->exports);
    fabric->addresses =
        kern_calloc((size_t)world->size * fabric->n_exports, sizeof *fabric->addresses);
    for (size_t e = 0; e < fabric->n_exports; e++)
        *address_of(fabric, world->rank, e) = fabric->exports[e].address;
    index_exports(fabric);
    size_t *targets = kern_calloc(fabric->n_exports, sizeof *targets);
    size_t most = count_mappings(fabric, targets);
    fabric->mappings = kern_calloc(most, sizeof *fabric->mappings);
    fabric->origins = kern_calloc(most, sizeof *fabric->origins);
    kern_cookies_prepare(fabric, diag);
    fabric->shared = kern_calloc(groups->count, sizeof *fabric->shared);
    for (uint32_t g = 0; g < groups->count; g++) {
        size_t count = find_targets(fabric, g, targets);
        if (groups->places[g].size > 1)
            fabric->shared[g] = count;
        if (fabric->shared[g])
            share_group(fabric, &groups->places[g], targets, count, diag);
    }
    kern_cookies_leave(fabric, diag);
    free(targets);
    return fabric;
}

static bool fill_peer_buffers(struct kern_fabric *fabric, struct kern_diag *diag)
{
    bool good = true;
    for (uint32_t b = 0; b < fabric->manifest->n_buffers; b++) {
        const struct kern_buffer *peer = &fabric->manifest->buffers[b];
        if (peer->kind != KERN_PEER)
            continue;
        const struct kern_group_place *place = &fabric->groups->places[peer->group.index];
        CUdeviceptr *addresses = kern_calloc(place->size, sizeof *addresses);
        for (uint32_t m = 0; m < place->size; m++)
            addresses[m] = *address_of(fabric, place->members[m], export_of(fabric, peer));
        good = kern_rank_fill_peer(fabric->rank, b, addresses, place->size, diag) && good;
        free(addresses);
    }
    return good;
}

bool kern_fabric_verify(struct kern_fabric *fabric, struct kern_diag *diag)
{
    size_t *targets = kern_calloc(fabric->n_exports, sizeof *targets);
    bool good = true;
    for (uint32_t g = 0; g < fabric->groups->count; g++) {
        const struct kern_group_place *place = &fabric->groups->places[g];
        size_t count = find_targets(fabric, g, targets);
        if (count && place->size > 1)
            good = kern_cookies_check(fabric, place, targets, count, diag) && good;
    }
    free(targets);
    return kern_cookies_restore(fabric, diag) && good && fill_peer_buffers(fabric, diag);
}

void kern_fabric_facts(const struct kern_fabric *fabric, struct kern_fabric_facts *facts)
{
    *facts = fabric->facts;
}

size_t kern_fabric_shared(const struct kern_fabric *fabric, uint32_t group)
{
    return fabric->shared[group];
}

void kern_fabric_close(struct kern_fabric *fabric)
{
    if (!fabric)
        return;
    for (size_t i = 0; i < fabric->facts.mappings; i++)
        kern_vmm_destroy(fabric->device, &fabric->mappings[i]);
    kern_cookies_free(fabric);
    free(fabric->mappings);
    free(fabric->origins);
    free(fabric->of_buffer);
    free(fabric->of_state);
    free(fabric->addresses);
    free(fabric->shared);
    free(fabric);
}
