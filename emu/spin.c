// SPDX-License-Identifier: Apache-2.0
#include "emu/spin.h"

#include <sched.h>
#include <time.h>

bool emu_spin(int *looks, int yields)
{
    enum { PAUSES = 100 }; // more would cost whole time slices where processes outnumber cores
    if (*looks >= PAUSES + yields) {
        return false;
    }
    if ((*looks)++ >= PAUSES) {
        sched_yield();
        return true;
    }
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
    return true;
}

void emu_relax(int *looks)
{
    enum { YIELDS = 200, SLEEP_NS = 50000 };
    if (!emu_spin(looks, YIELDS)) {
        nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
    }
}
