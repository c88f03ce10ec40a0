// SPDX-License-Identifier: Apache-2.0
//
// What crosses ranks: each member of a group hands out handles of its exported memory, maps the
// others', proves that every mapping leads where it should, and fills the peer arrays.
#ifndef KERN_FABRIC_FABRIC_H
#define KERN_FABRIC_FABRIC_H

#include <stdbool.h>
#include <stddef.h>

#include "base/diag.h"
#include "rank/rank.h"
#include "topo/groups.h"
#include "topo/world.h"

// The road that exported memory takes, agreed over the world, and why it was chosen.
struct kern_road {
    enum kern_handle_kind kind;
    char why[240];
};

// Tries real allocations on device [ordinal], because its attributes only say what the chip could
// do: every rank exports a granule and maps its neighbour's. Fabric handles are taken if they work
// everywhere, else file descriptors, unless a group that shares memory or an edge between stages
// spans nodes; then the error names both, what is shared and the remedy. KERN_HANDLE_NONE if
// nothing is shared. Collective.
bool kern_road_choose(const struct kern_world *world, const struct kern_stage *stage,
                      const struct kern_manifest *manifest, const struct kern_groups *groups,
                      const struct kern_device *device, int ordinal, struct kern_road *road,
                      struct kern_diag *diag);

struct kern_fabric;

// What the exchange took, for reports and tests.
struct kern_fabric_facts {
    size_t collectives; // handle exchanges: one per group that has peer buffers
    size_t handles;     // exported by this rank
    size_t mappings;    // of peers' memory in this rank
    uint64_t mapped;    // their bytes
};

// Exchanges and imports the handles of every group, in one all-gather per group, and writes a
// cookie through every mapping. Every rank must call it; on failure too, the others are not left
// waiting. The result is never NULL; whether it went well is in [diag].
struct kern_fabric *
kern_fabric_share(const struct kern_world *world, const struct kern_manifest *manifest,
                  const struct kern_groups *groups, const struct kern_device *device, int ordinal,
                  const struct kern_road *road, struct kern_rank *rank, struct kern_diag *diag);

// After an agreement (all cookies are written): reads the cookies that the peers left in our
// memory, puts back what was there, and fills the peer arrays.
bool kern_fabric_verify(struct kern_fabric *fabric, struct kern_diag *diag);

void kern_fabric_facts(const struct kern_fabric *fabric, struct kern_fabric_facts *facts);

// How many exports the members of [group] map of each other.
size_t kern_fabric_shared(const struct kern_fabric *fabric, uint32_t group);

// Unmaps the peers' memory. No kernel of any rank may still use it. NULL is allowed.
void kern_fabric_close(struct kern_fabric *fabric);

#endif
