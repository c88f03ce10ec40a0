// SPDX-License-Identifier: Apache-2.0
//
// One error word of many: the largest of errors [n]. For programs of several collectives, each of
// which says in a word of its own whom it missed. One block of one thread.
#include "kernels/portable.h"

KERN_KERNEL void error_max(const int32_t *errors, int32_t *error, int32_t n)
{
    int32_t largest = errors[0];
    for (int32_t i = 1; i < n; i++) {
        largest = errors[i] > largest ? errors[i] : largest;
    }
    *error = largest;
}

KERN_LOOP_KERNEL(error_max)
KERN_MODULE(KERN_ENTRY(error_max));
