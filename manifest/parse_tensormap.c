// SPDX-License-Identifier: Apache-2.0
#include "manifest/parse.h"

static bool read_dtype(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    return kern_read_word(reader, node, &kern_tma_words, into);
}

static bool read_dims(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    struct kern_tensormap *map = into;
    return kern_read_u64s(reader, node, &map->dims, &map->n_dims);
}

static bool read_strides(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    struct kern_tensormap *map = into;
    return kern_read_u64s(reader, node, &map->strides, &map->n_strides);
}

static bool read_box(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    struct kern_tensormap *map = into;
    return kern_read_u32s(reader, node, &map->box, &map->n_box);
}

bool kern_read_tensormap(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_key table[] = {
        KERN_KEY("param", KERN_REQUIRED, offsetof(struct kern_tensormap, param), kern_read_u64),
        KERN_KEY("dtype", KERN_REQUIRED, offsetof(struct kern_tensormap, dtype), read_dtype),
        KERN_KEY("dims", KERN_REQUIRED, 0, read_dims),
        KERN_KEY("strides", 0, 0, read_strides),
        KERN_KEY("box", KERN_REQUIRED, 0, read_box),
        KERN_KEY("swizzle", 0, offsetof(struct kern_tensormap, swizzle), kern_read_u32),
        KERN_KEY("l2_promotion", 0, offsetof(struct kern_tensormap, l2_promotion), kern_read_u32),
        KERN_KEY("oob_nan", 0, offsetof(struct kern_tensormap, oob_nan), kern_read_bool),
        KERN_KEY("wrap", 0, offsetof(struct kern_tensormap, wrap), kern_read_bool),
    };
    static const struct kern_keys keys = KERN_KEYS("a tensormap", table);
    struct kern_tensormap *map = kern_arena_alloc(reader->arena, sizeof *map);
    uint32_t present;
    *(const struct kern_tensormap **)into = map;
    return kern_read_object(reader, node, &keys, map, &present);
}
