// SPDX-License-Identifier: Apache-2.0
//
// --trace: what each rank did when, as a Chrome trace that Perfetto opens. Spans are kept in memory
// up to a limit and written at the end. Without --trace there is no struct kern_trace, and nothing
// here costs more than a look at a NULL pointer.
#ifndef KERN_LAUNCHER_TRACE_H
#define KERN_LAUNCHER_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/names.h"
#include "topo/clocks.h"

// The rows of a rank, from top to bottom. A row's spans lie beside or inside each other.
enum kern_trace_row {
    KERN_TRACE_PHASES,
    KERN_TRACE_STEPS,  // on the host: from issue until the end was seen
    KERN_TRACE_DEVICE, // on the device, and in each step its launches
    KERN_TRACE_FLOW,   // of a pipeline: what the stage did for each item
    KERN_TRACE_ROWS,
};

// The most spans of all ranks together that a trace keeps, but for those of phases.
#define KERN_TRACE_SPANS ((size_t)1 << 20)

struct kern_trace_span {
    uint64_t begin, end; // base/clock.h; of KERN_TRACE_FLOW, by the device's clock until the end
    uint64_t number;     // of the step; 0: none
    uint32_t name;       // index in names
    uint32_t row;
};

struct kern_trace {
    struct kern_trace_span *spans;
    size_t count, capacity;
    size_t limit;     // of count, for this rank
    uint64_t dropped; // spans beyond it
    struct kern_names index;
    const char **names; // copies in the arena
    uint64_t *steps;    // per name: those that were numbered
    size_t n_names, names_capacity, steps_capacity;
    struct kern_arena arena;
    uint64_t *begun; // when each item in flight was issued, the oldest first
    size_t n_begun, begun_capacity;
    uint64_t last_end[KERN_TRACE_ROWS]; // of the last step
    int64_t device_behind; // nanoseconds that base/clock.h is ahead of the device's clock
    bool device_known;
    uint64_t opened; // the start of the process
    struct kern_clock clock;
};

// What came of a trace, on rank 0.
struct kern_trace_facts {
    uint64_t spans, dropped;
    uint64_t clock_error; // nanoseconds, the largest of all ranks
};

// A trace of one of [ranks] ranks, which has been running since [opened]. The caller frees it with
// kern_trace_close; NULL is allowed there and wherever a trace is taken.
struct kern_trace *kern_trace_open(size_t ranks, uint64_t opened);
void kern_trace_close(struct kern_trace *trace);

// Adds a span. [name] is copied where it is new.
void kern_trace_span(struct kern_trace *trace, enum kern_trace_row row, const char *name,
                     uint64_t number, uint64_t begin, uint64_t end);

// Notes that an item is being issued.
void kern_trace_issue(struct kern_trace *trace);

// Adds a part of an item of a pipeline, by the device's clock.
void kern_trace_flow(struct kern_trace *trace, const char *name, uint64_t number, uint64_t begin,
                     uint64_t end);

// Notes that the device's clock showed [time] just now or before. What is least behind of all that
// was noted is how the two clocks are taken to differ.
void kern_trace_device_clock(struct kern_trace *trace, uint64_t time);

// Adds the oldest item in flight, a run of [name] that took [taken] nanoseconds on the device and
// was seen to be done just now, as a step of the host and of the device; they are numbered from 1.
// A step begins when the one before ended, if it was issued earlier. Returns the step's span on the
// device, in which its launches lie.
struct kern_trace_span kern_trace_step(struct kern_trace *trace, const char *name, uint64_t taken);

#endif
