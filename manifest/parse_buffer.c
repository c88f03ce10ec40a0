// SPDX-License-Identifier: Apache-2.0
#include "manifest/parse.h"

static bool read_kind(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    return kern_read_word(reader, node, &kern_kind_words, into);
}

static bool read_fill(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    return kern_read_word(reader, node, &kern_fill_words, into);
}

static bool read_placement(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    return kern_read_word(reader, node, &kern_placement_words, into);
}

static bool read_shape(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    struct kern_buffer *buffer = into;
    return kern_read_shape(reader, node, &buffer->shape, &buffer->rank);
}

static bool read_domain(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_key table[] = {
        KERN_KEY("min", KERN_NULLABLE, offsetof(struct kern_domain, min), kern_read_bound),
        KERN_KEY("max", KERN_NULLABLE, offsetof(struct kern_domain, max), kern_read_bound),
        KERN_KEY("index_into", KERN_NULLABLE, offsetof(struct kern_domain, index_into),
                 kern_read_ref),
        KERN_KEY("stride", 0, offsetof(struct kern_domain, stride), kern_read_u64),
        KERN_KEY("monotone", 0, offsetof(struct kern_domain, monotone), kern_read_bool),
    };
    static const struct kern_keys keys = KERN_KEYS("a domain", table);
    struct kern_domain *domain = kern_arena_alloc(reader->arena, sizeof *domain);
    uint32_t present;
    domain->order = node->json->at;
    domain->index_into.index = KERN_NONE;
    domain->stride = 1;
    *(const struct kern_domain **)into = domain;
    return kern_read_object(reader, node, &keys, domain, &present);
}

static bool read_bind(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_items list = {.what = "a list of segments",
                                           .size = sizeof(struct kern_segment),
                                           .read = kern_read_segment};
    struct kern_buffer *buffer = into;
    return kern_read_list(reader, node, &list, &buffer->bind, &buffer->n_bind);
}

#define OF_BUFFER(member) offsetof(struct kern_buffer, member)

bool kern_read_buffer(struct kern_reader *reader, const struct kern_node *node, void *into)
{
    static const struct kern_key table[] = {
        KERN_KEY("dtype", KERN_REQUIRED, OF_BUFFER(dtype), kern_read_dtype),
        KERN_KEY("shape", KERN_REQUIRED, 0, read_shape),
        KERN_KEY("kind", KERN_REQUIRED, OF_BUFFER(kind), read_kind),
        KERN_KEY("fill", KERN_NULLABLE, OF_BUFFER(fill), read_fill),
        KERN_KEY("placement", 0, OF_BUFFER(placement), read_placement),
        KERN_KEY("export", 0, OF_BUFFER(exported), kern_read_bool),
        KERN_KEY("domain", KERN_NULLABLE, OF_BUFFER(domain), read_domain),
        KERN_KEY("bind", 0, 0, read_bind),
        KERN_KEY("of", KERN_NULLABLE, OF_BUFFER(of), kern_read_ref),
        KERN_KEY("group", KERN_NULLABLE, OF_BUFFER(group), kern_read_ref),
    };
    static const struct kern_keys keys = KERN_KEYS("a buffer", table);
    struct kern_buffer *buffer = into;
    uint32_t present;
    buffer->order = node->json->at;
    buffer->of.index = KERN_NONE;
    buffer->group.index = KERN_NONE;
    return kern_read_object(reader, node, &keys, buffer, &present);
}
