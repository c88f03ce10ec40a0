// SPDX-License-Identifier: Apache-2.0
//
// Which of the manifest's programs make chunks of prompts and which make steps, and how much fits a
// call and a sequence. The stages of a pipeline decide alike: what of that each sees a part of,
// they put together.
#include <inttypes.h>
#include <string.h>

#include "base/memory.h"
#include "launcher/generate.h"
#include "manifest/flow.h"
#include "topo/watchdog.h"

static bool refuse(struct kern_run *run, const char *place, const char *why)
{
    return kern_fail(&run->diag, KERN_EXIT_USAGE, place, "%s", why);
}

// The axes of the tokens that program [name] of [stage] is fed, as bits.
static unsigned fed_by(const struct kern_manifest *stage, const char *name)
{
    const struct kern_program *program =
        &stage->programs[kern_names_find(&stage->program_names, name)];
    unsigned axes = 0;
    for (size_t c = 0; c < program->n_calls; c++)
        for (size_t a = 0; a < program->calls[c].n_args; a++) {
            struct kern_access access = kern_call_access(stage, &program->calls[c], a);
            if (access.target != KERN_TARGET_BUFFER ||
                stage->buffers[access.index].fill != KERN_FILL_TOKEN)
                continue;
            const struct kern_dim *dim = &stage->buffers[access.index].shape[0];
            axes |= 1u << (dim->var.name ? stage->vars[dim->var.index].axis : KERN_AXIS_NONE);
        }
    return axes;
}

// The same of [forward] on all stages.
static unsigned feeds(const struct kern_run *run, const struct kern_forward *forward)
{
    unsigned axes = 0;
    for (size_t i = 0; i < run->n_stages; i++)
        axes |= fed_by(run->stages[i], run->manifest->programs[forward->program].name);
    return axes;
}

static const struct kern_forward *last_of(const struct kern_generation *generation,
                                          const struct kern_forward *forward)
{
    return &generation->last.forwards[forward - generation->serving.forwards];
}

bool kern_generate_hands_back(const struct kern_generation *generation,
                              const struct kern_forward *forward)
{
    return last_of(generation, forward)->tokens != KERN_NONE;
}

// Whether the loop knows what to write into input [buffer].
static bool can_fill(const struct kern_generation *generation, const struct kern_buffer *declared,
                     uint32_t buffer)
{
    const struct kern_serving *serving = &generation->serving;
    bool known = declared->fill != KERN_FILL_NONE;
    for (size_t i = 0; i < serving->n_page_tables; i++)
        known = known || serving->page_tables[i].buffer == buffer;
    for (size_t i = 0; i < serving->n_line_tables; i++)
        known = known || serving->line_tables[i].buffer == buffer;
    return known;
}

// Whether the loop can write whatever our part of the program reads, and some part a token.
static bool check_inputs(struct kern_run *run, const struct kern_forward *forward,
                         const struct kern_program_facts *facts)
{
    const struct kern_manifest *manifest = run->manifest;
    const char *program = manifest->programs[forward->program].name;
    bool good = true;
    for (uint32_t b = 0; b < manifest->n_buffers; b++) {
        const struct kern_buffer *buffer = &manifest->buffers[b];
        if (!facts->touches_buffer[b] || !kern_run_is_input(run, manifest, buffer))
            continue;
        if (buffer->kind == KERN_INOUT || !can_fill(run->generation, buffer, b))
            good = kern_fail(&run->diag, KERN_EXIT_USAGE, program,
                             "reads the %s \"%s\", which has no role and is no table, so "
                             "--generate does not know what to write there",
                             kern_buffer_kind_name(buffer->kind), buffer->name);
    }
    if (!feeds(run, forward))
        good = kern_fail(&run->diag, KERN_EXIT_USAGE, program,
                         "reads no input with the role token, so it can be fed none");
    return good;
}

// What --generate cannot deal out: shares of positions, and blocks that a host would.
static bool check_states(struct kern_run *run)
{
    const struct kern_manifest *manifest = run->manifest;
    const struct kern_serving *serving = &run->generation->serving;
    bool good = true;
    for (uint32_t s = 0; s < manifest->n_states; s++)
        if (manifest->states[s].shard && manifest->states[s].shard->by == KERN_SHARD_BY_POSITION)
            good = refuse(run, manifest->states[s].name,
                          "is sharded by position; --generate keeps whole sequences on each rank");
    for (size_t i = 0; i < serving->n_page_tables; i++)
        if (!manifest->states[serving->page_tables[i].state].bytes_per_token)
            good = refuse(run, manifest->buffers[serving->page_tables[i].buffer].name,
                          "is a table of a state that is not paged, so --generate has no pages of "
                          "it to give");
    return good;
}

// The rows of all members count on the ranks axis. Which group it is the projection cannot say,
// but blocks have an entry for each member, and one group is no choice.
static bool find_members(struct kern_run *run)
{
    struct kern_generation *generation = run->generation;
    const struct kern_manifest *manifest = run->manifest;
    uint32_t blocks = generation->serving.fills[KERN_FILL_BLOCKS];
    generation->members = 1;
    if (generation->serving.axes[KERN_AXIS_RANKS].var == KERN_NONE)
        return true;
    if (blocks != KERN_NONE)
        generation->members = manifest->buffers[blocks].shape[0].extent - 1;
    else if (manifest->n_groups == 1)
        generation->members = manifest->groups[0].size;
    else if (manifest->n_groups > 1)
        return kern_fail(&run->diag, KERN_EXIT_USAGE,
                         manifest->vars[generation->serving.axes[KERN_AXIS_RANKS].var].name,
                         "has the axis ranks, and there are %u groups; an input with the role "
                         "blocks would say how many members count",
                         manifest->n_groups);
    return true;
}

// What --var leaves of an axis.
static uint64_t most_of(const struct kern_generation *generation, enum kern_axis axis)
{
    uint32_t var = generation->serving.axes[axis].var;
    return var == KERN_NONE ? UINT64_MAX : generation->vars[var];
}

// The most rows of one call here.
static uint64_t most_rows(const struct kern_generation *generation)
{
    uint64_t most = most_of(generation, KERN_AXIS_ROWS);
    uint64_t ranks = most_of(generation, KERN_AXIS_RANKS) / generation->members;
    return ranks < most ? ranks : most;
}

// Steps are of one row if there are such programs, else of a var of rows, else of as many as the
// program proposes at once and counts.
static bool choose_steps(struct kern_run *run)
{
    struct kern_generation *generation = run->generation;
    const struct kern_serving *serving = &generation->serving;
    const struct kern_forward *best = NULL;
    for (size_t i = 0; i < serving->n_forwards; i++) {
        const struct kern_forward *forward = &serving->forwards[i];
        const struct kern_forward *last = &generation->last.forwards[i];
        bool steps = last->tokens != KERN_NONE && (last->rows <= 1 || last->count != KERN_NONE);
        bool better = !best || (forward->rows == 1 && best->rows != 1) ||
                      (best->rows != 1 && forward->rows < best->rows);
        if (steps && better)
            best = forward;
    }
    if (!best)
        return refuse(run, "--generate",
                      "no program makes steps: one row of each sequence or a var of them, or "
                      "several and a count of the tokens to take, and an output of tokens");
    generation->step_form = best->rows;
    generation->step_rows = best->rows == KERN_ROWS_VAR ? 1 : best->rows;
    for (size_t i = 0; i < serving->n_forwards; i++)
        if (serving->forwards[i].rows == best->rows &&
            serving->forwards[i].groups > generation->step_sequences)
            generation->step_sequences = serving->forwards[i].groups;
    uint64_t var = most_of(generation, KERN_AXIS_GROUPS);
    uint64_t fit = most_rows(generation) / generation->step_rows;
    if (generation->step_sequences > var)
        generation->step_sequences = var;
    if (generation->step_sequences > fit)
        generation->step_sequences = fit;
    return generation->step_sequences > 0 ||
           refuse(run, "--var", "leaves no room for the rows of one sequence in a step");
}

// Every program that a step or chunk may turn out to need can be driven, and steps produce tokens.
static bool check_forwards(struct kern_run *run)
{
    struct kern_generation *generation = run->generation;
    const struct kern_forward *chunk = kern_serving_forward(&generation->serving, 1, KERN_ROWS_VAR);
    bool good = true;
    for (size_t i = 0; i < generation->serving.n_forwards; i++) {
        const struct kern_forward *forward = &generation->serving.forwards[i];
        struct kern_program_facts facts;
        if (forward->rows != generation->step_form && forward != chunk)
            continue;
        if (!kern_rank_program_facts(run->rank, forward->program, generation->vars, &facts,
                                     &run->diag))
            return false;
        good = check_inputs(run, forward, &facts) && good;
        if (forward->rows == generation->step_form &&
            !kern_generate_hands_back(generation, forward))
            good = refuse(run, run->manifest->programs[forward->program].name,
                          "would make steps, and writes no tokens");
        if (forward == chunk &&
            feeds(run, forward) & (1u << KERN_AXIS_ROWS | 1u << KERN_AXIS_RANKS)) {
            generation->chunk = forward;
            generation->chunk_rows = most_rows(generation);
        }
    }
    if (good && !generation->chunk && generation->step_rows > 1)
        good =
            refuse(run, "--generate",
                   "no program takes a prompt: a var of rows of one sequence, or one row of each");
    return good;
}

// Lowers [most] to what the values of input [buffer] may reach; positions begin at 0.
static bool bound_by(struct kern_run *run, enum kern_fill fill, uint64_t beyond, uint64_t *most)
{
    uint32_t buffer = run->generation->serving.fills[fill];
    struct kern_provision provision = kern_rank_provision(run->rank);
    struct kern_range range;
    if (buffer == KERN_NONE)
        return true;
    if (!kern_domain_range(run->manifest, &run->manifest->buffers[buffer], run->generation->vars,
                           &provision, &range, &run->diag))
        return false;
    if (range.has_hi && range.hi + (double)beyond < (double)*most)
        *most = range.hi < 0 ? 0 : (uint64_t)range.hi + beyond;
    return true;
}

static bool find_longest(struct kern_run *run)
{
    struct kern_generation *generation = run->generation;
    uint64_t most = kern_rank_longest_sequence(run->rank), room = kern_generate_room(run);
    most = room < most ? room : most;
    uint32_t context = generation->serving.context;
    if (context != KERN_NONE && generation->vars[context] < most)
        most = generation->vars[context];
    bool good =
        bound_by(run, KERN_FILL_POSITION, 1, &most) && bound_by(run, KERN_FILL_SEQ_LEN, 0, &most);
    generation->longest = most;
    return good;
}

// The lengths of prompts, and that the model knows their tokens.
static bool check_prompt(struct kern_run *run, size_t number, const struct kern_range *range)
{
    const struct kern_generation *generation = run->generation;
    const struct kern_sequence *sequence = &generation->sequences[number];
    // Its last token is fed with the first step, unless a chunk says what follows it.
    bool chunk = generation->chunk && kern_generate_hands_back(generation, generation->chunk);
    uint64_t rows = sequence->n_prompt + (chunk ? 0 : generation->step_rows - 1);
    if (rows > generation->longest)
        return kern_fail(&run->diag, KERN_EXIT_USAGE, "--prompt-ids",
                         "prompt %zu takes %" PRIu64 " rows; a sequence has %" PRIu64 " at most",
                         number + 1, rows, generation->longest);
    for (size_t i = 0; i < sequence->n_prompt; i++) {
        double id = (double)sequence->prompt[i];
        if ((range->has_lo && id < range->lo) || (range->has_hi && id > range->hi))
            return kern_fail(&run->diag, KERN_EXIT_USAGE, "--prompt-ids",
                             "token %zu of prompt %zu is %" PRId64 "; the model's are %.0f to %.0f",
                             i + 1, number + 1, sequence->prompt[i], range->has_lo ? range->lo : 0,
                             range->hi);
    }
    return true;
}

static bool check_prompts(struct kern_run *run)
{
    const struct kern_generation *generation = run->generation;
    struct kern_provision provision = kern_rank_provision(run->rank);
    bool good = true;
    for (enum kern_axis axis = KERN_AXIS_ROWS; axis <= KERN_AXIS_RANKS && good; axis++) {
        uint32_t token = generation->serving.token[axis];
        struct kern_range range;
        if (token == KERN_NONE)
            continue;
        const struct kern_buffer *buffer = &run->manifest->buffers[token];
        if (!kern_domain_range(run->manifest, buffer, generation->vars, &provision, &range,
                               &run->diag))
            return false;
        if (!range.has_hi && buffer->dtype == KERN_I32) {
            range.has_hi = true;
            range.hi = INT32_MAX;
        }
        for (size_t i = 0; i < generation->count; i++)
            good = check_prompt(run, i, &range) && good;
    }
    return good;
}

// What our part of each forward reads of what decides how it is called.
static bool find_reads(struct kern_run *run)
{
    struct kern_generation *generation = run->generation;
    const struct kern_serving *serving = &generation->serving;
    for (size_t i = 0; i < serving->n_forwards; i++) {
        struct kern_program_facts facts;
        if (!kern_rank_program_facts(run->rank, serving->forwards[i].program, generation->vars,
                                     &facts, &run->diag))
            return false;
        const struct {
            uint32_t var;
            unsigned reads;
        } counts[] = {
            {serving->axes[KERN_AXIS_ROWS].var, KERN_READS_ROWS},
            {serving->axes[KERN_AXIS_RANKS].var, KERN_READS_ROWS},
            {serving->axes[KERN_AXIS_GROUPS].var, KERN_READS_SEQUENCES},
            {serving->context, KERN_READS_CONTEXT},
        };
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            if (counts[c].var != KERN_NONE && facts.reads_var[counts[c].var])
                generation->reads[i] |= counts[c].reads;
        if (facts.graph)
            generation->reads[i] |= KERN_READS_AS_GRAPH;
    }
    return true;
}

// Every stage takes what the one with the least of it can, and what any of them reads.
static void put_together(struct kern_run *run)
{
    struct kern_generation *generation = run->generation;
    uint64_t least[] = {generation->longest, generation->chunk_rows, generation->step_sequences};
    KERN_WITH_OTHERS(&run->world, "agreeing on calls",
                     MPI_Allreduce(MPI_IN_PLACE, least, 3, MPI_UINT64_T, MPI_MIN, run->world.comm));
    generation->longest = least[0];
    generation->chunk_rows = least[1];
    generation->step_sequences = least[2];
    KERN_WITH_OTHERS(&run->world, "agreeing on calls",
                     MPI_Allreduce(MPI_IN_PLACE, generation->reads,
                                   (int)generation->serving.n_forwards, MPI_UNSIGNED, MPI_BOR,
                                   run->world.comm));
}

void kern_generate_plan(struct kern_run *run)
{
    struct kern_generation *generation = run->generation;
    generation->vars = kern_calloc(run->manifest->n_vars, sizeof *generation->vars);
    generation->reads = kern_arena_array(&generation->arena, generation->serving.n_forwards,
                                         sizeof *generation->reads);
    run->driven = kern_calloc(run->manifest->n_programs, sizeof *run->driven);
    bool good = kern_run_vars(run, generation->vars);
    good = check_states(run) && good;
    good = good && kern_generate_measure_rooms(run) && find_members(run) && choose_steps(run) &&
           check_forwards(run) && find_longest(run) && find_reads(run);
    put_together(run);
    if (good)
        check_prompts(run);
}
