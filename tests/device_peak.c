// SPDX-License-Identifier: Apache-2.0
//
// Preloaded into kern-rank: when the process ends, the most device memory that it has had of emu is
// written to the file that KERN_TEST_PEAK names, with the rank behind it.
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "emu/stats.h"

__attribute__((destructor)) static void write_peak(void)
{
    const char *path = getenv("KERN_TEST_PEAK"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    void *emu = dlopen("libkern-emu.so", RTLD_NOW | RTLD_NOLOAD);
    if (path == NULL || rank == NULL || emu == NULL)
        return;
    int (*stats)(int, struct kern_emu_stats *) =
        (int (*)(int, struct kern_emu_stats *))dlsym(emu, "kern_emu_stats");
    uint64_t peak = 0;
    struct kern_emu_stats device;
    for (int i = 0; stats(i, &device) == 0; i++)
        peak += device.high_water_bytes;
    char name[4096];
    snprintf(name, sizeof name, "%s.%s", path, rank);
    FILE *file = fopen(name, "w");
    if (file == NULL)
        return;
    fprintf(file, "%" PRIu64 "\n", peak);
    fclose(file);
}
