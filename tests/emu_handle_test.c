// SPDX-License-Identifier: Apache-2.0
//
// emu: memory that crosses processes, by fabric handles and by POSIX file descriptors, between two
// processes at once.
#include "tests/emu_share.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/socket.h>

enum { SKIPPED = 77 };

// Two processes with a socket between them

static int channel;

static void send_bytes(const void *bytes, size_t n)
{
    CHECK(send(channel, bytes, n, MSG_NOSIGNAL) == (ssize_t)n);
}

static void receive_bytes(void *bytes, size_t n)
{
    CHECK(recv(channel, bytes, n, MSG_WAITALL) == (ssize_t)n);
}

static void say(char word)
{
    send_bytes(&word, 1);
}

static void hear(char word)
{
    char heard;
    receive_bytes(&heard, 1);
    CHECK(heard == word);
}

union fd_message {
    struct cmsghdr header;
    char space[CMSG_SPACE(sizeof(int))];
};

static void send_fd(int fd)
{
    char byte = 'f';
    union fd_message control = {.space = {0}};
    struct iovec iov = {&byte, 1};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    CHECK(sendmsg(channel, &message, MSG_NOSIGNAL) == 1);
}

static int receive_fd(void)
{
    char byte;
    int fd;
    union fd_message control;
    struct iovec iov = {&byte, 1};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    CHECK(recvmsg(channel, &message, MSG_CMSG_CLOEXEC) == 1 && byte == 'f');
    memcpy(&fd, CMSG_DATA(&control.header), sizeof fd);
    return fd;
}

static pid_t start(void (*body)(void), const int ends[2], int own)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        channel = ends[own];
        close(ends[1 - own]);
        alarm(60);
        body();
        _exit(0);
    }
    return child;
}

// Runs both bodies at once. A body may end with SKIPPED; the exporter may also be killed.
static void run_two(void (*exporter)(void), void (*importer)(void))
{
    int ends[2];
    int status[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    pid_t first = start(exporter, ends, 0);
    pid_t second = start(importer, ends, 1);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(waitpid(second, &status[1], 0), second);
    assert_int_equal(waitpid(first, &status[0], 0), first);
    if (WIFEXITED(status[0]) && WEXITSTATUS(status[0]) == SKIPPED) {
        skip();
    }
    assert_true(status[0] == 0 || (WIFSIGNALED(status[0]) && WTERMSIG(status[0]) == SIGKILL));
    assert_int_equal(status[1], 0);
}

static int open_fds(void)
{
    int n = 0;
    DIR *directory = opendir("/proc/self/fd");
    CHECK(directory != NULL);
    while (readdir(directory) != NULL) {
        n++;
    }
    closedir(directory);
    return n;
}

// Both ways between two processes. The importer's device is another one than the exporter's.

static void talk_as_exporter(volatile int *p)
{
    p[0] = 1234;
    say('w');
    hear('r');
    CHECK(p[1] == 5678);
}

static void talk_as_importer(volatile int *p)
{
    hear('w');
    CHECK(p[0] == 1234);
    p[1] = 5678;
    say('r');
}

static void check_all_gone(int fds_before)
{
    struct kern_emu_stats stats = emu_stats();
    CHECK(stats.memory_handles == 0 && stats.mappings == 0 && stats.reservations == 0);
    CHECK(stats.live_bytes == 0 && stats.fds == 0);
    CHECK(open_fds() == fds_before);
}

static void fabric_exporter(void)
{
    OK(cuInit(0));
    int before = open_fds();
    CUmemGenericAllocationHandle handle = create(FABRIC, 2 * G);
    volatile int *p = map(handle, 2 * G);
    CUmemFabricHandle fabric = export_fabric(handle);
    OK(cuMemRelease(handle)); // mapped memory can still be imported
    send_bytes(&fabric, sizeof fabric);
    talk_as_exporter(p);
    unmap(p, 2 * G);
    check_all_gone(before);
}

static void fabric_importer(void)
{
    CUmemFabricHandle fabric;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop;
    OK(cuInit(0));
    int before = open_fds();
    receive_bytes(&fabric, sizeof fabric);
    OK(import_fabric(&handle, &fabric));
    OK(cuMemGetAllocationPropertiesFromHandle(&prop, handle));
    CHECK(prop.location.id == 0 && prop.requestedHandleTypes == FABRIC);
    CHECK(emu_stats().live_bytes == 0); // the exporter's memory, not this process's
    volatile int *p = map_on(1, handle, 2 * G);
    OK(cuMemRelease(handle));
    talk_as_importer(p);
    unmap(p, 2 * G);
    check_all_gone(before);
}

static void fabric_both_ways(void **state)
{
    (void)state;
    run_two(fabric_exporter, fabric_importer);
    run_two(fabric_importer, fabric_exporter);
}

static void posix_exporter(void)
{
    OK(cuInit(0));
    int before = open_fds();
    CUmemGenericAllocationHandle handle = create(POSIX, 2 * G);
    volatile int *p = map(handle, 2 * G);
    int fd = export_fd(handle);
    CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC);
    send_fd(fd);
    close(fd);
    OK(cuMemRelease(handle));
    talk_as_exporter(p);
    unmap(p, 2 * G);
    check_all_gone(before);
}

static void posix_importer(void)
{
    CUmemGenericAllocationHandle handle;
    OK(cuInit(0));
    int before = open_fds();
    int fd = receive_fd();
    OK(import_fd(&handle, fd));
    close(fd); // the import has its own
    volatile int *p = map(handle, 2 * G);
    OK(cuMemRelease(handle));
    talk_as_importer(p);
    unmap(p, 2 * G);
    check_all_gone(before);
}

static void posix_both_ways(void **state)
{
    (void)state;
    run_two(posix_exporter, posix_importer);
}

// An exporter that dies: its memory lives on where it is mapped, its handle does not.

static void dying_exporter(void)
{
    OK(cuInit(0));
    CUmemGenericAllocationHandle handle = create(FABRIC, G);
    volatile int *p = map(handle, G);
    p[0] = 99;
    CUmemFabricHandle fabric = export_fabric(handle);
    send_bytes(&fabric, sizeof fabric);
    hear('k');
    raise(SIGKILL);
}

static void surviving_importer(void)
{
    CUmemFabricHandle fabric;
    CUmemGenericAllocationHandle handle;
    char byte;
    OK(cuInit(0));
    receive_bytes(&fabric, sizeof fabric);
    OK(import_fabric(&handle, &fabric));
    volatile int *p = map(handle, G);
    say('k');
    CHECK(recv(channel, &byte, 1, 0) <= 0); // the other end is closed: it is dead
    CHECK(p[0] == 99);
    p[0] = 100;
    CUmemGenericAllocationHandle again;
    EXPECT(ERROR_INVALID_HANDLE, import_fabric(&again, &fabric));
    // What was imported can be handed on by its importer.
    CUmemFabricHandle second = export_fabric(handle);
    OK(import_fabric(&again, &second));
    CHECK(map(again, G)[0] == 100);
}

static void mapping_survives_its_exporter(void **state)
{
    (void)state;
    run_two(dying_exporter, surviving_importer);
}

// Devices, users and nodes

static void exporter_of_device_3(void)
{
    OK(cuInit(0));
    CUmemGenericAllocationHandle handle = create_on(3, FABRIC, G);
    CUmemFabricHandle fabric = export_fabric(handle);
    send_bytes(&fabric, sizeof fabric);
    hear('d');
}

// Receives a handle and returns where this process finds its memory.
static int imported_location(void)
{
    CUmemFabricHandle fabric;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop;
    OK(cuInit(0));
    receive_bytes(&fabric, sizeof fabric);
    OK(import_fabric(&handle, &fabric));
    OK(cuMemGetAllocationPropertiesFromHandle(&prop, handle));
    CHECK(map(handle, G)[0] == 0);
    say('d');
    return prop.location.id;
}

static void importer_that_numbers_otherwise(void)
{
    setenv("CUDA_VISIBLE_DEVICES", "5,3", 1);
    CHECK(imported_location() == 1);
}

static void importer_that_sees_another(void)
{
    setenv("CUDA_VISIBLE_DEVICES", "5", 1);
    CHECK(imported_location() == -2); // CU_DEVICE_INVALID
}

static void devices_are_the_machines_not_the_processes(void **state)
{
    (void)state;
    run_two(exporter_of_device_3, importer_that_numbers_otherwise);
    run_two(exporter_of_device_3, importer_that_sees_another);
}

static void become_nobody(void)
{
    CHECK(setgid(65534) == 0 && setuid(65534) == 0);
}

// Exports for an importer that is somebody else, in the way that [importer_is_nobody] tells. Only
// root can become somebody else.
static bool importer_is_nobody;

static void exporter_for_foreign_user(void)
{
    bool root = geteuid() == 0;
    if (root && !importer_is_nobody) {
        become_nobody();
    }
    OK(cuInit(0));
    CUmemFabricHandle fabric = export_fabric(create(FABRIC, G));
    send_bytes(&fabric, sizeof fabric);
    hear('d');
    _exit(root ? 0 : SKIPPED);
}

static void foreign_user(void)
{
    CUmemFabricHandle fabric;
    CUmemGenericAllocationHandle handle;
    receive_bytes(&fabric, sizeof fabric);
    if (geteuid() == 0) {
        if (importer_is_nobody) {
            become_nobody();
        }
        OK(cuInit(0));
        EXPECT(ERROR_NOT_PERMITTED, import_fabric(&handle, &fabric));
    }
    say('d');
}

static void fabric_belongs_to_one_user(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        importer_is_nobody = i == 1;
        run_two(exporter_for_foreign_user, foreign_user);
    }
}

// On another node: with another host name, which takes the right to make a UTS namespace.
static void exporter_on_other_node(void)
{
    bool moved = unshare(CLONE_NEWUTS) == 0 && sethostname("emu-other-node", 14) == 0;
    OK(cuInit(0));
    CUmemGenericAllocationHandle handle = create(FABRIC | POSIX, G);
    CUmemFabricHandle fabric = export_fabric(handle);
    send_bytes(&moved, sizeof moved);
    send_fd(export_fd(handle));
    send_bytes(&fabric, sizeof fabric);
    hear('d');
    _exit(moved ? 0 : SKIPPED);
}

static void importer_with_node_limit(void)
{
    bool moved;
    CUmemFabricHandle fabric;
    CUmemGenericAllocationHandle handle;
    setenv("KERN_EMU_NODE_LIMIT", "1", 1);
    OK(cuInit(0));
    receive_bytes(&moved, sizeof moved);
    int fd = receive_fd();
    receive_bytes(&fabric, sizeof fabric);
    if (moved) {
        EXPECT(ERROR_INVALID_DEVICE, import_fd(&handle, fd));
        OK(import_fabric(&handle, &fabric)); // a fabric spans nodes
    } else {
        OK(import_fd(&handle, fd));
    }
    say('d');
}

static void importer_without_node_limit(void)
{
    bool moved;
    CUmemFabricHandle fabric;
    CUmemGenericAllocationHandle handle;
    OK(cuInit(0));
    receive_bytes(&moved, sizeof moved);
    int fd = receive_fd();
    receive_bytes(&fabric, sizeof fabric);
    OK(import_fd(&handle, fd));
    say('d');
}

static void fds_stay_on_their_node(void **state)
{
    (void)state;
    run_two(exporter_on_other_node, importer_without_node_limit);
    run_two(exporter_on_other_node, importer_with_node_limit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fabric_both_ways),
        cmocka_unit_test(posix_both_ways),
        cmocka_unit_test(mapping_survives_its_exporter),
        cmocka_unit_test(devices_are_the_machines_not_the_processes),
        cmocka_unit_test(fabric_belongs_to_one_user),
        cmocka_unit_test(fds_stay_on_their_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
