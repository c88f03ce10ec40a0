// SPDX-License-Identifier: Apache-2.0
#include "rank/sass.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

// Longer names of functions are cut off, and so is what a longer line has at its end.
#define TEXT_MAX 4096

// What has been read of the line and of the function that it is in.
struct reading {
    const struct rank_sass_reader *reader;
    char line[TEXT_MAX];
    size_t length;
    char function[TEXT_MAX];
};

static void take_line(struct reading *reading)
{
    static const char mark[] = "Function : ";
    reading->line[reading->length] = '\0';
    const char *name = strstr(reading->line, mark);
    if (name != NULL) {
        snprintf(reading->function, sizeof(reading->function), "%s", name + strlen(mark));
    } else if (reading->function[0] != '\0') {
        reading->reader->line(reading->reader->context, reading->function, reading->line);
    }
    reading->length = 0;
}

static void take_bytes(struct reading *reading, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] == '\n') {
            take_line(reading);
        } else if (reading->length < sizeof(reading->line) - 1) {
            reading->line[reading->length++] = bytes[i];
        }
    }
}

// Starts it with its output in the pipe; 0 or an error number.
static int start(const char *path, const int pipe_fds[2], pid_t *pid)
{
    char name[] = "cuobjdump", option[] = "-sass";
    char *const words[] = {name, option, (char *)(uintptr_t)path, NULL};
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) {
        return error;
    }
    error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (error == 0) {
        error = posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], STDOUT_FILENO);
    }
    if (error == 0) {
        error = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    }
    if (error == 0) {
        error = posix_spawnp(pid, name, &actions, NULL, words, environ);
    }
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

// Reads to the end of the pipe; false if that does not come in time.
static bool read_all(int fd, uint64_t deadline, struct reading *reading)
{
    char bytes[65536];
    while (!kern_deadline_passed(deadline)) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (poll(&ready, 1, 100) <= 0) {
            continue;
        }
        ssize_t n = read(fd, bytes, sizeof(bytes));
        if (n == 0) {
            take_line(reading);
            return true;
        }
        if (n < 0 && errno != EINTR) {
            return false;
        }
        take_bytes(reading, bytes, n > 0 ? (size_t)n : 0);
    }
    return false;
}

bool rank_sass_read(const char *path, uint64_t deadline, const struct rank_sass_reader *reader,
                    const char **why)
{
    int fds[2];
    pid_t pid;
    *why = "it cannot be started";
    if (pipe2(fds, O_CLOEXEC) != 0) {
        return false;
    }
    int error = start(path, fds, &pid);
    close(fds[1]);
    if (error != 0) {
        close(fds[0]);
        *why = error == ENOENT ? "it is not in PATH" : strerror(error);
        return false;
    }
    struct reading reading = {.reader = reader};
    bool read = read_all(fds[0], deadline, &reading);
    close(fds[0]);
    if (!read) {
        kill(pid, SIGKILL);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    *why = read ? "it failed" : "it took too long";
    return read && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
