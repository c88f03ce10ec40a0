// SPDX-License-Identifier: Apache-2.0
//
// emu: one by one, what exporting and importing memory refuses. emu_handle_test.c has what works.
#include "tests/emu_share.h"

#include <fcntl.h>
#include <sys/mman.h>

static void in_export_refusals(void)
{
    CUmemFabricHandle fabric;
    int fd = -7;
    OK(cuInit(0));
    CUmemGenericAllocationHandle none = create(0, G);
    CUmemGenericAllocationHandle posix = create(POSIX, G);
    CUmemGenericAllocationHandle only_fabric = create(FABRIC, G);
    EXPECT(ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fabric, none, FABRIC, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fd, none, POSIX, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fabric, posix, FABRIC, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fd, only_fabric, POSIX, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemExportToShareableHandle(NULL, posix, POSIX, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fd, posix, POSIX, 1));
    EXPECT(ERROR_INVALID_VALUE,
           cuMemExportToShareableHandle(&fd, posix, CU_MEM_HANDLE_TYPE_WIN32, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fd, 12345, POSIX, 0));
    OK(cuMemRelease(posix));
    EXPECT(ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fd, posix, POSIX, 0));
    CHECK(fd == -7);

    CUmemGenericAllocationHandle both = create(FABRIC | POSIX, G);
    export_fabric(both);
    CHECK(export_fd(both) != export_fd(both));
}
EMU_TEST(export_refusals)

static void in_fabric_refusals(void)
{
    CUmemGenericAllocationHandle got = 7;
    OK(cuInit(0));
    CUmemGenericAllocationHandle handle = create(FABRIC, G);
    CUmemFabricHandle good = export_fabric(handle);
    EXPECT(ERROR_INVALID_VALUE, cuMemImportFromShareableHandle(NULL, &good, FABRIC));
    EXPECT(ERROR_INVALID_VALUE, cuMemImportFromShareableHandle(&got, NULL, FABRIC));
    EXPECT(ERROR_INVALID_VALUE,
           cuMemImportFromShareableHandle(&got, &good, CU_MEM_HANDLE_TYPE_NONE));
    EXPECT(ERROR_NOT_SUPPORTED,
           cuMemImportFromShareableHandle(&got, &good, CU_MEM_HANDLE_TYPE_WIN32));
    for (size_t i = 0; i < sizeof good.data; i++) {
        CUmemFabricHandle bad = good;
        bad.data[i] ^= 0x10;
        EXPECT(ERROR_INVALID_VALUE, import_fabric(&got, &bad));
    }
    CHECK(got == 7);

    // Freed; then its file descriptor's number is another memory's.
    OK(cuMemRelease(handle));
    EXPECT(ERROR_INVALID_HANDLE, import_fabric(&got, &good));
    create(FABRIC, G);
    EXPECT(ERROR_INVALID_HANDLE, import_fabric(&got, &good));
    CHECK(got == 7);
}
EMU_TEST(fabric_refusals)

struct memfd {
    char path[32];  // in /proc
    char name[128]; // as its link there has it
};

// The one memfd of emu that this process has open.
static struct memfd find_memfd(void)
{
    struct memfd found;
    for (int fd = 0; fd < 64; fd++) {
        snprintf(found.path, sizeof found.path, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(found.path, found.name, sizeof found.name - 1);
        found.name[n < 0 ? 0 : n] = '\0';
        if (strncmp(found.name, "/memfd:kern-emu-", 16) == 0) {
            return found;
        }
    }
    CHECK(!"an open memfd");
    return found;
}

static int reopen_memfd(int flags)
{
    struct memfd found = find_memfd();
    int fd = open(found.path, flags | O_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

static int make_memfd(const char *name, int seals)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)G) == 0);
    CHECK(seals == 0 || fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
}

static void refuse_fd(int fd)
{
    CUmemGenericAllocationHandle got = 7;
    EXPECT(ERROR_INVALID_VALUE, import_fd(&got, fd));
    CHECK(got == 7);
    close(fd);
}

static void in_foreign_fds(void)
{
    int pipes[2];
    OK(cuInit(0));
    refuse_fd(-1);
    refuse_fd(1000);
    CHECK(pipe(pipes) == 0);
    refuse_fd(pipes[0]);
    refuse_fd(make_memfd("kern-emu-not", 0));
    refuse_fd(make_memfd("kern-emu-not", F_SEAL_SHRINK | F_SEAL_GROW));
}
EMU_TEST(foreign_fds)

static void in_posix_refusals(void)
{
    CUmemGenericAllocationHandle got;
    OK(cuInit(0));
    CUmemGenericAllocationHandle handle = create(FABRIC, G);
    refuse_fd(reopen_memfd(O_RDWR)); // made for fabric handles alone
    OK(cuMemRelease(handle));

    handle = create(POSIX, G);
    refuse_fd(reopen_memfd(O_RDONLY));
    // The right name, and a size that its maker could still change.
    struct memfd found = find_memfd();
    *strchr(found.name, ' ') = '\0'; // " (deleted)"
    refuse_fd(make_memfd(found.name + strlen("/memfd:"), 0));

    int fd = export_fd(handle);
    OK(import_fd(&got, fd));
    close(fd);
    refuse_fd(fd);
}
EMU_TEST(posix_refusals)

static void in_imports_are_mapped_whole(void)
{
    CUmemGenericAllocationHandle got;
    CUdeviceptr p;
    OK(cuInit(0));
    CUmemGenericAllocationHandle handle = create(FABRIC, 2 * G);
    CUmemFabricHandle fabric = export_fabric(handle);
    OK(import_fabric(&got, &fabric));
    CHECK(got != handle);
    OK(cuMemAddressReserve(&p, 4 * G, 0, 0, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemMap(p, G, 0, got, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemMap(p, 4 * G, 0, got, 0));
    OK(cuMemMap(p, 2 * G, 0, got, 0));
    // Each import is released by itself, and keeps the memory alive.
    OK(cuMemRelease(handle));
    OK(cuMemRelease(got));
    EXPECT(ERROR_INVALID_VALUE, cuMemRelease(got));
}
EMU_TEST(imports_are_mapped_whole)

// Machines that are configured otherwise

static CUresult create_fabric(void)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    return cuMemCreate(&handle, G, &prop, 0);
}

static int fabric_attribute(void)
{
    int value = -1;
    OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0));
    return value;
}

static void in_no_fabric(void)
{
    CUmemGenericAllocationHandle got;
    CUmemFabricHandle fabric = {{0}};
    OK(cuInit(0));
    CHECK(fabric_attribute() == 0);
    EXPECT(ERROR_NOT_SUPPORTED, create_fabric());
    EXPECT(ERROR_NOT_SUPPORTED, import_fabric(&got, &fabric));
    OK(cuMemRelease(create(POSIX, G)));
}

static void in_refused_fabric(void)
{
    CUmemGenericAllocationHandle got;
    CUmemFabricHandle fabric = {{0}};
    OK(cuInit(0));
    CHECK(fabric_attribute() == 1);
    EXPECT(ERROR_NOT_PERMITTED, create_fabric());
    EXPECT(ERROR_NOT_PERMITTED, import_fabric(&got, &fabric));
    OK(cuMemRelease(create(POSIX, G)));
    CHECK(emu_stats().live_bytes == 0);
}

static void machines_without_fabric(void **state)
{
    (void)state;
    EMU_CHILD(in_no_fabric, "KERN_EMU_FABRIC=0");
    EMU_CHILD(in_refused_fabric, "KERN_EMU_FABRIC=refuse");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(export_refusals),
        cmocka_unit_test(fabric_refusals),
        cmocka_unit_test(foreign_fds),
        cmocka_unit_test(posix_refusals),
        cmocka_unit_test(imports_are_mapped_whole),
        cmocka_unit_test(machines_without_fabric),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
