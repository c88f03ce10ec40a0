// SPDX-License-Identifier: Apache-2.0
//
// Ops and their launches.
#include "manifest/write_parts.h"

static void write_params(struct kern_json *json, const struct kern_param *params, size_t count)
{
    char text[32];
    kern_json_open(json, '[');
    for (size_t i = 0; i < count; i++)
        kern_json_string(json, kern_param_text(&params[i], text));
    kern_json_close(json, ']');
}

static void write_when(struct kern_json *json, const struct kern_when *when)
{
    kern_json_open(json, '{');
    kern_write_text(json, "var", when->var.name);
    if (when->has_min) {
        kern_json_key(json, "min");
        kern_json_u64(json, when->min);
    }
    if (when->has_max) {
        kern_json_key(json, "max");
        kern_json_u64(json, when->max);
    }
    kern_json_close(json, '}');
}

static void write_algo(struct kern_json *json, const struct kern_gemm_algo *algo)
{
    const struct {
        const char *key;
        int64_t number;
    } members[] = {
        {"id", algo->id},
        {"tile", algo->tile},
        {"stages", algo->stages},
        {"split_k", algo->split_k},
        {"reduction", algo->reduction},
        {"swizzle", algo->swizzle},
        {"custom", algo->custom},
        {"inner_shape", algo->inner_shape},
        {"cluster_shape", algo->cluster_shape},
    };
    kern_json_open(json, '{');
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        kern_json_key(json, members[i].key);
        kern_json_i64(json, members[i].number);
    }
    kern_json_close(json, '}');
}

static void write_geometry(struct kern_json *json, const struct kern_launch *launch)
{
    kern_json_key(json, "block");
    kern_write_u32s(json, launch->block, 3);
    kern_json_key(json, "grid");
    kern_json_open(json, '[');
    for (size_t i = 0; i < 3; i++)
        kern_write_expr(json, launch->grid[i]);
    kern_json_close(json, ']');
    if (launch->shared_mem) {
        kern_json_key(json, "shared_mem");
        kern_write_expr(json, launch->shared_mem);
    }
    if (launch->has_cluster) {
        kern_json_key(json, "cluster");
        kern_write_u32s(json, launch->cluster, 3);
    }
    kern_write_flag(json, "pdl", launch->pdl);
}

static void write_launch(struct kern_json *json, const struct kern_launch *launch)
{
    kern_json_open(json, '{');
    kern_write_text(json, "module", launch->module.name);
    kern_write_text(json, "entry", launch->entry);
    if (!launch->is_extern)
        write_geometry(json, launch);
    if (launch->params_given) {
        kern_json_key(json, "params");
        write_params(json, launch->params, launch->n_params);
    }
    if (launch->args_given) {
        kern_json_key(json, "args");
        kern_write_values(json, launch->args, launch->n_args);
    }
    if (launch->when) {
        kern_json_key(json, "when");
        write_when(json, launch->when);
    }
    if (launch->algo) {
        kern_json_key(json, "algo");
        write_algo(json, launch->algo);
    }
    kern_json_close(json, '}');
}

static void write_scratch(struct kern_json *json, const struct kern_op *op)
{
    kern_json_key(json, "scratch");
    kern_json_open(json, '{');
    for (size_t i = 0; i < op->n_scratch; i++) {
        const struct kern_scratch *scratch = &op->scratch[i];
        kern_json_key(json, scratch->name);
        kern_json_open(json, '{');
        kern_write_word(json, "dtype", &kern_dtype_words, scratch->dtype);
        kern_json_key(json, "shape");
        kern_write_shape(json, scratch->shape, scratch->rank);
        kern_json_close(json, '}');
    }
    kern_json_close(json, '}');
}

void kern_write_op(struct kern_json *json, const struct kern_op *op)
{
    kern_json_open(json, '{');
    kern_json_key(json, "params");
    write_params(json, op->params, op->n_params);
    kern_json_key(json, "impl");
    kern_json_open(json, '{');
    if (op->n_scratch)
        write_scratch(json, op);
    kern_json_key(json, "launches");
    kern_json_open(json, '[');
    for (size_t i = 0; i < op->n_launches; i++)
        write_launch(json, &op->launches[i]);
    kern_json_close(json, ']');
    kern_json_close(json, '}');
    kern_json_close(json, '}');
}
