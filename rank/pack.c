// SPDX-License-Identifier: Apache-2.0
//
// Packs: the bytes of one aggregate parameter. What does not depend on vars is in the image from
// the beginning, the rest is stored there before each launch.
#include "rank/internal.h"

void *rank_pack_image(struct rank_call_site *site, const struct kern_pack *pack,
                      struct kern_diag *diag)
{
    uint8_t *image = kern_arena_alloc(&site->rank->arena, pack->size);
    for (size_t f = 0; f < pack->n_fields; f++) {
        const struct kern_field *field = &pack->fields[f];
        if (field->value.kind == KERN_VALUE_TENSORMAP) {
            const struct kern_tensormap *tensormap = field->value.tensormap;
            if (!rank_tensormap_encode(site->rank, tensormap, &site->args[tensormap->param],
                                       site->launch->place, image + field->at, diag)) {
                return NULL;
            }
            continue;
        }
        struct rank_value value = rank_value_of(site, &field->value);
        rank_value_store(site, &value, image + field->at, field->width);
    }
    return image;
}
