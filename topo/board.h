// SPDX-License-Identifier: Apache-2.0
//
// Where each process of a node is, in memory that they share: who is late can be named although it
// no longer answers.
#ifndef KERN_TOPO_BOARD_H
#define KERN_TOPO_BOARD_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

// Whether a process waits for other ranks. Who has given up leaves, and is not to be missed.
enum kern_board_wait { KERN_BOARD_BUSY, KERN_BOARD_WAITING, KERN_BOARD_GIVEN_UP };

// What a process says of itself. Only it writes its slot; readers may see a half-written name,
// which is cut, never overrun.
struct kern_board_slot {
    char phase[24];
    char program[40]; // empty: none
    char awaits[64];  // what of a neighbour in the pipeline, or what it gave up on; empty: nothing
    uint64_t step;    // of the program, from 1; 0: none
    uint64_t since;   // base/clock.h, when it got there
    uint64_t done, total; // bytes that the phase has moved, of how many; 0 of 0: it does not say
    uint64_t moved;       // when done changed last
    int waiting;          // enum kern_board_wait
};

struct kern_board {
    struct kern_board_slot *slots; // by local rank
    int *told;                     // 1: somebody on this node has reported who is late
    int count;
    int self;
    MPI_Win window;
};

void kern_board_open(struct kern_board *board, MPI_Comm node, int local_rank, int local_size);
void kern_board_close(struct kern_board *board);

// Notes that this process has reached [phase], and in it [program] (NULL: none) and [step].
void kern_board_phase(struct kern_board *board, const char *phase);
void kern_board_program(struct kern_board *board, const char *program);
// Notes what of a neighbour in the pipeline its kernels wait for ("": nothing).
void kern_board_awaits(struct kern_board *board, const char *what);
void kern_board_step(struct kern_board *board, uint64_t step);

// Notes that the phase has moved [done] of [total] bytes.
void kern_board_progress(struct kern_board *board, uint64_t done, uint64_t total);

#endif
