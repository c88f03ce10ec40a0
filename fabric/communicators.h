// SPDX-License-Identifier: Apache-2.0
//
// NCCL's communicators: one for each group over which some launch is a collective.
#ifndef KERN_FABRIC_COMMUNICATORS_H
#define KERN_FABRIC_COMMUNICATORS_H

#include "base/diag.h"
#include "rank/rank.h"
#include "topo/groups.h"
#include "topo/place.h"
#include "topo/world.h"

struct kern_communicators;

// Joins the communicators that the compiled [rank] needs and gives them to it, in the order of the
// groups' names on every rank. Two members of a group on one device, which NCCL finds out late and
// says badly, are refused before, with both named. A member that does not come within the world's
// timeout is an error of kind KERN_EXIT_PEER. Collective; a rank that fails leaves nobody waiting.
// The result is never NULL; whether it went well is in [diag].
struct kern_communicators *kern_communicators_join(const struct kern_world *world,
                                                   const struct kern_stage *stage,
                                                   const struct kern_groups *groups,
                                                   const struct kern_place *places,
                                                   const struct kern_device *device,
                                                   struct kern_rank *rank, struct kern_diag *diag);

// Takes them from the rank again and leaves them: in order, for which every member must call, or
// with [abandon] at once, which also ends collectives that wait for a lost member. NULL is allowed.
void kern_communicators_close(struct kern_communicators *all, bool abandon);

#endif
