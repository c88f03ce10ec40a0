// SPDX-License-Identifier: Apache-2.0
//
// What programs read: tensors of --input, and made-up values for the rest.
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "launcher/run.h"
#include "rank/domain.h"
#include "rank/safetensors.h"

static bool same_shape(const struct kern_tensor *tensor, const struct kern_buffer *buffer,
                       const uint64_t *shape)
{
    return tensor->rank == buffer->rank && tensor->dtype_known && tensor->dtype == buffer->dtype &&
           memcmp(tensor->shape, shape, buffer->rank * sizeof *shape) == 0;
}

// Text of a shape, "[8, 64]".
static const char *shape_text(struct kern_arena *arena, const uint64_t *shape, size_t rank)
{
    const char *text = "[";
    for (size_t i = 0; i < rank; i++)
        text =
            kern_arena_print(arena, "%s%s%llu", text, i ? ", " : "", (unsigned long long)shape[i]);
    return kern_arena_print(arena, "%s]", text);
}

static bool refuse_tensor(struct kern_run *run, const struct kern_safetensors *set,
                          const struct kern_tensor *tensor, const struct kern_buffer *buffer,
                          const uint64_t *shape)
{
    struct kern_arena arena = {0};
    kern_fail(&run->diag, KERN_EXIT_ARTIFACT, kern_safetensors_path(set, tensor),
              "tensor \"%s\" is %s %s; the buffer is %s %s at the vars of this run", tensor->name,
              tensor->dtype_text, shape_text(&arena, tensor->shape, tensor->rank),
              kern_dtype_name(buffer->dtype), shape_text(&arena, shape, buffer->rank));
    kern_arena_free(&arena);
    return false;
}

// The bytes of input [index]: the tensor of its name, or made up from its domain.
static bool make_input(struct kern_run *run, const struct kern_safetensors *set, uint32_t index,
                       const uint64_t *vars, void *bytes, size_t length)
{
    const struct kern_buffer *buffer = &run->manifest->buffers[index];
    const struct kern_tensor *tensor = set ? kern_safetensors_find(set, buffer->name) : NULL;
    if (tensor) {
        uint64_t *shape = kern_calloc(buffer->rank, sizeof *shape);
        kern_run_shape(buffer, vars, shape);
        bool good = same_shape(tensor, buffer, shape)
                        ? kern_safetensors_read(set, tensor, 0, bytes, length, &run->diag)
                        : refuse_tensor(run, set, tensor, buffer, shape);
        free(shape);
        return good;
    }
    run->made_up[index] = true;
    uint64_t seed = run->options.seed;
    if (run->options.seed_per_rank)
        seed += 0x9e3779b97f4a7c15ull * ((uint64_t)run->stage.member + 1);
    struct kern_provision provision = kern_rank_provision(run->rank);
    return kern_domain_synthesize(run->manifest, buffer, seed, vars, &provision, bytes, length,
                                  &run->diag);
}

// Makes input [index] and proves by a first write that it fits and lies in its domain.
static bool prepare_input(struct kern_run *run, const struct kern_safetensors *set, uint32_t index,
                          struct kern_driven *driven)
{
    const struct kern_buffer *buffer = &run->manifest->buffers[index];
    uint64_t length;
    if (!kern_shape_bytes(buffer->dtype, buffer->shape, buffer->rank, driven->vars, &length))
        return kern_fail(&run->diag, KERN_EXIT_MANIFEST, buffer->name,
                         "has too many bytes to count");
    struct kern_staged *input = &driven->inputs[driven->n_inputs++];
    *input = (struct kern_staged){index, kern_calloc(length, 1), length};
    return make_input(run, set, index, driven->vars, input->bytes, length) &&
           kern_rank_write(run->rank, index, input->bytes, length, driven->vars, &run->diag);
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
    kern_safetensors_close(set);
    // What the outputs are compared with is needed last, but a missing file should not cost a run.
    if (run->options.check) {
        const char *path = kern_run_path(run, run->options.check, &arena);
        kern_safetensors_close(kern_safetensors_open(&path, 1, &run->diag));
    }
    kern_arena_free(&arena);
}
