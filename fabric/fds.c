// SPDX-License-Identifier: Apache-2.0
#include "fabric/fds.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "topo/watchdog.h"

// What a member says first on its connection.
struct hello {
    uint8_t token[16];
    uint32_t member;
};

static socklen_t make_address(const struct kern_fd_address *address, struct sockaddr_un *socket)
{
    *socket = (struct sockaddr_un){.sun_family = AF_UNIX};
    // A leading NUL makes the name abstract: it is no file, and goes with its socket.
    memcpy(socket->sun_path + 1, "kern-rank.", 10);
    memcpy(socket->sun_path + 11, address->name, sizeof address->name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 11 + sizeof address->name);
}

static const char *member_text(const struct kern_fds *fds, uint32_t member,
                               struct kern_arena *arena)
{
    int rank = fds->place->members[member];
    return kern_arena_print(arena, "rank %d (%s)", rank, fds->world->members[rank].host);
}

static bool fail_member(const struct kern_fds *fds, uint32_t member, const char *what,
                        const char *why, struct kern_diag *diag)
{
    struct kern_arena arena = {0};
    kern_fail(diag, KERN_EXIT_DEVICE, NULL, "%s %s: %s", what, member_text(fds, member, &arena),
              why);
    kern_arena_free(&arena);
    return false;
}

bool kern_fds_open(struct kern_fds *fds, const struct kern_world *world,
                   const struct kern_group_place *place, struct kern_diag *diag)
{
    *fds = (struct kern_fds){.world = world, .place = place, .listener = -1};
    fds->to = kern_calloc(place->size, sizeof *fds->to);
    fds->from = kern_calloc(place->size, sizeof *fds->from);
    memset(fds->to, 0xff, place->size * sizeof *fds->to);
    memset(fds->from, 0xff, place->size * sizeof *fds->from);
    struct sockaddr_un socket_address;
    if (getrandom(&fds->address, sizeof fds->address, 0) == sizeof fds->address) {
        socklen_t length = make_address(&fds->address, &socket_address);
        fds->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (fds->listener >= 0 &&
            bind(fds->listener, (struct sockaddr *)&socket_address, length) == 0 &&
            listen(fds->listener, (int)place->size) == 0)
            return true;
    }
    kern_fail(diag, KERN_EXIT_DEVICE, NULL,
              "a socket to pass file descriptors cannot be opened: %s", strerror(errno));
    kern_fds_close(fds);
    return false;
}

// When a wait that begins now must end. Each has the whole limit, for others may be long at work
// between two; but after one that was in vain the next ones only look.
static uint64_t deadline_of(const struct kern_fds *fds)
{
    return fds->overdue ? kern_now() : kern_deadline_in(kern_wait_limit(fds->world));
}

static void give_up(struct kern_fds *fds)
{
    fds->overdue = true;
    kern_wait_overdue();
}

// Waits until one of [polled] is ready, and looks once more at the deadline; false with errno
// ETIMEDOUT if none is then.
static bool wait_for_any(struct kern_fds *fds, struct pollfd *polled, nfds_t count,
                         uint64_t deadline)
{
    for (;;) {
        uint64_t now = kern_now(), left = now < deadline ? (deadline - now) / 1000000 + 1 : 0;
        int ready = poll(polled, count, left > 1000 ? 1000 : (int)left);
        if (ready > 0)
            return true;
        if (ready < 0 && errno != EINTR)
            return false;
        if (ready == 0 && left == 0) {
            give_up(fds);
            errno = ETIMEDOUT;
            return false;
        }
    }
}

static bool same_user(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

// Who stands at the listener's door: first itself, then connections that have not said hello yet,
// the oldest first. A member may lose the processor before it does, and a stranger may never say
// anything; neither keeps the others waiting.
struct door {
    struct pollfd *polled;
    size_t count, capacity;
    uint32_t members; // that have said hello
};

static void let_go(struct door *door, size_t which)
{
    door->count--;
    memmove(door->polled + which, door->polled + which + 1,
            (door->count - which) * sizeof *door->polled);
}

static void turn_away(struct door *door, size_t which)
{
    close(door->polled[which].fd);
    let_go(door, which);
}

// Whether [fd] says hello as a member that has not done so before; then it is that member's.
static bool greets(struct kern_fds *fds, int fd)
{
    struct hello hello;
    if (recv(fd, &hello, sizeof hello, MSG_DONTWAIT) != sizeof hello ||
        memcmp(hello.token, fds->address.token, sizeof hello.token) != 0 ||
        hello.member >= fds->place->size || fds->from[hello.member] >= 0)
        return false;
    fds->from[hello.member] = fd;
    return true;
}

// Hears those that have something to say.
static void hear(struct kern_fds *fds, struct door *door)
{
    for (size_t i = 1; i < door->count;) {
        if (!door->polled[i].revents) {
            i++;
        } else if (greets(fds, door->polled[i].fd)) {
            door->members++;
            let_go(door, i);
        } else {
            turn_away(door, i);
        }
    }
}

static void stand(struct door *door, int fd)
{
    kern_reserve(&door->polled, &door->capacity, door->count + 1, sizeof *door->polled);
    door->polled[door->count++] = (struct pollfd){.fd = fd, .events = POLLIN};
}

// Takes in a connection of the same user. Where no more files may be open the one that has been
// silent for longest must go.
static void open_door(struct kern_fds *fds, struct door *door)
{
    int fd = accept4(fds->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0 && same_user(fd))
        stand(door, fd);
    else if (fd >= 0)
        close(fd);
    else if ((errno == EMFILE || errno == ENFILE) && door->count > 1)
        turn_away(door, 1);
}

// Sees to those at the door that poll found ready.
static void see_to(struct kern_fds *fds, struct door *door)
{
    bool knocks = door->polled[0].revents != 0;
    hear(fds, door);
    if (knocks)
        open_door(fds, door);
}

// Until all other members have connected. Strangers cost nothing but a turn: the limit is on the
// wait for the next member.
static bool await_members(struct kern_fds *fds, struct door *door, struct kern_diag *diag)
{
    uint32_t others = fds->place->size - 1, before = door->members;
    uint64_t deadline = deadline_of(fds);
    while (door->members < others) {
        if (!wait_for_any(fds, door->polled, door->count, deadline))
            return kern_fail(
                diag, KERN_EXIT_PEER, NULL,
                "%u of %u members of group %s did not connect to pass file descriptors: %s",
                others - door->members, others, fds->place->name, strerror(errno));
        see_to(fds, door);
        if (door->members > before)
            deadline = deadline_of(fds);
        before = door->members;
    }
    return true;
}

static void close_door(struct door *door)
{
    while (door->count > 1)
        turn_away(door, 1);
    free(door->polled);
}

// Connects. Where the member's queue is full, of strangers perhaps, it may be waiting for us in the
// same way, so that our own door is seen to in between.
static bool knock(struct kern_fds *fds, int fd, const struct kern_fd_address *address,
                  struct door *door)
{
    struct sockaddr_un socket_address;
    socklen_t length = make_address(address, &socket_address);
    uint64_t deadline = deadline_of(fds);
    while (connect(fd, (struct sockaddr *)&socket_address, length) != 0) {
        if (errno != EAGAIN)
            return false;
        if (kern_deadline_passed(deadline)) {
            give_up(fds);
            errno = ETIMEDOUT;
            return false;
        }
        if (poll(door->polled, door->count, 1) > 0)
            see_to(fds, door);
    }
    return true;
}

static bool connect_to(struct kern_fds *fds, uint32_t member, const struct kern_fd_address *address,
                       struct door *door, struct kern_diag *diag)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    fds->to[member] = fd;
    struct hello hello = {.member = fds->place->index};
    memcpy(hello.token, address->token, sizeof hello.token);
    if (fd < 0 || !knock(fds, fd, address, door))
        return fail_member(fds, member, "connecting to", strerror(errno), diag);
    if (!same_user(fd))
        return fail_member(fds, member, "connecting to", "its socket belongs to another user",
                           diag);
    if (send(fd, &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello)
        return fail_member(fds, member, "connecting to", strerror(errno), diag);
    return true;
}

bool kern_fds_connect(struct kern_fds *fds, const struct kern_fd_address *addresses,
                      struct kern_diag *diag)
{
    struct door door = {0};
    stand(&door, fds->listener);
    bool good = true;
    for (uint32_t m = 0; good && m < fds->place->size; m++)
        good = m == fds->place->index || connect_to(fds, m, &addresses[m], &door, diag);
    good = good && await_members(fds, &door, diag);
    close_door(&door);
    return good;
}

union control {
    char bytes[CMSG_SPACE(sizeof(int) * KERN_FDS_BATCH)];
    struct cmsghdr align;
};

bool kern_fds_send(struct kern_fds *fds, uint32_t member, const int *fd, size_t count,
                   struct kern_diag *diag)
{
    uint32_t announced = (uint32_t)count;
    struct iovec data = {&announced, sizeof announced};
    union control control = {0};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
    if (count) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int) * count);
        memcpy(CMSG_DATA(header), fd, sizeof(int) * count);
    }
    struct kern_patience patience = {0};
    uint64_t deadline = deadline_of(fds);
    for (;;) {
        if (sendmsg(fds->to[member], &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
            return true;
        // The user's descriptors in flight are counted together: others must receive theirs first.
        bool full = errno == EAGAIN || errno == ETOOMANYREFS || errno == EINTR || errno == ENOBUFS;
        if (!full || kern_deadline_passed(deadline)) {
            fail_member(fds, member, "sending file descriptors to", strerror(errno), diag);
            if (full)
                give_up(fds);
            return false;
        }
        kern_relax(&patience);
    }
}

// Takes the descriptors out of [message]; those beyond [count] are closed.
static size_t take_rights(struct msghdr *message, int *fd, size_t count)
{
    size_t taken = 0;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
         header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        size_t here = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < here; i++) {
            int received;
            memcpy(&received, CMSG_DATA(header) + i * sizeof received, sizeof received);
            if (taken < count)
                fd[taken++] = received;
            else
                close(received);
        }
    }
    return taken;
}

bool kern_fds_receive(struct kern_fds *fds, uint32_t member, int *fd, size_t count, bool *sent,
                      struct kern_diag *diag)
{
    uint32_t announced = 0;
    struct iovec data = {&announced, sizeof announced};
    union control control = {0};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    *sent = false;
    struct pollfd polled = {.fd = fds->from[member], .events = POLLIN};
    if (!wait_for_any(fds, &polled, 1, deadline_of(fds)))
        return fail_member(fds, member, "waiting for file descriptors of", strerror(errno), diag);
    ssize_t length = recvmsg(fds->from[member], &message, MSG_CMSG_CLOEXEC);
    if (length <= 0)
        return fail_member(fds, member, "receiving file descriptors of",
                           length == 0 ? "it closed the connection" : strerror(errno), diag);
    size_t taken = take_rights(&message, fd, count);
    *sent = announced > 0;
    if (length == sizeof announced && announced == 0)
        return true;
    // Under a low limit on open files the message comes cut, with fewer descriptors and no error.
    if (taken == count && announced == count && !(message.msg_flags & MSG_CTRUNC))
        return true;
    for (size_t i = 0; i < taken; i++)
        close(fd[i]);
    *sent = false;
    return fail_member(fds, member, "receiving file descriptors of",
                       message.msg_flags & MSG_CTRUNC ? "too many open files (ulimit -n)"
                                                      : "it sent another number than was agreed",
                       diag);
}

static void close_all(int *fd, uint32_t count)
{
    for (uint32_t i = 0; fd && i < count; i++)
        if (fd[i] >= 0)
            close(fd[i]);
    free(fd);
}

void kern_fds_close(struct kern_fds *fds)
{
    if (!fds->place)
        return;
    if (fds->listener >= 0)
        close(fds->listener);
    close_all(fds->to, fds->place->size);
    close_all(fds->from, fds->place->size);
    *fds = (struct kern_fds){.listener = -1};
}
