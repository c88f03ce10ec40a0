// SPDX-License-Identifier: Apache-2.0
#include "rank/elf.h"

#include <string.h>

static bool inside(uint64_t offset, uint64_t bytes, uint64_t length)
{
    return offset <= length && bytes <= length - offset;
}

bool rank_elf_begins(const uint8_t *bytes, size_t length)
{
    return length >= sizeof(Elf64_Ehdr) && memcmp(bytes, ELFMAG, SELFMAG) == 0 &&
           bytes[EI_CLASS] == ELFCLASS64 && bytes[EI_DATA] == ELFDATA2LSB;
}

Elf64_Shdr rank_elf_section(const struct rank_elf *elf, uint64_t index)
{
    Elf64_Shdr header;
    memcpy(&header, elf->table + index * sizeof(header), sizeof(header));
    return header;
}

static bool check_sections(const struct rank_elf *elf, const char *place, struct kern_diag *diag)
{
    for (uint64_t i = 1; i < elf->count; i++) {
        Elf64_Shdr section = rank_elf_section(elf, i);
        if (section.sh_type != SHT_NOBITS &&
            !inside(section.sh_offset, section.sh_size, elf->length)) {
            return kern_fail(diag, KERN_EXIT_ARTIFACT, place,
                             "ELF section %llu (%llu bytes at %llu) reaches past the end of the "
                             "file of %zu bytes",
                             (unsigned long long)i, (unsigned long long)section.sh_size,
                             (unsigned long long)section.sh_offset, elf->length);
        }
    }
    return true;
}

bool rank_elf_open(const uint8_t *bytes, size_t length, const char *place, struct rank_elf *elf,
                   struct kern_diag *diag)
{
    *elf = (struct rank_elf){.bytes = bytes, .length = length};
    memcpy(&elf->header, bytes, sizeof(elf->header));
    const Elf64_Ehdr *header = &elf->header;
    if (header->e_shoff == 0) {
        return true;
    }
    if (header->e_shentsize != sizeof(Elf64_Shdr) ||
        !inside(header->e_shoff, sizeof(Elf64_Shdr), length)) {
        return kern_fail(diag, KERN_EXIT_ARTIFACT, place,
                         "the ELF section table at byte %llu does not lie in the file of %zu bytes",
                         (unsigned long long)header->e_shoff, length);
    }
    elf->table = bytes + header->e_shoff;
    // From 65280 sections on their number and the index of the names stand in the first section.
    Elf64_Shdr first = rank_elf_section(elf, 0);
    elf->count = header->e_shnum != 0 ? header->e_shnum : first.sh_size;
    uint64_t names = header->e_shstrndx != SHN_XINDEX ? header->e_shstrndx : first.sh_link;
    if (elf->count > (length - header->e_shoff) / sizeof(Elf64_Shdr) || names >= elf->count) {
        return kern_fail(diag, KERN_EXIT_ARTIFACT, place,
                         "%llu ELF sections with their names in section %llu do not fit into the "
                         "file of %zu bytes",
                         (unsigned long long)elf->count, (unsigned long long)names, length);
    }
    // Section 0 is none, whatever stands in its header: the sections have no names.
    if (names != SHN_UNDEF) {
        elf->names = rank_elf_section(elf, names);
    }
    return check_sections(elf, place, diag);
}

// Whether the string at [offset] of a section of strings is [first] and [rest].
static bool string_is(const struct rank_elf *elf, const Elf64_Shdr *strings, uint64_t offset,
                      const char *first, const char *rest)
{
    size_t head = strlen(first), tail = strlen(rest) + 1;
    if (strings->sh_type != SHT_STRTAB || !inside(offset, head + tail, strings->sh_size)) {
        return false;
    }
    const uint8_t *at = elf->bytes + strings->sh_offset + offset;
    return memcmp(at, first, head) == 0 && memcmp(at + head, rest, tail) == 0;
}

bool rank_elf_section_is(const struct rank_elf *elf, const Elf64_Shdr *section, const char *first,
                         const char *rest)
{
    return string_is(elf, &elf->names, section->sh_name, first, rest);
}

bool rank_elf_find(const struct rank_elf *elf, const char *first, const char *rest,
                   Elf64_Shdr *section)
{
    for (uint64_t i = 1; i < elf->count; i++) {
        *section = rank_elf_section(elf, i);
        if (section->sh_type != SHT_NOBITS && rank_elf_section_is(elf, section, first, rest)) {
            return true;
        }
    }
    return false;
}

static bool find_in_table(const struct rank_elf *elf, const Elf64_Shdr *table, const char *name,
                          Elf64_Sym *symbol)
{
    if (table->sh_link == 0 || table->sh_link >= elf->count) {
        return false;
    }
    Elf64_Shdr strings = rank_elf_section(elf, table->sh_link);
    for (uint64_t at = 0; at + sizeof(*symbol) <= table->sh_size; at += sizeof(*symbol)) {
        memcpy(symbol, elf->bytes + table->sh_offset + at, sizeof(*symbol));
        if (string_is(elf, &strings, symbol->st_name, name, "")) {
            return true;
        }
    }
    return false;
}

bool rank_elf_symbol(const struct rank_elf *elf, uint32_t table_type, const char *name,
                     Elf64_Sym *symbol)
{
    for (uint64_t i = 1; i < elf->count; i++) {
        Elf64_Shdr table = rank_elf_section(elf, i);
        if (table.sh_type == table_type) {
            return find_in_table(elf, &table, name, symbol);
        }
    }
    return false;
}
