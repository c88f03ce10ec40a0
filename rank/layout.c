// SPDX-License-Identifier: Apache-2.0
#include "rank/layout.h"

#include <stdlib.h>

#include "base/memory.h"

// Of more parameters a text says only how many there are.
#define PARAMS_IN_TEXT 64

void rank_layout_add(struct rank_layout *layout, uint64_t offset, uint64_t bytes)
{
    kern_reserve(&layout->items, &layout->capacity, layout->count + 1, sizeof(*layout->items));
    layout->items[layout->count++] = (struct rank_param){offset, bytes};
}

static uint64_t align_up(uint64_t offset, uint64_t alignment)
{
    return (offset + alignment - 1) / alignment * alignment;
}

// Where a parameter of this kind may begin after one that ends at [end]: scalars and pointers at
// the next multiple of their own size, an aggregate at a multiple of its alignment, which only the
// compiler of the kernel knows; C++ types go up to 128.
static bool offset_fits(const struct kern_param *param, uint64_t end, uint64_t offset)
{
    if (param->kind != KERN_PARAM_BYTES) {
        return offset == align_up(end, kern_param_bytes(param));
    }
    for (uint64_t alignment = 1; alignment <= 128; alignment *= 2) {
        if (offset == align_up(end, alignment)) {
            return true;
        }
    }
    return false;
}

static uint64_t end_before(const struct rank_layout *layout, size_t index)
{
    return index == 0 ? 0 : layout->items[index - 1].offset + layout->items[index - 1].bytes;
}

uint32_t rank_layout_misfit(const struct rank_layout *layout, const struct kern_launch *launch)
{
    size_t index = 0;
    for (; index < layout->count && index < launch->n_params; index++) {
        const struct rank_param *found = &layout->items[index];
        const struct kern_param *declared = &launch->params[index];
        if (found->bytes != kern_param_bytes(declared) ||
            !offset_fits(declared, end_before(layout, index), found->offset)) {
            return (uint32_t)index;
        }
    }
    return layout->count == launch->n_params ? KERN_NONE : (uint32_t)index;
}

const char *rank_layout_text(struct kern_arena *arena, const struct rank_layout *layout)
{
    const char *text = "";
    for (size_t i = 0; i < layout->count && i < PARAMS_IN_TEXT; i++) {
        text = kern_arena_print(arena, "%s%s%llu bytes at %llu", text, i == 0 ? "" : ", ",
                                (unsigned long long)layout->items[i].bytes,
                                (unsigned long long)layout->items[i].offset);
    }
    return layout->count <= PARAMS_IN_TEXT
               ? text
               : kern_arena_print(arena, "%s and %zu more", text, layout->count - PARAMS_IN_TEXT);
}

const char *rank_layout_misfit_text(struct kern_arena *arena, const struct rank_layout *layout,
                                    const struct kern_launch *launch, uint32_t index)
{
    const char *found = "there is none";
    if (index < layout->count) {
        found = kern_arena_print(arena, "it is %llu bytes at %llu",
                                 (unsigned long long)layout->items[index].bytes,
                                 (unsigned long long)layout->items[index].offset);
    }
    if (index >= launch->n_params) {
        return kern_arena_print(arena, "parameter %u is not declared; %s", index, found);
    }
    const struct kern_param *declared = &launch->params[index];
    uint32_t bytes = kern_param_bytes(declared);
    uint64_t end = end_before(layout, index);
    char text[32];
    return declared->kind == KERN_PARAM_BYTES
               ? kern_arena_print(
                     arena, "parameter %u is declared %s, at %llu or aligned behind; %s", index,
                     kern_param_text(declared, text), (unsigned long long)end, found)
               : kern_arena_print(arena, "parameter %u is declared %s, %u bytes at %llu; %s", index,
                                  kern_param_text(declared, text), bytes,
                                  (unsigned long long)align_up(end, bytes), found);
}
