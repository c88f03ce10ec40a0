// SPDX-License-Identifier: Apache-2.0
//
// V-UNUSED, and V-TOPO for groups: everything that is declared is used. Where a reference names
// nothing, any of the unused ones may be what was meant, so none of that kind is reported.
#include "manifest/verify.h"

// The order in the document of item [index] of [space].
static uint64_t order_of(const struct kern_manifest *manifest, enum kern_space space,
                         uint32_t index)
{
    switch (space) {
    case KERN_SPACE_VAR:
        return manifest->vars[index].order;
    case KERN_SPACE_GROUP:
        return manifest->groups[index].order;
    case KERN_SPACE_STATE:
        return manifest->states[index].order;
    case KERN_SPACE_BUFFER:
        return manifest->buffers[index].order;
    case KERN_SPACE_MODULE:
        return manifest->modules[index].order;
    case KERN_SPACE_OP:
        return manifest->ops[index].order;
    case KERN_SPACES:
        break;
    }
    return 0;
}

// Whether V-FLOW, which asks that somebody writes it, has spoken of it already.
static bool is_unwritten(const struct kern_manifest *manifest, enum kern_space space,
                         uint32_t index)
{
    if (space != KERN_SPACE_BUFFER)
        return false;
    enum kern_buffer_kind kind = manifest->buffers[index].kind;
    return kind == KERN_OUTPUT || kind == KERN_CARRY;
}

void kern_rules_unused(struct kern_verify *verify)
{
    static const struct {
        const char *rule;
        const char *text;
    } words[KERN_SPACES] = {
        [KERN_SPACE_VAR] = {"V-UNUSED", "no shape, expression, argument, when or batch uses it"},
        [KERN_SPACE_GROUP] = {"V-TOPO", "nothing names the group"},
        [KERN_SPACE_STATE] = {"V-UNUSED", "no call takes it and no peer buffer is of it"},
        [KERN_SPACE_BUFFER] = {"V-UNUSED", "no call takes it and no peer buffer is of it"},
        [KERN_SPACE_MODULE] = {"V-UNUSED", "no launch names it"},
        [KERN_SPACE_OP] = {"V-UNUSED", "no program calls it"},
    };
    const struct kern_manifest *manifest = verify->manifest;
    struct kern_place topology = kern_place_member(NULL, "topology");
    // Without any program everything is unused, which V-PROGRAM has said in one line.
    for (enum kern_space space = 0; space < KERN_SPACES && manifest->n_programs > 0; space++) {
        const struct kern_named *named = &verify->named[space];
        struct kern_place map =
            kern_place_member(space == KERN_SPACE_GROUP ? &topology : NULL,
                              kern_arena_print(&verify->arena, "%ss", named->what));
        for (uint32_t i = 0; i < named->count && !named->dangling; i++) {
            struct kern_place place = kern_place_member(
                &map, *(const char *const *)((const char *)named->items + i * named->stride));
            if (!named->used[i] && !is_unwritten(manifest, space, i))
                kern_place_fail(verify->diag, words[space].rule, order_of(manifest, space, i),
                                &place, "unused: %s", words[space].text);
        }
    }
}
