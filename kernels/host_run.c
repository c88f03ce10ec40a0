// SPDX-License-Identifier: Apache-2.0
#include "kernels/host_run.h"

#include <sched.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kernels/host_fibers.h"

// Eight ranks on two cores stand still for a scheduler tick per round when they only pause, so a
// wait gives the core away after so many hints. One that lasts sleeps instead: who gives the core
// away may forfeit a whole time slice (Linux 6.18 does that), and beside processes that compute a
// wait that does nothing else comes to look at its flag every ten milliseconds, or not for seconds.
enum { HINTS_PER_YIELD = 64, PATIENCE_NS = 200000, SLEEP_NS = 50000 };

// The launch that this thread runs.
struct launch {
    struct kern_host_fibers *fibers; // NULL while threads run by plain loops
    jmp_buf trap;                    // where a trap of a plain thread goes
    unsigned hints;                  // of this wait
    uint64_t since;                  // when it first gave the core away
};

__thread struct kern_host_lane kern_lane;
static __thread struct launch *current;

static void say(const char *what)
{
    fprintf(stderr, "kernel host half: %s\n", what);
}

void kern_host_enter_block(const struct kern_host_grid *grid, uint64_t index)
{
    const uint64_t row = index / grid->grid[0];
    kern_lane.block.x = (uint32_t)(index % grid->grid[0]);
    kern_lane.block.y = (uint32_t)(row % grid->grid[1]);
    kern_lane.block.z = (uint32_t)(row / grid->grid[1]);
}

static bool run_fibers(struct launch *launch, const struct kern_host_body *body,
                       const struct kern_host_grid *grid, uint64_t first, uint64_t count,
                       void *const *args)
{
    launch->fibers = kern_host_fibers_take(grid->block);
    if (!launch->fibers) {
        say("no memory for the stacks of a block");
        return false;
    }
    bool done = true;
    for (uint64_t i = 0; done && i < count; i++) {
        kern_host_enter_block(grid, first + i);
        done = kern_host_fibers_run(launch->fibers, body->thread, args);
    }
    kern_host_fibers_give(launch->fibers);
    return done;
}

// Kept out of kern_host_launch, so that no variable of that one changes after its setjmp.
static bool run_plain(struct launch *launch, const struct kern_host_body *body,
                      const struct kern_host_grid *grid, uint64_t first, uint64_t count,
                      void *const *args)
{
    if (setjmp(launch->trap)) {
        return false;
    }
    body->blocks(grid, first, count, args);
    return true;
}

static bool block_is_sound(const struct kern_host_grid *grid)
{
    const uint64_t threads = (uint64_t)grid->block[0] * grid->block[1] * grid->block[2];
    return grid->block[0] <= KERN_HOST_MAX_THREADS && grid->block[1] <= KERN_HOST_MAX_THREADS &&
           threads >= 1 && threads <= KERN_HOST_MAX_THREADS;
}

int kern_host_launch(const struct kern_host_body *body, const struct kern_host_grid *grid,
                     uint64_t first, uint64_t count, void *const *args)
{
    if (!block_is_sound(grid)) {
        say("a block has 1 to 1024 threads");
        return 1;
    }
    int result = 1;
    struct launch launch = {.hints = 0};
    // Allocated at their exact sizes, so that a sanitizer sees a kernel that leaves them.
    kern_lane = (struct kern_host_lane){
        .block_dim = {grid->block[0], grid->block[1], grid->block[2]},
        .grid_dim = {grid->grid[0], grid->grid[1], grid->grid[2]},
        .static_shared = body->static_shared ? malloc(body->static_shared) : NULL,
        .dynamic_shared = grid->dynamic_shared ? malloc(grid->dynamic_shared) : NULL,
    };
    if ((body->static_shared && !kern_lane.static_shared) ||
        (grid->dynamic_shared && !kern_lane.dynamic_shared)) {
        say("no memory for the shared memory of a block");
        goto out;
    }
    current = &launch;
    const bool done = body->thread ? run_fibers(&launch, body, grid, first, count, args)
                                   : run_plain(&launch, body, grid, first, count, args);
    current = NULL;
    result = done ? 0 : 1;
out:
    free(kern_lane.static_shared);
    free(kern_lane.dynamic_shared);
    return result;
}

void kern_host_barrier(void)
{
    if (current->fibers) {
        kern_host_fibers_barrier(current->fibers);
        return;
    }
    const struct kern_host_dim *dim = &kern_lane.block_dim;
    if (dim->x * dim->y * dim->z != 1) {
        say("__syncthreads in a kernel that is declared with KERN_LOOP_KERNEL");
        kern_host_trap();
    }
}

void kern_host_spin_begin(void)
{
    current->hints = 0;
}

static void give_way(void)
{
    const uint64_t now = kern_host_clock_ns();
    if (current->hints == HINTS_PER_YIELD) {
        current->since = now;
    }
    if (now - current->since < PATIENCE_NS) {
        sched_yield();
    } else {
        nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
    }
}

void kern_host_spin(void)
{
    if (++current->hints % HINTS_PER_YIELD == 0) {
        give_way();
    } else if (!current->fibers || !kern_host_fibers_yield(current->fibers)) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
    }
}

uint64_t kern_host_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void kern_host_trap(void)
{
    if (current->fibers) {
        kern_host_fibers_trap(current->fibers);
    }
    longjmp(current->trap, 1);
}
