// SPDX-License-Identifier: Apache-2.0
#include "launcher/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

#define FIRST_NS KERN_NS_PER_SECOND
#define EVERY_NS (KERN_NS_PER_SECOND / 5)

bool kern_load_progress_wanted(void)
{
    return isatty(STDERR_FILENO) == 1;
}

void kern_load_progress(struct kern_load_progress *progress, uint64_t done, uint64_t total)
{
    uint64_t now = kern_now();
    if (progress->total != total) {
        progress->total = total;
        progress->started = now;
    }
    if (now - progress->started < FIRST_NS || now - progress->shown < EVERY_NS)
        return;
    progress->shown = now;
    double gib = (double)done / (1 << 30);
    fprintf(stderr, "\rloading weights: %.1f of %.1f GiB, %.2f GiB/s\033[K", gib,
            (double)total / (1 << 30),
            gib / ((double)(now - progress->started) / (double)KERN_NS_PER_SECOND));
    fflush(stderr);
}

void kern_load_progress_end(const struct kern_load_progress *progress)
{
    if (progress->shown)
        fputs("\r\033[K", stderr);
}
