// SPDX-License-Identifier: Apache-2.0
//
// File descriptors between the processes of one node: each member of a group listens on an abstract
// unix socket and connects to every other member's. What goes from member i to member j goes over
// the connection that i made.
#ifndef KERN_FABRIC_FDS_H
#define KERN_FABRIC_FDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "topo/groups.h"

// The most descriptors in one message. The kernel takes 253, but counts those in flight for all
// processes of a user against RLIMIT_NOFILE.
#define KERN_FDS_BATCH 64

// Where a member listens. Abstract names have no permissions: whoever connects must also show the
// token, which travels by MPI alone, and be the same user.
struct kern_fd_address {
    uint8_t name[16];
    uint8_t token[16];
};

struct kern_fds {
    const struct kern_world *world;
    const struct kern_group_place *place;
    struct kern_fd_address address; // ours
    bool overdue;                   // a wait lasted the whole limit: the exchange is lost
    int listener;
    int *to;   // connection to each member, by group index; -1: ourselves
    int *from; // connection from each member
};

// Starts to listen. On failure nothing is left open.
bool kern_fds_open(struct kern_fds *fds, const struct kern_world *world,
                   const struct kern_group_place *place, struct kern_diag *diag);

// Connects to every member at its address, in group order, and waits for theirs.
bool kern_fds_connect(struct kern_fds *fds, const struct kern_fd_address *addresses,
                      struct kern_diag *diag);

// Sends [count] <= KERN_FDS_BATCH descriptors to [member]; they stay open here. A count of 0 tells
// the member that there is nothing for it, for one of its reasons to fail is ours.
bool kern_fds_send(struct kern_fds *fds, uint32_t member, const int *fd, size_t count,
                   struct kern_diag *diag);

// Receives exactly [count] descriptors from [member], which the caller owns then. *[sent] is false
// if the member had nothing to send.
bool kern_fds_receive(struct kern_fds *fds, uint32_t member, int *fd, size_t count, bool *sent,
                      struct kern_diag *diag);

void kern_fds_close(struct kern_fds *fds);

// Makes room for [more] open files, raising the soft limit as far as the hard one allows; the error
// says what is needed and how to get it.
bool kern_fds_reserve(size_t more, struct kern_diag *diag);

#endif
