// SPDX-License-Identifier: Apache-2.0
//
// The parts in which weights are loaded. A piece is read into a staging block as it lies in the
// file and goes from there to its place in the buffer, row by row where its rows are apart.
#ifndef KERN_RANK_PIECE_H
#define KERN_RANK_PIECE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "rank/safetensors.h"

// [count] rows of [width] bytes: [pitch] apart in the data of a tensor from byte [offset] on, and
// [to_pitch] apart in buffer [buffer] of the manifest from byte [to] on.
struct kern_piece {
    const struct kern_tensor *tensor;
    uint64_t offset, pitch;
    uint64_t width, count;
    uint32_t buffer;
    uint64_t to, to_pitch;
};

struct kern_pieces {
    struct kern_piece *items;
    size_t count, capacity;
};

// Adds [whole], which may have any size, in pieces that fit into KERN_UPLOAD_BLOCK bytes of staging
// (manifest/footprint.h).
void kern_pieces_cut(struct kern_pieces *pieces, const struct kern_piece *whole);

// The bytes of staging that the piece needs, and how far apart its rows lie there.
size_t kern_piece_staging(const struct kern_piece *piece);
size_t kern_piece_pitch(const struct kern_piece *piece);

// Whether staging and buffer hold the rows one after another, so that they are copied as one.
bool kern_piece_is_whole(const struct kern_piece *piece);

bool kern_piece_read(const struct kern_safetensors *checkpoint, const struct kern_piece *piece,
                     void *staging, struct kern_diag *diag);

// Puts the rows that were read into [staging] where they belong in a buffer of the host.
void kern_piece_place(const struct kern_piece *piece, const void *staging, void *buffer);

#endif
