// SPDX-License-Identifier: Apache-2.0
//
// Random manifests, cut at random points and run by a small interpreter: the stages one after the
// other compute what the whole computes. Workspaces hold something else in every run and results
// are compared word by word, so a stage that reads what did not arrive is seen. The points that
// are balanced are compared with the best of all possible ones.
#include "manifest/cut.h"
#include "manifest/flow.h"
#include "tests/text.h"

#define WORDS 8   // of a buffer
#define REGIONS 3 // of a state, 4 * WORDS bytes apart
#define MANIFESTS 150
#define STEPS 3

static uint64_t random_state;

static uint32_t draw(uint32_t below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % below;
}

// The generator. Everything that it names in a call is declared.

struct drawn_buffer {
    const char *name;
    const char *kind;
    uint32_t weight; // words of a weight, 0: no weight
    bool named;
    bool written; // in the program that is being written
};

enum { IN0, IN1, W0, W1, W2, W3, SRC, MADE, SET, KEPT, IO, X0, X1, X2, X3, X4, T, Y, BUFFERS };

struct drawn {
    struct drawn_buffer buffers[BUFFERS];
    bool states[2], ops[6];
    char *text;
    size_t length;
    FILE *file;
};

static const char *const op_names[] = {"make", "mix", "add", "read", "keep", "fill"};
static const char *const op_params[] = {
    "'in buffer<i32>', 'out buffer<i32>', 'i32'",
    "'in buffer<i32>', 'in buffer<i32>', 'out buffer<i32>', 'i32'",
    "'in buffer<i32>', 'inout buffer<i32>', 'i32'",
    "'in state', 'out buffer<i32>', 'i32'",
    "'in buffer<i32>', 'inout state', 'i32'",
    "'out state', 'i32'",
};
enum { MAKE, MIX, ADD, READ, KEEP, FILL };

static void put_buffer(struct drawn *drawn, uint32_t buffer, uint32_t offset)
{
    drawn->buffers[buffer].named = true;
    fprintf(drawn->file, "{'buf': '%s'", drawn->buffers[buffer].name);
    fprintf(drawn->file, offset ? ", 'offset': %u}, " : "}, ", offset);
}

static void put_state(struct drawn *drawn, uint32_t state, uint32_t region)
{
    drawn->states[state] = true;
    fprintf(drawn->file, "{'state': 's%u', 'offset': %u}, ", state, region * 4 * WORDS);
}

static void put_call(struct drawn *drawn, uint32_t op, bool *comma)
{
    drawn->ops[op] = true;
    fprintf(drawn->file, "%s{'op': '%s', 'args': [", *comma ? ", " : "", op_names[op]);
    *comma = true;
}

static void end_call(struct drawn *drawn)
{
    fprintf(drawn->file, "{'i32': %u}]}", draw(1000));
}

// A buffer from [from] to [to] that holds something.
static uint32_t draw_filled(const struct drawn *drawn, uint32_t from, uint32_t to)
{
    for (;;) {
        uint32_t buffer = from + draw(to - from + 1);
        const char *kind = drawn->buffers[buffer].kind;
        // Where a carry is read that is written at the end there can be no cut.
        if (buffer == SRC || (buffer == KEPT && draw(10) > 0))
            continue;
        if (drawn->buffers[buffer].written ||
            (strcmp(kind, "workspace") != 0 && strcmp(kind, "output") != 0))
            return buffer;
    }
}

// A call that writes [target]: all of it, or a part of what was written, or over it.
static void put_write(struct drawn *drawn, uint32_t from, uint32_t target, bool *comma)
{
    bool written = drawn->buffers[target].written;
    uint32_t op = written ? draw(3) : draw(2);
    put_call(drawn, op, comma);
    put_buffer(drawn, draw_filled(drawn, from, X4), 4 * draw(2));
    if (op == MIX)
        put_buffer(drawn, draw_filled(drawn, from, X4), 0);
    put_buffer(drawn, target, written && draw(3) == 0 ? 4 * (1 + draw(WORDS - 1)) : 0);
    end_call(drawn);
    drawn->buffers[target].written = true;
}

static void begin_program(struct drawn *drawn, const char *name, const char *kind)
{
    for (uint32_t i = 0; i < BUFFERS; i++)
        drawn->buffers[i].written = false;
    fprintf(drawn->file, "'%s': {%s, 'calls': [", name, kind);
}

// Regions are mostly touched from near one place, so that there are points to cut at.
static void put_driven(struct drawn *drawn, const char *name, uint32_t n_calls)
{
    bool comma = false;
    begin_program(drawn, name, "'batch': {'groups': 1, 'rows': 'n'}");
    for (uint32_t i = 0; i < n_calls; i++) {
        uint32_t place = i * 2 * REGIONS / n_calls;
        uint32_t what = draw(8);
        if (what == 0) {
            uint32_t target = X0 + draw(5);
            put_call(drawn, READ, &comma);
            put_state(drawn, place % 2, place / 2);
            put_buffer(drawn, target, 0);
            end_call(drawn);
            drawn->buffers[target].written = true;
        } else if (what == 1) {
            put_call(drawn, KEEP, &comma);
            put_buffer(drawn, draw_filled(drawn, IN0, X4), 0);
            put_state(drawn, place % 2, place / 2);
            end_call(drawn);
        } else {
            put_write(drawn, IN0, draw(12) == 0 ? IO : X0 + draw(5), &comma);
        }
    }
    if (draw(2) || drawn->buffers[KEPT].named) {
        put_call(drawn, ADD, &comma);
        put_buffer(drawn, draw_filled(drawn, IN0, X4), 0);
        put_buffer(drawn, KEPT, 0);
        end_call(drawn);
    }
    put_write(drawn, drawn->buffers[KEPT].named ? KEPT : IO, Y, &comma);
    fputs("]}, ", drawn->file);
}

static void put_prepare(struct drawn *drawn)
{
    bool comma = false;
    begin_program(drawn, "prepare", "'derive': true");
    // From the source only, so that what a stage's preparation reads weighs nothing, and by way of
    // a workspace of its own: one that crosses a cut is none any more.
    put_call(drawn, MAKE, &comma);
    put_buffer(drawn, SRC, 0);
    put_buffer(drawn, T, 0);
    end_call(drawn);
    put_call(drawn, MIX, &comma);
    put_buffer(drawn, T, 0);
    put_buffer(drawn, SRC, 4);
    put_buffer(drawn, MADE, 0);
    end_call(drawn);
    fputs("]}, ", drawn->file);
}

static void put_setup(struct drawn *drawn)
{
    bool comma = false;
    begin_program(drawn, "setup", "'once': true");
    for (uint32_t i = 0; i < 6; i++) {
        put_call(drawn, FILL, &comma);
        put_state(drawn, draw(2), draw(REGIONS));
        end_call(drawn);
        put_call(drawn, READ, &comma);
        put_state(drawn, draw(2), draw(REGIONS));
        put_buffer(drawn, i ? SET : X1, 0);
        end_call(drawn);
        put_call(drawn, ADD, &comma);
        put_buffer(drawn, X1, 0);
        put_buffer(drawn, SET, 0);
        end_call(drawn);
    }
    fputs("]}", drawn->file);
}

static void put_declarations(struct drawn *drawn, const char *programs)
{
    FILE *file = drawn->file;
    const char *comma = "";
    fputs("{'schema_version': 7, 'model': 'm', 'vars': {'n': {'max': 2, 'axis': 'rows'}, 'g': "
          "{'max': 2, 'axis': 'groups'}}, 'states': {",
          file);
    for (uint32_t i = 0; i < 2; i++)
        if (drawn->states[i]) {
            fprintf(file, "%s's%u': {'bytes': %u}", comma, i, REGIONS * 4 * WORDS);
            comma = ", ";
        }
    fputs("}, 'buffers': {", file);
    comma = "";
    for (uint32_t i = 0; i < BUFFERS; i++) {
        const struct drawn_buffer *buffer = &drawn->buffers[i];
        if (!buffer->named)
            continue;
        fprintf(file, "%s'%s': {'dtype': 'i32', 'shape': [%u], 'kind': '%s'", comma, buffer->name,
                buffer->weight ? buffer->weight : WORDS, buffer->kind);
        if (i >= W0 && i <= SRC)
            fprintf(file, ", 'bind': [{'tensor': '%s'}]", buffer->name);
        fputs("}", file);
        comma = ", ";
    }
    fputs("}, 'modules': {'k': {'source': 'k', 'sha256': "
          "'00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff'}}, 'ops': {",
          file);
    comma = "";
    for (uint32_t i = 0; i < 6; i++)
        if (drawn->ops[i]) {
            fprintf(file,
                    "%s'%s': {'params': [%s], 'impl': {'launches': [{'module': 'k', 'entry': 'e', "
                    "'block': [1, 1, 1], 'grid': ['n', 'g', 1]}]}}",
                    comma, op_names[i], op_params[i]);
            comma = ", ";
        }
    fprintf(file, "}, 'programs': {%s}}", programs);
}

static struct kern_manifest *draw_manifest(void)
{
    static const struct drawn_buffer buffers[BUFFERS] = {
        [IN0] = {.name = "in0", .kind = "input"},   [IN1] = {.name = "in1", .kind = "input"},
        [W0] = {.name = "w0", .kind = "weight"},    [W1] = {.name = "w1", .kind = "weight"},
        [W2] = {.name = "w2", .kind = "weight"},    [W3] = {.name = "w3", .kind = "weight"},
        [SRC] = {.name = "src", .kind = "source"},  [MADE] = {.name = "made", .kind = "carry"},
        [SET] = {.name = "set", .kind = "carry"},   [KEPT] = {.name = "kept", .kind = "carry"},
        [IO] = {.name = "io", .kind = "inout"},     [X0] = {.name = "x0", .kind = "workspace"},
        [X1] = {.name = "x1", .kind = "workspace"}, [X2] = {.name = "x2", .kind = "workspace"},
        [X3] = {.name = "x3", .kind = "workspace"}, [X4] = {.name = "x4", .kind = "workspace"},
        [T] = {.name = "t", .kind = "workspace"},   [Y] = {.name = "y", .kind = "output"},
    };
    struct drawn drawn = {0};
    memcpy(drawn.buffers, buffers, sizeof buffers);
    for (uint32_t i = W0; i <= W3; i++)
        drawn.buffers[i].weight = WORDS + draw(40);
    drawn.file = open_memstream(&drawn.text, &drawn.length);
    uint32_t n_calls = 6 + draw(8);
    put_driven(&drawn, "decode", n_calls);
    if (draw(2))
        put_driven(&drawn, "prefill", n_calls + draw(3));
    put_prepare(&drawn);
    put_setup(&drawn);
    fclose(drawn.file);
    char *programs = drawn.text;
    drawn.file = open_memstream(&drawn.text, &drawn.length);
    put_declarations(&drawn, programs);
    fclose(drawn.file);
    free(programs);
    text_swap(drawn.text, '\'', '"');
    struct kern_diag diag = {0};
    struct kern_manifest *manifest =
        kern_manifest_parse(drawn.text, strlen(drawn.text), "drawn", &diag);
    if (!manifest || !kern_manifest_verify(manifest, &diag)) {
        kern_diag_print(&diag, stderr, 20);
        fail_msg("%s", drawn.text);
    }
    kern_diag_clear(&diag);
    free(drawn.text);
    return manifest;
}

// The interpreter. A call makes of everything that it reads a number, and of that what it writes.

struct machine {
    const struct kern_manifest *manifest;
    uint32_t (*buffers)[WORDS];
    uint32_t (*states)[REGIONS][WORDS];
    bool *written; // buffers, in the last run of a program
};

static uint32_t mix(uint32_t a, uint32_t b)
{
    uint32_t c = (a ^ b) * 2654435761u + 0x9e3779b9u;
    return c ^ c >> 15;
}

// A value that depends on the name and [salt], not on where the name stands in a manifest.
static uint32_t value_of(const char *name, uint32_t salt, uint32_t word)
{
    uint32_t value = mix(salt, word);
    for (; *name; name++)
        value = mix(value, (unsigned char)*name);
    return value;
}

static void fill(struct machine *machine, uint32_t buffer, uint32_t salt)
{
    for (uint32_t i = 0; i < WORDS; i++)
        machine->buffers[buffer][i] = value_of(machine->manifest->buffers[buffer].name, salt, i);
}

static uint32_t *region_of(const struct machine *machine, const struct kern_access *access)
{
    return machine->states[access->index][access->offset / sizeof(uint32_t[WORDS])];
}

static void run_call(struct machine *machine, const struct kern_call *call)
{
    uint32_t number = value_of(call->op.name, 0, 0);
    for (size_t i = 0; i < call->n_args; i++) {
        struct kern_access access = kern_call_access(machine->manifest, call, i);
        if (call->args[i].kind == KERN_VALUE_I32)
            number = mix(number, (uint32_t)call->args[i].integer);
        if (access.target == KERN_TARGET_NONE || !access.reads)
            continue;
        bool is_buffer = access.target == KERN_TARGET_BUFFER;
        const uint32_t *words =
            is_buffer ? machine->buffers[access.index] : region_of(machine, &access);
        for (size_t j = is_buffer ? access.offset / 4 : 0; j < WORDS; j++)
            number = mix(number, words[j]);
    }
    for (size_t i = 0; i < call->n_args; i++) {
        struct kern_access access = kern_call_access(machine->manifest, call, i);
        if (access.target == KERN_TARGET_NONE || !access.writes)
            continue;
        bool is_buffer = access.target == KERN_TARGET_BUFFER;
        uint32_t *words = is_buffer ? machine->buffers[access.index] : region_of(machine, &access);
        for (size_t j = is_buffer ? access.offset / 4 : 0; j < WORDS; j++)
            words[j] = mix(number, (uint32_t)(16 * i + j));
        if (is_buffer)
            machine->written[access.index] = true;
    }
}

static void run_program(struct machine *machine, const struct kern_program *program)
{
    memset(machine->written, 0, machine->manifest->n_buffers * sizeof *machine->written);
    for (size_t i = 0; i < program->n_calls; i++)
        run_call(machine, &program->calls[i]);
}

// What nobody may rely on.
static void spoil(struct machine *machine)
{
    for (uint32_t i = 0; i < machine->manifest->n_buffers; i++) {
        enum kern_buffer_kind kind = machine->manifest->buffers[i].kind;
        if (kind == KERN_WORKSPACE || kind == KERN_OUTPUT)
            fill(machine, i, draw(UINT32_MAX));
    }
}

static struct machine start(const struct kern_manifest *manifest)
{
    struct machine machine = {
        .manifest = manifest,
        .buffers = calloc(manifest->n_buffers, sizeof *machine.buffers),
        .states = calloc(manifest->n_states + 1, sizeof *machine.states),
        .written = calloc(manifest->n_buffers, sizeof *machine.written),
    };
    for (uint32_t i = 0; i < manifest->n_buffers; i++)
        if (manifest->buffers[i].kind == KERN_WEIGHT || manifest->buffers[i].kind == KERN_SOURCE)
            fill(&machine, i, 1);
    for (int once = 0; once < 2; once++)
        for (uint32_t i = 0; i < manifest->n_programs; i++) {
            const struct kern_program *program = &manifest->programs[i];
            spoil(&machine);
            if (once ? program->once : program->derive)
                run_program(&machine, program);
        }
    return machine;
}

static void stop(struct machine *machine)
{
    free(machine->buffers);
    free(machine->states);
    free(machine->written);
}

static uint32_t *words_of(const struct machine *machine, const char *name)
{
    uint32_t index = kern_names_find(&machine->manifest->buffer_names, name);
    assert_true(index != KERN_NONE);
    return machine->buffers[index];
}

// One run of the program [name] with inputs that depend on [step]. What arrives is taken over from
// the machine [before], which ran the previous stage.
static void step(struct machine *machine, const struct machine *before, const char *name,
                 uint32_t number)
{
    const struct kern_manifest *manifest = machine->manifest;
    spoil(machine);
    for (uint32_t i = 0; i < manifest->n_buffers; i++) {
        const struct kern_buffer *buffer = &manifest->buffers[i];
        if (before && kern_manifest_arrives(manifest, buffer))
            memcpy(machine->buffers[i], words_of(before, buffer->name), sizeof *machine->buffers);
        else if (buffer->kind == KERN_INPUT || buffer->kind == KERN_INOUT)
            fill(machine, i, 100 + number);
    }
    run_program(machine, &manifest->programs[kern_names_find(&manifest->program_names, name)]);
}

// What the stages left of each thing is what the whole left: results on the last stage that wrote
// them, states where a driven program touches them.
static void compare_results(const struct machine *whole, const struct machine *stages, size_t count)
{
    const struct kern_manifest *manifest = whole->manifest;
    for (uint32_t i = 0; i < manifest->n_buffers; i++) {
        const struct kern_buffer *buffer = &manifest->buffers[i];
        bool is_result =
            buffer->kind == KERN_OUTPUT || buffer->kind == KERN_CARRY || buffer->kind == KERN_INOUT;
        for (size_t j = count; is_result && whole->written[i] && j-- > 0;) {
            uint32_t there = kern_names_find(&stages[j].manifest->buffer_names, buffer->name);
            if (there == KERN_NONE || !stages[j].written[there])
                continue;
            assert_memory_equal(stages[j].buffers[there], whole->buffers[i],
                                sizeof *whole->buffers);
            is_result = false;
        }
        assert_false(is_result && whole->written[i]);
    }
    for (size_t j = 0; j < count; j++) {
        const struct kern_manifest *stage = stages[j].manifest;
        for (uint32_t p = 0; p < stage->n_programs; p++) {
            const struct kern_program *program = &stage->programs[p];
            for (size_t c = 0; program->batch && c < program->n_calls; c++)
                for (size_t a = 0; a < program->calls[c].n_args; a++) {
                    struct kern_access access = kern_call_access(stage, &program->calls[c], a);
                    if (access.target != KERN_TARGET_STATE)
                        continue;
                    uint32_t there =
                        kern_names_find(&manifest->state_names, stage->states[access.index].name);
                    size_t region = access.offset / sizeof(uint32_t[WORDS]);
                    assert_memory_equal(stages[j].states[access.index][region],
                                        whole->states[there][region], sizeof **whole->states);
                }
        }
    }
}

static void compare_runs(const struct kern_manifest *manifest, struct kern_manifest **stages,
                         size_t count)
{
    struct machine whole = start(manifest);
    struct machine *parts = calloc(count, sizeof *parts);
    for (size_t i = 0; i < count; i++)
        parts[i] = start(stages[i]);
    bool has_prefill = kern_names_find(&manifest->program_names, "prefill") != KERN_NONE;
    for (uint32_t i = 0; i < STEPS; i++) {
        const char *name = has_prefill && draw(2) ? "prefill" : "decode";
        step(&whole, NULL, name, i);
        for (size_t j = 0; j < count; j++)
            step(&parts[j], j ? &parts[j - 1] : NULL, name, i);
        compare_results(&whole, parts, count);
    }
    for (size_t i = 0; i < count; i++)
        stop(&parts[i]);
    stop(&whole);
    free(parts);
}

// The stages of a cut, or NULL if the contract refuses it, for which V-CUT must be the reason.
static struct kern_manifest **try_cut(const struct kern_manifest *manifest, const uint64_t *points,
                                      size_t count)
{
    struct kern_diag diag = {0};
    struct kern_manifest **stages = kern_manifest_cut(manifest, points, count, &diag);
    assert_int_equal(stages == NULL, diag.count > 0);
    for (size_t i = 0; i < diag.count; i++)
        if (strcmp(diag.entries[i].rule, "V-CUT") != 0) {
            kern_diag_print(&diag, stderr, 20);
            fail_msg("a stage that was allowed does not verify");
        }
    kern_diag_clear(&diag);
    return stages;
}

static uint64_t worst_of(struct kern_manifest **stages, size_t count)
{
    uint64_t worst = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t bytes;
        assert_true(kern_manifest_weight_bytes(stages[i], &bytes));
        worst = bytes > worst ? bytes : worst;
    }
    return worst;
}

static uint64_t calls_of(const struct kern_manifest *manifest)
{
    uint64_t calls = UINT64_MAX;
    for (uint32_t i = 0; i < manifest->n_programs; i++)
        if (manifest->programs[i].batch && manifest->programs[i].n_calls < calls)
            calls = manifest->programs[i].n_calls;
    return calls;
}

// Every cut into [n_points] + 1 stages, from point [at] on; the best of those that are allowed.
static uint64_t try_all(const struct kern_manifest *manifest, uint64_t *points, size_t at,
                        size_t n_points, size_t *compared)
{
    uint64_t best = UINT64_MAX;
    if (at == n_points) {
        struct kern_manifest **stages = try_cut(manifest, points, n_points);
        if (!stages)
            return UINT64_MAX;
        compare_runs(manifest, stages, n_points + 1);
        ++*compared;
        best = worst_of(stages, n_points + 1);
        kern_manifest_stages_destroy(stages, n_points + 1);
        return best;
    }
    for (uint64_t i = at ? points[at - 1] + 1 : 1; i < calls_of(manifest); i++) {
        points[at] = i;
        uint64_t one = try_all(manifest, points, at + 1, n_points, compared);
        best = one < best ? one : best;
    }
    return best;
}

static void stages_compute_what_the_whole_computes(void **state)
{
    (void)state;
    size_t compared[3] = {0};
    for (size_t i = 0; i < MANIFESTS; i++) {
        random_state = i;
        struct kern_manifest *manifest = draw_manifest();
        size_t n_points = 1 + i % 3;
        uint64_t points[3], balanced[3];
        struct kern_diag diag = {0};
        uint64_t best = try_all(manifest, points, 0, n_points, &compared[n_points - 1]);
        bool found = kern_manifest_balance(manifest, n_points + 1, balanced, &diag);
        assert_int_equal(found, best != UINT64_MAX);
        if (found) {
            struct kern_manifest **stages = try_cut(manifest, balanced, n_points);
            assert_non_null(stages);
            assert_int_equal(worst_of(stages, n_points + 1), best);
            kern_manifest_stages_destroy(stages, n_points + 1);
        }
        kern_diag_clear(&diag);
        kern_manifest_destroy(manifest);
    }
    // The generator must not have become such that nothing is compared.
    print_message("%zu cuts in two, %zu in three, %zu in four\n", compared[0], compared[1],
                  compared[2]);
    assert_true(compared[0] > 100 && compared[1] > 100 && compared[2] > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_compute_what_the_whole_computes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
