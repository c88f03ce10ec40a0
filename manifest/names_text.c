// SPDX-License-Identifier: Apache-2.0
//
// The words of the schema and what stands behind them.
#include <inttypes.h>
#include <stdio.h>

#include "manifest/internal.h"
#include "manifest/manifest.h"

static const char *const dtypes[] = {
    [KERN_BF16] = "bf16",       [KERN_F16] = "f16", [KERN_F32] = "f32", [KERN_FP8E4M3] = "fp8e4m3",
    [KERN_FP8E8M0] = "fp8e8m0", [KERN_I8] = "i8",   [KERN_I32] = "i32", [KERN_U32] = "u32",
    [KERN_I64] = "i64",         [KERN_U64] = "u64", [KERN_U8] = "u8",
};

static const char *const kinds[] = {
    [KERN_INPUT] = "input",   [KERN_OUTPUT] = "output", [KERN_INOUT] = "inout",
    [KERN_WEIGHT] = "weight", [KERN_SOURCE] = "source", [KERN_WORKSPACE] = "workspace",
    [KERN_CARRY] = "carry",   [KERN_PEER] = "peer",
};

static const char *const fills[] = {
    [KERN_FILL_NONE] = "none",
    [KERN_FILL_TOKEN] = "token",
    [KERN_FILL_POSITION] = "position",
    [KERN_FILL_VALID] = "valid",
    [KERN_FILL_SLOT] = "slot",
    [KERN_FILL_SEQ_LEN] = "seq_len",
    [KERN_FILL_CU_SEQLENS] = "cu_seqlens",
    [KERN_FILL_BLOCKS] = "blocks",
    [KERN_FILL_TEMPERATURE] = "temperature",
    [KERN_FILL_TOP_K] = "top_k",
    [KERN_FILL_TOP_P] = "top_p",
    [KERN_FILL_MIN_P] = "min_p",
    [KERN_FILL_SEED] = "seed",
    [KERN_FILL_TOKENS] = "tokens",
    [KERN_FILL_COUNT] = "count",
    [KERN_FILL_ERROR] = "error",
};

static const char *const axes[] = {
    [KERN_AXIS_NONE] = "none",
    [KERN_AXIS_ROWS] = "rows",
    [KERN_AXIS_GROUPS] = "groups",
    [KERN_AXIS_RANKS] = "ranks",
};

static const char *const placements[] = {[KERN_ON_DEVICE] = "device", [KERN_ON_HOST] = "host"};

static const char *const shard_bys[] = {
    [KERN_SHARD_BY_POSITION] = "position",
    [KERN_SHARD_BY_HEADS] = "heads",
};

static const char *const tma_dtypes[] = {
    [KERN_TMA_U8] = "u8",     [KERN_TMA_U16] = "u16",   [KERN_TMA_U32] = "u32",
    [KERN_TMA_I32] = "i32",   [KERN_TMA_U64] = "u64",   [KERN_TMA_I64] = "i64",
    [KERN_TMA_F16] = "f16",   [KERN_TMA_BF16] = "bf16", [KERN_TMA_F32] = "f32",
    [KERN_TMA_TF32] = "tf32", [KERN_TMA_U4] = "u4",     [KERN_TMA_U4PACKED] = "u4packed",
};

static const char *const directions[] = {
    [KERN_IN] = "in",
    [KERN_OUT] = "out",
    [KERN_BOTH] = "inout",
};

#define COUNT(words) (sizeof(words) / sizeof *(words))

const struct kern_words kern_dtype_words = {"dtype", dtypes, 0, COUNT(dtypes)};
const struct kern_words kern_kind_words = {"buffer kind", kinds, 0, COUNT(kinds)};
const struct kern_words kern_fill_words = {"fill", fills, KERN_FILL_NONE + 1, COUNT(fills)};
const struct kern_words kern_axis_words = {"axis", axes, KERN_AXIS_NONE + 1, COUNT(axes)};
const struct kern_words kern_placement_words = {"placement", placements, 0, COUNT(placements)};
const struct kern_words kern_shard_words = {"way to shard", shard_bys, 0, COUNT(shard_bys)};
const struct kern_words kern_tma_words = {"tensormap dtype", tma_dtypes, 0, COUNT(tma_dtypes)};
const struct kern_words kern_direction_words = {"direction", directions, 0, COUNT(directions)};

const char *kern_dtype_name(enum kern_dtype dtype)
{
    return dtypes[dtype];
}

const char *kern_buffer_kind_name(enum kern_buffer_kind kind)
{
    return kinds[kind];
}

const char *kern_fill_name(enum kern_fill fill)
{
    return fills[fill];
}

size_t kern_dtype_bytes(enum kern_dtype dtype)
{
    static const uint8_t bytes[] = {
        [KERN_BF16] = 2,    [KERN_F16] = 2, [KERN_F32] = 4, [KERN_FP8E4M3] = 1,
        [KERN_FP8E8M0] = 1, [KERN_I8] = 1,  [KERN_I32] = 4, [KERN_U32] = 4,
        [KERN_I64] = 8,     [KERN_U64] = 8, [KERN_U8] = 1,
    };
    return bytes[dtype];
}

bool kern_dtype_is_float(enum kern_dtype dtype)
{
    return dtype <= KERN_FP8E8M0;
}

const char *kern_param_text(const struct kern_param *param, char text[32])
{
    static const char *const scalars[] = {
        [KERN_PARAM_I32] = "i32",
        [KERN_PARAM_I64] = "i64",
        [KERN_PARAM_F32] = "f32",
        [KERN_PARAM_U8] = "u8",
    };
    switch (param->kind) {
    case KERN_PARAM_BYTES:
        snprintf(text, 32, "bytes<%" PRIu32 ">", param->bytes);
        break;
    case KERN_PARAM_BUFFER:
        snprintf(text, 32, "%s buffer<%s>", directions[param->direction], dtypes[param->dtype]);
        break;
    case KERN_PARAM_STATE:
        snprintf(text, 32, "%s state", directions[param->direction]);
        break;
    default:
        snprintf(text, 32, "%s", scalars[param->kind]);
    }
    return text;
}

uint32_t kern_param_bytes(const struct kern_param *param)
{
    switch (param->kind) {
    case KERN_PARAM_U8:
        return 1;
    case KERN_PARAM_I32:
    case KERN_PARAM_F32:
        return 4;
    case KERN_PARAM_BYTES:
        return param->bytes;
    default:
        return 8;
    }
}
