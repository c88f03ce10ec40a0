// SPDX-License-Identifier: Apache-2.0
//
// The parameters of a kernel in a cubin. NVIDIA documents the section .nv.info.ENTRY nowhere; it
// was read from what nvcc 12 and 13 make of kernels with known parameters: a list of attributes,
// each a format, a code and a 16-bit value, which in one format is the number of bytes that follow.
#include "rank/layout.h"

#include <stdlib.h>
#include <string.h>

#include "rank/elf.h"

#define FORMAT_BYTES 4 // the value is a number of bytes that follow

// The two attributes that describe a parameter, in 12 bytes each: an index that is 0, the number
// and the offset of the parameter, and its size, in the first one shifted above flags.
#define KPARAM_INFO 0x17
#define KPARAM_INFO_V2 0x45 // of large parameter blocks
#define KPARAM_SIZE_SHIFT 18

#define SYMBOL_IS_ENTRY 0x10 // in st_other: a kernel, not a function that kernels call

struct attribute {
    uint8_t format;
    uint8_t code;
    uint16_t value;
};

struct param_info {
    uint32_t index;
    uint16_t number;
    uint16_t offset;
    uint32_t size;
};

// Puts a parameter, of one byte or more, in the place of its number.
static bool put(struct rank_layout *layout, const struct param_info *info, uint32_t bytes)
{
    while (layout->count <= info->number) {
        rank_layout_add(layout, 0, 0);
    }
    struct rank_param *param = &layout->items[info->number];
    bool is_new = param->bytes == 0;
    *param = (struct rank_param){info->offset, bytes};
    return is_new && bytes > 0;
}

static bool read_attributes(const uint8_t *bytes, size_t length, struct rank_layout *layout)
{
    size_t at = 0;
    while (at < length) {
        struct attribute attribute;
        if (length - at < sizeof(attribute)) {
            return false;
        }
        memcpy(&attribute, bytes + at, sizeof(attribute));
        at += sizeof(attribute);
        size_t more = attribute.format == FORMAT_BYTES ? attribute.value : 0;
        if (more > length - at) {
            return false;
        }
        if (attribute.code == KPARAM_INFO || attribute.code == KPARAM_INFO_V2) {
            struct param_info info;
            if (more != sizeof(info)) {
                return false;
            }
            memcpy(&info, bytes + at, sizeof(info));
            uint32_t size =
                attribute.code == KPARAM_INFO ? info.size >> KPARAM_SIZE_SHIFT : info.size;
            if (!put(layout, &info, size)) {
                return false;
            }
        }
        at += more;
    }
    for (size_t i = 0; i < layout->count; i++) {
        if (layout->items[i].bytes == 0) {
            return false;
        }
    }
    return true;
}

enum rank_lookup rank_layout_of_cubin(const uint8_t *bytes, size_t length, const char *entry,
                                      struct rank_layout *layout, const char **why)
{
    struct kern_diag diag = {0};
    struct rank_elf elf;
    bool whole = rank_elf_begins(bytes, length) && rank_elf_open(bytes, length, "", &elf, &diag);
    kern_diag_clear(&diag);
    if (!whole) {
        *why = "damaged";
        return RANK_UNREADABLE;
    }
    Elf64_Sym symbol;
    Elf64_Shdr info;
    if (!rank_elf_symbol(&elf, SHT_SYMTAB, entry, &symbol) ||
        ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || (symbol.st_other & SYMBOL_IS_ENTRY) == 0) {
        return RANK_ABSENT;
    }
    if (!rank_elf_find(&elf, ".nv.info.", entry, &info)) {
        *why = "no section .nv.info of it";
        return RANK_UNREADABLE;
    }
    if (!read_attributes(bytes + info.sh_offset, info.sh_size, layout)) {
        *why = "damaged section .nv.info of it";
        return RANK_UNREADABLE;
    }
    return RANK_FOUND;
}
