// SPDX-License-Identifier: Apache-2.0
#include "manifest/parse.h"

static bool read_shape(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    struct kern_host_layout *host = into;
    return kern_read_u64s(reader, node, &host->shape, &host->rank);
}

static bool read_strides(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    struct kern_host_layout *host = into;
    return kern_read_u64s(reader, node, &host->strides, &host->n_strides);
}

static bool read_host(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_key table[] = {
        KERN_KEY("dtype", KERN_REQUIRED, offsetof(struct kern_host_layout, dtype), kern_read_dtype),
        KERN_KEY("shape", KERN_REQUIRED, 0, read_shape),
        KERN_KEY("strides", KERN_REQUIRED, 0, read_strides),
    };
    static const struct kern_keys keys = KERN_KEYS("a host layout", table);
    struct kern_host_layout *host = kern_arena_alloc(reader->arena, sizeof *host);
    uint32_t present;
    *(const struct kern_host_layout **)into = host;
    return kern_read_object(reader, node, &keys, host, &present);
}

static bool read_by(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    return kern_read_word(reader, node, &kern_shard_words, into);
}

static bool read_segment(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    return kern_read_u64_pair(reader, node, "rows and their width in bytes", into);
}

static bool read_segments(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_items list = {
        .what = "a list of segments", .size = sizeof(uint64_t[2]), .read = read_segment};
    struct kern_shard *shard = into;
    return kern_read_list(reader, node, &list, &shard->segments, &shard->n_segments);
}

static bool read_shard(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    enum { BY, GROUP, SEGMENTS };
    static const struct kern_key table[] = {
        [BY] = KERN_KEY("by", KERN_REQUIRED, offsetof(struct kern_shard, by), read_by),
        [GROUP] =
            KERN_KEY("group", KERN_REQUIRED, offsetof(struct kern_shard, group), kern_read_ref),
        [SEGMENTS] = KERN_KEY("segments", 0, 0, read_segments),
    };
    static const struct kern_keys keys = KERN_KEYS("a shard", table);
    struct kern_shard *shard = kern_arena_alloc(reader->arena, sizeof *shard);
    uint32_t present;
    *(const struct kern_shard **)into = shard;
    shard->group.index = KERN_NONE;
    if (!kern_read_object(reader, node, &keys, shard, &present))
        return false;
    if (shard->by == KERN_SHARD_BY_HEADS)
        return kern_require(reader, node, &keys, 1u << SEGMENTS, present);
    if (present >> SEGMENTS & 1)
        return kern_refuse(reader, "V-KEY", node,
                           "\"segments\" stands only in a shard by heads, not in one by position");
    return true;
}

bool kern_read_state(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_key table[] = {
        KERN_KEY("bytes_per_token", 0, offsetof(struct kern_state, bytes_per_token), kern_read_u64),
        KERN_KEY("bytes_per_seq", 0, offsetof(struct kern_state, bytes_per_seq), kern_read_u64),
        KERN_KEY("bytes", 0, offsetof(struct kern_state, bytes), kern_read_u64),
        KERN_KEY("host", KERN_NULLABLE, offsetof(struct kern_state, host), read_host),
        KERN_KEY("shard", KERN_NULLABLE, offsetof(struct kern_state, shard), read_shard),
    };
    static const struct kern_keys keys = KERN_KEYS("a state", table);
    struct kern_state *state = into;
    uint32_t present;
    state->order = node->json->at;
    return kern_read_object(reader, node, &keys, state, &present);
}
