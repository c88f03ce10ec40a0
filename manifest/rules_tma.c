// SPDX-License-Identifier: Apache-2.0
//
// V-TMA: tensormaps. Every limit is one that cuda.h gives at cuTensorMapEncodeTiled, so that what
// is accepted here can be encoded; what a map reaches is compared with the buffer at each call.
#include <inttypes.h>
#include <stdarg.h>

#include "manifest/verify.h"

enum { DIMS_MAX = 5, BOX_MAX = 256 };
#define DIM_MAX (UINT64_C(1) << 32)
#define STRIDE_LIMIT (UINT64_C(1) << 40)

static const uint64_t element_bits[] = {
    [KERN_TMA_U8] = 8,   [KERN_TMA_U16] = 16,  [KERN_TMA_U32] = 32, [KERN_TMA_I32] = 32,
    [KERN_TMA_U64] = 64, [KERN_TMA_I64] = 64,  [KERN_TMA_F16] = 16, [KERN_TMA_BF16] = 16,
    [KERN_TMA_F32] = 32, [KERN_TMA_TF32] = 32, [KERN_TMA_U4] = 4,   [KERN_TMA_U4PACKED] = 4,
};

// A tensormap under examination.
struct subject {
    struct kern_verify *verify;
    const struct kern_tensormap *map;
    uint64_t order;
    const struct kern_place *place;
};

__attribute__((format(printf, 3, 4))) static bool fail(const struct subject *subject,
                                                       const char *member, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *text = kern_arena_vprint(&subject->verify->arena, format, arguments);
    va_end(arguments);
    struct kern_place place = kern_place_member(subject->place, member);
    return kern_place_fail(subject->verify->diag, "V-TMA", subject->order, &place, "%s", text);
}

static bool is_u4(const struct kern_tensormap *map)
{
    return map->dtype == KERN_TMA_U4;
}

static bool is_float(enum kern_tma_dtype dtype)
{
    return dtype == KERN_TMA_F16 || dtype == KERN_TMA_BF16 || dtype == KERN_TMA_F32 ||
           dtype == KERN_TMA_TF32;
}

static bool check_counts(const struct subject *subject)
{
    const struct kern_tensormap *map = subject->map;
    if (map->n_dims < 1 || map->n_dims > DIMS_MAX)
        return fail(subject, "dims", "%zu dims; there must be 1 to %d", map->n_dims, DIMS_MAX);
    bool sound = true;
    if (map->n_strides != map->n_dims - 1)
        sound = fail(subject, "strides", "%zu stride%s for %zu dim%s; there must be one fewer",
                     map->n_strides, kern_plural(map->n_strides), map->n_dims,
                     kern_plural(map->n_dims));
    if (map->n_box != map->n_dims)
        sound = fail(subject, "box", "%zu extent%s for %zu dim%s; there must be one for each",
                     map->n_box, kern_plural(map->n_box), map->n_dims, kern_plural(map->n_dims));
    return sound;
}

static bool check_dims(const struct subject *subject)
{
    const struct kern_tensormap *map = subject->map;
    bool sound = true;
    for (size_t i = 0; i < map->n_dims; i++) {
        bool may_be_open = i > 0 && i == map->n_dims - 1;
        if (map->dims[i] == 0 && !may_be_open)
            sound = fail(subject, "dims",
                         "dim %zu is 0; only the outermost of several may be left open", i);
        else if (map->dims[i] > DIM_MAX)
            sound = fail(subject, "dims", "dim %zu is %" PRIu64 "; it must be at most 2^32", i,
                         map->dims[i]);
    }
    uint64_t multiple = 128 / element_bits[map->dtype]; // elements of 16 bytes
    if (is_u4(map) && map->dims[0] % 128 != 0)
        sound =
            fail(subject, "dims", "dim 0 of a u4 map is %" PRIu64 "; it must be a multiple of 128",
                 map->dims[0]);
    else if (!is_u4(map) && map->dims[0] % multiple != 0)
        sound = fail(subject, "dims",
                     "dim 0 is %" PRIu64
                     " elements; it must span a multiple of 16 bytes, here of %" PRIu64 " elements",
                     map->dims[0], multiple);
    return sound;
}

static bool check_strides(const struct subject *subject)
{
    const struct kern_tensormap *map = subject->map;
    uint64_t multiple = is_u4(map) ? 32 : 16;
    bool sound = true;
    for (size_t i = 0; i < map->n_strides; i++) {
        if (map->strides[i] == 0 || map->strides[i] % multiple != 0)
            sound =
                fail(subject, "strides",
                     "stride %zu is %" PRIu64 " bytes; it must be a positive multiple of %" PRIu64,
                     i, map->strides[i], multiple);
        else if (map->strides[i] >= STRIDE_LIMIT && !map->wrap)
            sound = fail(subject, "strides",
                         "stride %zu is %" PRIu64 " bytes; it must be less than 2^40", i,
                         map->strides[i]);
    }
    return sound;
}

static void check_box(const struct subject *subject)
{
    const struct kern_tensormap *map = subject->map;
    bool sound = true;
    for (size_t i = 0; i < map->n_box; i++)
        if (map->box[i] < 1 || map->box[i] > BOX_MAX)
            sound = fail(subject, "box", "extent %zu is %" PRIu32 "; it must be 1 to %d", i,
                         map->box[i], BOX_MAX);
    if (!sound)
        return;
    uint64_t bits = map->box[0] * element_bits[map->dtype];
    if (is_u4(map) && map->box[0] != 128)
        fail(subject, "box", "extent 0 of a u4 map is %" PRIu32 "; it must be 128", map->box[0]);
    else if (!is_u4(map) && bits % 128 != 0)
        fail(subject, "box",
             "extent 0 is %" PRIu32 " elements; it must span a multiple of 16 bytes", map->box[0]);
    else if (map->swizzle && bits / 8 > map->swizzle)
        fail(subject, "box", "extent 0 spans %" PRIu64 " bytes, more than the swizzle's %" PRIu32,
             bits / 8, map->swizzle);
}

static void check_modes(const struct subject *subject)
{
    const struct kern_tensormap *map = subject->map;
    uint32_t swizzle = map->swizzle;
    uint32_t promotion = map->l2_promotion;
    if (swizzle != 0 && swizzle != 32 && swizzle != 64 && swizzle != 128)
        fail(subject, "swizzle", "a swizzle of %" PRIu32 "; it must be 0, 32, 64 or 128", swizzle);
    else if (is_u4(map) && swizzle != 0 && swizzle != 128)
        fail(subject, "swizzle", "a swizzle of %" PRIu32 "; that of a u4 map must be 0 or 128",
             swizzle);
    if (promotion != 0 && promotion != 64 && promotion != 128 && promotion != 256)
        fail(subject, "l2_promotion", "a promotion of %" PRIu32 "; it must be 0, 64, 128 or 256",
             promotion);
    if (map->oob_nan && !is_float(map->dtype))
        fail(subject, "oob_nan", "only a map of a float type is filled with NaN");
}

// The bytes from the first to past the last element, without an open outermost dim; false if they
// exceed 64 bits.
static bool footprint(const struct kern_tensormap *map, uint64_t *bytes)
{
    *bytes = map->dims[0] * element_bits[map->dtype] / 8;
    for (size_t i = 1; i < map->n_dims; i++) {
        uint64_t steps = map->dims[i] ? map->dims[i] - 1 : 0;
        uint64_t reach;
        if (__builtin_mul_overflow(steps, map->strides[i - 1], &reach) ||
            __builtin_add_overflow(*bytes, reach, bytes))
            return false;
    }
    return true;
}

static void check_reach(const struct subject *subject, struct kern_demand *demand)
{
    const struct kern_tensormap *map = subject->map;
    uint64_t bytes;
    bool bounded = footprint(map, &bytes);
    if (bounded && map->wrap)
        fail(subject, "wrap", "the strides do not overflow 64 bits, so nothing wraps; drop it");
    else if (!bounded && !map->wrap)
        fail(subject, "strides", "the map exceeds 64 bits; \"wrap\": true if that is meant");
    if (demand && bounded && map->dims[map->n_dims - 1] != 0 && bytes > demand->bytes)
        demand->bytes = bytes;
}

static void check_field(struct kern_verify *verify, const struct kern_launch_at *at,
                        const struct kern_field *field, const struct kern_place *place)
{
    if (field->value.kind != KERN_VALUE_TENSORMAP)
        return;
    const struct kern_tensormap *map = field->value.tensormap;
    struct kern_place map_place = kern_place_member(place, "tensormap");
    struct subject subject = {verify, map, field->value.order, &map_place};
    struct kern_demand *demand = NULL;
    char found[32];
    if (map->param >= at->op->n_params)
        fail(&subject, "param", "the op has no param %" PRIu64 "; it has %zu, counted from 0",
             map->param, at->op->n_params);
    else if (!kern_param_is_pointer(&at->op->params[map->param]))
        fail(&subject, "param", "param %" PRIu64 " is \"%s\"; a map is over a buffer or state",
             map->param, kern_param_text(&at->op->params[map->param], found));
    else
        demand = &at->facts->demands[map->param];
    uint32_t alignment = is_u4(map) ? 32 : 16;
    if (demand && demand->alignment < alignment)
        demand->alignment = alignment;
    check_modes(&subject);
    if (!check_counts(&subject))
        return;
    bool sound = check_dims(&subject);
    sound = check_strides(&subject) && sound;
    check_box(&subject);
    if (sound)
        check_reach(&subject, demand);
}

static void check_launch(struct kern_verify *verify, const struct kern_launch_at *at)
{
    kern_each_field(verify, at, check_field);
}

void kern_rules_tma(struct kern_verify *verify)
{
    kern_each_launch(verify, check_launch);
}
