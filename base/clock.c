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

void kern_relax(struct kern_patience *patience)
{
    // With more ranks than cores whoever is awaited may need this very core, so pauses are few. And
    // beside processes that compute, to give the processor away costs a time slice each time.
    enum { PAUSES = 100, PATIENCE_NS = 2000000, SLEEP_NS = 50000 };
    if (patience->looks < PAUSES) {
        patience->looks++;
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
        return;
    }
    uint64_t now = kern_now();
    if (!patience->since)
        patience->since = now;
    if (now - patience->since < PATIENCE_NS)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
}
