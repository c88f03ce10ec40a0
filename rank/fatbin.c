// SPDX-License-Identifier: Apache-2.0
//
// What an artifact's bytes are, and where the fatbin containers in them lie. The bytes have the
// digest that the manifest pins, which says who made them and not that they are well formed: every
// offset is checked before it is followed.
#include "rank/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "rank/elf.h"

// The header of a container, as nvcc's fatbinary writes it; NVIDIA documents it nowhere.
#define FATBIN_MAGIC 0xBA55ED50u
struct fatbin_header {
    uint32_t magic;
    uint16_t version;
    uint16_t header_bytes;
    uint64_t payload_bytes;
};

enum rank_image_kind rank_image_kind(const uint8_t *bytes, size_t length)
{
    uint32_t magic = 0;
    if (rank_elf_begins(bytes, length)) {
        Elf64_Ehdr header;
        memcpy(&header, bytes, sizeof(header));
        return header.e_machine == RANK_ELF_MACHINE_CUDA ? RANK_IMAGE_CUBIN
                                                         : RANK_IMAGE_SHARED_OBJECT;
    }
    if (length >= sizeof(struct fatbin_header)) {
        memcpy(&magic, bytes, sizeof(magic));
        if (magic == FATBIN_MAGIC) {
            return RANK_IMAGE_FATBIN;
        }
    }
    bool text = memchr(bytes, 0, length) == NULL;
    return text && memmem(bytes, length, ".version", strlen(".version")) != NULL
               ? RANK_IMAGE_PTX
               : RANK_IMAGE_UNKNOWN;
}

bool rank_elf_check(const uint8_t *bytes, size_t length, const char *place, struct kern_diag *diag)
{
    struct rank_elf elf;
    return rank_elf_open(bytes, length, place, &elf, diag);
}

struct split {
    struct rank_span *items;
    size_t count;
    size_t capacity;
};

// Adds the containers in bytes [begin, end), one after the other with zeros up to the alignment.
static bool split_range(const uint8_t *bytes, size_t begin, size_t end, const char *place,
                        struct split *split, struct kern_diag *diag)
{
    size_t at = begin;
    while (at < end) {
        struct fatbin_header header;
        if (bytes[at] == 0) {
            at++;
            continue;
        }
        bool whole = end - at >= sizeof(header);
        if (whole) {
            memcpy(&header, bytes + at, sizeof(header));
        }
        if (!whole || header.magic != FATBIN_MAGIC || header.header_bytes < sizeof(header) ||
            header.header_bytes > end - at ||
            header.payload_bytes > end - at - header.header_bytes) {
            return kern_fail(diag, KERN_EXIT_ARTIFACT, place,
                             "at byte %zu there should be a fatbin container that ends before byte "
                             "%zu",
                             at, end);
        }
        size_t length = header.header_bytes + (size_t)header.payload_bytes;
        kern_reserve(&split->items, &split->capacity, split->count + 1, sizeof(*split->items));
        split->items[split->count++] = (struct rank_span){at, length};
        at += length;
    }
    return true;
}

static bool split_shared_object(const uint8_t *bytes, size_t length, const char *place,
                                struct split *split, struct kern_diag *diag)
{
    struct rank_elf elf;
    if (!rank_elf_open(bytes, length, place, &elf, diag)) {
        return false;
    }
    for (uint64_t i = 1; i < elf.count; i++) {
        Elf64_Shdr section = rank_elf_section(&elf, i);
        if (section.sh_type != SHT_NOBITS &&
            rank_elf_section_is(&elf, &section, ".nv_fatbin", "") &&
            !split_range(bytes, section.sh_offset, section.sh_offset + section.sh_size, place,
                         split, diag)) {
            return false;
        }
    }
    return true;
}

bool rank_fatbin_split(const uint8_t *bytes, size_t length, const char *place,
                       struct rank_span **containers, size_t *count, struct kern_diag *diag)
{
    struct split split = {0};
    bool ok = rank_elf_begins(bytes, length)
                  ? split_shared_object(bytes, length, place, &split, diag)
                  : split_range(bytes, 0, length, place, &split, diag);
    if (!ok) {
        free(split.items);
        return false;
    }
    *containers = split.items;
    *count = split.count;
    return true;
}
