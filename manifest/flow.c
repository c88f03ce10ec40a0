// SPDX-License-Identifier: Apache-2.0
#include "manifest/flow.h"

struct kern_access kern_call_access(const struct kern_manifest *manifest,
                                    const struct kern_call *call, size_t arg)
{
    const struct kern_value *value = &call->args[arg];
    if (value->kind != KERN_VALUE_BUFFER && value->kind != KERN_VALUE_STATE)
        return (struct kern_access){.target = KERN_TARGET_NONE, .index = KERN_NONE};
    enum kern_direction direction = manifest->ops[call->op.index].params[arg].direction;
    return (struct kern_access){
        .target = value->kind == KERN_VALUE_BUFFER ? KERN_TARGET_BUFFER : KERN_TARGET_STATE,
        .index = value->ref.index,
        .offset = value->offset,
        .reads = direction != KERN_OUT,
        .writes = direction != KERN_IN,
        .whole = direction == KERN_OUT && value->offset == 0,
    };
}

bool kern_kind_is_filled(enum kern_buffer_kind kind)
{
    return kind != KERN_OUTPUT && kind != KERN_WORKSPACE;
}

bool kern_kind_is_writable(enum kern_buffer_kind kind)
{
    return kind == KERN_OUTPUT || kind == KERN_INOUT || kind == KERN_WORKSPACE ||
           kind == KERN_CARRY;
}
