// SPDX-License-Identifier: Apache-2.0
//
// Moving pieces of a checkpoint to their buffers: a few threads read, each into two page-locked
// blocks in turn, and one block is copied to the device while the other is read into.
#ifndef KERN_RANK_UPLOAD_H
#define KERN_RANK_UPLOAD_H

#include <pthread.h>
#include <stdatomic.h>

#include "manifest/footprint.h"
#include "rank/internal.h"
#include "rank/piece.h"

struct rank_block {
    void *bytes;    // page-locked
    CUevent copied; // the last copy out of it is done
};

// What one thread works with. The calling thread has the first lane.
struct rank_lane {
    struct rank_uploader *uploader;
    pthread_t thread;
    CUstream stream;
    CUevent done; // all that this run copied on the stream
    struct rank_block blocks[2];
    unsigned next; // block
    struct kern_diag diag;
};

#define RANK_LANES (KERN_UPLOAD_BLOCKS / 2)

struct rank_uploader {
    struct kern_rank *rank;
    const struct kern_safetensors *checkpoint;
    struct rank_lane lanes[RANK_LANES];
    size_t n_lanes;
    CUevent before; // what the rank's stream was given before a run

    struct kern_pieces work;
    atomic_size_t next; // piece of the work that nobody has taken
    atomic_bool failed;
    atomic_uint_fast64_t done; // bytes of all runs
    uint64_t total;            // bytes of all runs, for the progress
};

// Lanes for [work], the pieces of all runs together. On failure nothing is left.
bool rank_upload_open(struct rank_uploader *uploader, struct kern_rank *rank,
                      const struct kern_safetensors *checkpoint, const struct kern_pieces *work,
                      struct kern_diag *diag);

// Moves what is in uploader->work. Bytes for the device may still be on their way: they arrive
// after what was given to the rank's stream before, and before what is given to it after. If a
// thread fails the others stop at their next piece.
bool rank_upload_run(struct rank_uploader *uploader, struct kern_diag *diag);

// Frees everything but the work, after what is on its way out of the blocks.
void rank_upload_close(struct rank_uploader *uploader);

#endif
