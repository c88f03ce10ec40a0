// SPDX-License-Identifier: Apache-2.0
//
// Work of a known length: keeps its one thread busy for some nanoseconds of the clock, for
// measuring what is around it.
#include "kernels/portable.h"

KERN_DEVICE void spin_for(int64_t ns)
{
    const uint64_t begin = kern_clock_ns();
    while (kern_clock_ns() - begin < (uint64_t)ns) {}
}

// *to = *from + 1
KERN_KERNEL void spin(const uint32_t *from, uint32_t *to, int64_t ns)
{
    spin_for(ns);
    *to = *from + 1;
}

// *word = *word + 1
KERN_KERNEL void spin_on(uint32_t *word, int64_t ns)
{
    spin_for(ns);
    *word += 1;
}

KERN_RANGE_KERNEL(spin)
KERN_RANGE_KERNEL(spin_on)
KERN_MODULE(KERN_ENTRY(spin), KERN_ENTRY(spin_on));
