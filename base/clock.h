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

// Waits a little between two looks at something: a few pauses first, then the processor is given
// away, and after about a millisecond in all, short sleeps. [round] counts the looks, from 0.
void kern_relax(unsigned round);

#endif
