// SPDX-License-Identifier: Apache-2.0
//
// What programs read: tensors of --input, and made-up values for the rest.
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "launcher/run.h"
#include "rank/domain.h"
#include "rank/safetensors.h"

// Text of a shape, "[8, 64]".
static const char *shape_text(struct kern_arena *arena, const uint64_t *shape, size_t rank)
{
    const char *text = "[";
    for (size_t i = 0; i < rank; i++)
        text =
            kern_arena_print(arena, "%s%s%llu", text, i ? ", " : "", (unsigned long long)shape[i]);
    return kern_arena_print(arena, "%s]", text);
}

bool kern_run_tensor_fits(struct kern_run *run, const struct kern_safetensors *set,
                          const struct kern_tensor *tensor, const struct kern_buffer *buffer,
                          const uint64_t *shape, const char *where)
{
    if (tensor->rank == buffer->rank && tensor->dtype_known && tensor->dtype == buffer->dtype &&
        memcmp(tensor->shape, shape, buffer->rank * sizeof *shape) == 0)
        return true;
    struct kern_arena arena = {0};
    kern_fail(&run->diag, KERN_EXIT_ARTIFACT, kern_safetensors_path(set, tensor),
              "tensor \"%s\" is %s %s; the buffer is %s %s %s", tensor->name, tensor->dtype_text,
              shape_text(&arena, tensor->shape, tensor->rank), kern_dtype_name(buffer->dtype),
              shape_text(&arena, shape, buffer->rank), where);
    kern_arena_free(&arena);
    return false;
}

// Reads the tensor for input [index], which takes [input->length] bytes at [vars], and writes it:
// that proves that it fits and lies in its domain.
static bool read_input(struct kern_run *run, const struct kern_safetensors *set,
                       const struct kern_tensor *tensor, const struct kern_staged *input,
                       const uint64_t *vars, const char *where)
{
    const struct kern_buffer *buffer = &run->manifest->buffers[input->buffer];
    uint64_t *shape = kern_calloc(buffer->rank, sizeof *shape);
    kern_run_shape(buffer, vars, shape);
    bool good =
        kern_run_tensor_fits(run, set, tensor, buffer, shape, where) &&
        kern_safetensors_read(set, tensor, 0, input->bytes, input->length, &run->diag) &&
        kern_rank_write(run->rank, input->buffer, input->bytes, input->length, vars, &run->diag);
    free(shape);
    return good;
}

// Makes up input [index] from its domain. It is written before the first step and not now, for once
// programs find zeros in what no file gave.
static bool make_up_input(struct kern_run *run, const struct kern_staged *input,
                          const uint64_t *vars)
{
    run->made_up[input->buffer] = true;
    uint64_t seed = run->options.seed;
    if (run->options.seed_per_rank)
        seed += 0x9e3779b97f4a7c15ull * ((uint64_t)run->stage.member + 1);
    struct kern_provision provision = kern_rank_provision(run->rank);
    return kern_domain_synthesize(run->manifest, &run->manifest->buffers[input->buffer], seed, vars,
                                  &provision, input->bytes, input->length, &run->diag);
}

// Room for input [index] at [vars].
static bool make_room(struct kern_run *run, uint32_t index, const uint64_t *vars,
                      struct kern_staged *input)
{
    const struct kern_buffer *buffer = &run->manifest->buffers[index];
    uint64_t length;
    if (!kern_shape_bytes(buffer->dtype, buffer->shape, buffer->rank, vars, &length))
        return kern_fail(&run->diag, KERN_EXIT_MANIFEST, buffer->name,
                         "has too many bytes to count");
    *input = (struct kern_staged){index, kern_calloc(length, 1), length};
    return true;
}

static const struct kern_tensor *find_tensor(const struct kern_run *run,
                                             const struct kern_safetensors *set, uint32_t index)
{
    return set ? kern_safetensors_find(set, run->manifest->buffers[index].name) : NULL;
}

static bool prepare_input(struct kern_run *run, const struct kern_safetensors *set, uint32_t index,
                          struct kern_driven *driven)
{
    struct kern_staged *input = &driven->inputs[driven->n_inputs];
    if (!make_room(run, index, driven->vars, input))
        return false;
    driven->n_inputs++;
    const struct kern_tensor *tensor = find_tensor(run, set, index);
    return tensor ? read_input(run, set, tensor, input, driven->vars, "at the vars of this run")
                  : make_up_input(run, input, driven->vars);
}

// Whether some stage has an input [name] that its host writes.
static bool is_input(const struct kern_run *run, const char *name)
{
    for (size_t i = 0; i < run->n_stages; i++) {
        const struct kern_manifest *stage = run->stages[i];
        uint32_t index = kern_names_find(&stage->buffer_names, name);
        if (index != KERN_NONE && kern_run_is_input(run, stage, &stage->buffers[index]))
            return true;
    }
    return false;
}

// A name in the file that is no input is a slip of the pen, not a wish to be ignored.
static bool check_tensor_names(struct kern_run *run, const struct kern_safetensors *set)
{
    bool good = true;
    for (size_t i = 0; i < kern_safetensors_count(set); i++) {
        const struct kern_tensor *tensor = kern_safetensors_at(set, i);
        if (!is_input(run, tensor->name))
            good = kern_fail(&run->diag, KERN_EXIT_ARTIFACT, kern_safetensors_path(set, tensor),
                             "the manifest has no input or inout buffer \"%s\"", tensor->name);
    }
    return good;
}

static bool prepare_program(struct kern_run *run, const struct kern_safetensors *set,
                            struct kern_driven *driven)
{
    bool good = true;
    driven->inputs = kern_calloc(run->manifest->n_buffers, sizeof *driven->inputs);
    for (uint32_t b = 0; b < run->manifest->n_buffers; b++) {
        if (driven->facts.touches_buffer[b] &&
            kern_run_is_input(run, run->manifest, &run->manifest->buffers[b]))
            good = prepare_input(run, set, b, driven) && good;
    }
    return good;
}

static bool is_driven(const struct kern_run *run, uint32_t buffer)
{
    for (size_t i = 0; i < run->n_driven; i++)
        if (run->driven[i].facts.touches_buffer[buffer])
            return true;
    return false;
}

// What the file gives of the inputs that only once program [program] reads.
static bool prepare_once(struct kern_run *run, const struct kern_safetensors *set, uint32_t program,
                         const uint64_t *ones)
{
    struct kern_program_facts facts;
    if (!kern_rank_program_facts(run->rank, program, ones, &facts, &run->diag))
        return false;
    bool good = true;
    for (uint32_t b = 0; b < run->manifest->n_buffers; b++) {
        if (!facts.touches_buffer[b] || is_driven(run, b))
            continue;
        const struct kern_tensor *tensor = find_tensor(run, set, b);
        struct kern_staged input = {0};
        if (!tensor)
            continue;
        good = make_room(run, b, ones, &input) &&
               read_input(run, set, tensor, &input, ones, "in a once program: every var is 1") &&
               good;
        free(input.bytes);
    }
    return good;
}

void kern_run_inputs(struct kern_run *run)
{
    struct kern_arena arena = {0};
    struct kern_safetensors *set = NULL;
    bool good = true;
    run->made_up = kern_calloc(run->manifest->n_buffers, sizeof *run->made_up);
    if (run->options.input) {
        const char *path = kern_run_path(run, run->options.input, &arena);
        set = kern_safetensors_open(&path, 1, &run->diag);
        good = set && check_tensor_names(run, set);
    }
    for (size_t i = 0; good && i < run->n_driven; i++)
        good = prepare_program(run, set, &run->driven[i]);
    uint64_t *ones = kern_run_ones(run);
    for (uint32_t p = 0; good && p < run->manifest->n_programs; p++)
        if (run->manifest->programs[p].once)
            good = prepare_once(run, set, p, ones);
    free(ones);
    kern_safetensors_close(set);
    // What the outputs are compared with is needed last, but a missing file should not cost a run.
    if (run->options.check) {
        const char *path = kern_run_path(run, run->options.check, &arena);
        kern_safetensors_close(kern_safetensors_open(&path, 1, &run->diag));
    }
    kern_arena_free(&arena);
}
