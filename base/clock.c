// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"

#include <sched.h>
#include <time.h>

uint64_t kern_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * KERN_NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

uint64_t kern_deadline_in(double seconds)
{
    double ns = seconds * (double)KERN_NS_PER_SECOND;
    uint64_t now = kern_now();
    return ns > 0 && ns < (double)(UINT64_MAX / 2) ? now + (uint64_t)ns : KERN_NO_DEADLINE;
}

bool kern_deadline_passed(uint64_t deadline)
{
    return deadline != KERN_NO_DEADLINE && kern_now() > deadline;
}

void kern_relax(unsigned round)
{
    // With more ranks than cores whoever is awaited may need this very core, so pauses are few.
    enum { PAUSES = 100, YIELDS = 2000, SLEEP_NS = 50000 };
    if (round < PAUSES) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    } else if (round < YIELDS) {
        sched_yield();
    } else {
        nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
    }
}
