// SPDX-License-Identifier: Apache-2.0
//
// The loop of a generation: prompts come in as there is room, what lives makes steps together, what
// has ended goes.
#include "launcher/generate.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "launcher/watch.h"
#include "topo/watchdog.h"

struct loop {
    struct kern_run *run;
    struct kern_generation *generation;
    struct kern_watch watch;
    size_t most_living;
    struct kern_sequence **living; // in the order in which they came
    struct kern_sequence **ready;  // room for those of them that a call takes
    size_t n_living;
    size_t next;                     // the first prompt that waits
    struct kern_serving_call *calls; // one per stage, used in turn
    uint64_t issued, done;           // calls so far
    uint64_t done_at;                // base/clock.h, when the last one was
};

// A digest of everything that followed the prompts so far.
static void digest_of(const struct kern_generation *generation, uint8_t digest[KERN_SHA256_BYTES])
{
    uint8_t each[KERN_SHA256_BYTES * 2] = {0};
    for (size_t i = 0; i < generation->count; i++) {
        const struct kern_sequence *sequence = &generation->sequences[i];
        kern_sha256(sequence->ids, sequence->n_ids * sizeof *sequence->ids,
                    each + KERN_SHA256_BYTES);
        kern_sha256(each, sizeof each, digest);
        memcpy(each, digest, KERN_SHA256_BYTES);
    }
}

// The ranks meet: has anybody failed, been sent a signal, or found other tokens? Ranks with other
// tokens would soon make other calls. Collective; every exchange in the loop is this one, so a rank
// that cannot go on may come to it at any time.
static bool meet(struct loop *loop, bool failed)
{
    struct kern_run *run = loop->run;
    kern_watch_meet(&loop->watch, &run->world, loop->done, failed);
    if (loop->watch.failed)
        return false;
    uint8_t mine[KERN_SHA256_BYTES] = {0}, first[KERN_SHA256_BYTES];
    digest_of(loop->generation, mine);
    memcpy(first, mine, sizeof first);
    KERN_WITH_OTHERS(&run->world, "comparing tokens",
                     MPI_Bcast(first, sizeof first, MPI_BYTE, 0, run->world.comm));
    bool same = memcmp(first, mine, sizeof first) == 0;
    if (!same)
        kern_fail(&run->diag, KERN_EXIT_CHECK, "--generate",
                  "the outputs have other tokens than those of rank 0; what ranks sample must not "
                  "depend on the rank");
    loop->watch.failed = !kern_world_all(&run->world, run->world.comm, same);
    return !loop->watch.failed;
}

static bool goes_on(const struct loop *loop)
{
    return !loop->watch.signal;
}

static void finish(struct loop *loop, struct kern_sequence *sequence, enum kern_finish why)
{
    sequence->finish = why;
    kern_lease_close(sequence->lease);
    sequence->lease = NULL;
    kern_generate_show_end(loop->run, sequence);
}

static bool is_stop(const struct kern_generation *generation, int64_t id)
{
    for (size_t i = 0; i < generation->n_stop_ids; i++)
        if (generation->stop_ids[i] == id)
            return true;
    return false;
}

// Appends the new tokens, up to the one that ends the sequence. Without new ones its prompt goes
// on, perhaps in calls that are in flight, and has room to its end.
static void append(struct loop *loop, struct kern_sequence *sequence, const int64_t *tokens,
                   uint64_t count)
{
    const struct kern_generation *generation = loop->generation;
    size_t first = sequence->n_ids;
    enum kern_finish why = KERN_UNFINISHED;
    for (uint64_t i = 0; i < count && why == KERN_UNFINISHED; i++) {
        kern_reserve(&sequence->ids, &sequence->ids_capacity, sequence->n_ids + 1,
                     sizeof *sequence->ids);
        sequence->ids[sequence->n_ids++] = tokens[i];
        if (is_stop(generation, tokens[i]))
            why = KERN_FINISH_STOP;
        else if (sequence->n_ids == loop->run->options.generate)
            why = KERN_FINISH_COUNT;
    }
    if (count > 0 && why == KERN_UNFINISHED &&
        sequence->fed + generation->step_rows > generation->longest)
        why = KERN_FINISH_LENGTH;
    kern_generate_show_new(loop->run, sequence, sequence->n_prompt + first);
    if (why != KERN_UNFINISHED)
        finish(loop, sequence, why);
}

static struct kern_serving_call *call_at(const struct loop *loop, uint64_t number)
{
    return &loop->calls[number % loop->run->n_stages];
}

// Starts a call over [count] sequences, unless a signal comes before it.
static bool issue(struct loop *loop, const struct kern_forward *forward,
                  struct kern_sequence *const *sequences, size_t count, uint64_t rows,
                  struct kern_pace *pace)
{
    struct kern_run *run = loop->run;
    struct kern_serving_call *call = call_at(loop, loop->issued);
    bool captures;
    kern_generate_pass_settle(run, call);
    kern_generate_call_free(call);
    bool good = kern_generate_call_make(run, forward, sequences, count, rows, call, &captures);
    call->pace = pace;
    // All have captured a graph before any runs it: a rank that cannot says so in the meeting.
    if (good && captures)
        good = kern_rank_prepare(run->rank, forward->program, call->vars, &run->diag) &&
               meet(loop, false);
    if (!good || !goes_on(loop))
        return good;
    loop->issued++;
    return kern_generate_call_issue(run, call);
}

// Notes what [call] did in which time. Of calls that overlap, the time that it made all of them
// last longer.
static void note_pace(struct loop *loop, const struct kern_serving_call *call)
{
    bool chunk = call->pace == &loop->generation->chunks;
    uint64_t now = kern_now();
    call->pace->nanoseconds += now - (call->began > loop->done_at ? call->began : loop->done_at);
    loop->done_at = now;
    for (size_t i = 0; i < call->count; i++)
        call->pace->tokens += chunk ? call->rows : (uint64_t)call->taken[i];
}

// Waits for the oldest call; the sequences that end by it go.
static bool complete(struct loop *loop)
{
    struct kern_serving_call *call = call_at(loop, loop->done);
    if (!kern_generate_call_finish(loop->run, call))
        return false;
    loop->done++;
    note_pace(loop, call);
    for (size_t i = 0; i < call->count; i++)
        append(loop, call->sequences[i], call->tokens + i * call->width, (uint64_t)call->taken[i]);
    size_t kept = 0;
    for (size_t i = 0; i < loop->n_living; i++)
        if (loop->living[i]->lease)
            loop->living[kept++] = loop->living[i];
    loop->n_living = kept;
    return !kern_watch_due(&loop->watch, loop->done) || meet(loop, false);
}

// The rows of a prompt that go through chunks; without a token output all but its last token, which
// a step feeds.
static uint64_t chunk_end(const struct loop *loop, const struct kern_sequence *sequence)
{
    const struct kern_generation *generation = loop->generation;
    if (!generation->chunk)
        return 0;
    return sequence->n_prompt - !kern_generate_hands_back(generation, generation->chunk);
}

// Starts the next chunk of the first prompt that has one left.
static bool issue_chunk(struct loop *loop, bool *issued)
{
    struct kern_generation *generation = loop->generation;
    *issued = false;
    for (size_t i = 0; i < loop->n_living && !*issued; i++) {
        uint64_t end = chunk_end(loop, loop->living[i]), rows = end - loop->living[i]->fed;
        if (loop->living[i]->fed >= end)
            continue;
        if (rows > generation->chunk_rows)
            rows = generation->chunk_rows;
        *issued = true;
        if (!issue(loop, generation->chunk, &loop->living[i], 1, rows, &generation->chunks))
            return false;
    }
    return true;
}

// Starts a step of those whose next token is known, but not of more than each of the calls in
// flight has if all that live are shared out.
static bool issue_step(struct loop *loop, bool *issued)
{
    struct kern_generation *generation = loop->generation;
    size_t stages = loop->run->n_stages;
    size_t count = 0, share = loop->n_living / stages + (loop->n_living % stages != 0);
    share = share < generation->step_sequences ? share : generation->step_sequences;
    for (size_t i = 0; i < loop->n_living && count < share; i++) {
        struct kern_sequence *sequence = loop->living[i];
        if (!sequence->proposing && sequence->fed < sequence->n_prompt + sequence->n_ids)
            loop->ready[count++] = sequence;
    }
    *issued = count > 0;
    if (count == 0)
        return true;
    return issue(loop, kern_serving_forward(&generation->serving, count, generation->step_form),
                 loop->ready, count, generation->step_rows, &generation->steps);
}

// Starts as many calls as may be in flight, those of prompts first.
static bool issue_all(struct loop *loop)
{
    bool good = true, issued = true;
    while (good && issued && goes_on(loop) && loop->issued - loop->done < loop->run->n_stages) {
        good = issue_chunk(loop, &issued);
        if (good && !issued)
            good = issue_step(loop, &issued);
    }
    return good;
}

// The rows that a sequence may come to: its last token is never fed, and a step may propose more
// than it is asked for.
static uint64_t rows_of(const struct loop *loop, const struct kern_sequence *sequence)
{
    const struct kern_generation *generation = loop->generation;
    uint64_t rows, most = generation->longest, proposed = generation->step_rows - 1;
    bool beyond =
        __builtin_add_overflow(sequence->n_prompt, loop->run->options.generate - 1, &rows) ||
        __builtin_add_overflow(rows, proposed, &rows);
    return beyond || rows > most ? most : rows;
}

// Takes in prompts while a step has room for them and the states do.
static bool admit(struct loop *loop)
{
    struct kern_run *run = loop->run;
    struct kern_generation *generation = loop->generation;
    while (goes_on(loop) && loop->n_living < loop->most_living && loop->next < generation->count) {
        struct kern_sequence *sequence = &generation->sequences[loop->next];
        enum kern_denial denial;
        uint64_t rows = rows_of(loop, sequence);
        if (!kern_generate_has_room(run, loop->living, loop->n_living, rows))
            return true;
        sequence->lease = kern_lease_open(run->rank, rows, &denial, &run->diag);
        if (!sequence->lease && denial == KERN_LEASE_BUSY && loop->n_living > 0)
            return true;
        if (!sequence->lease) {
            kern_lease_explain(run->rank, rows, denial, "--prompt-ids", &run->diag);
            return false;
        }
        sequence->rows = rows;
        loop->next++;
        loop->living[loop->n_living++] = sequence;
        kern_generate_show_new(run, sequence, 0);
    }
    return true;
}

static bool run_calls(struct loop *loop)
{
    while (admit(loop) && issue_all(loop)) {
        if (loop->issued == loop->done)
            return true;
        if (!complete(loop))
            return false;
    }
    return false;
}

void kern_generate(struct kern_run *run)
{
    struct kern_generation *generation = run->generation;
    struct loop loop = {.run = run, .generation = generation};
    loop.most_living = generation->step_sequences * run->n_stages;
    kern_watch_begin(&loop.watch, 0);
    loop.living = kern_calloc(loop.most_living, sizeof *loop.living);
    loop.ready = kern_calloc(loop.most_living, sizeof *loop.ready);
    loop.calls = kern_calloc(run->n_stages, sizeof *loop.calls);
    bool good = run_calls(&loop);
    if (!loop.watch.failed) {
        if (!good)
            kern_world_raise_alarm(&run->world);
        meet(&loop, !good);
    }
    for (size_t i = 0; i < loop.n_living; i++)
        finish(&loop, loop.living[i], KERN_UNFINISHED);
    run->stopped = loop.watch.signal;
    for (size_t i = 0; i < run->n_stages; i++) {
        // Nobody takes tokens after a meeting in which somebody has failed.
        if (!loop.watch.failed)
            kern_generate_pass_settle(run, &loop.calls[i]);
        kern_generate_call_free(&loop.calls[i]);
    }
    free(loop.calls);
    free(loop.ready);
    free(loop.living);
}
