// SPDX-License-Identifier: Apache-2.0
//
// The parameters of a kernel in the host half of a shared object: the table that it exports for
// emu, read where it lies in the file. Loading the object instead would run code of it.
#include "rank/layout.h"

#include <stdlib.h>
#include <string.h>

#include "device/abi/host_module.h"
#include "rank/elf.h"

// More parameters than fit into a parameter block, and more entries than emu takes.
#define PARAMS_MAX 32764u
#define ENTRIES_MAX 65536u

struct host {
    struct rank_elf elf;
    Elf64_Rela *relocations; // by the address that they change
    size_t n_relocations;
};

static int by_address(const void *a, const void *b)
{
    const Elf64_Rela *x = a, *y = b;
    return (x->r_offset > y->r_offset) - (x->r_offset < y->r_offset);
}

// The bytes of all tables of relocations of the file.
static uint64_t relocation_bytes(const struct rank_elf *elf)
{
    uint64_t bytes = 0;
    for (uint64_t i = 1; i < elf->count; i++) {
        Elf64_Shdr section = rank_elf_section(elf, i);
        bytes += section.sh_type == SHT_RELA ? section.sh_size : 0;
    }
    return bytes;
}

static bool read_relocations(struct host *host)
{
    const struct rank_elf *elf = &host->elf;
    uint64_t bytes = relocation_bytes(elf);
    if (bytes > elf->length) { // tables that lie on each other
        return false;
    }
    host->relocations = malloc(bytes + 1);
    if (host->relocations == NULL) {
        return false;
    }
    for (uint64_t i = 1; i < elf->count; i++) {
        Elf64_Shdr section = rank_elf_section(elf, i);
        size_t count = section.sh_type == SHT_RELA ? section.sh_size / sizeof(Elf64_Rela) : 0;
        if (count > 0) {
            memcpy(host->relocations + host->n_relocations, elf->bytes + section.sh_offset,
                   count * sizeof(Elf64_Rela));
            host->n_relocations += count;
        }
    }
    qsort(host->relocations, host->n_relocations, sizeof(Elf64_Rela), by_address);
    return true;
}

// Copies what will be at [address] when the object is loaded, without relocations.
static bool read_at(const struct host *host, uint64_t address, void *to, size_t bytes)
{
    for (uint64_t i = 1; i < host->elf.count; i++) {
        Elf64_Shdr section = rank_elf_section(&host->elf, i);
        if ((section.sh_flags & SHF_ALLOC) != 0 && section.sh_type != SHT_NOBITS &&
            address >= section.sh_addr && section.sh_size >= bytes &&
            address - section.sh_addr <= section.sh_size - bytes) {
            memcpy(to, host->elf.bytes + section.sh_offset + (address - section.sh_addr), bytes);
            return true;
        }
    }
    return false;
}

static bool symbol_value(const struct host *host, uint64_t index, uint64_t *value)
{
    for (uint64_t i = 1; i < host->elf.count; i++) {
        Elf64_Shdr table = rank_elf_section(&host->elf, i);
        if (table.sh_type != SHT_DYNSYM) {
            continue;
        }
        Elf64_Sym symbol;
        if (index >= table.sh_size / sizeof(symbol)) {
            return false;
        }
        memcpy(&symbol, host->elf.bytes + table.sh_offset + index * sizeof(symbol), sizeof(symbol));
        *value = symbol.st_value;
        return symbol.st_shndx != SHN_UNDEF;
    }
    return false;
}

// The pointer that will be at [address]: relative to the object, so that null is null.
static bool read_pointer(const struct host *host, uint64_t address, uint64_t *pointer)
{
    const Elf64_Rela key = {.r_offset = address};
    const Elf64_Rela *relocation =
        bsearch(&key, host->relocations, host->n_relocations, sizeof(key), by_address);
    if (relocation == NULL) {
        return read_at(host, address, pointer, sizeof(*pointer));
    }
    bool arm = host->elf.header.e_machine == EM_AARCH64;
    uint64_t type = ELF64_R_TYPE(relocation->r_info), base = 0;
    if (type == (arm ? R_AARCH64_ABS64 : R_X86_64_64)) {
        if (!symbol_value(host, ELF64_R_SYM(relocation->r_info), &base)) {
            return false;
        }
    } else if (type != (arm ? R_AARCH64_RELATIVE : R_X86_64_RELATIVE)) {
        return false;
    }
    *pointer = base + (uint64_t)relocation->r_addend;
    return true;
}

// Whether the text at [address] is [name].
static bool text_is(const struct host *host, uint64_t address, const char *name)
{
    size_t bytes = strlen(name) + 1;
    char *text = malloc(bytes);
    bool same =
        text != NULL && read_at(host, address, text, bytes) && memcmp(text, name, bytes) == 0;
    free(text);
    return same;
}

static bool read_params(const struct host *host, uint64_t address, uint32_t count,
                        struct rank_layout *layout)
{
    for (uint32_t i = 0; i < count; i++) {
        struct kern_host_param param;
        if (!read_at(host, address + i * sizeof(param), &param, sizeof(param))) {
            return false;
        }
        rank_layout_add(layout, param.offset, param.size);
    }
    return true;
}

static enum rank_lookup search(const struct host *host, uint64_t table, const char *name,
                               struct rank_layout *layout, const char **why)
{
    struct kern_host_module module;
    uint64_t entries;
    *why = "damaged table of entries";
    if (!read_at(host, table, &module, sizeof(module)) ||
        !read_pointer(host, table + offsetof(struct kern_host_module, entries), &entries) ||
        module.n_entries > ENTRIES_MAX) {
        return RANK_UNREADABLE;
    }
    if (module.abi != KERN_HOST_MODULE_ABI) {
        *why = "table of entries of another ABI";
        return RANK_UNREADABLE;
    }
    for (uint32_t i = 0; i < module.n_entries; i++) {
        uint64_t at = entries + i * sizeof(struct kern_host_entry), text, params;
        struct kern_host_entry entry;
        if (!read_at(host, at, &entry, sizeof(entry)) ||
            !read_pointer(host, at + offsetof(struct kern_host_entry, name), &text) ||
            !read_pointer(host, at + offsetof(struct kern_host_entry, params), &params)) {
            return RANK_UNREADABLE;
        }
        if (text_is(host, text, name)) {
            return entry.n_params <= PARAMS_MAX && read_params(host, params, entry.n_params, layout)
                       ? RANK_FOUND
                       : RANK_UNREADABLE;
        }
    }
    return RANK_ABSENT;
}

enum rank_lookup rank_layout_of_host(const uint8_t *bytes, size_t length, const char *entry,
                                     struct rank_layout *layout, const char **why)
{
    struct kern_diag diag = {0};
    struct host host = {0};
    Elf64_Sym symbol;
    enum rank_lookup found = RANK_UNREADABLE;
    *why = "damaged";
    if (rank_elf_begins(bytes, length) && rank_elf_open(bytes, length, "", &host.elf, &diag) &&
        read_relocations(&host)) {
        found = rank_elf_symbol(&host.elf, SHT_DYNSYM, KERN_HOST_MODULE_SYMBOL, &symbol)
                    ? search(&host, symbol.st_value, entry, layout, why)
                    : RANK_ABSENT;
    }
    free(host.relocations);
    kern_diag_clear(&diag);
    return found;
}
