// SPDX-License-Identifier: Apache-2.0
//
// V-CALL: the arguments of calls, and what the launches of the op ask of them beyond the interface
// (V-TMA: what a tensormap reaches; V-PACK: what a narrow field can hold).
#include <inttypes.h>

#include "manifest/verify.h"

// An argument of a call.
struct bound {
    const struct kern_call_at *at;
    const struct kern_param *param;
    const struct kern_value *value;
    const struct kern_demand *demand;
    const struct kern_place *place;
};

static const char *const value_names[] = {
    [KERN_VALUE_BUFFER] = "a buffer",
    [KERN_VALUE_STATE] = "a state",
    [KERN_VALUE_PARAM] = "a param",
    [KERN_VALUE_SCRATCH] = "a scratch",
    [KERN_VALUE_VAR] = "a var",
    [KERN_VALUE_EXPR] = "an expression",
    [KERN_VALUE_I32] = "a literal i32",
    [KERN_VALUE_I64] = "a literal i64",
    [KERN_VALUE_F32] = "a literal f32",
    [KERN_VALUE_U8] = "a literal u8",
    [KERN_VALUE_RANK] = "a rank",
    [KERN_VALUE_PACK] = "a pack",
    [KERN_VALUE_TENSORMAP] = "a tensormap",
};

static bool fail_type(struct kern_verify *verify, const struct bound *bound)
{
    char right[32];
    return kern_place_fail(verify->diag, "V-CALL", bound->value->order, bound->place,
                           "%s, the op \"%s\" takes \"%s\"", value_names[bound->value->kind],
                           bound->at->op->name, kern_param_text(bound->param, right));
}

static void check_alignment(struct kern_verify *verify, const struct bound *bound)
{
    if (bound->demand->alignment && bound->value->offset % bound->demand->alignment != 0)
        kern_place_fail(verify->diag, "V-TMA", bound->value->order, bound->place,
                        "the offset %" PRIu64 " is no multiple of %" PRIu32
                        ", which a tensormap over it needs",
                        bound->value->offset, bound->demand->alignment);
}

static void check_view(struct kern_verify *verify, const struct bound *bound,
                       const struct kern_buffer *buffer)
{
    uint64_t offset = bound->value->offset;
    size_t element = kern_dtype_bytes(buffer->dtype);
    if (offset % element != 0) {
        kern_place_fail(verify->diag, "V-CALL", bound->value->order, bound->place,
                        "the offset %" PRIu64 " is no multiple of the %zu bytes of a %s", offset,
                        element, kern_dtype_name(buffer->dtype));
        return;
    }
    check_alignment(verify, bound);
    if (buffer->bytes == 0)
        return;
    if (offset >= buffer->bytes)
        kern_place_fail(verify->diag, "V-CALL", bound->value->order, bound->place,
                        "the offset %" PRIu64 " lies outside \"%s\", which has %" PRIu64
                        " bytes with the vars at their max",
                        offset, buffer->name, buffer->bytes);
    else if (bound->demand->bytes > buffer->bytes - offset)
        kern_place_fail(verify->diag, "V-TMA", bound->value->order, bound->place,
                        "a tensormap of the op \"%s\" reaches %" PRIu64
                        " bytes; \"%s\" has %" PRIu64 " past the offset",
                        bound->at->op->name, bound->demand->bytes, buffer->name,
                        buffer->bytes - offset);
}

static void check_buffer(struct kern_verify *verify, const struct bound *bound)
{
    if (bound->param->kind != KERN_PARAM_BUFFER) {
        fail_type(verify, bound);
        return;
    }
    if (bound->value->ref.index == KERN_NONE)
        return;
    const struct kern_buffer *buffer = &verify->manifest->buffers[bound->value->ref.index];
    if (buffer->kind == KERN_PEER && bound->at->facts->has_extern)
        return; // V-EXTERN-PEER refuses it
    char right[32];
    if (buffer->dtype != bound->param->dtype) {
        kern_place_fail(verify->diag, "V-CALL", bound->value->order, bound->place,
                        "\"%s\" is a buffer<%s>, the op \"%s\" takes \"%s\"", buffer->name,
                        kern_dtype_name(buffer->dtype), bound->at->op->name,
                        kern_param_text(bound->param, right));
        return;
    }
    check_view(verify, bound, buffer);
}

static void check_state(struct kern_verify *verify, const struct bound *bound)
{
    if (bound->param->kind != KERN_PARAM_STATE) {
        fail_type(verify, bound);
        return;
    }
    if (bound->value->ref.index == KERN_NONE)
        return;
    // Of the other states the runtime decides how much there is.
    const struct kern_state *state = &verify->manifest->states[bound->value->ref.index];
    check_alignment(verify, bound);
    if (state->bytes && bound->value->offset >= state->bytes)
        kern_place_fail(verify->diag, "V-CALL", bound->value->order, bound->place,
                        "the offset %" PRIu64 " lies outside \"%s\", which has %" PRIu64 " bytes",
                        bound->value->offset, state->name, state->bytes);
}

// A var or expression: its largest value must go into the param.
static void check_number(struct kern_verify *verify, const struct bound *bound)
{
    static const uint64_t most[] = {
        [KERN_PARAM_I32] = INT32_MAX,
        [KERN_PARAM_I64] = INT64_MAX,
        [KERN_PARAM_U8] = UINT8_MAX,
    };
    const struct kern_value *value = bound->value;
    char right[32];
    uint64_t high;
    if (!kern_param_is_scalar(bound->param) || bound->param->kind == KERN_PARAM_F32) {
        fail_type(verify, bound);
        return;
    }
    if (value->kind == KERN_VALUE_EXPR) {
        if (!kern_expr_high(verify, value->expr, value->order, bound->place, &high))
            return;
    } else {
        if (value->ref.index == KERN_NONE)
            return;
        high = verify->high[value->ref.index];
    }
    if (high > most[bound->param->kind])
        kern_place_fail(verify->diag, "V-CALL", value->order, bound->place,
                        "the value is %" PRIu64
                        " with the vars at their max; \"%s\" goes to %" PRIu64,
                        high, kern_param_text(bound->param, right), most[bound->param->kind]);
}

static void check_literal(struct kern_verify *verify, const struct bound *bound)
{
    static const enum kern_param_kind kinds[] = {
        [KERN_VALUE_I32] = KERN_PARAM_I32,
        [KERN_VALUE_I64] = KERN_PARAM_I64,
        [KERN_VALUE_F32] = KERN_PARAM_F32,
        [KERN_VALUE_U8] = KERN_PARAM_U8,
    };
    if (bound->param->kind != kinds[bound->value->kind])
        fail_type(verify, bound);
}

static void check_arg(struct kern_verify *verify, const struct bound *bound)
{
    if (bound->param->kind == KERN_PARAM_BYTES)
        return; // V-OP has refused it
    switch (bound->value->kind) {
    case KERN_VALUE_BUFFER:
        check_buffer(verify, bound);
        return;
    case KERN_VALUE_STATE:
        check_state(verify, bound);
        return;
    case KERN_VALUE_VAR:
    case KERN_VALUE_EXPR:
        check_number(verify, bound);
        break;
    case KERN_VALUE_I32:
    case KERN_VALUE_I64:
    case KERN_VALUE_F32:
    case KERN_VALUE_U8:
        check_literal(verify, bound);
        break;
    case KERN_VALUE_RANK:
        if (bound->param->kind != KERN_PARAM_I32 && bound->param->kind != KERN_PARAM_I64)
            fail_type(verify, bound);
        return;
    case KERN_VALUE_PARAM:
    case KERN_VALUE_SCRATCH:
    case KERN_VALUE_PACK:
    case KERN_VALUE_TENSORMAP:
        return; // not arguments of a call
    }
    if (bound->demand->group && kern_param_is_scalar(bound->param))
        kern_place_fail(verify->diag, "V-CALL", bound->value->order, bound->place,
                        "%s; a collective of the op \"%s\" takes its group from here, so it must "
                        "be {\"rank\": GROUP}",
                        value_names[bound->value->kind], bound->at->op->name);
}

// The scalars that [narrow] hands on in fewer bytes than they have must fit these.
static void check_narrow(struct kern_verify *verify, const struct kern_call_at *at,
                         const struct kern_narrow *narrow)
{
    const struct kern_value *value = &at->call->args[narrow->param];
    struct kern_place place = kern_place_numbered(at->place, "arg", narrow->param);
    int64_t low = 0;
    uint64_t high = 0;
    if (!kern_corners_enter(verify, narrow->launch))
        return;
    if (value->kind == KERN_VALUE_I32 || value->kind == KERN_VALUE_I64) {
        low = value->integer < 0 ? value->integer : 0;
        high = value->integer < 0 ? 0 : (uint64_t)value->integer;
    } else if (value->kind == KERN_VALUE_VAR && value->ref.index != KERN_NONE) {
        high = verify->high[value->ref.index];
    } else if (value->kind == KERN_VALUE_RANK && value->ref.index != KERN_NONE) {
        high = verify->manifest->groups[value->ref.index].size;
        high -= high > 0;
    } else if (value->kind == KERN_VALUE_EXPR &&
               !kern_expr_high_quiet(verify, value->expr, &high)) {
        high = 0;
    }
    kern_corners_leave(verify, narrow->launch);
    if (!kern_fits(low, high, narrow->width))
        kern_place_fail(verify->diag, "V-PACK", value->order, &place,
                        "the op \"%s\" packs this into %" PRIu32 " byte%s; the value does not fit",
                        at->op->name, narrow->width, kern_plural(narrow->width));
}

static void check_call(struct kern_verify *verify, const struct kern_call_at *at)
{
    if (!at->op)
        return;
    if (!at->whole) {
        kern_place_fail(verify->diag, "V-CALL", at->call->order, at->place,
                        "%zu argument%s; the op \"%s\" takes %zu", at->call->n_args,
                        kern_plural(at->call->n_args), at->op->name, at->op->n_params);
        return;
    }
    for (size_t i = 0; i < at->call->n_args; i++) {
        struct kern_place place = kern_place_numbered(at->place, "arg", i);
        struct bound bound = {at, &at->op->params[i], &at->call->args[i], &at->facts->demands[i],
                              &place};
        check_arg(verify, &bound);
    }
    for (const struct kern_narrow *narrow = at->facts->narrow; narrow; narrow = narrow->next)
        check_narrow(verify, at, narrow);
}

void kern_rules_call(struct kern_verify *verify)
{
    kern_each_call(verify, check_call, NULL);
}
