// SPDX-License-Identifier: Apache-2.0
#include "rank/upload.h"

#include <sched.h>

// As many threads as this rank's share of the processors, for one that reads keeps a processor busy
// where files are cached.
static size_t choose_lanes(const struct kern_rank *rank, size_t n_pieces)
{
    cpu_set_t allowed;
    size_t lanes = 1;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
        lanes = (size_t)CPU_COUNT(&allowed) / rank->local_ranks;
    }
    lanes = lanes < 1 ? 1 : lanes > RANK_LANES ? RANK_LANES : lanes;
    return lanes < n_pieces ? lanes : n_pieces;
}

static bool open_lane(struct rank_uploader *uploader, size_t block, const char *what,
                      struct kern_diag *diag)
{
    const struct kern_device *device = uploader->rank->device;
    struct rank_lane *lane = &uploader->lanes[uploader->n_lanes++];
    lane->uploader = uploader;
    bool ok = KERN_CU(device, diag, what, cuStreamCreate, &lane->stream, CU_STREAM_NON_BLOCKING) &&
              KERN_CU(device, diag, what, cuEventCreate, &lane->done, CU_EVENT_DISABLE_TIMING);
    for (int b = 0; ok && b < 2; b++) {
        ok = KERN_CU(device, diag, what, cuMemHostAlloc, &lane->blocks[b].bytes, block, 0) &&
             KERN_CU(device, diag, what, cuEventCreate, &lane->blocks[b].copied,
                     CU_EVENT_DISABLE_TIMING);
    }
    return ok;
}

bool rank_upload_open(struct rank_uploader *uploader, struct kern_rank *rank,
                      const struct kern_safetensors *checkpoint, const struct kern_pieces *work,
                      struct kern_diag *diag)
{
    *uploader = (struct rank_uploader){.rank = rank, .checkpoint = checkpoint};
    size_t block = 0;
    for (size_t i = 0; i < work->count; i++) {
        size_t bytes = kern_piece_staging(&work->items[i]);
        block = bytes > block ? bytes : block;
        uploader->total += work->items[i].width * work->items[i].count;
    }
    size_t lanes = choose_lanes(rank, work->count);
    if (lanes == 0) {
        return true;
    }
    char what[RANK_WHAT];
    rank_print(what,
               "preparing %zu threads with two page-locked blocks of %zu bytes to load weights",
               lanes, block);
    bool ok = KERN_CU(rank->device, diag, what, cuEventCreate, &uploader->before,
                      CU_EVENT_DISABLE_TIMING);
    while (ok && uploader->n_lanes < lanes) {
        ok = open_lane(uploader, block, what, diag);
    }
    if (!ok) {
        rank_upload_close(uploader);
    }
    return ok;
}

static void close_lane(struct rank_lane *lane)
{
    // Freeing page-locked memory waits for the copies out of it.
    const struct kern_cuda *cu = &lane->uploader->rank->device->cu;
    for (int b = 0; b < 2; b++) {
        if (lane->blocks[b].copied != NULL) {
            cu->cuEventDestroy(lane->blocks[b].copied);
        }
        if (lane->blocks[b].bytes != NULL) {
            cu->cuMemFreeHost(lane->blocks[b].bytes);
        }
    }
    if (lane->done != NULL) {
        cu->cuEventDestroy(lane->done);
    }
    if (lane->stream != NULL) {
        cu->cuStreamDestroy(lane->stream);
    }
    kern_diag_clear(&lane->diag);
}

void rank_upload_close(struct rank_uploader *uploader)
{
    for (size_t l = 0; l < uploader->n_lanes; l++) {
        close_lane(&uploader->lanes[l]);
    }
    if (uploader->before != NULL) {
        uploader->rank->device->cu.cuEventDestroy(uploader->before);
    }
    uploader->n_lanes = 0;
    uploader->before = NULL;
}

static bool copy_block(const struct rank_lane *lane, const struct kern_piece *piece,
                       const struct rank_block *block, const char *what, struct kern_diag *diag)
{
    const struct kern_rank *rank = lane->uploader->rank;
    CUdeviceptr to = rank->buffers[piece->buffer].address + piece->to;
    CUDA_MEMCPY2D rows = {
        .srcMemoryType = CU_MEMORYTYPE_HOST,
        .srcHost = block->bytes,
        .srcPitch = kern_piece_pitch(piece),
        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstDevice = to,
        .dstPitch = piece->to_pitch,
        .WidthInBytes = piece->width,
        .Height = piece->count,
    };
    bool ok = kern_piece_is_whole(piece)
                  ? KERN_CU(rank->device, diag, what, cuMemcpyHtoDAsync, to, block->bytes,
                            piece->width * piece->count, lane->stream)
                  : KERN_CU(rank->device, diag, what, cuMemcpy2DAsync, &rows, lane->stream);
    return ok && KERN_CU(rank->device, diag, what, cuEventRecord, block->copied, lane->stream);
}

static bool move_piece(struct rank_lane *lane, const struct kern_piece *piece,
                       struct kern_diag *diag)
{
    const struct rank_uploader *uploader = lane->uploader;
    const struct kern_rank *rank = uploader->rank;
    char *host = rank->buffers[piece->buffer].host;
    if (host != NULL && kern_piece_is_whole(piece)) {
        return kern_piece_read(uploader->checkpoint, piece, host + piece->to, diag);
    }
    struct rank_block *block = &lane->blocks[lane->next++ % 2];
    char what[RANK_WHAT];
    rank_print(what, "loading buffer %s", rank->manifest->buffers[piece->buffer].name);
    if (!KERN_CU(rank->device, diag, what, cuEventSynchronize, block->copied) ||
        !kern_piece_read(uploader->checkpoint, piece, block->bytes, diag)) {
        return false;
    }
    if (host == NULL) {
        return copy_block(lane, piece, block, what, diag);
    }
    kern_piece_place(piece, block->bytes, host);
    return true;
}

// Only the calling thread tells how far all have come, so that nobody is told by two at a time.
static void tell_progress(const struct rank_lane *lane)
{
    struct rank_uploader *uploader = lane->uploader;
    const struct kern_progress *progress = &uploader->rank->progress;
    if (progress->report != NULL && lane == &uploader->lanes[0]) {
        progress->report(progress->context, atomic_load(&uploader->done), uploader->total);
    }
}

static void *work_in_lane(void *argument)
{
    struct rank_lane *lane = argument;
    struct rank_uploader *uploader = lane->uploader;
    const struct kern_device *device = uploader->rank->device;
    const char *what = "ordering the loading of weights";
    bool ok = rank_enter(uploader->rank, &lane->diag) &&
              KERN_CU(device, &lane->diag, what, cuStreamWaitEvent, lane->stream, uploader->before,
                      CU_EVENT_WAIT_DEFAULT);
    while (ok && !atomic_load(&uploader->failed)) {
        size_t next = atomic_fetch_add(&uploader->next, 1);
        if (next >= uploader->work.count) {
            break;
        }
        const struct kern_piece *piece = &uploader->work.items[next];
        ok = move_piece(lane, piece, &lane->diag);
        atomic_fetch_add(&uploader->done, piece->width * piece->count);
        tell_progress(lane);
    }
    ok = ok && KERN_CU(device, &lane->diag, what, cuEventRecord, lane->done, lane->stream);
    if (!ok) {
        atomic_store(&uploader->failed, true);
    }
    return NULL;
}

bool rank_upload_run(struct rank_uploader *uploader, struct kern_diag *diag)
{
    struct kern_rank *rank = uploader->rank;
    const char *what = "ordering the loading of weights";
    size_t lanes =
        uploader->work.count < uploader->n_lanes ? uploader->work.count : uploader->n_lanes;
    if (lanes == 0) {
        return true;
    }
    if (!KERN_CU(rank->device, diag, what, cuEventRecord, uploader->before, rank->stream)) {
        return false;
    }
    atomic_store(&uploader->next, 0);
    // Where no more threads are to be had, those that there are do all the work.
    size_t started = 1;
    while (started < lanes && pthread_create(&uploader->lanes[started].thread, NULL, work_in_lane,
                                             &uploader->lanes[started]) == 0) {
        started++;
    }
    work_in_lane(&uploader->lanes[0]);
    for (size_t l = 1; l < started; l++) {
        pthread_join(uploader->lanes[l].thread, NULL);
    }
    bool ok = !atomic_load(&uploader->failed);
    for (size_t l = 0; l < started; l++) {
        kern_diag_append(diag, &uploader->lanes[l].diag);
        ok = ok && KERN_CU(rank->device, diag, what, cuStreamWaitEvent, rank->stream,
                           uploader->lanes[l].done, CU_EVENT_WAIT_DEFAULT);
    }
    return ok;
}
