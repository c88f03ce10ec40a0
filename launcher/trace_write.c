// SPDX-License-Identifier: Apache-2.0
//
// Writing the trace: rank 0 takes the spans of one rank after the other, a piece at a time, so that
// it never holds those of all.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "launcher/run.h"
#include "manifest/json_writer.h"
#include "topo/watchdog.h"

enum { TRACE_TAG = 7003, PIECE = 32768 };

// What travels of a rank before its names, each with a NUL, and its spans.
struct head {
    uint64_t spans, dropped;
    uint64_t clock_error;
    int64_t clock_offset;
    uint64_t n_names, name_bytes;
};

struct writer {
    const struct kern_run *run;
    FILE *file;
    struct kern_json json;
    uint64_t base; // on rank 0's clock: the time 0 of the trace
    struct kern_trace_facts facts;
};

static struct head describe(const struct kern_trace *trace)
{
    struct head head = {
        .spans = trace->count,
        .dropped = trace->dropped,
        .clock_error = kern_clock_error(&trace->clock),
        .clock_offset = trace->clock.last.offset,
        .n_names = trace->n_names,
    };
    for (size_t i = 0; i < trace->n_names; i++)
        head.name_bytes += strlen(trace->names[i]) + 1;
    return head;
}

static char *pack_names(const struct kern_trace *trace, size_t bytes)
{
    char *text = kern_calloc(bytes + 1, 1), *at = text;
    for (size_t i = 0; i < trace->n_names; i++)
        at = stpcpy(at, trace->names[i]) + 1;
    return text;
}

// Times on rank 0's clock.
static void align(struct kern_trace *trace)
{
    for (size_t i = 0; i < trace->count; i++) {
        if (trace->spans[i].row == KERN_TRACE_FLOW) {
            trace->spans[i].begin += (uint64_t)trace->device_behind;
            trace->spans[i].end += (uint64_t)trace->device_behind;
        }
        trace->spans[i].begin = kern_clock_align(&trace->clock, trace->spans[i].begin);
        trace->spans[i].end = kern_clock_align(&trace->clock, trace->spans[i].end);
    }
}

static void send_trace(const struct kern_world *world, const struct kern_trace *trace)
{
    const char *what = "handing over the trace";
    struct head head = describe(trace);
    char *names = pack_names(trace, head.name_bytes);
    KERN_WITH_OTHERS(world, what,
                     MPI_Send(&head, sizeof head, MPI_BYTE, 0, TRACE_TAG, world->comm));
    KERN_WITH_OTHERS(world, what,
                     MPI_Send(names, (int)head.name_bytes, MPI_BYTE, 0, TRACE_TAG, world->comm));
    for (size_t at = 0; at < trace->count; at += PIECE) {
        size_t count = trace->count - at < PIECE ? trace->count - at : PIECE;
        KERN_WITH_OTHERS(world, what,
                         MPI_Send(trace->spans + at, (int)(count * sizeof *trace->spans), MPI_BYTE,
                                  0, TRACE_TAG, world->comm));
    }
    free(names);
}

static void receive(const struct kern_world *world, void *bytes, size_t length, int rank)
{
    KERN_WITH_OTHERS(
        world, "gathering the trace",
        MPI_Recv(bytes, (int)length, MPI_BYTE, rank, TRACE_TAG, world->comm, MPI_STATUS_IGNORE));
}

static double microseconds(uint64_t nanoseconds)
{
    return (double)nanoseconds / 1e3;
}

// Begins an event of [rank] in [row]; some viewers give process and thread 0 a meaning of their
// own.
static void begin_event(struct writer *writer, const char *phase, const char *name, int rank,
                        uint32_t row)
{
    struct kern_json *json = &writer->json;
    kern_json_open(json, '{');
    kern_json_key(json, "ph");
    kern_json_string(json, phase);
    kern_json_key(json, "name");
    kern_json_string(json, name);
    kern_json_key(json, "pid");
    kern_json_u64(json, (uint64_t)rank + 1);
    kern_json_key(json, "tid");
    kern_json_u64(json, row + 1);
}

static void end_event(struct writer *writer)
{
    kern_json_close(&writer->json, '}');
    fputc('\n', writer->file);
}

// A fact about a process or thread: its one argument is [key], a text or, without one, [number].
static void write_fact(struct writer *writer, const char *name, int rank, uint32_t row,
                       const char *key, const char *text, uint64_t number)
{
    struct kern_json *json = &writer->json;
    begin_event(writer, "M", name, rank, row);
    kern_json_key(json, "args");
    kern_json_open(json, '{');
    kern_json_key(json, key);
    if (text)
        kern_json_string(json, text);
    else
        kern_json_u64(json, number);
    kern_json_close(json, '}');
    end_event(writer);
}

static void write_head(struct writer *writer, int rank, const struct head *head)
{
    static const char *const rows[KERN_TRACE_ROWS] = {[KERN_TRACE_PHASES] = "phases",
                                                      [KERN_TRACE_STEPS] = "steps",
                                                      [KERN_TRACE_DEVICE] = "device",
                                                      [KERN_TRACE_FLOW] = "pipeline"};
    const struct kern_run *run = writer->run;
    struct kern_arena arena = {0};
    write_fact(writer, "process_name", rank, 0, "name",
               kern_arena_print(&arena, "rank %d, %s", rank, run->world.members[rank].host), 0);
    write_fact(writer, "process_labels", rank, 0, "labels",
               kern_arena_print(&arena, "device %s, clock within %.1f us%s",
                                run->places[rank].bus_id, microseconds(head->clock_error),
                                head->dropped ? kern_arena_print(&arena, ", %llu spans dropped",
                                                                 (unsigned long long)head->dropped)
                                              : ""),
               0);
    write_fact(writer, "process_sort_index", rank, 0, "sort_index", NULL, (uint64_t)rank);
    uint32_t n_rows = run->n_stages > 1 ? KERN_TRACE_ROWS : KERN_TRACE_FLOW;
    for (uint32_t row = 0; row < n_rows; row++) {
        write_fact(writer, "thread_name", rank, row, "name", rows[row], 0);
        write_fact(writer, "thread_sort_index", rank, row, "sort_index", NULL, row);
    }
    kern_arena_free(&arena);
    writer->facts.spans += head->spans;
    writer->facts.dropped += head->dropped;
    if (head->clock_error > writer->facts.clock_error)
        writer->facts.clock_error = head->clock_error;
}

static void write_spans(struct writer *writer, int rank, const struct kern_trace_span *spans,
                        size_t count, const char *const *names)
{
    struct kern_json *json = &writer->json;
    for (size_t i = 0; i < count; i++) {
        const struct kern_trace_span *span = &spans[i];
        begin_event(writer, "X", names[span->name], rank, span->row);
        kern_json_key(json, "ts");
        kern_json_f64(json,
                      span->begin > writer->base ? microseconds(span->begin - writer->base) : 0);
        kern_json_key(json, "dur");
        kern_json_f64(json, microseconds(span->end - span->begin));
        if (span->number) {
            kern_json_key(json, "args");
            kern_json_open(json, '{');
            kern_json_key(json, "step");
            kern_json_u64(json, span->number);
            kern_json_close(json, '}');
        }
        end_event(writer);
    }
}

// Takes one rank's trace from the messages that it sends and writes it.
static void take_trace(struct writer *writer, int rank, struct head *head)
{
    const struct kern_world *world = &writer->run->world;
    receive(world, head, sizeof *head, rank);
    char *text = kern_calloc(head->name_bytes + 1, 1), *at = text;
    receive(world, text, head->name_bytes, rank);
    const char **names = kern_calloc(head->n_names, sizeof *names);
    for (uint64_t i = 0; i < head->n_names; i++, at += strlen(at) + 1)
        names[i] = at;
    struct kern_trace_span *spans = kern_calloc(PIECE, sizeof *spans);
    write_head(writer, rank, head);
    for (uint64_t done = 0; done < head->spans; done += PIECE) {
        size_t count = head->spans - done < PIECE ? head->spans - done : PIECE;
        receive(world, spans, count * sizeof *spans, rank);
        write_spans(writer, rank, spans, count, names);
    }
    free(spans);
    free(names);
    free(text);
}

// What concerns the whole trace, and how each clock was found to go.
static void write_rest(struct writer *writer, const struct head *heads)
{
    const struct kern_run *run = writer->run;
    struct kern_json *json = &writer->json;
    kern_json_key(json, "displayTimeUnit");
    kern_json_string(json, "ns");
    kern_json_key(json, "otherData");
    kern_json_open(json, '{');
    kern_json_key(json, "program");
    kern_json_string(json, "kern-rank " KERN_VERSION);
    kern_json_key(json, "model");
    kern_json_string(json, run->manifest->model);
    kern_json_key(json, "clock_error_us");
    kern_json_f64(json, microseconds(writer->facts.clock_error));
    kern_json_key(json, "spans_dropped");
    kern_json_u64(json, writer->facts.dropped);
    kern_json_key(json, "ranks");
    kern_json_open(json, '[');
    for (int r = 0; r < run->world.size; r++) {
        kern_json_open(json, '{');
        kern_json_key(json, "rank");
        kern_json_u64(json, (uint64_t)r);
        kern_json_key(json, "host");
        kern_json_string(json, run->world.members[r].host);
        kern_json_key(json, "clock_offset_us");
        kern_json_f64(json, (double)heads[r].clock_offset / 1e3);
        kern_json_key(json, "clock_error_us");
        kern_json_f64(json, microseconds(heads[r].clock_error));
        kern_json_key(json, "spans_dropped");
        kern_json_u64(json, heads[r].dropped);
        kern_json_close(json, '}');
    }
    kern_json_close(json, ']');
    kern_json_close(json, '}');
}

static void write_all(struct writer *writer, const struct kern_trace *own)
{
    int size = writer->run->world.size;
    struct head *heads = kern_calloc((size_t)size, sizeof *heads);
    writer->json = (struct kern_json){.file = writer->file};
    kern_json_open(&writer->json, '{');
    kern_json_key(&writer->json, "traceEvents");
    kern_json_open(&writer->json, '[');
    heads[0] = describe(own);
    write_head(writer, 0, &heads[0]);
    write_spans(writer, 0, own->spans, own->count, own->names);
    for (int r = 1; r < size; r++)
        take_trace(writer, r, &heads[r]);
    kern_json_close(&writer->json, ']');
    write_rest(writer, heads);
    kern_json_close(&writer->json, '}');
    fputc('\n', writer->file);
    free(heads);
}

// Rank 0's part.
static void gather(struct kern_run *run, struct kern_file_out *out, uint64_t base)
{
    struct writer writer = {.run = run, .base = base};
    int fd = fcntl(out->fd, F_DUPFD_CLOEXEC, 0);
    writer.file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!writer.file)
        kern_out_of_memory(0);
    write_all(&writer, run->trace);
    bool written = !ferror(writer.file);
    written = fclose(writer.file) == 0 && written;
    kern_file_finish(out, written, &run->diag);
    run->trace_facts = writer.facts;
}

void kern_run_trace(struct kern_run *run)
{
    struct kern_trace *trace = run->trace;
    struct kern_file_out out;
    kern_clock_read(&run->world, &trace->clock.last);
    align(trace);
    uint64_t base = kern_clock_align(&trace->clock, trace->opened);
    KERN_WITH_OTHERS(&run->world, "gathering the trace",
                     MPI_Allreduce(MPI_IN_PLACE, &base, 1, MPI_UINT64_T, MPI_MIN, run->world.comm));
    bool open = run->world.rank > 0 || kern_file_create(&out, run->options.trace, &run->diag);
    if (!kern_world_all(&run->world, run->world.comm, open))
        return;
    if (run->world.rank == 0)
        gather(run, &out, base);
    else
        send_trace(&run->world, trace);
}
