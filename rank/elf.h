// SPDX-License-Identifier: Apache-2.0
//
// The sections of a 64-bit little-endian ELF file that somebody else made. Nothing that its headers
// say is believed: once it is open, every section that has bytes lies in the file.
#ifndef KERN_RANK_ELF_H
#define KERN_RANK_ELF_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"

// Machine number of CUDA device code in an ELF header (the ELF specification's EM_CUDA).
#define RANK_ELF_MACHINE_CUDA 190

struct rank_elf {
    const uint8_t *bytes; // borrowed
    size_t length;
    Elf64_Ehdr header;
    const uint8_t *table; // of [count] section headers
    uint64_t count;       // 0: the file has no sections
    Elf64_Shdr names;     // all zero: the sections have none
};

// Whether the bytes begin as such a file does.
bool rank_elf_begins(const uint8_t *bytes, size_t length);

// Checks the sections of bytes that begin so; [place] names them in a message.
bool rank_elf_open(const uint8_t *bytes, size_t length, const char *place, struct rank_elf *elf,
                   struct kern_diag *diag);

// The header of section [index], which is less than the count.
Elf64_Shdr rank_elf_section(const struct rank_elf *elf, uint64_t index);

// Whether the section's name is [first] and [rest], one after the other.
bool rank_elf_section_is(const struct rank_elf *elf, const Elf64_Shdr *section, const char *first,
                         const char *rest);

// Finds the first section of that name that has bytes.
bool rank_elf_find(const struct rank_elf *elf, const char *first, const char *rest,
                   Elf64_Shdr *section);

// Finds the symbol of that name in the first section of type SHT_SYMTAB or SHT_DYNSYM.
bool rank_elf_symbol(const struct rank_elf *elf, uint32_t table_type, const char *name,
                     Elf64_Sym *symbol);

#endif
