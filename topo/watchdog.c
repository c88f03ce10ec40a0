// SPDX-License-Identifier: Apache-2.0
#include "topo/watchdog.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"

// What the timer's handler needs to know; a signal has no other way to find it.
static const struct kern_world *watched;
static const char *volatile awaited;

// The letter of a process's state in /proc ('T': stopped, 'Z': a zombie), or 0 if it is gone.
static char state_of(int pid)
{
    char path[32], text[256];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    text[length > 0 ? length : 0] = '\0';
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[1] == ' ' ? name_end[2] : '?';
}

static void say(const char *text)
{
    size_t length = strlen(text);
    while (length > 0) {
        ssize_t n = write(STDERR_FILENO, text, length);
        if (n < 0 && errno != EINTR)
            return;
        text += n > 0 ? n : 0;
        length -= n > 0 ? (size_t)n : 0;
    }
}

static void say_where(int rank, const struct kern_member *member,
                      const struct kern_board_slot *slot)
{
    char text[400], step[40] = "", moved[96] = "";
    char state = state_of(slot->pid);
    const char *how = state == 0 || state == 'Z'     ? "is gone"
                      : state == 'T' || state == 't' ? "is stopped"
                                                     : "is still busy";
    if (slot->step)
        snprintf(step, sizeof step, ", step %llu", (unsigned long long)slot->step);
    if (slot->total)
        snprintf(moved, sizeof moved, "; it has moved %llu of %llu MiB, the last %.1f s ago",
                 (unsigned long long)(slot->done >> 20), (unsigned long long)(slot->total >> 20),
                 (double)(kern_now() - slot->moved) / 1e9);
    snprintf(text, sizeof text,
             "kern-rank: rank %d (%s, pid %d) %s: phase %.23s%s%.39s%s, for %.1f s%s\n", rank,
             member->host, slot->pid, how, slot->phase, slot->program[0] ? ", program " : "",
             slot->program, step, (double)(kern_now() - slot->since) / 1e9, moved);
    say(text);
}

void kern_wait_tell(const struct kern_world *world, const char *what)
{
    char text[256];
    const struct kern_board *board = &world->board;
    if (board->told && __atomic_exchange_n(board->told, 1, __ATOMIC_SEQ_CST))
        return;
    if (world->members)
        snprintf(
            text, sizeof text,
            "kern-rank: error: rank %d (%s) waited %g s for other ranks (%s); --timeout sets the "
            "limit\n",
            world->rank, world->members[world->rank].host, world->timeout, what);
    else
        snprintf(
            text, sizeof text,
            "kern-rank: error: a rank (pid %d) waited %g s for other ranks (%s); --timeout sets "
            "the limit\n",
            (int)getpid(), world->timeout, what);
    say(text);
    bool anybody = false;
    for (int r = 0; board->slots && r < world->size; r++) {
        const struct kern_member *member = &world->members[r];
        if (member->node != world->members[world->rank].node || r == world->rank)
            continue;
        const struct kern_board_slot *slot = &board->slots[member->local_rank];
        char state = state_of(slot->pid);
        if (slot->waiting && state != 0 && state != 'Z' && state != 'T' && state != 't')
            continue;
        say_where(r, member, slot);
        anybody = true;
    }
    if (board->slots && !anybody && world->n_nodes > 1)
        say("kern-rank: all ranks of this node are here; one on another node is late\n");
}

// snprintf of numbers and short strings takes no lock and no memory, so it may be used here;
// whatever MPI was doing is not touched again.
static void on_timer(int signal)
{
    (void)signal;
    const char *what = awaited;
    if (!what)
        return;
    kern_wait_tell(watched, what);
    _exit(KERN_EXIT_PEER);
}

static void on_limit(int signal)
{
    (void)signal;
    char text[256];
    const char *what = awaited;
    if (!what)
        return;
    if (__atomic_exchange_n(watched->board.told, 1, __ATOMIC_SEQ_CST))
        _exit(KERN_EXIT_PEER);
    const struct kern_member *self = &watched->members[watched->rank];
    snprintf(
        text, sizeof text,
        "kern-rank: error: rank %d (%s) waited %g s for the driver (%s), a call of which does not "
        "return; --timeout sets the limit\n",
        watched->rank, self->host, watched->timeout, what);
    say(text);
    say_where(watched->rank, self, &watched->board.slots[watched->local_rank]);
    _exit(KERN_EXIT_PEER);
}

static void set_timer(double seconds)
{
    struct itimerval value = {0};
    value.it_value.tv_sec = (time_t)seconds;
    value.it_value.tv_usec = (suseconds_t)((seconds - (double)value.it_value.tv_sec) * 1e6);
    setitimer(ITIMER_REAL, &value, NULL);
}

static void arm(const struct kern_world *world, const char *what, void (*handler)(int),
                double seconds)
{
    if (world->timeout <= 0)
        return;
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    watched = world;
    awaited = what;
    sigaction(SIGALRM, &action, NULL);
    set_timer(seconds);
}

void kern_wait_begin(const struct kern_world *world, const char *what)
{
    if (world->board.slots)
        world->board.slots[world->local_rank].waiting = 1;
    arm(world, what, on_timer, world->timeout);
}

void kern_limit_begin(const struct kern_world *world, const char *what)
{
    // Waits inside the step have their own deadline, and say more; this comes after them.
    enum { GRACE = 1 };
    arm(world, what, on_limit, world->timeout + GRACE);
}

void kern_wait_end(const struct kern_world *world)
{
    if (world->timeout > 0)
        set_timer(0);
    awaited = NULL;
    if (world->board.slots)
        world->board.slots[world->local_rank].waiting = 0;
}
