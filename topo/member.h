// SPDX-License-Identifier: Apache-2.0
#ifndef KERN_TOPO_MEMBER_H
#define KERN_TOPO_MEMBER_H

#define KERN_HOST_BYTES 64

// Where one process of the job is.
struct kern_member {
    int node;       // from 0, in order of the lowest rank on each
    int local_rank; // from 0 on its node
    int pid;
    char host[KERN_HOST_BYTES];
};

#endif
