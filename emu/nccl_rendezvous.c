// SPDX-License-Identifier: Apache-2.0
//
// How ranks find each other. The process that makes an id listens on an abstract socket, in a
// thread that ends when every rank was served or the process ends; the socket goes with it. A rank
// sends who it is and gets the shared file, made for as many ranks as the first one said. Both
// sides make sure that the other is the same user.
#include "emu/nccl.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ID_MAGIC 0x6c63636e6d65u // "emnccl"
#define POLL_MS 50               // between looks at the abort flag
#define HELLO_MS 5000            // that a rank which connected has for saying who it is

struct id {
    uint64_t magic;
    unsigned char token[16];
    unsigned char zero[NCCL_UNIQUE_ID_BYTES - 24];
};

_Static_assert(sizeof(struct id) == sizeof(ncclUniqueId), "an id fits");

struct hello {
    int32_t n_ranks, rank;
};

static socklen_t address_of(const struct id *id, struct sockaddr_un *address)
{
    // A path that begins with a zero byte is a name in no file system.
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    int n = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "kern-emu-nccl-");
    for (size_t i = 0; i < sizeof id->token; i++) {
        n += snprintf(address->sun_path + 1 + n, sizeof address->sun_path - 1 - (size_t)n, "%02x",
                      id->token[i]);
    }
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static bool is_same_user(int fd)
{
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid();
}

// ---------------------------------------------------------------------------------------------
// The server

struct server {
    int listener;
    int file;    // the shared file; -1 before the first rank
    int n_ranks; // as the first rank said
    int n_served;
    bool served[EMU_NCCL_MAX_RANKS];
};

static int make_file(int n_ranks)
{
    int fd = memfd_create("kern-emu-nccl", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && (ftruncate(fd, (off_t)emu_nccl_shared_bytes(n_ranks)) != 0 ||
                    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

// One answer: a result and, with ncclSuccess, the file.
static void answer(int fd, int32_t result, int file)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec data = {&result, sizeof result};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
    if (result == ncclSuccess) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof file);
        memcpy(CMSG_DATA(rights), &file, sizeof file);
    }
    // A rank that is gone by now gets none.
    (void)!sendmsg(fd, &message, MSG_NOSIGNAL);
}

static ncclResult_t admit(struct server *server, const struct hello *hello)
{
    if (server->file < 0) {
        server->file = make_file(hello->n_ranks);
        server->n_ranks = hello->n_ranks;
        if (server->file < 0) {
            return ncclSystemError;
        }
    }
    if (hello->n_ranks != server->n_ranks || hello->rank < 0 || hello->rank >= server->n_ranks ||
        server->served[hello->rank]) {
        return ncclInvalidUsage;
    }
    server->served[hello->rank] = true;
    server->n_served++;
    return ncclSuccess;
}

static void serve_one(struct server *server, int fd)
{
    struct hello hello;
    struct pollfd readable = {fd, POLLIN, 0};
    if (is_same_user(fd) && poll(&readable, 1, HELLO_MS) == 1 &&
        recv(fd, &hello, sizeof hello, MSG_DONTWAIT) == (ssize_t)sizeof hello &&
        hello.n_ranks >= 1 && hello.n_ranks <= EMU_NCCL_MAX_RANKS) {
        ncclResult_t result = admit(server, &hello);
        answer(fd, (int32_t)result, server->file);
    }
    close(fd);
}

static void *serve(void *given)
{
    struct server *server = given;
    while (server->file < 0 || server->n_served < server->n_ranks) {
        int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0) {
            serve_one(server, fd);
        } else if (errno != EINTR && errno != ECONNABORTED) {
            break;
        }
    }
    // A child of this process may hold the socket open as well; nobody connects to it any more.
    shutdown(server->listener, SHUT_RDWR);
    close(server->listener);
    if (server->file >= 0) {
        close(server->file);
    }
    free(server);
    return NULL;
}

static int listen_at(const struct id *id)
{
    struct sockaddr_un address;
    socklen_t bytes = address_of(id, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd >= 0 &&
        (bind(fd, (struct sockaddr *)&address, bytes) != 0 || listen(fd, SOMAXCONN) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

// Signals belong to the program's own threads.
static bool start_thread(struct server *server)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_t thread;
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&thread, NULL, serve, server);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed == 0) {
        pthread_detach(thread);
    }
    return failed == 0;
}

// An id can be made before cuInit and without a device, as NCCL's can.
ncclResult_t ncclGetUniqueId(ncclUniqueId *out)
{
    ncclResult_t fault = (ncclResult_t)emu_fault_next(__func__);
    if (fault != ncclSuccess) {
        return emu_nccl_fail(fault, "ncclGetUniqueId: as KERN_EMU_FAIL asks");
    }
    if (out == NULL) {
        return emu_nccl_fail(ncclInvalidArgument, "ncclGetUniqueId: the argument is NULL");
    }
    struct id id = {.magic = ID_MAGIC};
    struct server *server = calloc(1, sizeof *server);
    if (server == NULL) {
        return emu_nccl_fail(ncclSystemError, "ncclGetUniqueId: no memory");
    }
    server->file = -1;
    server->listener = -1;
    if (getrandom(id.token, sizeof id.token, 0) == (ssize_t)sizeof id.token) {
        server->listener = listen_at(&id);
    }
    if (server->listener < 0 || !start_thread(server)) {
        ncclResult_t result =
            emu_nccl_fail(ncclSystemError, "ncclGetUniqueId: listening: %s", strerror(errno));
        if (server->listener >= 0) {
            close(server->listener);
        }
        free(server);
        return result;
    }
    memcpy(out, &id, sizeof id);
    return ncclSuccess;
}

// ---------------------------------------------------------------------------------------------
// A rank

static ncclResult_t aborted(void)
{
    return emu_nccl_fail(ncclInternalError, "aborted while starting");
}

static ncclResult_t system_failed(const char *what)
{
    return emu_nccl_fail(ncclSystemError, "%s: %s", what, strerror(errno));
}

// The socket does not block: a queue of connections that is full answers EAGAIN.
static ncclResult_t connect_to(struct emu_nccl_comm *comm, const struct id *id, int fd)
{
    struct sockaddr_un address;
    socklen_t bytes = address_of(id, &address);
    while (connect(fd, (struct sockaddr *)&address, bytes) != 0) {
        if (errno != EAGAIN && errno != EINTR) {
            return system_failed("the process that made the id does not answer (it has ended, or "
                                 "all ranks of the id have joined)");
        }
        if (atomic_load(&comm->abort)) {
            return aborted();
        }
        usleep(1000);
    }
    return is_same_user(fd)
               ? ncclSuccess
               : emu_nccl_fail(ncclSystemError, "the process that made the id is another user's");
}

static ncclResult_t receive_file(int fd, int *file)
{
    int32_t result = ncclInternalError;
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec data = {&result, sizeof result};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    if (recvmsg(fd, &message, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof result) {
        return emu_nccl_fail(ncclRemoteError, "the process that made the id has ended");
    }
    if (result == ncclInvalidUsage) {
        return emu_nccl_fail(ncclInvalidUsage, "another rank of the same id has this number, or "
                                               "another number of ranks");
    }
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    if (result != ncclSuccess || rights == NULL || rights->cmsg_type != SCM_RIGHTS) {
        return emu_nccl_fail(ncclSystemError, "no shared memory for the ranks");
    }
    memcpy(file, CMSG_DATA(rights), sizeof *file);
    return ncclSuccess;
}

static ncclResult_t ask(struct emu_nccl_comm *comm, int fd, int *file)
{
    const struct hello hello = {comm->n_ranks, comm->rank};
    if (send(fd, &hello, sizeof hello, MSG_NOSIGNAL) != (ssize_t)sizeof hello) {
        return system_failed("greeting the process that made the id");
    }
    struct pollfd readable = {fd, POLLIN, 0};
    while (poll(&readable, 1, POLL_MS) <= 0) {
        if (atomic_load(&comm->abort)) {
            return aborted();
        }
    }
    return receive_file(fd, file);
}

ncclResult_t emu_nccl_meet(struct emu_nccl_comm *comm, int *file)
{
    struct id id;
    memcpy(&id, &comm->id, sizeof id);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return system_failed("a socket");
    }
    ncclResult_t result = id.magic == ID_MAGIC
                              ? connect_to(comm, &id, fd)
                              : emu_nccl_fail(ncclInvalidArgument, "no id of ncclGetUniqueId");
    if (result == ncclSuccess) {
        result = ask(comm, fd, file);
    }
    close(fd);
    return result;
}
