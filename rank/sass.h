// SPDX-License-Identifier: Apache-2.0
//
// The machine code of an artifact as text, by NVIDIA's cuobjdump.
#ifndef KERN_RANK_SASS_H
#define KERN_RANK_SASS_H

#include <stdbool.h>
#include <stdint.h>

// Told every line of the code of a function. The texts last for the call.
struct rank_sass_reader {
    void (*line)(void *context, const char *function, const char *line);
    void *context;
};

// Runs the cuobjdump that PATH has on the file at [path], until [deadline] (base/clock.h). False if
// it cannot be run or does not come to a good end, with the reason in *[why].
bool rank_sass_read(const char *path, uint64_t deadline, const struct rank_sass_reader *reader,
                    const char **why);

#endif
