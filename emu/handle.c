// SPDX-License-Identifier: Apache-2.0
//
// Memory that crosses processes. A POSIX handle is a duplicate of the memfd. A fabric handle is 64
// bytes that name the memfd in the process that holds it; importing opens it through /proc, which
// the kernel permits to the same user (and needs the right to ptrace the exporter).
//
// What an import of a fabric handle answers:
//   CUDA_ERROR_INVALID_VALUE   bytes that no export wrote, or memory whose maker asked for no
//                              fabric handles
//   CUDA_ERROR_INVALID_HANDLE  the exporter is dead, or has freed the memory since
//   CUDA_ERROR_NOT_PERMITTED   the exporter is another user's, or the kernel forbids it;
//                              KERN_EMU_FABRIC=refuse
//   CUDA_ERROR_NOT_SUPPORTED   KERN_EMU_FABRIC=0
#include "emu/memfd.h"
#include "emu/space.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FABRIC_MAGIC 0x6b656d66u

struct fabric_handle {
    uint32_t magic;
    int32_t pid;
    uint64_t start; // of the process, in clock ticks since boot: tells a pid's owners apart
    int32_t fd;
    uint32_t device; // installed
    uint64_t bytes;
    unsigned char key[16];
    uint64_t node;
    uint64_t check; // of everything before it
};

_Static_assert(sizeof(struct fabric_handle) == sizeof(CUmemFabricHandle), "64 bytes");

static uint64_t checksum(const struct fabric_handle *handle)
{
    const unsigned char *p = (const unsigned char *)handle;
    uint64_t sum = 0xcbf29ce484222325u;
    for (size_t i = 0; i < offsetof(struct fabric_handle, check); i++) {
        sum = (sum ^ p[i]) * 0x100000001b3u;
    }
    return sum;
}

// The start time of the process whose directory in /proc is open as [proc]: field 22 of its stat.
// The second field, the program's name in parentheses, may hold anything, so count from its end.
static bool read_start(int proc, uint64_t *start)
{
    char text[1024];
    int fd = openat(proc, "stat", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0) {
        return false;
    }
    text[n] = '\0';
    char *p = strrchr(text, ')');
    for (int field = 2; p != NULL && field < 22; field++) {
        p = strchr(p + 1, ' ');
    }
    if (p == NULL) {
        return false;
    }
    *start = strtoull(p + 1, NULL, 10);
    return true;
}

static int open_proc(int32_t pid)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static CUresult export_fabric(CUmemFabricHandle *out, const struct emu_memory *memory)
{
    struct emu_memfd_name name;
    size_t bytes;
    int proc = open_proc(getpid());
    struct fabric_handle handle = {.magic = FABRIC_MAGIC, .pid = getpid(), .fd = memory->fd};
    bool ok = proc >= 0 && read_start(proc, &handle.start) &&
              emu_memfd_inspect(memory->fd, &name, &bytes);
    if (proc >= 0) {
        close(proc);
    }
    if (!ok) {
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    handle.device = name.device;
    handle.bytes = bytes;
    memcpy(handle.key, name.key, sizeof handle.key);
    handle.node = name.node;
    handle.check = checksum(&handle);
    memcpy(out, &handle, sizeof handle);
    return CUDA_SUCCESS;
}

static CUresult export_fd(int *out, const struct emu_memory *memory)
{
    int fd = fcntl(memory->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    *out = fd;
    return CUDA_SUCCESS;
}

static bool is_one_known_type(CUmemAllocationHandleType type)
{
    return type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || type == CU_MEM_HANDLE_TYPE_FABRIC;
}

CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags)
{
    EMU_ENTER(EMU_PLAIN);
    if (shareable == NULL || flags != 0 || !is_one_known_type(type)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct emu_memory *memory = emu_handle_get(handle, EMU_MEMORY);
    if (memory == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result;
    if (!(memory->prop.requestedHandleTypes & type)) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else if (type == CU_MEM_HANDLE_TYPE_FABRIC) {
        result = export_fabric(shareable, memory);
    } else {
        result = export_fd(shareable, memory);
    }
    emu_handle_put(memory);
    return result;
}

// The CUdevice that is the machine's device number [installed].
static CUdevice visible_device(unsigned installed)
{
    for (unsigned i = 0; i < emu_config()->n_visible; i++) {
        if (emu_config()->visible[i] == installed) {
            return (CUdevice)i;
        }
    }
    return CU_DEVICE_INVALID;
}

// Memory over [fd], inspected as [name]; owns [fd] in any case.
static CUresult import_memory(CUmemGenericAllocationHandle *handle, int fd, size_t bytes,
                              const struct emu_memfd_name *name)
{
    CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = (CUmemAllocationHandleType)name->types,
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, visible_device(name->device)},
    };
    struct emu_memory *memory = emu_memory_new(fd, bytes, true, &prop);
    if (memory == NULL) {
        close(fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *handle = memory->handle.value;
    return CUDA_SUCCESS;
}

static CUresult import_fd(CUmemGenericAllocationHandle *handle, int given)
{
    struct emu_memfd_name name;
    size_t bytes;
    if (!emu_memfd_inspect(given, &name, &bytes) ||
        !(name.types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    // A driver's file descriptors mean nothing on another node, even where one could be passed.
    if (emu_config()->node_limit && name.node != emu_config()->node) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    int fd = fcntl(given, F_DUPFD_CLOEXEC, 0);
    return fd < 0 ? CUDA_ERROR_OPERATING_SYSTEM : import_memory(handle, fd, bytes, &name);
}

// Opens the file that [from] names. The directory in /proc, once open, stays that of this very
// process: if it dies, opening fails, whoever gets its number.
static CUresult open_exported(const struct fabric_handle *from, int *fd)
{
    int proc = open_proc(from->pid);
    if (proc < 0) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    char path[32];
    struct stat owner;
    uint64_t start;
    CUresult result = CUDA_ERROR_INVALID_HANDLE;
    snprintf(path, sizeof path, "fd/%d", (int)from->fd);
    if (fstat(proc, &owner) == 0 && read_start(proc, &start) && start == from->start) {
        *fd = owner.st_uid == geteuid() ? openat(proc, path, O_RDWR | O_CLOEXEC) : -1;
        if (*fd >= 0) {
            result = CUDA_SUCCESS;
        } else if (owner.st_uid != geteuid() || errno == EACCES || errno == EPERM) {
            result = CUDA_ERROR_NOT_PERMITTED;
        } else if (errno == EMFILE || errno == ENFILE) {
            result = CUDA_ERROR_OPERATING_SYSTEM;
        }
    }
    close(proc);
    return result;
}

static CUresult import_fabric(CUmemGenericAllocationHandle *handle, const void *shareable)
{
    struct fabric_handle from;
    memcpy(&from, shareable, sizeof from);
    if (from.magic != FABRIC_MAGIC || from.check != checksum(&from) || from.pid <= 0 ||
        from.fd < 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    int fd;
    CUresult result = open_exported(&from, &fd);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct emu_memfd_name name;
    size_t bytes;
    if (!emu_memfd_inspect(fd, &name, &bytes) || bytes != from.bytes || name.node != from.node ||
        memcmp(name.key, from.key, sizeof name.key) != 0) {
        close(fd);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (!(name.types & CU_MEM_HANDLE_TYPE_FABRIC)) {
        close(fd);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return import_memory(handle, fd, bytes, &name);
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable,
                                        CUmemAllocationHandleType type)
{
    EMU_ENTER(EMU_UNSAFE_IN_CAPTURE);
    if (handle == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        return import_fd(handle, (int)(intptr_t)shareable);
    }
    if (type == CU_MEM_HANDLE_TYPE_WIN32 || type == CU_MEM_HANDLE_TYPE_WIN32_KMT) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (type != CU_MEM_HANDLE_TYPE_FABRIC || shareable == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    switch (emu_config()->fabric) {
    case EMU_FABRIC_NONE:
        return CUDA_ERROR_NOT_SUPPORTED;
    case EMU_FABRIC_REFUSED:
        return CUDA_ERROR_NOT_PERMITTED;
    case EMU_FABRIC_READY:
        break;
    }
    return import_fabric(handle, shareable);
}
