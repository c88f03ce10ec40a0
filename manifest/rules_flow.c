// SPDX-License-Identifier: Apache-2.0
//
// V-FLOW: nothing is read before it is written, what the caller and the checkpoint give is not
// written, and what leaves a run is written by somebody. A program is walked call by call and
// argument by argument, so an earlier argument of the same call counts.
#include "manifest/flow.h"
#include "manifest/verify.h"

struct walk {
    // Per buffer the number of the last program, counted from 1, that wrote it; 0: none did.
    uint32_t *writer;
    const struct kern_program *program; // the one walked through
    uint32_t number;                    // of it
    // A call of the program writes nobody knows what, so what is unwritten cannot be told either.
    bool lost;
    bool ever_lost;
};

static void check_access(struct kern_verify *verify, const struct kern_call_at *at, size_t arg)
{
    struct walk *walk = at->data;
    const struct kern_value *value = &at->call->args[arg];
    struct kern_access access = kern_call_access(verify->manifest, at->call, arg);
    const struct kern_buffer *buffer = &verify->manifest->buffers[access.index];
    struct kern_place place = kern_place_numbered(at->place, "arg", arg);
    bool holds = kern_kind_is_filled(buffer->kind) || walk->writer[access.index] == walk->number;
    if (access.writes && !kern_kind_is_writable(buffer->kind))
        kern_place_fail(verify->diag, "V-FLOW", value->order, &place,
                        "\"%s\" is of kind %s, which no program writes", buffer->name,
                        kern_buffer_kind_name(buffer->kind));
    if (access.reads && !holds && !walk->lost) {
        kern_place_fail(verify->diag, "V-FLOW", value->order, &place,
                        "\"%s\" is read before it is written; a buffer of kind %s holds nothing "
                        "when a program starts",
                        buffer->name, kern_buffer_kind_name(buffer->kind));
        walk->writer[access.index] = walk->number; // said once per program
    }
    if (access.writes)
        walk->writer[access.index] = walk->number;
}

static void check_call(struct kern_verify *verify, const struct kern_call_at *at)
{
    struct walk *walk = at->data;
    if (walk->program != at->program) {
        walk->program = at->program;
        walk->number++;
        walk->lost = false;
    }
    for (size_t i = 0; i < at->call->n_args; i++) {
        const struct kern_value *value = &at->call->args[i];
        const struct kern_param *param = at->whole ? &at->op->params[i] : NULL;
        bool judged = param && param->kind == KERN_PARAM_BUFFER;
        if (value->kind != KERN_VALUE_BUFFER)
            continue;
        if (value->ref.index == KERN_NONE)
            walk->lost = walk->lost || !judged || param->direction != KERN_IN;
        else if (judged)
            check_access(verify, at, i);
        else
            walk->writer[value->ref.index] = walk->number; // it may be written here
    }
    walk->ever_lost = walk->ever_lost || walk->lost;
}

static void check_never_written(struct kern_verify *verify, const struct walk *walk)
{
    const struct kern_manifest *manifest = verify->manifest;
    struct kern_place buffers = kern_place_member(NULL, "buffers");
    for (uint32_t i = 0; i < manifest->n_buffers && !walk->ever_lost; i++) {
        const struct kern_buffer *buffer = &manifest->buffers[i];
        struct kern_place place = kern_place_member(&buffers, buffer->name);
        bool must = buffer->kind == KERN_OUTPUT || buffer->kind == KERN_CARRY;
        if (must && walk->writer[i] == 0)
            kern_place_fail(verify->diag, "V-FLOW", buffer->order, &place,
                            "no program writes it; every %s must be written by one",
                            kern_buffer_kind_name(buffer->kind));
    }
}

void kern_rules_flow(struct kern_verify *verify)
{
    struct walk walk = {
        .writer =
            kern_arena_array(&verify->arena, verify->manifest->n_buffers, sizeof *walk.writer),
    };
    kern_each_call(verify, check_call, &walk);
    if (verify->manifest->n_programs > 0)
        check_never_written(verify, &walk);
}
