// SPDX-License-Identifier: Apache-2.0
#include "rank/piece.h"

#include <string.h>

#include "base/memory.h"
#include "manifest/footprint.h"

// Rows that lie less than this apart are read with what is between them: to copy it costs less than
// a call for each row, and a disk would read most of it anyway.
#define GAP (16 << 10)

static bool has_small_gaps(const struct kern_piece *piece)
{
    return piece->pitch - piece->width < GAP;
}

size_t kern_piece_pitch(const struct kern_piece *piece)
{
    return has_small_gaps(piece) ? piece->pitch : piece->width;
}

size_t kern_piece_staging(const struct kern_piece *piece)
{
    return (piece->count - 1) * kern_piece_pitch(piece) + piece->width;
}

bool kern_piece_is_whole(const struct kern_piece *piece)
{
    return piece->count == 1 ||
           (kern_piece_pitch(piece) == piece->width && piece->to_pitch == piece->width);
}

static void add(struct kern_pieces *pieces, const struct kern_piece *piece)
{
    kern_reserve(&pieces->items, &pieces->capacity, pieces->count + 1, sizeof *pieces->items);
    pieces->items[pieces->count++] = *piece;
}

// Adds one row that is larger than a block.
static void cut_row(struct kern_pieces *pieces, const struct kern_piece *row)
{
    for (uint64_t at = 0; at < row->width; at += KERN_UPLOAD_BLOCK) {
        struct kern_piece piece = *row;
        piece.offset += at;
        piece.to += at;
        if (row->width - at > KERN_UPLOAD_BLOCK)
            piece.width = KERN_UPLOAD_BLOCK;
        else
            piece.width = row->width - at;
        piece.pitch = piece.to_pitch = piece.width;
        add(pieces, &piece);
    }
}

void kern_pieces_cut(struct kern_pieces *pieces, const struct kern_piece *whole)
{
    struct kern_piece rest = *whole;
    if (rest.width == 0 || rest.count == 0)
        return;
    if (rest.width == rest.pitch && rest.width == rest.to_pitch) {
        rest.width *= rest.count;
        rest.pitch = rest.to_pitch = rest.width;
        rest.count = 1;
    }
    uint64_t rows = 1; // at a time
    if (rest.width < KERN_UPLOAD_BLOCK)
        rows += (KERN_UPLOAD_BLOCK - rest.width) / kern_piece_pitch(&rest);
    for (uint64_t left = rest.count; left > 0; left -= rest.count) {
        rest.count = left < rows ? left : rows;
        if (rest.width > KERN_UPLOAD_BLOCK)
            cut_row(pieces, &rest);
        else
            add(pieces, &rest);
        rest.offset += rest.count * rest.pitch;
        rest.to += rest.count * rest.to_pitch;
    }
}

bool kern_piece_read(const struct kern_safetensors *checkpoint, const struct kern_piece *piece,
                     void *staging, struct kern_diag *diag)
{
    if (has_small_gaps(piece))
        return kern_safetensors_read(checkpoint, piece->tensor, piece->offset, staging,
                                     kern_piece_staging(piece), diag);
    return kern_safetensors_read_rows(checkpoint, piece->tensor, piece->offset, piece->pitch,
                                      piece->count, staging, piece->width, diag);
}

void kern_piece_place(const struct kern_piece *piece, const void *staging, void *buffer)
{
    const char *from = staging;
    char *to = (char *)buffer + piece->to;
    if (kern_piece_is_whole(piece)) {
        memcpy(to, from, piece->width * piece->count);
        return;
    }
    for (uint64_t i = 0; i < piece->count; i++)
        memcpy(to + i * piece->to_pitch, from + i * kern_piece_pitch(piece), piece->width);
}
