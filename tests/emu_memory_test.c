// SPDX-License-Identifier: Apache-2.0
//
// emu: plain device memory, page-locked host memory, and what is said of a pointer.
#include "tests/emu_check.h"

#include <signal.h>
#include <sys/mman.h>

#define PAGE ((size_t)4096)
#define GRANULE ((size_t)2 << 20)

static void in_allocations_are_aligned_and_freed(void)
{
    static const size_t sizes[] = {1, 255, 256, 257, 4095, 4096, 65536, 65537, 3 << 20};
    enum { N = sizeof sizes / sizeof sizes[0] };
    CUdeviceptr p[N];
    uint64_t bytes = 0;
    emu_begin();
    for (int i = 0; i < N; i++) {
        OK(cuMemAlloc(&p[i], sizes[i]));
        CHECK(p[i] % 256 == 0);
        memset((void *)(uintptr_t)p[i], i, sizes[i]);
        bytes += sizes[i];
    }
    CHECK(emu_stats().allocations == N && emu_stats().live_bytes == bytes);
    for (int i = 0; i < N; i++) {
        const unsigned char *memory = (const unsigned char *)(uintptr_t)p[i];
        CHECK(memory[0] == i && memory[sizes[i] - 1] == i);
        OK(cuMemFree(p[i]));
    }
    CHECK(emu_stats().allocations == 0 && emu_stats().live_bytes == 0);
    CHECK(emu_stats().high_water_bytes == bytes);
}
EMU_TEST(allocations_are_aligned_and_freed)

// A GPU's memory holds what was there before: a program must not find the zeros that it forgot to
// write.
static void in_allocations_are_not_cleared(void)
{
    CUdeviceptr p;
    emu_begin();
    OK(cuMemAlloc(&p, 1000));
    const unsigned char *memory = (const unsigned char *)(uintptr_t)p;
    for (int i = 0; i < 1000; i++) {
        CHECK(memory[i] != 0);
    }
}
EMU_TEST(allocations_are_not_cleared)

static void in_allocation_refusals(void)
{
    CUdeviceptr p = 7;
    CUdeviceptr reserved;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    void *host;
    int local;

    EXPECT(ERROR_NOT_INITIALIZED, cuMemAlloc(&p, 8));
    OK(cuInit(0));
    EXPECT(ERROR_INVALID_CONTEXT, cuMemAlloc(&p, 8));
    EXPECT(ERROR_INVALID_CONTEXT, cuMemFree(0));
    emu_begin();
    EXPECT(ERROR_INVALID_VALUE, cuMemAlloc(NULL, 8));
    EXPECT(ERROR_INVALID_VALUE, cuMemAlloc(&p, 0));
    EXPECT(ERROR_OUT_OF_MEMORY, cuMemAlloc(&p, SIZE_MAX));
    CHECK(p == 7);

    OK(cuMemAlloc(&p, 4096));
    OK(cuMemHostAlloc(&host, 4096, 0));
    OK(cuMemAddressReserve(&reserved, GRANULE, 0, 0, 0));
    OK(cuMemCreate(&handle, GRANULE, &prop, 0));
    OK(cuMemMap(reserved, GRANULE, 0, handle, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemFree(0));
    EXPECT(ERROR_INVALID_VALUE, cuMemFree(p + 256));
    EXPECT(ERROR_INVALID_VALUE, cuMemFree(reserved));
    EXPECT(ERROR_INVALID_VALUE, cuMemFree((CUdeviceptr)(uintptr_t)host));
    EXPECT(ERROR_INVALID_VALUE, cuMemFree((CUdeviceptr)(uintptr_t)&local));
    OK(cuMemFree(p));
    EXPECT(ERROR_INVALID_VALUE, cuMemFree(p));
}
EMU_TEST(allocation_refusals)

static void run_over_the_end(void)
{
    CUdeviceptr p;
    emu_begin();
    OK(cuMemAlloc(&p, 1024));
    signal(SIGSEGV, SIG_DFL); // a sanitizer's report is not wanted
    ((volatile char *)(uintptr_t)p)[1024] = 1;
}

static void overrun_faults(void **state)
{
    (void)state;
    int status = emu_child_status(run_over_the_end, NULL);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
}

static void in_memory_has_an_end(void)
{
    size_t unused;
    size_t total;
    CUdeviceptr a;
    CUdeviceptr b;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUcontext other;
    emu_begin();
    OK(cuMemGetInfo(&unused, &total));
    CHECK(total == 64 << 20 && unused == total);
    OK(cuMemAlloc(&a, 40 << 20));
    EXPECT(ERROR_OUT_OF_MEMORY, cuMemAlloc(&b, (24 << 20) + 1));
    OK(cuMemCreate(&handle, 12 * GRANULE, &prop, 0));
    EXPECT(ERROR_OUT_OF_MEMORY, cuMemCreate(&handle, GRANULE, &prop, 0));
    OK(cuMemGetInfo(&unused, &total));
    CHECK(unused == 0);
    EXPECT(ERROR_OUT_OF_MEMORY, cuMemAlloc(&b, 1));

    // The other device has its own memory.
    OK(cuDevicePrimaryCtxRetain(&other, 1));
    OK(cuCtxSetCurrent(other));
    OK(cuMemGetInfo(&unused, &total));
    CHECK(unused == total);
    OK(cuMemAlloc(&b, 64 << 20));

    OK(cuMemRelease(handle));
    OK(cuMemFree(a));
    CHECK(emu_stats().live_bytes == 0 && emu_stats().high_water_bytes == 64 << 20);
    EXPECT(ERROR_INVALID_VALUE, cuMemGetInfo(NULL, &total));
    EXPECT(ERROR_INVALID_VALUE, cuMemGetInfo(&unused, NULL));
}

static void memory_has_an_end(void **state)
{
    (void)state;
    EMU_CHILD(in_memory_has_an_end, "KERN_EMU_MEMORY=64M", "KERN_EMU_DEVICES=2");
}

static void in_context_takes_its_memory_along(void)
{
    CUdeviceptr p;
    void *host;
    emu_begin();
    OK(cuMemAlloc(&p, 4096));
    OK(cuMemHostAlloc(&host, 4096, 0));
    OK(cuDevicePrimaryCtxRelease(0));
    CHECK(emu_stats().allocations == 0 && emu_stats().host_ranges == 0);
    CHECK(emu_stats().live_bytes == 0);
    EXPECT(ERROR_CONTEXT_IS_DESTROYED, cuMemFree(p));
    emu_begin();
    EXPECT(ERROR_INVALID_VALUE, cuMemFree(p));
    EXPECT(ERROR_INVALID_VALUE, cuMemFreeHost(host));
}
EMU_TEST(context_takes_its_memory_along)

static void in_host_memory(void)
{
    void *host = NULL;
    void *unmapped;
    CUdeviceptr p;
    emu_begin();
    EXPECT(ERROR_INVALID_VALUE, cuMemHostAlloc(NULL, PAGE, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemHostAlloc(&host, 0, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemHostAlloc(&host, PAGE, 8));
    CHECK(host == NULL);
    OK(cuMemHostAlloc(&host, PAGE, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
    memset(host, 1, PAGE);

    OK(cuMemHostGetDevicePointer(&p, host, 0));
    CHECK(p == (uintptr_t)host);
    OK(cuMemHostGetDevicePointer(&p, (char *)host + 100, 0));
    CHECK(p == (uintptr_t)host + 100);
    EXPECT(ERROR_INVALID_VALUE, cuMemHostGetDevicePointer(&p, host, 1));
    EXPECT(ERROR_INVALID_VALUE, cuMemHostGetDevicePointer(NULL, host, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemHostGetDevicePointer(&p, &p, 0));
    OK(cuMemHostAlloc(&unmapped, PAGE, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemHostGetDevicePointer(&p, unmapped, 0));

    EXPECT(ERROR_INVALID_VALUE, cuMemFreeHost((char *)host + 1));
    EXPECT(ERROR_INVALID_VALUE, cuMemFreeHost(&p));
    EXPECT(ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(host));
    OK(cuMemFreeHost(host));
    EXPECT(ERROR_INVALID_VALUE, cuMemFreeHost(host));
    OK(cuMemFreeHost(unmapped));
}
EMU_TEST(host_memory)

// Blocks that the system lays side by side are not one.
static void in_copies_stay_in_a_host_block(void)
{
    void *blocks[2];
    CUdeviceptr p;
    emu_begin();
    OK(cuMemAlloc(&p, 2 * PAGE));
    OK(cuMemHostAlloc(&blocks[0], PAGE, 0));
    OK(cuMemHostAlloc(&blocks[1], PAGE, 0));
    for (int i = 0; i < 2; i++) {
        OK(cuMemcpyDtoHAsync(blocks[i], p, PAGE, NULL));
        EXPECT(ERROR_INVALID_VALUE, cuMemcpyDtoHAsync(blocks[i], p, 2 * PAGE, NULL));
    }
    OK(cuStreamSynchronize(NULL));
    OK(cuMemFreeHost(blocks[0]));
    OK(cuMemFreeHost(blocks[1]));
    OK(cuMemFree(p));
}
EMU_TEST(copies_stay_in_a_host_block)

static char *map_pages(int n, int protection)
{
    char *pages = mmap(NULL, (size_t)n * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    return pages;
}

static void in_registered_memory(void)
{
    CUdeviceptr p;
    unsigned access;
    void *host;
    emu_begin();
    char *pages = map_pages(8, PROT_READ | PROT_WRITE);
    OK(cuMemHostAlloc(&host, PAGE, 0));

    EXPECT(ERROR_INVALID_VALUE, cuMemHostRegister(NULL, PAGE, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemHostRegister(pages, 0, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemHostRegister(pages, PAGE, 16));
    EXPECT(ERROR_INVALID_VALUE, cuMemHostRegister(pages, SIZE_MAX, 0));
    EXPECT(ERROR_NOT_SUPPORTED, cuMemHostRegister(pages, PAGE, CU_MEMHOSTREGISTER_IOMEMORY));
    EXPECT(ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(host, PAGE, 0));

    OK(cuMemHostRegister(pages, 2 * PAGE, CU_MEMHOSTREGISTER_DEVICEMAP));
    EXPECT(ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(pages, PAGE, 0));
    EXPECT(ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister(pages + PAGE, 2 * PAGE, 0));
    OK(cuMemHostGetDevicePointer(&p, pages, 0));
    CHECK(p == (uintptr_t)pages);
    OK(cuMemHostRegister(pages + 2 * PAGE, PAGE, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemHostGetDevicePointer(&p, pages + 2 * PAGE, 0));

    EXPECT(ERROR_INVALID_VALUE, cuMemFreeHost(pages));
    EXPECT(ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(pages + PAGE));
    EXPECT(ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(pages + 4 * PAGE));
    OK(cuMemHostUnregister(pages));
    EXPECT(ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(pages));
    OK(cuMemHostUnregister(pages + 2 * PAGE));

    // A hole, and pages that the process itself may not write.
    munmap(pages + 4 * PAGE, PAGE);
    EXPECT(ERROR_INVALID_VALUE, cuMemHostRegister(pages, 8 * PAGE, 0));
    CHECK(mprotect(pages + PAGE, PAGE, PROT_READ) == 0);
    EXPECT(ERROR_INVALID_VALUE, cuMemHostRegister(pages, 2 * PAGE, 0));
    OK(cuMemHostRegister(pages, 2 * PAGE, CU_MEMHOSTREGISTER_READ_ONLY));
    OK(cuPointerGetAttribute(&access, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, (uintptr_t)pages));
    CHECK(access == CU_MEM_ACCESS_FLAGS_PROT_READ);
    OK(cuMemHostUnregister(pages));
}
EMU_TEST(registered_memory)

static void in_device_memory_is_no_host_memory(void)
{
    CUdeviceptr p;
    CUdeviceptr reserved;
    emu_begin();
    OK(cuMemAlloc(&p, PAGE));
    OK(cuMemAddressReserve(&reserved, GRANULE, 0, 0, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemHostRegister((void *)(uintptr_t)p, PAGE, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemHostRegister((void *)(uintptr_t)reserved, PAGE, 0));
}
EMU_TEST(device_memory_is_no_host_memory)

// The value of an attribute, all of which fit in 64 bits.
static uint64_t attribute(CUpointer_attribute which, CUdeviceptr p)
{
    uint64_t value = 0;
    OK(cuPointerGetAttribute(&value, which, p));
    return value;
}

static void in_pointer_attributes(void)
{
    uint64_t value;
    CUdeviceptr p;
    CUdeviceptr reserved;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 1}};
    void *host;
    CUcontext context = emu_begin();
    OK(cuMemAlloc(&p, 1000));
    OK(cuMemHostAlloc(&host, 1000, 0));
    OK(cuMemAddressReserve(&reserved, 4 * GRANULE, 0, 0, 0));
    OK(cuMemCreate(&handle, GRANULE, &prop, 0));
    OK(cuMemMap(reserved + GRANULE, GRANULE, 0, handle, 0));
    CUdeviceptr mapped = reserved + GRANULE + 5;
    CUdeviceptr pinned = (CUdeviceptr)(uintptr_t)host;

    CHECK(attribute(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p) == CU_MEMORYTYPE_DEVICE);
    CHECK(attribute(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pinned) == CU_MEMORYTYPE_HOST);
    CHECK(attribute(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, mapped) == CU_MEMORYTYPE_DEVICE);
    CHECK(attribute(CU_POINTER_ATTRIBUTE_CONTEXT, p) == (uintptr_t)context);
    CHECK(attribute(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, p + 9) == p + 9);
    CHECK(attribute(CU_POINTER_ATTRIBUTE_HOST_POINTER, pinned + 9) == pinned + 9);
    CHECK(attribute(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p) == 0);
    CHECK(attribute(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, mapped) == 1);
    CHECK(attribute(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, p + 999) == p);
    CHECK(attribute(CU_POINTER_ATTRIBUTE_RANGE_SIZE, p + 999) == 1000);
    CHECK(attribute(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, mapped) == reserved);
    CHECK(attribute(CU_POINTER_ATTRIBUTE_RANGE_SIZE, mapped) == 4 * GRANULE);
    CHECK(attribute(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, mapped) == reserved + GRANULE);
    CHECK(attribute(CU_POINTER_ATTRIBUTE_MAPPING_SIZE, mapped) == GRANULE);
    CHECK(attribute(CU_POINTER_ATTRIBUTE_MAPPED, mapped) == 1);
    CHECK(attribute(CU_POINTER_ATTRIBUTE_MAPPED, reserved) == 0);
    CHECK(attribute(CU_POINTER_ATTRIBUTE_IS_MANAGED, p) == 0);
    CHECK(attribute(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, p) == 0);
    CHECK(attribute(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, mapped) ==
          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    CHECK(attribute(CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, mapped) == 0);
    CHECK(attribute(CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, p) == 3);
    CHECK(attribute(CU_POINTER_ATTRIBUTE_BUFFER_ID, p) !=
          attribute(CU_POINTER_ATTRIBUTE_BUFFER_ID, mapped));

    EXPECT(ERROR_INVALID_VALUE,
           cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 1000));
    EXPECT(ERROR_INVALID_VALUE,
           cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reserved));
    EXPECT(ERROR_INVALID_VALUE,
           cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)&value));
    EXPECT(ERROR_INVALID_VALUE,
           cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_HOST_POINTER, p));
    EXPECT(ERROR_INVALID_VALUE, cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_CONTEXT, p));
    EXPECT(ERROR_INVALID_VALUE, cuPointerGetAttribute(&value, (CUpointer_attribute)99, p));
    OK(cuCtxSetCurrent(NULL));
    EXPECT(ERROR_INVALID_CONTEXT,
           cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, p));
}
EMU_TEST(pointer_attributes)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_are_aligned_and_freed),
        cmocka_unit_test(allocations_are_not_cleared),
        cmocka_unit_test(allocation_refusals),
        cmocka_unit_test(overrun_faults),
        cmocka_unit_test(memory_has_an_end),
        cmocka_unit_test(context_takes_its_memory_along),
        cmocka_unit_test(host_memory),
        cmocka_unit_test(copies_stay_in_a_host_block),
        cmocka_unit_test(registered_memory),
        cmocka_unit_test(device_memory_is_no_host_memory),
        cmocka_unit_test(pointer_attributes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
