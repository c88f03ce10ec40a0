// SPDX-License-Identifier: Apache-2.0
//
// How far the loading of weights has come, on a line of the terminal that is written over.
#ifndef KERN_LAUNCHER_PROGRESS_H
#define KERN_LAUNCHER_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

// All zero at first.
struct kern_load_progress {
    uint64_t total;   // of what is being loaded; weights and sources are loaded by themselves
    uint64_t started; // base/clock.h, when the first of it had come
    uint64_t shown;   // the last time the line was written; 0: never
};

// [done] of [total] bytes are loaded. Nothing is shown in the first second.
void kern_load_progress(struct kern_load_progress *progress, uint64_t done, uint64_t total);

// Whether stderr is a terminal, where a line can be written over.
bool kern_load_progress_wanted(void);

// Takes the line away.
void kern_load_progress_end(const struct kern_load_progress *progress);

#endif
