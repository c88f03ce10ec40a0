// SPDX-License-Identifier: Apache-2.0
//
// What an artifact's bytes are, and where the fatbin containers in them lie. The bytes have the
// digest that the manifest pins, which says who made them and not that they are well formed: every
// offset is checked before it is followed.
#include "rank/internal.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

// Machine number of CUDA device code in an ELF header (the ELF specification's EM_CUDA).
#define ELF_MACHINE_CUDA 190

// The header of a container, as nvcc's fatbinary writes it; NVIDIA documents it nowhere.
#define FATBIN_MAGIC 0xBA55ED50u
struct fatbin_header {
    uint32_t magic;
    uint16_t version;
    uint16_t header_bytes;
    uint64_t payload_bytes;
};

static bool starts_with_elf64(const uint8_t *bytes, size_t length)
{
    return length >= sizeof(Elf64_Ehdr) && memcmp(bytes, ELFMAG, SELFMAG) == 0 &&
           bytes[EI_CLASS] == ELFCLASS64 && bytes[EI_DATA] == ELFDATA2LSB;
}

enum rank_image_kind rank_image_kind(const uint8_t *bytes, size_t length)
{
    uint32_t magic = 0;
    if (starts_with_elf64(bytes, length)) {
        Elf64_Ehdr header;
        memcpy(&header, bytes, sizeof(header));
        return header.e_machine == ELF_MACHINE_CUDA ? RANK_IMAGE_CUBIN : RANK_IMAGE_SHARED_OBJECT;
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

// The section table of an ELF file whose bounds hold.
struct sections {
    const uint8_t *bytes;
    const uint8_t *table;
    uint64_t count;
    Elf64_Shdr names;
};

static bool inside(uint64_t offset, uint64_t bytes, size_t length)
{
    return offset <= length && bytes <= length - offset;
}

static Elf64_Shdr section_at(const struct sections *sections, uint64_t index)
{
    Elf64_Shdr header;
    memcpy(&header, sections->table + index * sizeof(header), sizeof(header));
    return header;
}

static bool sections_open(const uint8_t *bytes, size_t length, const char *place,
                          struct sections *sections, struct kern_diag *diag)
{
    Elf64_Ehdr header;
    memcpy(&header, bytes, sizeof(header));
    *sections = (struct sections){.bytes = bytes};
    if (header.e_shoff == 0) {
        return true;
    }
    if (header.e_shentsize != sizeof(Elf64_Shdr) ||
        !inside(header.e_shoff, sizeof(Elf64_Shdr), length)) {
        return kern_fail(diag, KERN_EXIT_ARTIFACT, place,
                         "the ELF section table at byte %llu does not lie in the file of %zu bytes",
                         (unsigned long long)header.e_shoff, length);
    }
    sections->table = bytes + header.e_shoff;
    // From 65280 sections on their number and the index of the names stand in the first section.
    Elf64_Shdr first = section_at(sections, 0);
    sections->count = header.e_shnum != 0 ? header.e_shnum : first.sh_size;
    uint64_t names = header.e_shstrndx != SHN_XINDEX ? header.e_shstrndx : first.sh_link;
    if (sections->count > (length - header.e_shoff) / sizeof(Elf64_Shdr) ||
        names >= sections->count) {
        return kern_fail(diag, KERN_EXIT_ARTIFACT, place,
                         "%llu ELF sections with their names in section %llu do not fit into the "
                         "file of %zu bytes",
                         (unsigned long long)sections->count, (unsigned long long)names, length);
    }
    for (uint64_t i = 1; i < sections->count; i++) {
        Elf64_Shdr section = section_at(sections, i);
        if (section.sh_type != SHT_NOBITS && !inside(section.sh_offset, section.sh_size, length)) {
            return kern_fail(diag, KERN_EXIT_ARTIFACT, place,
                             "ELF section %llu (%llu bytes at %llu) reaches past the end of the "
                             "file of %zu bytes",
                             (unsigned long long)i, (unsigned long long)section.sh_size,
                             (unsigned long long)section.sh_offset, length);
        }
    }
    sections->names = section_at(sections, names);
    return true;
}

static bool section_is_named(const struct sections *sections, const Elf64_Shdr *section,
                             const char *name)
{
    size_t bytes = strlen(name) + 1;
    return sections->names.sh_type == SHT_STRTAB &&
           inside(section->sh_name, bytes, sections->names.sh_size) &&
           memcmp(sections->bytes + sections->names.sh_offset + section->sh_name, name, bytes) == 0;
}

bool rank_elf_check(const uint8_t *bytes, size_t length, const char *place, struct kern_diag *diag)
{
    struct sections sections;
    return sections_open(bytes, length, place, &sections, diag);
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
    struct sections sections;
    if (!sections_open(bytes, length, place, &sections, diag)) {
        return false;
    }
    for (uint64_t i = 1; i < sections.count; i++) {
        Elf64_Shdr section = section_at(&sections, i);
        if (section.sh_type != SHT_NOBITS && section_is_named(&sections, &section, ".nv_fatbin") &&
            !split_range(bytes, section.sh_offset, section.sh_offset + section.sh_size, place,
                         split, diag)) {
            return false;
        }
    }
    return split->count > 0 ||
           kern_fail(diag, KERN_EXIT_ARTIFACT, place,
                     "the shared object has no fatbin container in a section .nv_fatbin: it holds "
                     "no code for a GPU");
}

bool rank_fatbin_split(const uint8_t *bytes, size_t length, const char *place,
                       struct rank_span **containers, size_t *count, struct kern_diag *diag)
{
    struct split split = {0};
    bool ok = starts_with_elf64(bytes, length)
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
