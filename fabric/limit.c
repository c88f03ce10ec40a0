// SPDX-License-Identifier: Apache-2.0
//
// The limit on open files, which every handle that is a descriptor counts against.
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "fabric/fds.h"

static size_t count_open_files(void)
{
    size_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count;
}

bool kern_fds_reserve(size_t more, struct kern_diag *diag)
{
    struct rlimit limit;
    size_t needed = count_open_files() + more;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed)
        return true;
    if (limit.rlim_max < needed)
        return kern_fail(diag, KERN_EXIT_DEVICE, NULL,
                         "sharing memory needs %zu open files, and this process "
                         "may have %llu; raise the hard limit (ulimit -Hn %zu before mpirun, or "
                         "LimitNOFILE of the service that starts the ranks)",
                         needed, (unsigned long long)limit.rlim_max, needed);
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return kern_fail(diag, KERN_EXIT_DEVICE, NULL,
                         "the limit on open files cannot be raised to %llu: %s",
                         (unsigned long long)limit.rlim_max, strerror(errno));
    return true;
}
