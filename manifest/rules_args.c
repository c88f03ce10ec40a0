// SPDX-License-Identifier: Apache-2.0
//
// V-ARGS: where the params of a launch come from. An op is walked in order, launch by launch and
// argument by argument; what is written is what an earlier argument, also of the same launch,
// wrote. A launch counts as run whatever its `when` says.
#include <inttypes.h>

#include "manifest/verify.h"

// The walk through an op.
struct wiring {
    struct kern_verify *verify;
    const struct kern_op *op;
    bool *param_written;   // per interface param
    bool *scratch_written; // per scratch
    bool *scratch_used;
    bool forwarded; // a launch has taken all params of the op just as they are
    bool blind; // something could not be judged, so what is never written or used cannot be either
};

// An argument on the way: the launch param it is for, itself and its place.
struct wire {
    const struct kern_param *to;
    const struct kern_value *value;
    const struct kern_place *place;
};

static bool same_type(const struct kern_param *a, const struct kern_param *b)
{
    return a->kind == b->kind && (a->kind != KERN_PARAM_BUFFER || a->dtype == b->dtype);
}

static void forward_param(struct wiring *wiring, const struct wire *wire)
{
    struct kern_diag *diag = wiring->verify->diag;
    uint64_t order = wire->value->order;
    uint64_t index = wire->value->param;
    if (index >= wiring->op->n_params) {
        wiring->blind = true;
        kern_place_fail(diag, "V-ARGS", order, wire->place,
                        "the op has no param %" PRIu64 "; it has %zu, counted from 0", index,
                        wiring->op->n_params);
        return;
    }
    const struct kern_param *from = &wiring->op->params[index];
    bool *written = &wiring->param_written[index];
    bool was_written = *written;
    if (!kern_param_is_scalar(wire->to) && wire->to->direction != KERN_IN)
        *written = true;
    if (from->kind == KERN_PARAM_BYTES)
        return; // V-OP has refused it
    char found[32];
    char right[32];
    if (!same_type(from, wire->to)) {
        *written = true;
        kern_place_fail(diag, "V-ARGS", order, wire->place,
                        "param %" PRIu64 " of the op is \"%s\", the launch takes \"%s\"", index,
                        kern_param_text(from, found), kern_param_text(wire->to, right));
    } else if (kern_param_is_pointer(from) && from->direction == KERN_IN &&
               wire->to->direction != KERN_IN) {
        kern_place_fail(diag, "V-ARGS", order, wire->place,
                        "the launch writes through param %" PRIu64 ", which the op declares \"%s\"",
                        index, kern_param_text(from, found));
    } else if (kern_param_is_pointer(from) && wire->to->direction != KERN_OUT && !was_written) {
        kern_place_fail(diag, "V-ARGS", order, wire->place,
                        "the launch reads param %" PRIu64
                        ", which the op declares \"%s\", before a launch wrote it",
                        index, kern_param_text(from, found));
        *written = true;
    }
}

static void forward_scratch(struct wiring *wiring, const struct wire *wire)
{
    struct kern_diag *diag = wiring->verify->diag;
    uint64_t order = wire->value->order;
    uint32_t index = wire->value->ref.index;
    if (index == KERN_NONE)
        return; // said by check_scratch_name
    const struct kern_scratch *scratch = &wiring->op->scratch[index];
    bool was_written = wiring->scratch_written[index];
    wiring->scratch_written[index] = true;
    char found[32];
    if (wire->to->kind != KERN_PARAM_BUFFER || wire->to->dtype != scratch->dtype)
        kern_place_fail(diag, "V-ARGS", order, wire->place,
                        "the scratch \"%s\" is a buffer<%s>, the launch takes \"%s\"",
                        scratch->name, kern_dtype_name(scratch->dtype),
                        kern_param_text(wire->to, found));
    else if (wire->to->direction != KERN_OUT && !was_written)
        kern_place_fail(diag, "V-ARGS", order, wire->place,
                        "the launch reads the scratch \"%s\" before anything wrote it",
                        scratch->name);
}

// An unknown scratch is an error of the rule of what names it, an argument or a field.
static void check_scratch_name(struct wiring *wiring, const struct kern_value *value,
                               const char *rule, const struct kern_place *place)
{
    const struct kern_op *op = wiring->op;
    if (value->ref.index != KERN_NONE) {
        wiring->scratch_used[value->ref.index] = true;
        return;
    }
    wiring->blind = true;
    kern_place_fail(wiring->verify->diag, rule, value->order, place, "unknown scratch \"%s\"%s",
                    value->ref.name,
                    kern_verify_near(wiring->verify, value->ref.name, op->scratch, op->n_scratch,
                                     sizeof *op->scratch));
}

// What a pack does through the pointers that it hands over.
static void forward_fields(struct wiring *wiring, const struct kern_pack *pack,
                           const struct kern_place *arg)
{
    struct kern_place pack_place = kern_place_member(arg, "pack");
    for (size_t i = 0; i < pack->n_fields; i++) {
        const struct kern_value *value = &pack->fields[i].value;
        struct kern_place place = kern_place_numbered(&pack_place, "field", i);
        if (value->kind == KERN_VALUE_SCRATCH) {
            check_scratch_name(wiring, value, "V-PACK", &place);
            if (value->ref.index != KERN_NONE)
                wiring->scratch_written[value->ref.index] = true;
        } else if (value->kind == KERN_VALUE_PARAM || value->kind == KERN_VALUE_TENSORMAP) {
            uint64_t param =
                value->kind == KERN_VALUE_PARAM ? value->param : value->tensormap->param;
            if (param < wiring->op->n_params)
                wiring->param_written[param] = true;
            else
                wiring->blind = true;
        }
    }
}

static void check_literal(struct wiring *wiring, const struct wire *wire, enum kern_param_kind kind)
{
    const struct kern_param literal = {.kind = kind};
    char found[32];
    char right[32];
    if (wire->to->kind != kind)
        kern_place_fail(wiring->verify->diag, "V-ARGS", wire->value->order, wire->place,
                        "a literal of %s, the launch takes \"%s\"",
                        kern_param_text(&literal, found), kern_param_text(wire->to, right));
}

static void check_wire(struct wiring *wiring, const struct wire *wire)
{
    char right[32];
    switch (wire->value->kind) {
    case KERN_VALUE_PARAM:
        forward_param(wiring, wire);
        return;
    case KERN_VALUE_SCRATCH:
        check_scratch_name(wiring, wire->value, "V-ARGS", wire->place);
        forward_scratch(wiring, wire);
        return;
    case KERN_VALUE_I32:
        check_literal(wiring, wire, KERN_PARAM_I32);
        return;
    case KERN_VALUE_I64:
        check_literal(wiring, wire, KERN_PARAM_I64);
        return;
    case KERN_VALUE_F32:
        check_literal(wiring, wire, KERN_PARAM_F32);
        return;
    case KERN_VALUE_U8:
        check_literal(wiring, wire, KERN_PARAM_U8);
        return;
    case KERN_VALUE_RANK:
        if (wire->to->kind != KERN_PARAM_I32 && wire->to->kind != KERN_PARAM_I64)
            kern_place_fail(wiring->verify->diag, "V-ARGS", wire->value->order, wire->place,
                            "a rank is an i32 or i64, the launch takes \"%s\"",
                            kern_param_text(wire->to, right));
        return;
    case KERN_VALUE_PACK:
        forward_fields(wiring, wire->value->pack, wire->place);
        return;
    case KERN_VALUE_BUFFER:
    case KERN_VALUE_STATE:
    case KERN_VALUE_VAR:
    case KERN_VALUE_EXPR:
    case KERN_VALUE_TENSORMAP:
        return; // not arguments of a launch
    }
}

static void check_launch(struct wiring *wiring, const struct kern_launch *launch,
                         const struct kern_place *place)
{
    if (launch->n_args != launch->n_params) {
        wiring->blind = true;
        kern_place_fail(wiring->verify->diag, "V-ARGS", launch->order, place,
                        "%zu argument%s for %zu param%s", launch->n_args,
                        kern_plural(launch->n_args), launch->n_params,
                        kern_plural(launch->n_params));
        return;
    }
    // What takes the op's params just as they are writes those that are out, and the next one that
    // does says nothing new: there may be as many launches as params.
    bool forwards = !launch->params_given && !launch->args_given;
    if (forwards && wiring->forwarded)
        return;
    wiring->forwarded |= forwards;
    for (size_t i = 0; i < launch->n_args; i++) {
        struct kern_place arg = kern_place_numbered(place, "arg", i);
        struct wire wire = {&launch->params[i], &launch->args[i], &arg};
        check_wire(wiring, &wire);
    }
}

static void check_leftovers(const struct wiring *wiring, const struct kern_place *op_place,
                            const struct kern_place *impl)
{
    const struct kern_op *op = wiring->op;
    struct kern_place params = kern_place_member(op_place, "params");
    struct kern_place scratches = kern_place_member(impl, "scratch");
    for (size_t i = 0; i < op->n_params; i++) {
        struct kern_place place = kern_place_element(&params, i);
        if (!wiring->param_written[i])
            kern_place_fail(wiring->verify->diag, "V-ARGS", op->order, &place,
                            "no launch writes this out param");
    }
    for (size_t i = 0; i < op->n_scratch; i++) {
        struct kern_place place = kern_place_member(&scratches, op->scratch[i].name);
        if (!wiring->scratch_used[i])
            kern_place_fail(wiring->verify->diag, "V-ARGS", op->scratch[i].order, &place,
                            "no launch uses this scratch; remove it");
    }
}

static void check_op(struct kern_verify *verify, const struct kern_op *op,
                     const struct kern_place *place)
{
    struct kern_place impl = kern_place_member(place, "impl");
    struct kern_place launches = kern_place_member(&impl, "launches");
    struct wiring wiring = {
        .verify = verify,
        .op = op,
        .param_written = kern_arena_array(&verify->arena, op->n_params, sizeof(bool)),
        .scratch_written = kern_arena_array(&verify->arena, op->n_scratch, sizeof(bool)),
        .scratch_used = kern_arena_array(&verify->arena, op->n_scratch, sizeof(bool)),
        .blind = op->n_launches == 0,
    };
    for (size_t i = 0; i < op->n_params; i++)
        wiring.param_written[i] =
            !kern_param_is_pointer(&op->params[i]) || op->params[i].direction != KERN_OUT;
    for (size_t i = 0; i < op->n_launches; i++) {
        struct kern_place launch = kern_place_element(&launches, i);
        check_launch(&wiring, &op->launches[i], &launch);
    }
    if (!wiring.blind)
        check_leftovers(&wiring, place, &impl);
}

void kern_rules_args(struct kern_verify *verify)
{
    struct kern_place ops = kern_place_member(NULL, "ops");
    for (uint32_t i = 0; i < verify->manifest->n_ops; i++) {
        struct kern_place place = kern_place_member(&ops, verify->manifest->ops[i].name);
        check_op(verify, &verify->manifest->ops[i], &place);
    }
}
