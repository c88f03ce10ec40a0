// SPDX-License-Identifier: Apache-2.0
//
// Monotonic time in nanoseconds, and deadlines as absolute times.
#ifndef KERN_BASE_CLOCK_H
#define KERN_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define KERN_NS_PER_SECOND 1000000000ull
#define KERN_NO_DEADLINE UINT64_MAX

// Nanoseconds of CLOCK_MONOTONIC.
uint64_t kern_now(void);

// The time [seconds] from now; 0 or less means KERN_NO_DEADLINE.
uint64_t kern_deadline_in(double seconds);

// Whether [deadline] lies in the past.
bool kern_deadline_passed(uint64_t deadline);

// A wait that looks at something again and again; it begins as {0}.
struct kern_patience {
    unsigned looks;
    uint64_t since; // the first look after which the processor was given away
};

// Waits a little between two looks: a few pauses first, then the processor is given away, and after
// some milliseconds, short sleeps.
void kern_relax(struct kern_patience *patience);

#endif
