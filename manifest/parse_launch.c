// SPDX-License-Identifier: Apache-2.0
//
// Launches: of a kernel, or of a built-in of the libraries.
#include <string.h>

#include "manifest/parse.h"

#define OF_LAUNCH(member) offsetof(struct kern_launch, member)

static bool read_params(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_items list = {
        .what = "a list of params", .size = sizeof(struct kern_param), .read = kern_read_param};
    struct kern_launch *launch = into;
    launch->params_given = true;
    return kern_read_list(reader, node, &list, &launch->params, &launch->n_params);
}

static bool read_args(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_items list = {.what = "a list of arguments",
                                           .word = "arg",
                                           .size = sizeof(struct kern_value),
                                           .read = kern_read_launch_arg};
    struct kern_launch *launch = into;
    launch->args_given = true;
    return kern_read_list(reader, node, &list, &launch->args, &launch->n_args);
}

static bool read_grid(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_key parts[] = {
        KERN_KEY("x", 0, OF_LAUNCH(grid[0]), kern_read_expr),
        KERN_KEY("y", 0, OF_LAUNCH(grid[1]), kern_read_expr),
        KERN_KEY("z", 0, OF_LAUNCH(grid[2]), kern_read_expr),
    };
    static const struct kern_keys tuple = KERN_KEYS("blocks in x, y and z", parts);
    return kern_read_tuple(reader, node, &tuple, into);
}

static bool read_triple(struct kern_reader *reader, const struct kern_node *node, const char *what,
                        uint32_t triple[3])
{
    static const struct kern_key parts[] = {
        KERN_KEY("x", 0, 0, kern_read_u32),
        KERN_KEY("y", 0, sizeof(uint32_t), kern_read_u32),
        KERN_KEY("z", 0, 2 * sizeof(uint32_t), kern_read_u32),
    };
    struct kern_keys tuple = KERN_KEYS(what, parts);
    return kern_read_tuple(reader, node, &tuple, triple);
}

static bool read_block(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    return read_triple(reader, node, "threads in x, y and z", into);
}

static bool read_cluster(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    struct kern_launch *launch = into;
    launch->has_cluster = true;
    return read_triple(reader, node, "blocks of a cluster in x, y and z", launch->cluster);
}

static bool read_when_min(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    struct kern_when *when = into;
    when->has_min = true;
    return kern_read_u64(reader, node, &when->min);
}

static bool read_when_max(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    struct kern_when *when = into;
    when->has_max = true;
    return kern_read_u64(reader, node, &when->max);
}

static bool read_when(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_key table[] = {
        KERN_KEY("var", KERN_REQUIRED, offsetof(struct kern_when, var), kern_read_ref),
        KERN_KEY("min", KERN_NULLABLE, 0, read_when_min),
        KERN_KEY("max", KERN_NULLABLE, 0, read_when_max),
    };
    static const struct kern_keys keys = KERN_KEYS("a condition", table);
    struct kern_when *when = kern_arena_alloc(reader->arena, sizeof *when);
    uint32_t present;
    *when = (struct kern_when){.var.index = KERN_NONE, .max = UINT64_MAX};
    *(const struct kern_when **)into = when;
    return kern_read_object(reader, node, &keys, when, &present);
}

#define ALGO_KEY(key, reader)                                                                      \
    KERN_KEY(#key, KERN_REQUIRED, offsetof(struct kern_gemm_algo, key), reader)

static bool read_algo(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_key table[] = {
        ALGO_KEY(id, kern_read_i32),
        ALGO_KEY(tile, kern_read_u32),
        ALGO_KEY(stages, kern_read_u32),
        ALGO_KEY(split_k, kern_read_i32),
        ALGO_KEY(reduction, kern_read_u32),
        ALGO_KEY(swizzle, kern_read_u32),
        ALGO_KEY(custom, kern_read_u32),
        ALGO_KEY(inner_shape, kern_read_u16),
        ALGO_KEY(cluster_shape, kern_read_u16),
    };
    static const struct kern_keys keys = KERN_KEYS("an algorithm", table);
    struct kern_gemm_algo *algo = kern_arena_alloc(reader->arena, sizeof *algo);
    uint32_t present;
    *(const struct kern_gemm_algo **)into = algo;
    return kern_read_object(reader, node, &keys, algo, &present);
}

enum launch_key {
    ENTRY,
    MODULE,
    BLOCK,
    GRID,
    PARAMS,
    ARGS,
    SHARED_MEM,
    CLUSTER,
    WHEN,
    PDL,
    ALGO,
};

static const struct kern_key launch_table[] = {
    [ENTRY] = KERN_KEY("entry", KERN_REQUIRED, OF_LAUNCH(entry), kern_read_string),
    [MODULE] = KERN_KEY("module", 0, OF_LAUNCH(module), kern_read_ref),
    [BLOCK] = KERN_KEY("block", 0, OF_LAUNCH(block), read_block),
    [GRID] = KERN_KEY("grid", 0, 0, read_grid),
    [PARAMS] = KERN_KEY("params", KERN_NULLABLE, 0, read_params),
    [ARGS] = KERN_KEY("args", KERN_NULLABLE, 0, read_args),
    [SHARED_MEM] = KERN_KEY("shared_mem", KERN_NULLABLE, OF_LAUNCH(shared_mem), kern_read_expr),
    [CLUSTER] = KERN_KEY("cluster", KERN_NULLABLE, 0, read_cluster),
    [WHEN] = KERN_KEY("when", KERN_NULLABLE, OF_LAUNCH(when), read_when),
    [PDL] = KERN_KEY("pdl", 0, OF_LAUNCH(pdl), kern_read_bool),
    [ALGO] = KERN_KEY("algo", KERN_NULLABLE, OF_LAUNCH(algo), read_algo),
};
static const struct kern_keys launch_keys = KERN_KEYS("a launch", launch_table);

// Tells a kernel's launch from a built-in's by the keys that are there, and refuses a mixture.
static bool choose_form(struct kern_reader *reader, const struct kern_node *node, uint32_t present,
                        struct kern_launch *launch)
{
    const uint32_t needed = 1u << MODULE | 1u << BLOCK | 1u << GRID;
    const uint32_t kernel = present & (needed | 1u << SHARED_MEM | 1u << CLUSTER | 1u << PDL);
    bool extern_entry = launch->entry && strncmp(launch->entry, "extern:", 7) == 0;
    launch->is_extern = !kernel;
    if (!kernel)
        return true;
    bool algo = present >> ALGO & 1;
    if (algo || (extern_entry && !(present >> MODULE & 1)))
        return kern_refuse(reader, "V-KEY", node,
                           "a launch is that of a kernel, with \"module\", \"block\" and \"grid\", "
                           "or that of a built-in, with an entry \"extern:NAME\" and perhaps "
                           "\"algo\"; found \"%s\" beside %s",
                           launch_table[__builtin_ctz(kernel)].name,
                           algo ? "\"algo\"" : "an entry \"extern:NAME\"");
    return kern_require(reader, node, &launch_keys, needed, present);
}

bool kern_read_launch(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    struct kern_launch *launch = into;
    uint32_t present;
    launch->order = node->json->at;
    launch->module.index = KERN_NONE;
    bool ok = kern_read_object(reader, node, &launch_keys, launch, &present);
    if (node->json->kind != KERN_JSON_OBJECT)
        return false;
    return choose_form(reader, node, present, launch) && ok;
}
