// SPDX-License-Identifier: Apache-2.0
#include "topo/board.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

// The slots, and before them a line of its own for the flag.
enum { HEAD = 64 };

// Everybody is at the start, those as well who never get to say so.
static void clear(struct kern_board *board, char *base, size_t bytes)
{
    memset(base, 0, bytes);
    for (int i = 0; i < board->count; i++) {
        snprintf(board->slots[i].phase, sizeof board->slots[i].phase, "start");
        board->slots[i].since = kern_now();
    }
}

void kern_board_open(struct kern_board *board, MPI_Comm node, int local_rank, int local_size)
{
    MPI_Aint mine = 0, bytes;
    int unit;
    char *base = NULL;
    board->count = local_size;
    board->self = local_rank;
    if (local_rank == 0)
        mine = HEAD + (MPI_Aint)sizeof *board->slots * local_size;
    MPI_Win_allocate_shared(mine, 1, MPI_INFO_NULL, node, &base, &board->window);
    MPI_Win_shared_query(board->window, 0, &bytes, &unit, &base);
    board->told = (int *)(void *)base;
    board->slots = (struct kern_board_slot *)(void *)(base + HEAD);
    if (local_rank == 0)
        clear(board, base, (size_t)mine);
    MPI_Barrier(node);
}

void kern_board_close(struct kern_board *board)
{
    if (board->slots)
        MPI_Win_free(&board->window);
    *board = (struct kern_board){0};
}

static struct kern_board_slot *own(struct kern_board *board)
{
    return board->slots ? &board->slots[board->self] : NULL;
}

void kern_board_phase(struct kern_board *board, const char *phase)
{
    struct kern_board_slot *slot = own(board);
    if (!slot)
        return;
    slot->program[0] = '\0';
    slot->step = 0;
    slot->total = slot->done = 0;
    slot->since = kern_now();
    snprintf(slot->phase, sizeof slot->phase, "%s", phase);
}

void kern_board_program(struct kern_board *board, const char *program)
{
    struct kern_board_slot *slot = own(board);
    if (!slot)
        return;
    slot->step = 0;
    slot->since = kern_now();
    snprintf(slot->program, sizeof slot->program, "%s", program ? program : "");
}

void kern_board_awaits(struct kern_board *board, const char *what)
{
    struct kern_board_slot *slot = own(board);
    if (slot)
        snprintf(slot->awaits, sizeof slot->awaits, "%s", what);
}

void kern_board_step(struct kern_board *board, uint64_t step)
{
    struct kern_board_slot *slot = own(board);
    if (!slot)
        return;
    slot->step = step;
    slot->since = kern_now();
}

void kern_board_progress(struct kern_board *board, uint64_t done, uint64_t total)
{
    struct kern_board_slot *slot = own(board);
    if (!slot)
        return;
    slot->done = done;
    slot->total = total;
    slot->moved = kern_now();
}
