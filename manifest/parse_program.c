// SPDX-License-Identifier: Apache-2.0
#include "manifest/parse.h"

static bool read_args(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_items list = {.what = "a list of arguments",
                                           .word = "arg",
                                           .size = sizeof(struct kern_value),
                                           .read = kern_read_call_arg};
    struct kern_call *call = into;
    return kern_read_list(reader, node, &list, &call->args, &call->n_args);
}

// The label has been read already, see read_call.
static bool check_label(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    const struct kern_call *call = into;
    return call->label || kern_refuse_type(reader, node, "a string");
}

static bool read_call(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_key table[] = {
        KERN_KEY("op", KERN_REQUIRED, offsetof(struct kern_call, op), kern_read_ref),
        KERN_KEY("args", KERN_REQUIRED, 0, read_args),
        KERN_KEY("label", KERN_NULLABLE, 0, check_label),
    };
    static const struct kern_keys keys = KERN_KEYS("a call", table);
    struct kern_call *call = into;
    uint32_t present;
    call->order = node->json->at;
    call->op.index = KERN_NONE;
    // The label belongs to the place of everything in the call, wherever it stands in it.
    struct kern_node labelled = *node;
    if (node->json->kind == KERN_JSON_OBJECT) {
        const struct kern_json_node *label = kern_json_find(&reader->document, node->json, "label");
        if (label && label->kind == KERN_JSON_STRING)
            labelled.place.label = call->label = kern_copy_string(reader, label);
    }
    return kern_read_object(reader, &labelled, &keys, call, &present);
}

static bool read_calls(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_items list = {
        .what = "a list of calls", .size = sizeof(struct kern_call), .read = read_call};
    struct kern_program *program = into;
    return kern_read_list(reader, node, &list, &program->calls, &program->n_calls);
}

static bool read_batch(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_key table[] = {
        KERN_KEY("groups", KERN_REQUIRED, offsetof(struct kern_batch, groups), kern_read_u64),
        KERN_KEY("rows", KERN_REQUIRED, offsetof(struct kern_batch, rows), kern_read_dim),
        KERN_KEY("context", KERN_NULLABLE, offsetof(struct kern_batch, context), kern_read_ref),
    };
    static const struct kern_keys keys = KERN_KEYS("a batch", table);
    struct kern_batch *batch = kern_arena_alloc(reader->arena, sizeof *batch);
    uint32_t present;
    batch->rows.var.index = KERN_NONE;
    batch->context.index = KERN_NONE;
    *(const struct kern_batch **)into = batch;
    return kern_read_object(reader, node, &keys, batch, &present);
}

bool kern_read_program(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_key table[] = {
        KERN_KEY("calls", KERN_REQUIRED, 0, read_calls),
        KERN_KEY("batch", KERN_NULLABLE, offsetof(struct kern_program, batch), read_batch),
        KERN_KEY("once", 0, offsetof(struct kern_program, once), kern_read_bool),
        KERN_KEY("derive", 0, offsetof(struct kern_program, derive), kern_read_bool),
        KERN_KEY("graph", 0, offsetof(struct kern_program, graph), kern_read_bool),
    };
    static const struct kern_keys keys = KERN_KEYS("a program", table);
    struct kern_program *program = into;
    uint32_t present;
    program->order = node->json->at;
    return kern_read_object(reader, node, &keys, program, &present);
}
