// SPDX-License-Identifier: Apache-2.0
//
// A window into the emulated GPU for tests: what the calling process holds. libkern-emu.so exports
// kern_emu_stats beside the driver's functions; a GPU's driver has nothing of the kind.
#ifndef KERN_EMU_STATS_H
#define KERN_EMU_STATS_H

#include <stdint.h>

// What libkern-emu.so exports; everything else in it is hidden.
#define EMU_API __attribute__((visibility("default")))

struct kern_emu_stats {
    uint64_t live_bytes;       // device memory held now, in bytes, imported memory not counted
    uint64_t high_water_bytes; // the most that live_bytes has been
    uint64_t streams;          // live handles by type; the default stream is not counted
    uint64_t events;
    uint64_t modules;
    uint64_t functions;
    uint64_t graphs;
    uint64_t graph_execs;
    uint64_t memory_handles; // of cuMemCreate and of cuMemImportFromShareableHandle
    uint64_t mappings;       // of cuMemMap
    uint64_t reservations;   // of cuMemAddressReserve
    uint64_t allocations;    // of cuMemAlloc
    uint64_t host_ranges;    // of cuMemHostAlloc and cuMemHostRegister
    uint64_t fds;            // file descriptors that emu itself holds
};

// Fills [stats] for the device numbered [device]; live_bytes and high_water_bytes are the device's,
// everything else the process's. Returns 0, or 1 if there is no such device or cuInit has not run.
EMU_API int kern_emu_stats(int device, struct kern_emu_stats *stats);

// While [pause] is not 0, workers drop kernels (those of graphs too) and library calls unexecuted:
// what is left of a step is the host's cost. Copies, memsets and events are not affected.
EMU_API void kern_emu_pause(int pause);

#endif
