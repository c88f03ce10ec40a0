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
    struct kern_sequence **living; // room for a step's
    size_t n_living;
    size_t next;    // the first prompt that waits
    uint64_t calls; // so far
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
    kern_watch_meet(&loop->watch, &run->world, loop->calls, failed);
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

// Appends the new tokens, up to the one that ends the sequence.
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
    if (why == KERN_UNFINISHED && sequence->fed + generation->step_rows > generation->longest)
        why = KERN_FINISH_LENGTH;
    kern_generate_show_new(loop->run, sequence, sequence->n_prompt + first);
    if (why != KERN_UNFINISHED)
        finish(loop, sequence, why);
}

// One call over [count] sequences, which may end by it. True as well if a signal comes before it.
static bool run_call(struct loop *loop, const struct kern_forward *forward,
                     struct kern_sequence *const *sequences, size_t count, uint64_t rows,
                     struct kern_pace *pace)
{
    struct kern_run *run = loop->run;
    struct kern_serving_call call;
    int64_t *tokens = NULL;
    uint64_t *taken = NULL, width, began = kern_now();
    bool captures;
    bool good = kern_generate_call_make(run, forward, sequences, count, rows, &call, &captures);
    // All have captured a graph before any runs it: a rank that cannot says so in the meeting.
    if (good && captures) {
        good = kern_rank_prepare(run->rank, forward->program, call.vars, &run->diag) &&
               meet(loop, false);
        began = kern_now();
    }
    bool runs = good && goes_on(loop);
    good = good && (!runs || kern_generate_call_run(run, &call, &tokens, &taken, &width));
    if (good && runs) {
        loop->calls++;
        pace->nanoseconds += kern_now() - began;
        for (size_t i = 0; i < count; i++) {
            pace->tokens += pace == &loop->generation->chunks ? rows : taken[i];
            append(loop, sequences[i], tokens + i * width, taken[i]);
        }
    }
    free(taken);
    free(tokens);
    free(call.vars);
    if (good && kern_watch_due(&loop->watch, loop->calls))
        good = meet(loop, false);
    return good;
}

// Feeds a prompt in chunks; without a token output all but its last token, which the first step
// feeds.
static bool feed_prompt(struct loop *loop, struct kern_sequence *sequence)
{
    struct kern_generation *generation = loop->generation;
    const struct kern_forward *chunk = generation->chunk;
    if (!chunk)
        return true;
    uint64_t end = sequence->n_prompt - (chunk->tokens == KERN_NONE);
    bool good = true;
    while (good && goes_on(loop) && sequence->lease && sequence->fed < end) {
        uint64_t rows = end - sequence->fed;
        if (rows > generation->chunk_rows)
            rows = generation->chunk_rows;
        good = run_call(loop, chunk, &sequence, 1, rows, &generation->chunks);
    }
    return good;
}

// The rows that a sequence may come to: its last token is never fed, and a step may propose more
// than it is asked for.
static uint64_t rows_of(const struct loop *loop, const struct kern_sequence *sequence)
{
    const struct kern_generation *generation = loop->generation;
    uint64_t rows, most = generation->longest;
    uint64_t after = loop->run->options.generate - 1 + (generation->step_rows - 1);
    return __builtin_add_overflow(sequence->n_prompt, after, &rows) || rows > most ? most : rows;
}

// Takes in prompts while a step has room for them and the states do.
static bool admit(struct loop *loop)
{
    struct kern_run *run = loop->run;
    struct kern_generation *generation = loop->generation;
    bool good = true;
    while (good && goes_on(loop) && loop->n_living < generation->step_sequences &&
           loop->next < generation->count) {
        struct kern_sequence *sequence = &generation->sequences[loop->next];
        enum kern_denial denial;
        uint64_t rows = rows_of(loop, sequence);
        sequence->lease = kern_lease_open(run->rank, rows, &denial, &run->diag);
        if (!sequence->lease && denial == KERN_LEASE_BUSY && loop->n_living > 0)
            return true;
        if (!sequence->lease) {
            kern_lease_explain(run->rank, rows, denial, "--prompt-ids", &run->diag);
            return false;
        }
        loop->next++;
        kern_generate_show_new(run, sequence, 0);
        good = feed_prompt(loop, sequence);
        if (sequence->lease)
            loop->living[loop->n_living++] = sequence;
    }
    return good;
}

// A step of all that live; those that end by it go.
static bool step(struct loop *loop)
{
    struct kern_generation *generation = loop->generation;
    const struct kern_forward *forward =
        kern_serving_forward(&generation->serving, loop->n_living, generation->step_form);
    bool good = run_call(loop, forward, loop->living, loop->n_living, generation->step_rows,
                         &generation->steps);
    size_t kept = 0;
    for (size_t i = 0; i < loop->n_living; i++)
        if (loop->living[i]->lease)
            loop->living[kept++] = loop->living[i];
    loop->n_living = kept;
    return good;
}

void kern_generate(struct kern_run *run)
{
    struct kern_generation *generation = run->generation;
    struct loop loop = {.run = run, .generation = generation};
    kern_watch_begin(&loop.watch, 0);
    loop.living = kern_calloc(generation->step_sequences, sizeof *loop.living);
    bool good = admit(&loop);
    while (good && goes_on(&loop) && loop.n_living > 0)
        good = step(&loop) && admit(&loop);
    if (!loop.watch.failed) {
        if (!good)
            kern_world_raise_alarm(&run->world);
        meet(&loop, !good);
    }
    for (size_t i = 0; i < loop.n_living; i++)
        finish(&loop, loop.living[i], KERN_UNFINISHED);
    run->stopped = loop.watch.signal;
    free(loop.living);
}
