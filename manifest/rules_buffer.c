// SPDX-License-Identifier: Apache-2.0
//
// V-EXPORT, V-PEER and V-FILL: the memory that others reach, and the roles that a serving loop
// gives to buffers.
#include <inttypes.h>

#include "manifest/verify.h"

static void check_export(struct kern_verify *verify, const struct kern_buffer *buffer,
                         const struct kern_place *buffer_place)
{
    struct kern_place place = kern_place_member(buffer_place, "export");
    if (buffer->exported && (buffer->kind == KERN_PEER || buffer->kind == KERN_SOURCE))
        kern_place_fail(verify->diag, "V-EXPORT", buffer->order, &place,
                        "a buffer of kind %s is never exported",
                        kern_buffer_kind_name(buffer->kind));
}

static void check_of(struct kern_verify *verify, const struct kern_buffer *buffer,
                     const struct kern_place *buffer_place)
{
    const struct kern_manifest *manifest = verify->manifest;
    struct kern_place of = kern_place_member(buffer_place, "of");
    if (!buffer->of.name) {
        kern_place_fail(verify->diag, "V-PEER", buffer->order, buffer_place,
                        "a peer buffer says with \"of\" whose addresses it holds");
    } else if (buffer->of_target == KERN_TARGET_STATE) {
        if (manifest->states[buffer->of.index].host)
            kern_place_fail(verify->diag, "V-PEER", buffer->order, &of,
                            "the state \"%s\" is the host's, so its memory cannot be exported",
                            buffer->of.name);
    } else if (buffer->of_target == KERN_TARGET_BUFFER) {
        const struct kern_buffer *target = &manifest->buffers[buffer->of.index];
        if (target->kind == KERN_PEER)
            kern_place_fail(verify->diag, "V-PEER", buffer->order, &of,
                            "\"%s\" is itself a peer buffer; name the exported one", target->name);
        else if (!target->exported)
            kern_place_fail(verify->diag, "V-PEER", buffer->order, &of,
                            "the buffer \"%s\" is not exported; give it \"export\": true",
                            target->name);
    }
}

static void check_addresses(struct kern_verify *verify, const struct kern_buffer *buffer,
                            const struct kern_place *buffer_place)
{
    struct kern_place shape = kern_place_member(buffer_place, "shape");
    if (!buffer->group.name) {
        kern_place_fail(verify->diag, "V-PEER", buffer->order, buffer_place,
                        "a peer buffer says with \"group\" whose members it holds addresses of");
        return;
    }
    if (buffer->group.index == KERN_NONE || buffer->bytes == 0)
        return;
    uint64_t members = verify->manifest->groups[buffer->group.index].size;
    if (members &&
        (buffer->rank != 1 || buffer->shape[0].var.name || buffer->shape[0].extent != members))
        kern_place_fail(verify->diag, "V-PEER", buffer->order, &shape,
                        "the shape must be [%" PRIu64 "], an address for each member of \"%s\"",
                        members, buffer->group.name);
}

static void check_peer(struct kern_verify *verify, const struct kern_buffer *buffer,
                       const struct kern_place *buffer_place)
{
    struct kern_place dtype = kern_place_member(buffer_place, "dtype");
    struct kern_place domain = kern_place_member(buffer_place, "domain");
    if (buffer->dtype != KERN_U64)
        kern_place_fail(verify->diag, "V-PEER", buffer->order, &dtype,
                        "a peer buffer holds addresses; its dtype must be u64, not %s",
                        kern_dtype_name(buffer->dtype));
    if (buffer->domain)
        kern_place_fail(verify->diag, "V-PEER", buffer->domain->order, &domain,
                        "a peer buffer has no domain; the runtime fills it");
    check_of(verify, buffer, buffer_place);
    check_addresses(verify, buffer, buffer_place);
}

static void check_no_peer(struct kern_verify *verify, const struct kern_buffer *buffer,
                          const struct kern_place *buffer_place)
{
    struct kern_place of = kern_place_member(buffer_place, "of");
    struct kern_place group = kern_place_member(buffer_place, "group");
    if (buffer->of.name)
        kern_place_fail(verify->diag, "V-PEER", buffer->order, &of,
                        "only a peer buffer has \"of\"; this is of kind %s",
                        kern_buffer_kind_name(buffer->kind));
    if (buffer->group.name)
        kern_place_fail(verify->diag, "V-PEER", buffer->order, &group,
                        "only a peer buffer has \"group\"; this is of kind %s",
                        kern_buffer_kind_name(buffer->kind));
}

static bool is_integer(enum kern_dtype dtype)
{
    return !kern_dtype_is_float(dtype);
}

static bool is_signed_word(enum kern_dtype dtype)
{
    return dtype == KERN_I32 || dtype == KERN_I64;
}

static bool is_f32(enum kern_dtype dtype)
{
    return dtype == KERN_F32;
}

static bool is_i32(enum kern_dtype dtype)
{
    return dtype == KERN_I32;
}

static bool is_i64(enum kern_dtype dtype)
{
    return dtype == KERN_I64;
}

static const struct role {
    enum kern_buffer_kind kind;
    bool (*allows)(enum kern_dtype dtype);
    const char *dtypes;
} roles[] = {
    [KERN_FILL_TOKEN] = {KERN_INPUT, is_signed_word, "i32 or i64"},
    [KERN_FILL_POSITION] = {KERN_INPUT, is_signed_word, "i32 or i64"},
    [KERN_FILL_VALID] = {KERN_INPUT, is_integer, "an integer type"},
    [KERN_FILL_SLOT] = {KERN_INPUT, is_signed_word, "i32 or i64"},
    [KERN_FILL_SEQ_LEN] = {KERN_INPUT, is_signed_word, "i32 or i64"},
    [KERN_FILL_CU_SEQLENS] = {KERN_INPUT, is_signed_word, "i32 or i64"},
    [KERN_FILL_BLOCKS] = {KERN_INPUT, is_signed_word, "i32 or i64"},
    [KERN_FILL_TEMPERATURE] = {KERN_INPUT, is_f32, "f32"},
    [KERN_FILL_TOP_K] = {KERN_INPUT, is_i32, "i32"},
    [KERN_FILL_TOP_P] = {KERN_INPUT, is_f32, "f32"},
    [KERN_FILL_MIN_P] = {KERN_INPUT, is_f32, "f32"},
    [KERN_FILL_SEED] = {KERN_INPUT, is_i64, "i64"},
    [KERN_FILL_TOKENS] = {KERN_OUTPUT, is_signed_word, "i32 or i64"},
    [KERN_FILL_COUNT] = {KERN_OUTPUT, is_signed_word, "i32 or i64"},
    [KERN_FILL_ERROR] = {KERN_OUTPUT, is_i32, "i32"},
};

static void check_fill(struct kern_verify *verify, const struct kern_buffer *buffer,
                       const struct kern_place *buffer_place)
{
    const struct role *role = &roles[buffer->fill];
    struct kern_place fill = kern_place_member(buffer_place, "fill");
    struct kern_place dtype = kern_place_member(buffer_place, "dtype");
    if (buffer->kind != role->kind)
        kern_place_fail(verify->diag, "V-FILL", buffer->order, &fill,
                        "the role %s belongs on an %s buffer; this is of kind %s",
                        kern_fill_name(buffer->fill), kern_buffer_kind_name(role->kind),
                        kern_buffer_kind_name(buffer->kind));
    else if (!role->allows(buffer->dtype))
        kern_place_fail(verify->diag, "V-FILL", buffer->order, &dtype,
                        "a buffer with the role %s must be %s, not %s",
                        kern_fill_name(buffer->fill), role->dtypes, kern_dtype_name(buffer->dtype));
}

void kern_rules_buffer(struct kern_verify *verify)
{
    struct kern_place buffers = kern_place_member(NULL, "buffers");
    for (uint32_t i = 0; i < verify->manifest->n_buffers; i++) {
        const struct kern_buffer *buffer = &verify->manifest->buffers[i];
        struct kern_place place = kern_place_member(&buffers, buffer->name);
        check_export(verify, buffer, &place);
        if (buffer->kind == KERN_PEER)
            check_peer(verify, buffer, &place);
        else
            check_no_peer(verify, buffer, &place);
        if (buffer->fill != KERN_FILL_NONE)
            check_fill(verify, buffer, &place);
    }
}
