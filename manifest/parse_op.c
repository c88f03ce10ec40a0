// SPDX-License-Identifier: Apache-2.0
#include "manifest/parse.h"

static bool read_params(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_items list = {
        .what = "a list of params", .size = sizeof(struct kern_param), .read = kern_read_param};
    struct kern_op *op = into;
    return kern_read_list(reader, node, &list, &op->params, &op->n_params);
}

static bool read_scratch_shape(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    struct kern_scratch *scratch = into;
    return kern_read_shape(reader, node, &scratch->shape, &scratch->rank);
}

static bool read_scratch(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_key table[] = {
        KERN_KEY("dtype", KERN_REQUIRED, offsetof(struct kern_scratch, dtype), kern_read_dtype),
        KERN_KEY("shape", KERN_REQUIRED, 0, read_scratch_shape),
    };
    static const struct kern_keys keys = KERN_KEYS("a scratch", table);
    struct kern_scratch *scratch = into;
    uint32_t present;
    scratch->order = node->json->at;
    return kern_read_object(reader, node, &keys, scratch, &present);
}

static bool read_scratch_map(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_items map = {
        .what = "a scratch", .size = sizeof(struct kern_scratch), .read = read_scratch};
    struct kern_op *op = into;
    uint32_t count = 0;
    bool ok = kern_read_map(reader, node, &map, &op->scratch, &count, NULL);
    op->n_scratch = count;
    return ok;
}

static bool read_launches(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_items list = {
        .what = "a list of launches", .size = sizeof(struct kern_launch), .read = kern_read_launch};
    struct kern_op *op = into;
    return kern_read_list(reader, node, &list, &op->launches, &op->n_launches);
}

static bool read_impl(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_key table[] = {
        KERN_KEY("launches", KERN_REQUIRED, 0, read_launches),
        KERN_KEY("scratch", 0, 0, read_scratch_map),
    };
    static const struct kern_keys keys = KERN_KEYS("an implementation", table);
    uint32_t present;
    return kern_read_object(reader, node, &keys, into, &present);
}

// The op's params in order, as the arguments of the launches that give none. One array serves all
// of them: a copy for each could be the square of the manifest's size.
static const struct kern_value *forwarded_params(struct kern_reader *reader,
                                                 const struct kern_op *op)
{
    struct kern_value *args = kern_arena_array(reader->arena, op->n_params, sizeof *args);
    for (size_t i = 0; i < op->n_params; i++)
        args[i] = (struct kern_value){
            .kind = KERN_VALUE_PARAM, .ref.index = KERN_NONE, .param = i, .order = op->order};
    return args;
}

// Gives the launches what they leave to the op. The op's params may stand behind its launches in
// the document, so that this comes last.
static void complete_launches(struct kern_reader *reader, struct kern_op *op)
{
    struct kern_launch *launches = (struct kern_launch *)(uintptr_t)op->launches;
    const struct kern_value *forwarded = NULL;
    for (size_t i = 0; i < op->n_launches; i++) {
        struct kern_launch *launch = &launches[i];
        if (!launch->params_given) {
            launch->params = op->params;
            launch->n_params = op->n_params;
        }
        if (launch->args_given)
            continue;
        if (!forwarded)
            forwarded = forwarded_params(reader, op);
        launch->args = forwarded;
        launch->n_args = op->n_params;
    }
}

bool kern_read_op(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_key table[] = {
        KERN_KEY("params", KERN_REQUIRED, 0, read_params),
        KERN_KEY("impl", KERN_REQUIRED, 0, read_impl),
    };
    static const struct kern_keys keys = KERN_KEYS("an op", table);
    struct kern_op *op = into;
    uint32_t present;
    op->order = node->json->at;
    bool ok = kern_read_object(reader, node, &keys, op, &present);
    complete_launches(reader, op);
    return ok;
}
