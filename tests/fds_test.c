// SPDX-License-Identifier: Apache-2.0
//
// File descriptors between the members of a group: real processes, made by fork.
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/memory.h"
#include "fabric/fds.h"

enum { MEMBERS = 3 };

// A group of three processes on one host, and a page in which they find each other's addresses.
struct page {
    struct kern_fd_address addresses[MEMBERS];
    volatile int listening;
};

static struct kern_member members[MEMBERS] = {{.host = "a"}, {.host = "a"}, {.host = "a"}};
static int ranks[MEMBERS] = {0, 1, 2};
static struct kern_world world = {.size = MEMBERS, .members = members, .timeout = 20};

static struct kern_group_place place_of(uint32_t index)
{
    return (struct kern_group_place){
        .name = "g", .size = MEMBERS, .index = index, .members = ranks};
}

// Counts this process and waits until [count] have been.
static void gather(struct page *page, int count)
{
    __atomic_add_fetch(&page->listening, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&page->listening, __ATOMIC_SEQ_CST) < count)
        usleep(100);
}

// Tells the others where [fds] listens.
static void listen_with(struct page *page, uint32_t index, const struct kern_fds *fds, int count)
{
    page->addresses[index] = fds->address;
    gather(page, count);
}

static bool meet(struct kern_fds *fds, const struct kern_group_place *place, struct page *page,
                 struct kern_diag *diag)
{
    if (!kern_fds_open(fds, &world, place, diag))
        return false;
    listen_with(page, place->index, fds, MEMBERS);
    return kern_fds_connect(fds, page->addresses, diag);
}

static int numbered_file(unsigned number)
{
    int fd = memfd_create("fds_test", MFD_CLOEXEC);
    if (write(fd, &number, sizeof number) != sizeof number)
        _exit(9);
    return fd;
}

// Runs [body] as each of the members; returns how many of them ended with 0.
static int run_members(int (*body)(uint32_t index, struct page *page))
{
    struct page *page =
        mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t children[MEMBERS];
    for (uint32_t i = 0; i < MEMBERS; i++) {
        children[i] = fork();
        if (children[i] == 0)
            _exit(body(i, page));
    }
    int good = 0;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        int status = 1;
        waitpid(children[i], &status, 0);
        good += status == 0;
    }
    munmap(page, sizeof *page);
    return good;
}

// Each member hands 150 files to each other, in batches, and reads the numbers in those it gets.
static int exchange(uint32_t index, struct page *page)
{
    enum { FILES = 150 };
    struct kern_fds fds;
    struct kern_diag diag = {0};
    struct kern_group_place place = place_of(index);
    if (!meet(&fds, &place, page, &diag))
        return 1;
    for (uint32_t turn = 1; turn < MEMBERS; turn++) {
        uint32_t to = (index + turn) % MEMBERS, from = (index + MEMBERS - turn) % MEMBERS;
        for (unsigned at = 0; at < FILES; at += KERN_FDS_BATCH) {
            size_t count = FILES - at < KERN_FDS_BATCH ? FILES - at : KERN_FDS_BATCH;
            int out[KERN_FDS_BATCH], in[KERN_FDS_BATCH];
            bool sent;
            for (unsigned i = 0; i < count; i++)
                out[i] = numbered_file(1000 * index + at + i);
            if (!kern_fds_send(&fds, to, out, count, &diag) ||
                !kern_fds_receive(&fds, from, in, count, &sent, &diag) || !sent)
                return 2;
            for (unsigned i = 0; i < count; i++) {
                unsigned number = 0;
                if (pread(in[i], &number, sizeof number, 0) != sizeof number ||
                    number != 1000 * from + at + i || fcntl(in[i], F_GETFD) != FD_CLOEXEC)
                    return 3;
                close(in[i]);
                close(out[i]);
            }
        }
    }
    kern_fds_close(&fds);
    return diag.count ? 4 : 0;
}

static void files_arrive_in_order(void **state)
{
    (void)state;
    assert_int_equal(run_members(exchange), MEMBERS);
}

// Member 1 has nothing to send; the others must hear it and go on.
static int refuse_one(uint32_t index, struct page *page)
{
    struct kern_fds fds;
    struct kern_diag diag = {0};
    struct kern_group_place place = place_of(index);
    if (!meet(&fds, &place, page, &diag))
        return 1;
    int out = numbered_file(index), in = -1;
    for (uint32_t turn = 1; turn < MEMBERS; turn++) {
        uint32_t to = (index + turn) % MEMBERS, from = (index + MEMBERS - turn) % MEMBERS;
        bool sent;
        if (!kern_fds_send(&fds, to, &out, index != 1, &diag) ||
            !kern_fds_receive(&fds, from, &in, 1, &sent, &diag) || sent != (from != 1))
            return 2;
    }
    kern_fds_close(&fds);
    return 0;
}

static void a_member_with_nothing_is_no_wait(void **state)
{
    (void)state;
    assert_int_equal(run_members(refuse_one), MEMBERS);
}

static socklen_t socket_of(const struct kern_fd_address *address, struct sockaddr_un *name)
{
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(name->sun_path + 1, "kern-rank.", 10);
    memcpy(name->sun_path + 11, address->name, sizeof address->name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 11 + sizeof address->name);
}

// A stranger who knows the name but not the token connects before the members do.
static int with_stranger(uint32_t index, struct page *page)
{
    struct kern_fds fds;
    struct kern_diag diag = {0};
    struct kern_group_place place = place_of(index);
    if (!kern_fds_open(&fds, &world, &place, &diag))
        return 1;
    struct sockaddr_un address;
    socklen_t length = socket_of(&fds.address, &address);
    int stranger = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    char lie[20] = {0};
    if (connect(stranger, (struct sockaddr *)&address, length) != 0 ||
        send(stranger, lie, sizeof lie, 0) != sizeof lie)
        return 2;
    listen_with(page, index, &fds, MEMBERS);
    if (!kern_fds_connect(&fds, page->addresses, &diag))
        return 3;
    // It was turned away: its connection is closed.
    char byte;
    if (recv(stranger, &byte, 1, 0) != 0)
        return 4;
    kern_fds_close(&fds);
    return 0;
}

static void strangers_are_turned_away(void **state)
{
    (void)state;
    assert_int_equal(run_members(with_stranger), MEMBERS);
}

// Strangers who connect before the members and stay silent, more of them than the queue holds.
static int with_silent_strangers(uint32_t index, struct page *page)
{
    enum { STRANGERS = 40 };
    struct kern_fds fds;
    struct kern_diag diag = {0};
    struct kern_group_place place = place_of(index);
    if (!kern_fds_open(&fds, &world, &place, &diag))
        return 1;
    pid_t child = fork();
    if (child == 0) {
        struct sockaddr_un address;
        socklen_t length = socket_of(&fds.address, &address);
        kern_fds_close(&fds);
        int stranger[STRANGERS];
        char byte;
        for (int i = 0; i < STRANGERS; i++) {
            stranger[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
            // The last ones may find that the door is closed.
            if (connect(stranger[i], (struct sockaddr *)&address, length) != 0 &&
                errno != ECONNREFUSED)
                _exit(1);
            if (i == 0)
                __atomic_add_fetch(&page->listening, 1, __ATOMIC_SEQ_CST);
        }
        for (int i = 0; i < STRANGERS; i++)
            if (recv(stranger[i], &byte, 1, 0) > 0)
                _exit(2);
        _exit(0);
    }
    listen_with(page, index, &fds, 2 * MEMBERS);
    uint64_t begun = kern_now();
    int result = kern_fds_connect(&fds, page->addresses, &diag) ? 0 : 3;
    // Far less than the limit on a wait.
    if (kern_now() - begun > (uint64_t)(world.timeout * 1e9 / 2))
        result = 4;
    gather(page, 3 * MEMBERS);
    kern_fds_close(&fds);
    int status = 1;
    waitpid(child, &status, 0);
    return status != 0 ? 5 : result;
}

static void silent_strangers_keep_nobody_waiting(void **state)
{
    (void)state;
    assert_int_equal(run_members(with_silent_strangers), MEMBERS);
}

enum { OTHER_USER = 65534 };

// Another user who knows the token and says hello as a member does, before that member. If it is
// late it finds a closed door, which is as good.
static int intrude(struct kern_fds *fds, uint32_t as)
{
    struct sockaddr_un name;
    socklen_t length = socket_of(&fds->address, &name);
    char hello[20], byte;
    memcpy(hello, fds->address.token, 16);
    memcpy(hello + 16, &as, sizeof as);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    // The fork has the owner's sockets as well, which would keep the door open for ever.
    kern_fds_close(fds);
    if (setgid(OTHER_USER) != 0 || setuid(OTHER_USER) != 0)
        return 1;
    if (connect(fd, (struct sockaddr *)&name, length) != 0)
        return errno == ECONNREFUSED ? 0 : 1;
    send(fd, hello, sizeof hello, MSG_NOSIGNAL);
    // The owner hangs up, and nothing comes before that.
    return recv(fd, &byte, 1, 0) > 0 ? 2 : 0;
}

static int with_intruder(uint32_t index, struct page *page)
{
    struct kern_fds fds;
    struct kern_diag diag = {0};
    struct kern_group_place place = place_of(index);
    if (!kern_fds_open(&fds, &world, &place, &diag))
        return 1;
    pid_t intruder = fork();
    if (intruder == 0)
        _exit(intrude(&fds, (index + 1) % MEMBERS));
    usleep(100000); // it is the first in the queue
    listen_with(page, index, &fds, MEMBERS);
    bool met = kern_fds_connect(&fds, page->addresses, &diag);
    kern_fds_close(&fds);
    int status = 1;
    waitpid(intruder, &status, 0);
    return !met || status != 0;
}

static void another_user_is_turned_away(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: taking the place of another user needs root\n");
        skip();
    }
    assert_int_equal(run_members(with_intruder), MEMBERS);
}

// Member 2 is another user: nobody sends anything to its socket.
static int with_foreign_socket(uint32_t index, struct page *page)
{
    struct kern_fds fds;
    struct kern_diag diag = {0};
    struct kern_group_place place = place_of(index);
    world.timeout = 2;
    if (index == 2 && (setgid(OTHER_USER) != 0 || setuid(OTHER_USER) != 0))
        return 1;
    bool met = meet(&fds, &place, page, &diag);
    // Everybody listens until all have tried.
    gather(page, 2 * MEMBERS);
    return met || !strstr(kern_diag_line(&diag, 0), "its socket belongs to another user");
}

static void a_socket_of_another_user_is_left_alone(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: taking the place of another user needs root\n");
        skip();
    }
    assert_int_equal(run_members(with_foreign_socket), MEMBERS);
}

// Member 2 listens and never connects: the others give up at the deadline and say so.
static int with_absentee(uint32_t index, struct page *page)
{
    struct kern_fds fds;
    struct kern_diag diag = {0};
    struct kern_group_place place = place_of(index);
    world.timeout = 0.5;
    if (index == 2) {
        kern_fds_open(&fds, &world, &place, &diag);
        page->addresses[index] = fds.address;
        __atomic_add_fetch(&page->listening, 1, __ATOMIC_SEQ_CST);
        sleep(2);
        return 0;
    }
    return meet(&fds, &place, page, &diag) || kern_diag_code(&diag) != KERN_EXIT_PEER ||
           !strstr(kern_diag_line(&diag, 0), "1 of 2 members of group g did not connect");
}

static void an_absent_member_is_an_error_at_the_deadline(void **state)
{
    (void)state;
    assert_int_equal(run_members(with_absentee), MEMBERS);
}

// Each message may take the limit, and one that is there is taken however late it is.
static int with_slow_members(uint32_t index, struct page *page)
{
    enum { MESSAGES = 4 };
    struct kern_fds fds;
    struct kern_diag diag = {0};
    struct kern_group_place place = place_of(index);
    world.timeout = 1.2;
    if (!meet(&fds, &place, page, &diag))
        return 1;
    int out = numbered_file(index), in;
    for (int i = 0; i < MESSAGES; i++) {
        bool sent;
        usleep(500000); // as one that maps what it got
        if (!kern_fds_send(&fds, (index + 1) % MEMBERS, &out, 1, &diag) ||
            !kern_fds_receive(&fds, (index + MEMBERS - 1) % MEMBERS, &in, 1, &sent, &diag) || !sent)
            return 2;
        close(in);
    }
    return 0;
}

static void the_limit_is_that_of_one_wait(void **state)
{
    (void)state;
    assert_int_equal(run_members(with_slow_members), MEMBERS);
}

// After a wait in vain what is there is still taken, and what is not costs no second limit.
static int receive_after_a_vain_wait(struct kern_fds *fds)
{
    struct kern_diag diag = {0};
    int in;
    bool sent;
    if (kern_fds_receive(fds, 2, &in, 1, &sent, &diag) ||
        !strstr(kern_diag_line(&diag, 0), "Connection timed out"))
        return 3;
    uint64_t begun = kern_now();
    if (!kern_fds_receive(fds, 1, &in, 1, &sent, &diag) || !sent)
        return 4;
    return kern_fds_receive(fds, 2, &in, 1, &sent, &diag) || kern_now() - begun > 900000000 ? 5 : 0;
}

static int after_a_vain_wait(uint32_t index, struct page *page)
{
    struct kern_fds fds;
    struct kern_diag diag = {0};
    struct kern_group_place place = place_of(index);
    world.timeout = 1;
    if (!meet(&fds, &place, page, &diag))
        return 1;
    int out = numbered_file(index), result = 0;
    if (index == 1 && !kern_fds_send(&fds, 0, &out, 1, &diag))
        result = 2;
    if (index == 0)
        result = receive_after_a_vain_wait(&fds);
    // Nobody hangs up before that.
    gather(page, 2 * MEMBERS);
    return result;
}

static void what_is_there_is_taken_after_a_vain_wait(void **state)
{
    (void)state;
    assert_int_equal(run_members(after_a_vain_wait), MEMBERS);
}

// A receiver that may open no more files gets a message that is cut.
static int with_low_limit(uint32_t index, struct page *page)
{
    struct kern_fds fds;
    struct kern_diag diag = {0};
    struct kern_group_place place = place_of(index);
    if (!meet(&fds, &place, page, &diag))
        return 1;
    int out[8], in[8];
    bool sent;
    for (unsigned i = 0; i < 8; i++)
        out[i] = numbered_file(i);
    if (index == 0)
        return !kern_fds_send(&fds, 1, out, 8, &diag);
    if (index == 2)
        return 0;
    int highest = dup(0);
    struct rlimit limit = {(rlim_t)highest + 3, (rlim_t)highest + 3};
    setrlimit(RLIMIT_NOFILE, &limit);
    return kern_fds_receive(&fds, 0, in, 8, &sent, &diag) || sent ||
           !strstr(kern_diag_line(&diag, 0), "too many open files");
}

static void a_cut_message_is_an_error(void **state)
{
    (void)state;
    assert_int_equal(run_members(with_low_limit), MEMBERS);
}

static int reserve(uint32_t index, struct page *page)
{
    (void)index;
    (void)page;
    struct kern_diag diag = {0};
    struct rlimit limit = {64, 256};
    setrlimit(RLIMIT_NOFILE, &limit);
    if (!kern_fds_reserve(100, &diag) || getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
        limit.rlim_cur != 256)
        return 1;
    return kern_fds_reserve(1000, &diag) || !strstr(kern_diag_line(&diag, 0), "ulimit -Hn");
}

static void the_soft_limit_is_raised_and_the_hard_one_named(void **state)
{
    (void)state;
    assert_int_equal(run_members(reserve), MEMBERS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_arrive_in_order),
        cmocka_unit_test(a_member_with_nothing_is_no_wait),
        cmocka_unit_test(strangers_are_turned_away),
        cmocka_unit_test(silent_strangers_keep_nobody_waiting),
        cmocka_unit_test(another_user_is_turned_away),
        cmocka_unit_test(a_socket_of_another_user_is_left_alone),
        cmocka_unit_test(an_absent_member_is_an_error_at_the_deadline),
        cmocka_unit_test(the_limit_is_that_of_one_wait),
        cmocka_unit_test(what_is_there_is_taken_after_a_vain_wait),
        cmocka_unit_test(a_cut_message_is_an_error),
        cmocka_unit_test(the_soft_limit_is_raised_and_the_hard_one_named),
    };
    return cmocka_run_group_tests_name("fds", tests, NULL, NULL);
}
