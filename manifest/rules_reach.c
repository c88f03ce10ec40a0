// SPDX-License-Identifier: Apache-2.0
//
// V-SOURCE, V-DERIVE, V-EXTERN-PEER and V-ONCE: which memory a program's calls may reach.
#include "manifest/verify.h"

// Per buffer the once program that the user was last warned about for it.
struct warned {
    const struct kern_program **program;
};

static void warn_of_input(struct kern_verify *verify, const struct kern_call_at *at,
                          const struct kern_value *value, const struct kern_place *place)
{
    struct warned *warned = at->data;
    if (warned->program[value->ref.index] == at->program)
        return;
    warned->program[value->ref.index] = at->program;
    kern_place_warn(verify->diag, "V-ONCE", value->order, place,
                    "a once program takes no per-call input; \"%s\" holds what --input gave, else "
                    "zeros",
                    value->ref.name);
}

static void check_buffer(struct kern_verify *verify, const struct kern_call_at *at,
                         const struct kern_value *value, const struct kern_place *place)
{
    const struct kern_buffer *buffer = &verify->manifest->buffers[value->ref.index];
    enum kern_buffer_kind kind = buffer->kind;
    bool derive = at->program->derive;
    if (kind == KERN_SOURCE && !derive)
        kern_place_fail(verify->diag, "V-SOURCE", value->order, place,
                        "the source \"%s\" is gone after loading; only derive programs read it",
                        buffer->name);
    if (derive &&
        (kind == KERN_INPUT || kind == KERN_OUTPUT || kind == KERN_INOUT || kind == KERN_PEER))
        kern_place_fail(verify->diag, "V-DERIVE", value->order, place,
                        "\"%s\" is of kind %s, which a derive program does not touch; it runs "
                        "while weights are loaded",
                        buffer->name, kern_buffer_kind_name(kind));
    if (at->program->once && kind == KERN_INPUT)
        warn_of_input(verify, at, value, place);
    if (kind == KERN_PEER && at->facts && at->facts->has_extern)
        kern_place_fail(verify->diag, "V-EXTERN-PEER", value->order, place,
                        "the op \"%s\" launches a built-in, which the peer buffer \"%s\" must not "
                        "reach",
                        at->op->name, buffer->name);
}

static void check_call(struct kern_verify *verify, const struct kern_call_at *at)
{
    if (at->program->derive && at->facts && at->facts->has_collective)
        kern_place_fail(verify->diag, "V-DERIVE", at->call->order, at->place,
                        "the op \"%s\" runs a collective; a derive program does not, it runs while "
                        "weights are loaded",
                        at->op->name);
    for (size_t i = 0; i < at->call->n_args; i++) {
        const struct kern_value *value = &at->call->args[i];
        struct kern_place place = kern_place_numbered(at->place, "arg", i);
        bool found = value->ref.index != KERN_NONE;
        if (value->kind == KERN_VALUE_BUFFER && found)
            check_buffer(verify, at, value, &place);
        if (value->kind == KERN_VALUE_STATE && found && at->program->derive)
            kern_place_fail(verify->diag, "V-DERIVE", value->order, &place,
                            "a derive program touches no state; it runs while weights are loaded");
    }
}

void kern_rules_reach(struct kern_verify *verify)
{
    struct warned warned = {
        .program =
            kern_arena_array(&verify->arena, verify->manifest->n_buffers, sizeof *warned.program),
    };
    kern_each_call(verify, check_call, &warned);
}
