// SPDX-License-Identifier: Apache-2.0
#include "rank/codes.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/abi/host_module.h"
#include "rank/elf.h"
#include "rank/internal.h"

// The header of a piece of code in a fatbin container, as nvcc 13 writes it, as far as it is
// needed; NVIDIA documents it nowhere.
struct code_header {
    uint16_t kind;
    uint16_t version;
    uint32_t header_bytes;
    uint64_t payload_bytes;
    uint32_t compressed_bytes;
    uint32_t options;
    uint16_t minor, major;
    uint32_t architecture; // 90
    uint32_t name_offset, name_bytes;
    uint64_t flags;
};
enum { KIND_PTX = 1, KIND_CUBIN = 2 };
#define FLAGS_COMPRESSED 0xa000u // LZ4 or Zstandard

// A listing that goes on.
struct listing {
    const uint8_t *bytes;
    size_t length;
    const char *place;
    struct kern_arena *arena;
    struct rank_codes *codes;
    struct kern_diag *diag;
};

static bool find_target(struct listing *listing, const char *target, size_t *index)
{
    struct rank_codes *codes = listing->codes;
    for (*index = 0; *index < codes->n_targets; (*index)++) {
        if (strcmp(codes->targets[*index], target) == 0) {
            return true;
        }
    }
    if (codes->n_targets == RANK_TARGETS_MAX) {
        return kern_fail(listing->diag, KERN_EXIT_ARTIFACT, listing->place,
                         "it says to hold code for more than %d kinds of device", RANK_TARGETS_MAX);
    }
    codes->targets[codes->n_targets++] = target;
    return true;
}

static bool add(struct listing *listing, const char *target, struct rank_code code)
{
    struct rank_codes *codes = listing->codes;
    if (!find_target(listing, target, &code.target)) {
        return false;
    }
    kern_reserve(&codes->items, &codes->capacity, codes->count + 1, sizeof(*codes->items));
    codes->items[codes->count++] = code;
    return true;
}

static bool add_payload(struct listing *listing, const struct code_header *header,
                        const uint8_t *payload)
{
    struct rank_code code = {
        .kind = RANK_CODE_OTHER, .bytes = payload, .length = header->payload_bytes};
    const char *target = kern_arena_print(
        listing->arena, "%s_%u", header->kind == KIND_PTX ? "compute" : "sm", header->architecture);
    if ((header->flags & FLAGS_COMPRESSED) != 0 || header->compressed_bytes != 0) {
        code.closed = "compressed";
    } else if (header->kind == KIND_CUBIN) {
        code.kind = RANK_CODE_CUBIN;
    } else if (header->kind == KIND_PTX) {
        code.kind = RANK_CODE_PTX;
    } else {
        code.closed = kern_arena_print(listing->arena, "code of kind %u", header->kind);
    }
    return add(listing, target, code);
}

// Adds the pieces of the container [span].
static bool list_container(struct listing *listing, struct rank_span span)
{
    uint16_t own;
    memcpy(&own, listing->bytes + span.offset + 6, sizeof(own)); // bytes of the container's header
    size_t at = span.offset + own, end = span.offset + span.length;
    while (at < end) {
        struct code_header header = {0};
        bool whole = end - at >= sizeof(header);
        if (whole) {
            memcpy(&header, listing->bytes + at, sizeof(header));
        }
        if (!whole || header.header_bytes < sizeof(header) || header.header_bytes > end - at ||
            header.payload_bytes > end - at - header.header_bytes) {
            return kern_fail(listing->diag, KERN_EXIT_ARTIFACT, listing->place,
                             "at byte %zu there should be code of a fatbin container that ends "
                             "before byte %zu",
                             at, end);
        }
        if (!add_payload(listing, &header, listing->bytes + at + header.header_bytes)) {
            return false;
        }
        at += header.header_bytes + (size_t)header.payload_bytes;
    }
    return true;
}

static bool list_containers(struct listing *listing)
{
    struct rank_span *spans = NULL;
    size_t count = 0;
    bool ok = rank_fatbin_split(listing->bytes, listing->length, listing->place, &spans, &count,
                                listing->diag);
    for (size_t i = 0; ok && i < count; i++) {
        ok = list_container(listing, spans[i]);
    }
    free(spans);
    return ok;
}

static bool list_cubin(struct listing *listing)
{
    struct rank_elf elf;
    if (!rank_elf_open(listing->bytes, listing->length, listing->place, &elf, listing->diag)) {
        return false;
    }
    // The architecture stands in the second byte of the flags from ABI version 8 on, in the first
    // one before.
    uint32_t flags = elf.header.e_flags;
    unsigned architecture =
        elf.header.e_ident[EI_ABIVERSION] >= 8 ? flags >> 8 & 0xffff : flags & 0xff;
    return add(listing, kern_arena_print(listing->arena, "sm_%u", architecture),
               (struct rank_code){
                   .kind = RANK_CODE_CUBIN, .bytes = listing->bytes, .length = listing->length});
}

static bool list_shared_object(struct listing *listing)
{
    struct rank_elf elf;
    if (!rank_elf_open(listing->bytes, listing->length, listing->place, &elf, listing->diag) ||
        !list_containers(listing)) {
        return false;
    }
    Elf64_Sym symbol;
    return !rank_elf_symbol(&elf, SHT_DYNSYM, KERN_HOST_MODULE_SYMBOL, &symbol) ||
           add(listing, "host half",
               (struct rank_code){
                   .kind = RANK_CODE_HOST, .bytes = listing->bytes, .length = listing->length});
}

static bool list_any(struct listing *listing)
{
    switch (rank_image_kind(listing->bytes, listing->length)) {
    case RANK_IMAGE_CUBIN:
        return list_cubin(listing);
    case RANK_IMAGE_FATBIN:
        return list_containers(listing);
    case RANK_IMAGE_SHARED_OBJECT:
        return list_shared_object(listing);
    case RANK_IMAGE_PTX:
        return add(listing, "PTX",
                   (struct rank_code){
                       .kind = RANK_CODE_PTX, .bytes = listing->bytes, .length = listing->length});
    case RANK_IMAGE_UNKNOWN:
        break;
    }
    return true;
}

bool rank_codes_list(const uint8_t *bytes, size_t length, const char *place,
                     struct kern_arena *arena, struct rank_codes *codes, struct kern_diag *diag)
{
    *codes = (struct rank_codes){0};
    struct listing listing = {bytes, length, place, arena, codes, diag};
    bool ok = list_any(&listing);
    if (ok && codes->count == 0) {
        ok = kern_fail(diag, KERN_EXIT_ARTIFACT, place,
                       "it holds no code: neither a cubin nor PTX, a fatbin container or a host "
                       "half, which KERN_MODULE of kernels/portable.h makes");
    }
    if (!ok) {
        rank_codes_free(codes);
    }
    return ok;
}

void rank_codes_free(struct rank_codes *codes)
{
    free(codes->items);
    *codes = (struct rank_codes){0};
}

enum rank_lookup rank_code_layout(const struct rank_code *code, const char *entry,
                                  struct rank_layout *layout, const char **why)
{
    *why = code->closed;
    if (code->closed != NULL) {
        return RANK_UNREADABLE;
    }
    switch (code->kind) {
    case RANK_CODE_CUBIN:
        return rank_layout_of_cubin(code->bytes, code->length, entry, layout, why);
    case RANK_CODE_PTX:
        return rank_layout_of_ptx(code->bytes, code->length, entry, layout, why);
    case RANK_CODE_HOST:
        return rank_layout_of_host(code->bytes, code->length, entry, layout, why);
    case RANK_CODE_OTHER:
        break;
    }
    return RANK_UNREADABLE;
}
