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
#include "topo/stage.h"

// What the timer's handler needs to know; a signal has no other way to find it.
static const struct kern_world *watched;
static const char *volatile awaited;
static volatile sig_atomic_t driver_awaited; // not other ranks

// The launcher has sent this process the signal to end.
static volatile sig_atomic_t told_to_end;

// This process was stopped since the wait began, and goes on.
static volatile sig_atomic_t woken;

// A wait has lasted the whole limit: those after it need not.
static bool overdue;

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
    if (!name_end || name_end[1] != ' ')
        return '?';
    return name_end[2];
}

static bool is_gone(char state)
{
    return state == 0 || state == 'Z' || state == 'X';
}

static bool is_stopped(char state)
{
    return state == 'T' || state == 't';
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
    char text[544], stage[KERN_STAGE_TEXT], step[40] = "", moved[96] = "";
    char state = state_of(member->pid);
    const char *how = is_gone(state)                   ? "is gone"
                      : woken && rank == watched->rank ? "was stopped"
                      : is_stopped(state)              ? "is stopped"
                      : slot->waiting                  ? "has given up"
                                                       : "is still busy";
    kern_stage_print(watched, rank, stage);
    if (slot->step)
        snprintf(step, sizeof step, ", step %llu", (unsigned long long)slot->step);
    if (slot->total)
        snprintf(moved, sizeof moved, "; it has moved %llu of %llu MiB, the last %.1f s ago",
                 (unsigned long long)(slot->done >> 20), (unsigned long long)(slot->total >> 20),
                 (double)(kern_now() - slot->moved) / 1e9);
    snprintf(text, sizeof text,
             "kern-rank: rank %d (%s, pid %d%s) %s: phase %.23s%s%.39s%s%s%.63s, for %.1f s%s\n",
             rank, member->host, member->pid, stage, how, slot->phase,
             slot->program[0] ? ", program " : "", slot->program, step,
             slot->awaits[0] ? ", waits for " : "", slot->awaits,
             (double)(kern_now() - slot->since) / 1e9, moved);
    say(text);
}

// The slot of rank [r] on the board, or NULL if it is on another node.
static const struct kern_board_slot *slot_of(const struct kern_world *world, int r)
{
    if (!world->members || !world->board.slots)
        return NULL;
    const struct kern_member *member = &world->members[r];
    if (member->node != world->members[world->rank].node)
        return NULL;
    return &world->board.slots[member->local_rank];
}

static bool has_gone(const struct kern_world *world, int r)
{
    return slot_of(world, r) && is_gone(state_of(world->members[r].pid));
}

// Whether rank [r] has died: it is gone, and has not given up itself.
static bool has_died(const struct kern_world *world, int r)
{
    return has_gone(world, r) && slot_of(world, r)->waiting != KERN_BOARD_GIVEN_UP;
}

// Whether rank [r] is another one that does nothing any more: it is dead or stopped.
static bool is_out(const struct kern_world *world, int r)
{
    return r != world->rank && slot_of(world, r) &&
           (has_died(world, r) || is_stopped(state_of(world->members[r].pid)));
}

// Whether others wait for rank [r]: it is dead, stopped, or does something else than to wait. Who
// waits for a neighbour in the pipeline is asked too, for it says for which.
static bool is_late(const struct kern_world *world, int r)
{
    const struct kern_board_slot *slot = slot_of(world, r);
    if (slot && slot->awaits[0])
        return true;
    if (!slot || r == world->rank || slot->waiting == KERN_BOARD_GIVEN_UP)
        return false;
    return is_out(world, r) || slot->waiting == KERN_BOARD_BUSY;
}

static bool is_any(const struct kern_world *world, bool (*of)(const struct kern_world *, int))
{
    for (int r = 0; world->board.slots && r < world->size; r++)
        if (of(world, r))
            return true;
    return false;
}

// Says where each rank of this node is of which [of] is true; false if there is none.
static bool say_which(const struct kern_world *world, bool (*of)(const struct kern_world *, int))
{
    bool any = false;
    for (int r = 0; world->board.slots && r < world->size; r++)
        if (of(world, r)) {
            say_where(r, &world->members[r], slot_of(world, r));
            any = true;
        }
    return any;
}

// Whether this process is the first on its node to say what is wrong.
static bool speaks(const struct kern_world *world)
{
    int *told = world->board.told;
    return !told || !__atomic_exchange_n(told, 1, __ATOMIC_SEQ_CST);
}

_Noreturn static void give_up(const struct kern_world *world)
{
    if (world->board.slots)
        world->board.slots[world->local_rank].waiting = KERN_BOARD_GIVEN_UP;
    _exit(KERN_EXIT_PEER);
}

void kern_wait_tell(const struct kern_world *world, const char *what)
{
    char text[256];
    if (!speaks(world))
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
    bool anybody = say_which(world, is_late);
    if (world->board.slots && !anybody && world->n_nodes > 1)
        say("kern-rank: all ranks of this node are here; one on another node is late\n");
}

static void on_continue(int signal)
{
    (void)signal;
    woken = 1;
}

// The limit has passed while this process was stopped: it is the one that the others waited for.
_Noreturn static void leave_woken(void)
{
    const struct kern_board_slot *self = slot_of(watched, watched->rank);
    if (self && speaks(watched))
        say_where(watched->rank, &watched->members[watched->rank], self);
    give_up(watched);
}

static void tell_of_driver(const struct kern_world *world, const char *what)
{
    char text[256];
    if (!speaks(world))
        return;
    const struct kern_member *self = &world->members[world->rank];
    snprintf(
        text, sizeof text,
        "kern-rank: error: rank %d (%s) waited %g s for the driver (%s), a call of which does not "
        "return; --timeout sets the limit\n",
        world->rank, self->host, world->timeout, what);
    say(text);
    say_where(world->rank, self, &world->board.slots[world->local_rank]);
}

// snprintf of numbers and short strings takes no lock and no memory, so it may be used here;
// whatever MPI was doing is not touched again.
static void on_timer(int signal)
{
    (void)signal;
    const char *what = awaited;
    if (!what)
        return;
    if (woken)
        leave_woken();
    // A step does not end either if it waits for a rank that does not go on.
    if (driver_awaited && !is_any(watched, is_out))
        tell_of_driver(watched, what);
    else
        kern_wait_tell(watched, what);
    give_up(watched);
}

void kern_wait_bereaved(void)
{
    told_to_end = 1;
    char text[256];
    const char *what = awaited;
    if (!what || !is_any(watched, has_gone))
        return;
    if (speaks(watched)) {
        snprintf(text, sizeof text,
                 "kern-rank: error: rank %d (%s) cannot go on (%s): another rank has died\n",
                 watched->rank, watched->members[watched->rank].host, what);
        say(text);
        say_which(watched, has_died);
    }
    give_up(watched);
}

static void set_timer(double seconds)
{
    struct itimerval value = {0};
    value.it_value.tv_sec = (time_t)seconds;
    value.it_value.tv_usec = (suseconds_t)((seconds - (double)value.it_value.tv_sec) * 1e6);
    setitimer(ITIMER_REAL, &value, NULL);
}

static void handle_signals(void)
{
    static bool handled;
    if (handled)
        return;
    struct sigaction timer = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
    struct sigaction wake = {.sa_handler = on_continue, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &timer, NULL);
    sigaction(SIGCONT, &wake, NULL);
    handled = true;
}

// From here on [what] is awaited, of other ranks or of the driver, for so many seconds; 0: for
// ever.
static void arm(const struct kern_world *world, const char *what, bool of_driver, double seconds)
{
    watched = world;
    driver_awaited = of_driver;
    awaited = what;
    woken = 0;
    // Who died before this wait will not be reported by a second signal.
    if (told_to_end)
        kern_wait_bereaved();
    if (seconds <= 0)
        return;
    handle_signals();
    set_timer(seconds);
}

void kern_wait_overdue(void)
{
    overdue = true;
}

double kern_wait_limit(const struct kern_world *world)
{
    enum { MOMENT = 2 };
    return overdue && world->timeout > MOMENT ? MOMENT : world->timeout;
}

static void begin(const struct kern_world *world, const char *what, double seconds)
{
    if (world->board.slots)
        world->board.slots[world->local_rank].waiting = KERN_BOARD_WAITING;
    arm(world, what, false, seconds);
}

void kern_wait_begin(const struct kern_world *world, const char *what)
{
    begin(world, what, kern_wait_limit(world));
}

void kern_poll_begin(const struct kern_world *world, const char *what)
{
    begin(world, what, 0);
}

void kern_limit_begin(const struct kern_world *world, const char *what)
{
    // Waits inside the step have their own deadline, and say more; this comes after them.
    enum { GRACE = 1 };
    arm(world, what, true, world->timeout > 0 ? world->timeout + GRACE : 0);
}

void kern_wait_end(const struct kern_world *world)
{
    if (world->timeout > 0)
        set_timer(0);
    awaited = NULL;
    if (world->board.slots)
        world->board.slots[world->local_rank].waiting = KERN_BOARD_BUSY;
}
