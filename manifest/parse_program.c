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

static bool read_call(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_key table[] = {
        KERN_KEY("op", KERN_REQUIRED, offsetof(struct kern_call, op), kern_read_ref),
        KERN_KEY("args", KERN_REQUIRED, 0, read_args),
        KERN_KEY("label", KERN_NULLABLE, offsetof(struct kern_call, label), kern_read_string),
    };
    static const struct kern_keys keys = KERN_KEYS("a call", table);
    struct kern_call *call = into;
    uint32_t present;
    call->order = node->order;
    call->op.index = KERN_NONE;
    // The label belongs to the place of everything in the call, wherever it stands in it.
    struct kern_node labelled = *node;
    struct json_object *label = NULL;
    if (json_object_is_type(node->json, json_type_object))
        json_object_object_get_ex(node->json, "label", &label);
    if (json_object_is_type(label, json_type_string))
        labelled.place.label = json_object_get_string(label);
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
    program->order = node->order;
    return kern_read_object(reader, node, &keys, program, &present);
}
