// SPDX-License-Identifier: Apache-2.0
//
// Generation: what follows a prompt, token by token, through whatever of a manifest's programs the
// serving projection (manifest/serving.h) names. All ranks drive the same calls over the same
// sequences; each takes the tokens from its own outputs, and now and then they compare.
//
// In a pipeline all stages drive the same calls too, each with its own part of the inputs and its
// own states; the last one sends the tokens to the others. There are as many calls in flight as
// stages, without one there is one.
//
// The sequences of one call lie in one batch. As many live at once as the largest step takes, times
// the calls in flight, and as the states have room for; the others wait until one ends.
#ifndef KERN_LAUNCHER_GENERATE_H
#define KERN_LAUNCHER_GENERATE_H

#include "launcher/run.h"
#include "manifest/serving.h"
#include "rank/leases.h"

enum kern_finish {
    KERN_UNFINISHED,    // the run was stopped before
    KERN_FINISH_COUNT,  // as many tokens as were asked for
    KERN_FINISH_STOP,   // the last of them is a --stop-id
    KERN_FINISH_LENGTH, // no room for more in a sequence
};

// A prompt and what follows it. The first [fed] of its tokens, prompt and ids end to end, have
// their rows in the states, or will have by the calls in flight. If that is all of them, the next
// one comes from a call in flight.
struct kern_sequence {
    const int64_t *prompt;
    size_t n_prompt;
    int64_t *ids;
    size_t n_ids, ids_capacity;
    uint64_t fed;
    bool proposing;           // a call in flight will say how many rows it fed
    struct kern_lease *lease; // NULL: it waits, or it has ended
    uint64_t rows;            // that the lease is for
    enum kern_finish finish;

    const int64_t *expected; // of --check-ids, with the margin of each; NULL: not compared
    const double *margins;
    size_t n_expected;
};

// The piece of text of each token.
struct kern_vocabulary {
    const char **pieces; // NULL: tokens are printed as numbers
    size_t count;
};

// What one kind of call did, by the clock of this rank.
struct kern_pace {
    uint64_t tokens; // chunks: of prompts; steps: that followed
    uint64_t nanoseconds;
};

// What decides how a forward is called, as far as any stage's part of it reads it: the counts of
// rows and of sequences, the length of the context. And whether it runs as a graph.
enum {
    KERN_READS_ROWS = 1,
    KERN_READS_SEQUENCES = 2,
    KERN_READS_CONTEXT = 4,
    KERN_READS_AS_GRAPH = 8,
};

struct kern_generation {
    struct kern_serving serving;     // of our stage
    struct kern_serving last;        // of the last stage, whose forwards hand back the tokens
    struct kern_sequence *sequences; // in the order of their prompts
    size_t count;
    int64_t *stop_ids;
    size_t n_stop_ids;
    struct kern_vocabulary vocabulary; // on rank 0

    // For every forward; of all stages, whose programs with a batch have the same names and so the
    // same order.
    unsigned *reads;

    // Per stage, the tokens of a page of its states; 0: none are paged. And whether any has slots.
    uint64_t *page_tokens;
    bool has_slots;

    uint64_t *vars;                   // those without an axis as the calls have them
    uint64_t members;                 // of the group whose rows the ranks axis counts
    uint64_t longest;                 // rows of a sequence
    const struct kern_forward *chunk; // NULL: prompts go through steps
    uint64_t chunk_rows;              // at most
    uint64_t step_form;               // the rows of steps, as kern_serving_forward takes them
    uint64_t step_rows;               // of a sequence in one
    uint64_t step_sequences;          // at most

    struct kern_pace chunks, steps;
    struct kern_arena arena;
};

// What a graph of a call is for, as far as the program reads it; the rest is 0.
struct kern_call_shape {
    uint64_t rows, sequences, context;
};

// One call of a forward: the next [rows] rows of each of [count] sequences. [padded] is how many
// sequences the program is told of: those behind [count] use the padding lease.
struct kern_serving_call {
    const struct kern_forward *forward; // of our stage
    const struct kern_forward *last;    // the same of the last one
    struct kern_sequence **sequences;   // copied
    size_t count;
    size_t padded;
    uint64_t rows;
    uint64_t *vars;             // dense
    struct kern_driven *driven; // its program's figures
    struct kern_pace *pace;     // which it counts in: a program may make chunks and steps
    uint64_t began;             // base/clock.h, when it was issued

    // New tokens, [width] of each sequence, of which taken[i] count; 0 of one whose prompt goes on.
    // In one piece of memory, the tokens first, as they travel.
    int64_t *tokens;
    int64_t *taken;
    size_t width;
    bool hands_back;    // some count, or may
    MPI_Request *sends; // of the last stage, to the others
    int n_sends;
};

// launcher/generate_prompts.c: the prompts, and what else the command line has for them.
void kern_generate_prompts(struct kern_run *run);

// launcher/generate_plan.c: which programs make chunks and steps, and how much a call takes.
void kern_generate_plan(struct kern_run *run);

// Whether [forward] hands back tokens, on the last stage.
bool kern_generate_hands_back(const struct kern_generation *generation,
                              const struct kern_forward *forward);

// launcher/generate.c: the loop.
void kern_generate(struct kern_run *run);

// launcher/generate_room.c: whether a sequence of [rows] rows finds room in the states of every
// stage beside those that live. Without a pipeline the lease says so, and the answer is true.
bool kern_generate_has_room(const struct kern_run *run, struct kern_sequence *const *living,
                            size_t n_living, uint64_t rows);
// The rows of a sequence that every stage has room for.
uint64_t kern_generate_room(const struct kern_run *run);
// Finds out what stages have.
bool kern_generate_measure_rooms(struct kern_run *run);

// launcher/generate_call.c: a call in three steps. Making it chooses vars and padding; the caller
// frees the call in any case. *[captures] says that it will capture a graph, which the ranks do
// together, before anybody runs it.
bool kern_generate_call_make(struct kern_run *run, const struct kern_forward *forward,
                             struct kern_sequence *const *sequences, size_t count, uint64_t rows,
                             struct kern_serving_call *call, bool *captures);
// Writes the inputs, starts the program and moves the sequences on by the rows that they feed.
bool kern_generate_call_issue(struct kern_run *run, struct kern_serving_call *call);
// Waits for the oldest call in flight, [call], and for its tokens.
bool kern_generate_call_finish(struct kern_run *run, struct kern_serving_call *call);
// Gives up messages that have not left.
void kern_generate_call_free(struct kern_serving_call *call);

// launcher/generate_pass.c: brings the tokens of [call] from the last stage to the others.
bool kern_generate_pass(struct kern_run *run, struct kern_serving_call *call);
// Waits until what it sent for [call] has left.
void kern_generate_pass_settle(struct kern_run *run, struct kern_serving_call *call);

// launcher/generate_fill.c: writes every input that the call's program reads.
bool kern_generate_fill(struct kern_run *run, const struct kern_serving_call *call);

// launcher/generate_text.c: text or numbers as they come, on rank 0's standard output.
bool kern_vocabulary_read(const char *path, struct kern_vocabulary *vocabulary,
                          struct kern_arena *arena, struct kern_diag *diag);
// The tokens of [sequence], its prompt included, from [first] on are new: prints them if it is the
// only one.
void kern_generate_show_new(const struct kern_run *run, const struct kern_sequence *sequence,
                            size_t first);
// It has ended: ends the line, or prints all of it if there are others.
void kern_generate_show_end(const struct kern_run *run, const struct kern_sequence *sequence);

// launcher/generate_check.c: --check-ids. Reads the file's texts; with no --prompt-ids, they are
// the prompts.
bool kern_generate_expect(struct kern_run *run);
void kern_generate_check(struct kern_run *run);

const char *kern_finish_name(enum kern_finish finish);

// The tokens of [text], "1,2,3", in [arena]; false with an error about [option] if it is not that.
bool kern_generate_parse_ids(const char *text, const char *option, const int64_t **ids,
                             size_t *count, struct kern_arena *arena, struct kern_diag *diag);

void kern_generation_free(struct kern_generation *generation);

#endif
