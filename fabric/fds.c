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
    *fds = (struct kern_fds){.world = world,
                             .place = place,
                             .listener = -1,
                             .deadline = kern_deadline_in(world->timeout)};
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

// Waits until [fd] is ready for [events]; 0 and errno ETIMEDOUT at the deadline.
static bool wait_ready(const struct kern_fds *fds, int fd, short events)
{
    for (;;) {
        uint64_t now = kern_now();
        if (now >= fds->deadline) {
            kern_wait_overdue();
            errno = ETIMEDOUT;
            return false;
        }
        uint64_t left = (fds->deadline - now) / 1000000 + 1;
        struct pollfd poll_fd = {.fd = fd, .events = events};
        int ready = poll(&poll_fd, 1, left > 1000 ? 1000 : (int)left);
        if (ready > 0)
            return true;
        if (ready < 0 && errno != EINTR)
            return false;
    }
}

static bool same_user(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

static bool connect_to(struct kern_fds *fds, uint32_t member, const struct kern_fd_address *address,
                       struct kern_diag *diag)
{
    struct sockaddr_un socket_address;
    socklen_t length = make_address(address, &socket_address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    fds->to[member] = fd;
    struct hello hello = {.member = fds->place->index};
    memcpy(hello.token, address->token, sizeof hello.token);
    if (fd < 0 || connect(fd, (struct sockaddr *)&socket_address, length) != 0)
        return fail_member(fds, member, "connecting to", strerror(errno), diag);
    if (!same_user(fd))
        return fail_member(fds, member, "connecting to", "its socket belongs to another user",
                           diag);
    if (send(fd, &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello)
        return fail_member(fds, member, "connecting to", strerror(errno), diag);
    return true;
}

// Takes one connection; strangers are turned away, whatever they say, and cost nothing but a turn.
static bool accept_one(struct kern_fds *fds, uint32_t *accepted, struct kern_diag *diag)
{
    if (!wait_ready(fds, fds->listener, POLLIN))
        return kern_fail(
            diag, KERN_EXIT_PEER, NULL,
            "%u of %u members of group %s did not connect to pass file descriptors: %s",
            fds->place->size - 1 - *accepted, fds->place->size - 1, fds->place->name,
            strerror(errno));
    int fd = accept4(fds->listener, NULL, NULL, SOCK_CLOEXEC);
    struct hello hello;
    if (fd >= 0 && same_user(fd) && wait_ready(fds, fd, POLLIN) &&
        recv(fd, &hello, sizeof hello, MSG_DONTWAIT) == sizeof hello &&
        memcmp(hello.token, fds->address.token, sizeof hello.token) == 0 &&
        hello.member < fds->place->size && fds->from[hello.member] < 0) {
        fds->from[hello.member] = fd;
        ++*accepted;
    } else if (fd >= 0) {
        close(fd);
    }
    return true;
}

bool kern_fds_connect(struct kern_fds *fds, const struct kern_fd_address *addresses,
                      struct kern_diag *diag)
{
    for (uint32_t m = 0; m < fds->place->size; m++)
        if (m != fds->place->index && !connect_to(fds, m, &addresses[m], diag))
            return false;
    for (uint32_t accepted = 0; accepted + 1 < fds->place->size;)
        if (!accept_one(fds, &accepted, diag))
            return false;
    return true;
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
    for (;;) {
        if (sendmsg(fds->to[member], &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
            return true;
        // The user's descriptors in flight are counted together: others must receive theirs first.
        bool full = errno == EAGAIN || errno == ETOOMANYREFS || errno == EINTR || errno == ENOBUFS;
        if (!full || kern_deadline_passed(fds->deadline))
            return fail_member(fds, member, "sending file descriptors to", strerror(errno), diag);
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
    if (!wait_ready(fds, fds->from[member], POLLIN))
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
