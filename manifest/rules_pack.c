// SPDX-License-Identifier: Apache-2.0
//
// V-PACK: the images that kernels take as one parameter.
#include <inttypes.h>
#include <stdlib.h>

#include "base/memory.h"
#include "manifest/verify.h"

enum { POINTER_WIDTH = 8, TENSORMAP_WIDTH = 128, TENSORMAP_ALIGNMENT = 64 };

static bool fail_width(struct kern_verify *verify, const struct kern_field *field,
                       const struct kern_place *place, const char *right)
{
    return kern_place_fail(verify->diag, "V-PACK", field->value.order, place,
                           "the field is %" PRIu32 " byte%s wide; %s", field->width,
                           kern_plural(field->width), right);
}

static bool fail_fit(struct kern_verify *verify, const struct kern_field *field,
                     const struct kern_place *place)
{
    return fail_width(verify, field, place, "the value does not fit");
}

// An integer literal, or the most that a var, expression or rank can be in this launch.
static bool check_value(struct kern_verify *verify, const struct kern_launch_at *at,
                        const struct kern_field *field, const struct kern_place *place)
{
    const struct kern_value *value = &field->value;
    int64_t low = 0;
    uint64_t high = 0;
    bool known = true;
    if (value->kind == KERN_VALUE_I32 || value->kind == KERN_VALUE_I64 ||
        value->kind == KERN_VALUE_U8) {
        low = value->integer < 0 ? value->integer : 0;
        high = value->integer < 0 ? 0 : (uint64_t)value->integer;
    } else if (value->ref.name && value->ref.index == KERN_NONE) {
        known = false;
    } else if (value->kind == KERN_VALUE_RANK) {
        high = verify->manifest->groups[value->ref.index].size;
        high -= high > 0;
    } else if (kern_corners_enter(verify, at->launch)) {
        if (value->kind == KERN_VALUE_VAR)
            high = verify->high[value->ref.index];
        else
            known = kern_expr_high(verify, value->expr, value->order, place, &high);
        kern_corners_leave(verify, at->launch);
    }
    return !known || kern_fits(low, high, field->width) || fail_fit(verify, field, place);
}

static bool check_scalar_width(struct kern_verify *verify, const struct kern_field *field,
                               const struct kern_place *place)
{
    uint32_t width = field->width;
    return width == 1 || width == 2 || width == 4 || width == 8 ||
           fail_width(verify, field, place, "a scalar takes 1, 2, 4 or 8");
}

static bool check_param_field(struct kern_verify *verify, const struct kern_launch_at *at,
                              const struct kern_field *field, const struct kern_place *place)
{
    uint64_t index = field->value.param;
    if (index >= at->op->n_params)
        return kern_place_fail(verify->diag, "V-PACK", field->value.order, place,
                               "the op has no param %" PRIu64 "; it has %zu, counted from 0", index,
                               at->op->n_params);
    const struct kern_param *param = &at->op->params[index];
    if (kern_param_is_pointer(param))
        return field->width == POINTER_WIDTH ||
               fail_width(verify, field, place, "a pointer takes 8");
    if (param->kind == KERN_PARAM_BYTES)
        return false; // V-OP has refused it
    if (!check_scalar_width(verify, field, place))
        return false;
    if (field->width >= kern_param_bytes(param))
        return true;
    if (param->kind == KERN_PARAM_F32)
        return fail_fit(verify, field, place);
    struct kern_narrow *narrow = kern_arena_alloc(&verify->arena, sizeof *narrow);
    *narrow = (struct kern_narrow){at->facts->narrow, at->launch, index, field->width};
    at->facts->narrow = narrow;
    return true;
}

static bool check_tensormap_field(struct kern_verify *verify, const struct kern_field *field,
                                  const struct kern_place *place)
{
    if (field->width != TENSORMAP_WIDTH)
        return fail_width(verify, field, place, "a tensormap takes 128");
    return field->at % TENSORMAP_ALIGNMENT == 0 ||
           kern_place_fail(verify->diag, "V-PACK", field->value.order, place,
                           "a tensormap at byte %" PRIu32 "; it must lie at a multiple of %d",
                           field->at, TENSORMAP_ALIGNMENT);
}

// Whether the field has a width that its value goes into, so that its extent can be judged.
static bool check_width(struct kern_verify *verify, const struct kern_launch_at *at,
                        const struct kern_field *field, const struct kern_place *place)
{
    switch (field->value.kind) {
    case KERN_VALUE_PARAM:
        return check_param_field(verify, at, field, place);
    case KERN_VALUE_SCRATCH:
        return field->width == POINTER_WIDTH ||
               fail_width(verify, field, place, "a pointer takes 8");
    case KERN_VALUE_TENSORMAP:
        return check_tensormap_field(verify, field, place);
    case KERN_VALUE_F32:
        return check_scalar_width(verify, field, place) &&
               (field->width >= 4 || fail_fit(verify, field, place));
    default:
        return check_scalar_width(verify, field, place) && check_value(verify, at, field, place);
    }
}

// A field within the image, for finding overlaps.
struct extent {
    uint32_t from;
    uint32_t to;
    size_t index;
};

static int compare_extents(const void *a, const void *b)
{
    const struct extent *left = a;
    const struct extent *right = b;
    if (left->from != right->from)
        return left->from < right->from ? -1 : 1;
    return left->index < right->index ? -1 : left->index > right->index;
}

static void check_overlaps(struct kern_verify *verify, const struct kern_pack *pack,
                           struct extent *extents, size_t count, const struct kern_place *place)
{
    if (count == 0)
        return;
    qsort(extents, count, sizeof *extents, compare_extents);
    size_t widest = 0; // of those before, the one that reaches furthest
    for (size_t i = 1; i < count; i++) {
        struct kern_place field = kern_place_numbered(place, "field", extents[i].index);
        if (extents[i].from < extents[widest].to)
            kern_place_fail(
                verify->diag, "V-PACK", pack->fields[extents[i].index].value.order, &field,
                "bytes %" PRIu32 " to %" PRIu32 " overlap field %zu, which ends at %" PRIu32,
                extents[i].from, extents[i].to, extents[widest].index, extents[widest].to);
        if (extents[i].to > extents[widest].to)
            widest = i;
    }
}

static void check_pack(struct kern_verify *verify, const struct kern_launch_at *at,
                       const struct kern_pack *pack, const struct kern_place *place)
{
    struct extent *extents = kern_calloc(pack->n_fields, sizeof *extents);
    size_t count = 0;
    for (size_t i = 0; i < pack->n_fields; i++) {
        const struct kern_field *field = &pack->fields[i];
        struct kern_place field_place = kern_place_numbered(place, "field", i);
        uint32_t end;
        if (!check_width(verify, at, field, &field_place))
            continue;
        if (__builtin_add_overflow(field->at, field->width, &end) || end > pack->size)
            kern_place_fail(verify->diag, "V-PACK", field->value.order, &field_place,
                            "%" PRIu32 " byte%s at byte %" PRIu32
                            " lie outside the image of %" PRIu32,
                            field->width, kern_plural(field->width), field->at, pack->size);
        else
            extents[count++] = (struct extent){field->at, end, i};
    }
    check_overlaps(verify, pack, extents, count, place);
    free(extents);
}

static void check_target(struct kern_verify *verify, const struct kern_param *param,
                         const struct kern_value *value, const struct kern_place *arg)
{
    char found[32];
    if (param->kind != KERN_PARAM_BYTES)
        kern_place_fail(verify->diag, "V-PACK", value->order, arg,
                        "a pack of %" PRIu32 " bytes, the launch takes \"%s\"; a pack goes to a "
                        "bytes<%" PRIu32 ">",
                        value->pack->size, kern_param_text(param, found), value->pack->size);
    else if (param->bytes != value->pack->size)
        kern_place_fail(verify->diag, "V-PACK", value->order, arg,
                        "a pack of %" PRIu32
                        " bytes, the launch takes \"%s\"; the sizes must agree",
                        value->pack->size, kern_param_text(param, found));
}

static void check_launch(struct kern_verify *verify, const struct kern_launch_at *at)
{
    const struct kern_launch *launch = at->launch;
    for (size_t i = 0; i < kern_own_args(launch); i++) {
        if (launch->args[i].kind != KERN_VALUE_PACK)
            continue;
        struct kern_place arg = kern_place_numbered(at->place, "arg", i);
        struct kern_place pack = kern_place_member(&arg, "pack");
        if (launch->n_args == launch->n_params)
            check_target(verify, &launch->params[i], &launch->args[i], &arg);
        check_pack(verify, at, launch->args[i].pack, &pack);
    }
}

void kern_rules_pack(struct kern_verify *verify)
{
    kern_each_launch(verify, check_launch);
}
