// SPDX-License-Identifier: Apache-2.0
//
// What the tests of faults share: emu takes its faults from the environment when a process begins,
// so each fault is a process, in which the test runs itself with the fault as its argument.
#ifndef KERN_TESTS_RANK_FAULT_H
#define KERN_TESTS_RANK_FAULT_H

#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

// How a life with a fault ended, which is the process's exit code.
enum outcome { SOUND, FAULT_HANDLED, FAULT_MISHANDLED };

// Runs this program with the arguments "FUNCTION:NTH", the call that fails, and [more] (NULL:
// none).
static inline enum outcome spawn_with_fault(const char *function, unsigned nth, char *more)
{
    char program[] = "fault", fault[128];
    snprintf(fault, sizeof(fault), "%s:%u", function, nth);
    char *arguments[] = {program, fault, more, NULL};
    pid_t child = 0;
    int status = 0;
    assert_int_equal(posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status)) {
        fail_msg("with %s the process was killed by signal %d", fault, WTERMSIG(status));
    }
    return (enum outcome)WEXITSTATUS(status);
}

#endif
