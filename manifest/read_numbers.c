// SPDX-License-Identifier: Apache-2.0
//
// Lists and pairs of numbers.
#include "manifest/read.h"

bool kern_read_u64s(struct kern_reader *reader, const struct kern_node *node,
                    const uint64_t **numbers, size_t *count)
{
    static const struct kern_items list = {
        .what = "a list of numbers", .size = sizeof(uint64_t), .read = kern_read_u64};
    return kern_read_list(reader, node, &list, numbers, count);
}

bool kern_read_u32s(struct kern_reader *reader, const struct kern_node *node,
                    const uint32_t **numbers, size_t *count)
{
    static const struct kern_items list = {
        .what = "a list of numbers", .size = sizeof(uint32_t), .read = kern_read_u32};
    return kern_read_list(reader, node, &list, numbers, count);
}

bool kern_read_u64_pair(struct kern_reader *reader, const struct kern_node *node, const char *what,
                        uint64_t pair[2])
{
    static const struct kern_key parts[] = {
        KERN_KEY("first", 0, 0, kern_read_u64),
        KERN_KEY("second", 0, sizeof(uint64_t), kern_read_u64),
    };
    struct kern_keys tuple = KERN_KEYS(what, parts);
    return kern_read_tuple(reader, node, &tuple, pair);
}
