// SPDX-License-Identifier: Apache-2.0
//
// Loading a kernel artifact's host half from its bytes.
//
// cuModuleLoadData is not told how many bytes there are, so the headers of the ELF file say it, and
// nothing that they say is believed: sums are checked, and the bytes are read by the kernel (write
// to a memory file), which answers EFAULT where there are none instead of killing the process.
#include "emu/work.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_IMAGE_BYTES ((uint64_t)4 << 30)
#define MAX_ENTRIES 65536u
#define MAX_STATIC_SHARED (48u << 10)
#define EM_CUDA_MACHINE 190
#define FATBIN_MAGIC 0xBA55ED50u
#define FATBIN_WRAPPER_MAGIC 0x466243B1u

#if defined(__x86_64__)
#define HOST_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define HOST_MACHINE EM_AARCH64
#else
#error "emu knows no ELF machine number of this processor"
#endif

// ---------------------------------------------------------------------------------------------
// What it is

static bool is_elf(const unsigned char *image)
{
    // One byte at a time, because a short image may end before the next.
    return image[0] == ELFMAG0 && image[1] == ELFMAG1 && image[2] == ELFMAG2 && image[3] == ELFMAG3;
}

static bool is_fatbin(const unsigned char *image)
{
    const uint32_t magics[] = {FATBIN_MAGIC, FATBIN_WRAPPER_MAGIC};
    for (size_t m = 0; m < 2; m++) {
        int i = 0;
        while (i < 4 && image[i] == (magics[m] >> (8 * i) & 0xff)) {
            i++;
        }
        if (i == 4) {
            return true;
        }
    }
    return false;
}

// PTX is text that ends with a NUL; its first directive is .version, after comments and white
// space.
static bool is_ptx(const char *text)
{
    for (;;) {
        text += strspn(text, " \t\r\n");
        if (text[0] != '/') {
            return strncmp(text, ".version", 8) == 0;
        }
        const char *end = NULL;
        if (text[1] == '/') {
            end = strchr(text, '\n');
        } else if (text[1] == '*') {
            end = strstr(text + 2, "*/");
            end = end != NULL ? end + 2 : NULL;
        }
        if (end == NULL) {
            return false;
        }
        text = end;
    }
}

// ---------------------------------------------------------------------------------------------
// From bytes to a memory file

// A copy of an image, grown as its headers tell how long it is.
struct copy {
    const unsigned char *image;
    uint64_t bytes;
    int fd;
};

static bool extend(struct copy *copy, uint64_t bytes)
{
    if (bytes > MAX_IMAGE_BYTES) {
        return false;
    }
    while (copy->bytes < bytes) {
        ssize_t n = write(copy->fd, copy->image + copy->bytes, bytes - copy->bytes);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        copy->bytes += (uint64_t)n;
    }
    return true;
}

// Copies the image up to [offset] + [bytes] at least and reads that part of it.
static bool read_part(struct copy *copy, uint64_t offset, void *part, size_t bytes)
{
    uint64_t end;
    return !__builtin_add_overflow(offset, bytes, &end) && extend(copy, end) &&
           pread(copy->fd, part, bytes, (off_t)offset) == (ssize_t)bytes;
}

static bool extend_by(struct copy *copy, uint64_t offset, uint64_t bytes)
{
    uint64_t end;
    return !__builtin_add_overflow(offset, bytes, &end) && extend(copy, end);
}

static bool copy_segments(struct copy *copy, const Elf64_Ehdr *header)
{
    for (uint64_t i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr segment;
        uint64_t at;
        if (__builtin_add_overflow(header->e_phoff, i * sizeof segment, &at) ||
            !read_part(copy, at, &segment, sizeof segment) ||
            !extend_by(copy, segment.p_offset, segment.p_filesz)) {
            return false;
        }
    }
    return true;
}

static bool copy_sections(struct copy *copy, const Elf64_Ehdr *header)
{
    for (uint64_t i = 0; i < header->e_shnum; i++) {
        Elf64_Shdr section;
        uint64_t at;
        if (__builtin_add_overflow(header->e_shoff, i * sizeof section, &at) ||
            !read_part(copy, at, &section, sizeof section) ||
            (section.sh_type != SHT_NOBITS &&
             !extend_by(copy, section.sh_offset, section.sh_size))) {
            return false;
        }
    }
    return true;
}

static CUresult copy_elf(struct copy *copy)
{
    Elf64_Ehdr header;
    if (!read_part(copy, 0, &header, sizeof header)) {
        return CUDA_ERROR_INVALID_IMAGE;
    }
    if (header.e_machine == EM_CUDA_MACHINE) {
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
        header.e_type != ET_DYN || header.e_phnum == 0 ||
        header.e_phentsize != sizeof(Elf64_Phdr) ||
        (header.e_shnum != 0 && header.e_shentsize != sizeof(Elf64_Shdr))) {
        return CUDA_ERROR_INVALID_IMAGE;
    }
    if (header.e_machine != HOST_MACHINE) {
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    return copy_segments(copy, &header) && copy_sections(copy, &header) ? CUDA_SUCCESS
                                                                        : CUDA_ERROR_INVALID_IMAGE;
}

// ---------------------------------------------------------------------------------------------
// From a memory file to a table of entries

// The loader takes an object with a name that it has seen for the same object, also after the first
// was closed if that one could not be unloaded, and descriptor numbers come again. So the name of
// each load is spelled differently: a number's bits are steps of "." or of nothing on the way.
static void *open_library(int fd)
{
    static atomic_uint loads;
    unsigned load = atomic_fetch_add(&loads, 1);
    char path[128] = "/proc/self/fd/";
    size_t length = strlen(path);
    for (int bit = 0; bit < 32; bit++) {
        path[length++] = (load >> bit & 1) != 0 ? '.' : '/';
        path[length++] = '/';
    }
    snprintf(path + length, sizeof path - length, "%d", fd);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        const char *why = dlerror();
        const char *text = strncmp(why, path, strlen(path)) == 0 ? why + strlen(path) : why;
        fprintf(stderr, "kern-emu: the module's host half does not load%s%s\n",
                *text == ':' ? "" : ": ", text);
    }
    return library;
}

static const char *entry_fault(const struct kern_host_entry *entry)
{
    if (entry->name == NULL || *entry->name == '\0') {
        return "has no name";
    }
    if (entry->run == NULL) {
        return "has no function";
    }
    if (entry->static_shared > MAX_STATIC_SHARED) {
        return "has more than 48 KiB of static shared memory";
    }
    if (entry->n_params != 0 && entry->params == NULL) {
        return "has no table of parameters";
    }
    uint32_t end = 0;
    for (uint32_t i = 0; i < entry->n_params; i++) {
        const struct kern_host_param *param = &entry->params[i];
        if (param->size == 0 || param->offset < end || param->offset > EMU_MAX_PARAM_BYTES ||
            param->size > EMU_MAX_PARAM_BYTES - param->offset) {
            return "has parameters that are empty, overlap or take more than 32764 bytes";
        }
        end = param->offset + param->size;
    }
    return NULL;
}

static CUresult check_table(const struct kern_host_module *table)
{
    if (table->abi != KERN_HOST_MODULE_ABI) {
        fprintf(stderr, "kern-emu: the module's host half has ABI %u, this emu runs ABI %u\n",
                table->abi, KERN_HOST_MODULE_ABI);
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    if (table->n_entries > MAX_ENTRIES || (table->n_entries != 0 && table->entries == NULL)) {
        fprintf(stderr, "kern-emu: the module's host half has no sound table of entries\n");
        return CUDA_ERROR_INVALID_IMAGE;
    }
    for (uint32_t i = 0; i < table->n_entries; i++) {
        const char *fault = entry_fault(&table->entries[i]);
        if (fault != NULL) {
            fprintf(stderr, "kern-emu: entry %u of the module's host half %s\n", i, fault);
            return CUDA_ERROR_INVALID_IMAGE;
        }
    }
    return CUDA_SUCCESS;
}

static CUresult open_image(int fd, struct emu_image *image)
{
    image->library = open_library(fd);
    if (image->library == NULL) {
        return CUDA_ERROR_INVALID_IMAGE;
    }
    image->table = dlsym(image->library, KERN_HOST_MODULE_SYMBOL);
    CUresult result = CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (image->table != NULL) {
        result = check_table(image->table);
    } else {
        emu_log_once("a module has no host half: KERN_MODULE of kernels/portable.h makes one");
    }
    if (result != CUDA_SUCCESS) {
        emu_image_unload(image);
    }
    return result;
}

CUresult emu_image_load(const void *bytes, struct emu_image *image)
{
    if (is_fatbin(bytes) || is_ptx(bytes)) {
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    if (!is_elf(bytes)) {
        return CUDA_ERROR_INVALID_IMAGE;
    }
    struct copy copy = {.image = bytes, .fd = memfd_create("kern-emu-module", MFD_CLOEXEC)};
    if (copy.fd < 0) {
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    CUresult result = copy_elf(&copy);
    if (result == CUDA_SUCCESS) {
        result = open_image(copy.fd, image);
    }
    close(copy.fd);
    return result;
}

void emu_image_unload(struct emu_image *image)
{
    dlclose(image->library);
    *image = (struct emu_image){NULL, NULL};
}
