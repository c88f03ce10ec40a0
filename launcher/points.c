// SPDX-License-Identifier: Apache-2.0
#include "launcher/points.h"

#include <errno.h>
#include <stdlib.h>

#include "base/memory.h"

bool kern_points_read(const char *list, const char *option, struct kern_points *points,
                      struct kern_diag *diag)
{
    for (const char *at = list;; at++) {
        char *end;
        errno = 0;
        unsigned long long value = strtoull(at, &end, 10);
        if (*at < '0' || *at > '9' || errno || (*end && *end != ','))
            return kern_fail(diag, KERN_EXIT_USAGE, option,
                             "\"%s\" will not do; it takes indices of calls, as in 12,24", list);
        kern_reserve(&points->values, &points->capacity, points->count + 1, sizeof *points->values);
        points->values[points->count++] = value;
        at = end;
        if (!*at)
            return true;
    }
}
