// SPDX-License-Identifier: Apache-2.0
//
// emu: virtual memory within one process: what works, and one by one what a driver refuses.
#include "tests/emu_check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#define G ((size_t)2 << 20)

static CUmemAllocationProp device_prop(int device)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
}

static CUmemAccessDesc device_access(int device, CUmemAccess_flags flags)
{
    return (CUmemAccessDesc){{CU_MEM_LOCATION_TYPE_DEVICE, device}, flags};
}

static CUmemGenericAllocationHandle create(size_t bytes)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = device_prop(0);
    OK(cuMemCreate(&handle, bytes, &prop, 0));
    return handle;
}

static CUdeviceptr reserve(size_t bytes)
{
    CUdeviceptr p;
    OK(cuMemAddressReserve(&p, bytes, 0, 0, 0));
    return p;
}

static void grant(CUdeviceptr p, size_t bytes, CUmemAccess_flags flags)
{
    CUmemAccessDesc desc = device_access(0, flags);
    OK(cuMemSetAccess(p, bytes, &desc, 1));
}

static unsigned long long access_of(CUdeviceptr p, int device)
{
    unsigned long long flags;
    CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    OK(cuMemGetAccess(&flags, &location, p));
    return flags;
}

static int *at(CUdeviceptr p)
{
    return (int *)(uintptr_t)p;
}

static void in_map_write_unmap(void)
{
    emu_begin();
    CUdeviceptr p = reserve(4 * G);
    CHECK(p % G == 0);
    CUmemGenericAllocationHandle handle = create(2 * G);
    OK(cuMemMap(p + G, 2 * G, 0, handle, 0));
    CHECK(access_of(p + G, 0) == CU_MEM_ACCESS_FLAGS_PROT_NONE);
    grant(p + G, 2 * G, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CHECK(access_of(p + G, 0) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CHECK(access_of(p + G, 1) == CU_MEM_ACCESS_FLAGS_PROT_NONE);
    CHECK(*at(p + G) == 0);
    *at(p + 3 * G - 4) = 42;

    // The memory outlives its handle, and its contents a move to another place.
    CUmemGenericAllocationHandle second = create(G);
    OK(cuMemMap(p, G, 0, second, 0));
    OK(cuMemRelease(second));
    grant(p, G, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    *at(p) = 7;
    OK(cuMemUnmap(p + G, 2 * G));
    CUdeviceptr q = reserve(2 * G);
    OK(cuMemMap(q, 2 * G, 0, handle, 0));
    grant(q, 2 * G, CU_MEM_ACCESS_FLAGS_PROT_READ);
    CHECK(*at(q + 2 * G - 4) == 42 && *at(p) == 7);

    // One memory at two places.
    OK(cuMemMap(p + G, 2 * G, 0, handle, 0));
    grant(p + G, 2 * G, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    *at(p + G) = 43;
    CHECK(*at(q) == 43);

    OK(cuMemRelease(handle));
    OK(cuMemUnmap(p, 3 * G)); // two whole mappings, side by side
    OK(cuMemUnmap(q, 2 * G));
    OK(cuMemAddressFree(p, 4 * G));
    OK(cuMemAddressFree(q, 2 * G));
    struct kern_emu_stats stats = emu_stats();
    CHECK(stats.live_bytes == 0 && stats.high_water_bytes == 3 * G);
    CHECK(stats.memory_handles == 0 && stats.mappings == 0 && stats.reservations == 0);
    CHECK(stats.fds == 0);
}
EMU_TEST(map_write_unmap)

static void in_granularity(void)
{
    size_t g = 0;
    OK(cuInit(0));
    CUmemAllocationProp prop = device_prop(0);
    OK(cuMemGetAllocationGranularity(&g, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    CHECK(g == G);
    OK(cuMemGetAllocationGranularity(&g, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    CHECK(g == G);
    EXPECT(ERROR_INVALID_VALUE,
           cuMemGetAllocationGranularity(&g, &prop, (CUmemAllocationGranularity_flags)2));
    EXPECT(ERROR_INVALID_VALUE,
           cuMemGetAllocationGranularity(NULL, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    EXPECT(ERROR_INVALID_VALUE,
           cuMemGetAllocationGranularity(&g, NULL, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    prop.location.id = 8;
    EXPECT(ERROR_INVALID_DEVICE,
           cuMemGetAllocationGranularity(&g, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
}
EMU_TEST(granularity)

static void in_reserve_refusals(void)
{
    CUdeviceptr p = 7;
    EXPECT(ERROR_NOT_INITIALIZED, cuMemAddressReserve(&p, G, 0, 0, 0));
    OK(cuInit(0));
    EXPECT(ERROR_INVALID_VALUE, cuMemAddressReserve(NULL, G, 0, 0, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemAddressReserve(&p, 0, 0, 0, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemAddressReserve(&p, G + 4096, 0, 0, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemAddressReserve(&p, G, 3 * G, 0, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemAddressReserve(&p, G, 0, 4096, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemAddressReserve(&p, G, 0, 0, 1));
    EXPECT(ERROR_OUT_OF_MEMORY, cuMemAddressReserve(&p, (size_t)1 << 60, 0, 0, 0));
    EXPECT(ERROR_OUT_OF_MEMORY, cuMemAddressReserve(&p, -G, 0, 0, 0));
    CHECK(p == 7);
    for (size_t alignment = 1; alignment <= (size_t)64 << 30; alignment *= 2) {
        OK(cuMemAddressReserve(&p, G, alignment, 0, 0));
        CHECK(p % alignment == 0 && p % G == 0);
        OK(cuMemAddressFree(p, G));
    }
    OK(cuMemAddressReserve(&p, 3 * G, 0, 0, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemAddressFree(p, 2 * G));
    EXPECT(ERROR_INVALID_VALUE, cuMemAddressFree(p + G, 2 * G));
    EXPECT(ERROR_INVALID_VALUE, cuMemAddressFree(p + G, 3 * G));
    EXPECT(ERROR_INVALID_VALUE, cuMemAddressFree((uintptr_t)&p, G));
    OK(cuMemAddressFree(p, 3 * G));
    EXPECT(ERROR_INVALID_VALUE, cuMemAddressFree(p, 3 * G));
    // A hint is no promise, but a free one is taken.
    CUdeviceptr hinted;
    OK(cuMemAddressReserve(&hinted, G, 0, p, 0));
    CHECK(hinted % G == 0);
}
EMU_TEST(reserve_refusals)

// Properties that differ from good ones by [...], and what cuMemCreate answers.
#define CREATE(wanted, ...)                                                                        \
    do {                                                                                           \
        CUmemAllocationProp prop = device_prop(0);                                                 \
        __VA_ARGS__;                                                                               \
        EXPECT(wanted, cuMemCreate(&handle, G, &prop, 0));                                         \
    } while (0)

static void in_create_refusals(void)
{
    CUmemGenericAllocationHandle handle = 7;
    CUmemAllocationProp good = device_prop(0);
    EXPECT(ERROR_NOT_INITIALIZED, cuMemCreate(&handle, G, &good, 0));
    OK(cuInit(0));
    EXPECT(ERROR_INVALID_VALUE, cuMemCreate(NULL, G, &good, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemCreate(&handle, 0, &good, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemCreate(&handle, 4096, &good, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemCreate(&handle, G + 1, &good, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemCreate(&handle, G, NULL, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemCreate(&handle, G, &good, 1));
    EXPECT(ERROR_OUT_OF_MEMORY, cuMemCreate(&handle, (size_t)17 << 30, &good, 0));
    CREATE(ERROR_INVALID_VALUE, prop.type = CU_MEM_ALLOCATION_TYPE_INVALID);
    CREATE(ERROR_INVALID_VALUE, prop.win32HandleMetaData = &handle);
    CREATE(ERROR_INVALID_VALUE, prop.allocFlags.reserved[3] = 1);
    CREATE(ERROR_INVALID_VALUE, prop.allocFlags.usage = 1);
    CREATE(ERROR_INVALID_VALUE, prop.allocFlags.compressionType = 2);
    CREATE(ERROR_NOT_SUPPORTED, prop.allocFlags.compressionType = 1);
    CREATE(ERROR_NOT_SUPPORTED, prop.allocFlags.gpuDirectRDMACapable = 1);
    CREATE(ERROR_INVALID_VALUE, prop.location.type = CU_MEM_LOCATION_TYPE_INVALID);
    CREATE(ERROR_INVALID_VALUE, prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT);
    CREATE(ERROR_NOT_SUPPORTED, prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA);
    CREATE(ERROR_INVALID_DEVICE, prop.location.id = 8);
    CREATE(ERROR_INVALID_DEVICE, prop.location.id = -1);
    CREATE(ERROR_INVALID_VALUE, prop.requestedHandleTypes = (CUmemAllocationHandleType)16);
    CREATE(ERROR_NOT_SUPPORTED, prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_WIN32);
    CHECK(handle == 7 && emu_stats().live_bytes == 0);
    CREATE(SUCCESS, prop.requestedHandleTypes = (CUmemAllocationHandleType)9);
    OK(cuMemRelease(handle));
}
EMU_TEST(create_refusals)

static void in_release_refusals(void)
{
    OK(cuInit(0));
    CUmemGenericAllocationHandle handle = create(G);
    CUmemAllocationProp prop;
    OK(cuMemGetAllocationPropertiesFromHandle(&prop, handle));
    CHECK(prop.location.id == 0 && prop.type == CU_MEM_ALLOCATION_TYPE_PINNED);
    EXPECT(ERROR_INVALID_VALUE, cuMemGetAllocationPropertiesFromHandle(NULL, handle));
    EXPECT(ERROR_INVALID_VALUE, cuMemRelease(0));
    EXPECT(ERROR_INVALID_VALUE, cuMemRelease(handle + 1));
    EXPECT(ERROR_INVALID_VALUE, cuMemRelease((uintptr_t)&prop));
    OK(cuMemRelease(handle));
    EXPECT(ERROR_INVALID_VALUE, cuMemRelease(handle));
    EXPECT(ERROR_INVALID_VALUE, cuMemGetAllocationPropertiesFromHandle(&prop, handle));
    // A stale handle stays stale, however many come after it.
    for (int i = 0; i < 1000; i++) {
        CUmemGenericAllocationHandle next = create(G);
        CHECK(next != handle);
        EXPECT(ERROR_INVALID_VALUE, cuMemRelease(handle));
        OK(cuMemRelease(next));
    }
    CHECK(emu_stats().fds == 0 && emu_stats().live_bytes == 0);
}
EMU_TEST(release_refusals)

static void in_map_refusals(void)
{
    emu_begin();
    CUdeviceptr p = reserve(4 * G);
    CUdeviceptr plain;
    CUmemGenericAllocationHandle handle = create(2 * G);
    OK(cuMemAlloc(&plain, 4 * G));
    EXPECT(ERROR_INVALID_VALUE, cuMemMap(p, 0, 0, handle, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemMap(p, G + 4096, 0, handle, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemMap(p + 4096, G, 0, handle, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemMap(p, G, G, handle, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemMap(p, 2 * G, 0, handle, 1));
    EXPECT(ERROR_INVALID_VALUE, cuMemMap(p, 2 * G, 0, 0, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemMap(p, 4 * G, 0, handle, 0));         // more than there is
    EXPECT(ERROR_INVALID_VALUE, cuMemMap(p + 3 * G, 2 * G, 0, handle, 0)); // past the reservation
    EXPECT(ERROR_INVALID_VALUE, cuMemMap((plain + G) & ~(G - 1), 2 * G, 0, handle, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemMap(0, 2 * G, 0, handle, 0));
    OK(cuMemMap(p + G, 2 * G, 0, handle, 0));
    for (int i = 0; i < 3; i++) {
        EXPECT(ERROR_INVALID_VALUE, cuMemMap(p + (size_t)i * G, 2 * G, 0, handle, 0));
    }
    EXPECT(ERROR_INVALID_VALUE, cuMemAddressFree(p, 4 * G));
    OK(cuMemMap(p, G, 0, handle, 0)); // the beginning of one's own memory

    EXPECT(ERROR_INVALID_VALUE, cuMemUnmap(p + G, G));
    EXPECT(ERROR_INVALID_VALUE, cuMemUnmap(p + 2 * G, G));
    EXPECT(ERROR_INVALID_VALUE, cuMemUnmap(p + G, 3 * G));
    EXPECT(ERROR_INVALID_VALUE, cuMemUnmap(p + G, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemUnmap(p + 3 * G, G));
    EXPECT(ERROR_INVALID_VALUE, cuMemUnmap(plain, 4 * G));
    OK(cuMemUnmap(p + G, 2 * G));
    EXPECT(ERROR_INVALID_VALUE, cuMemUnmap(p + G, 2 * G));
    OK(cuMemRelease(handle));
    EXPECT(ERROR_INVALID_VALUE, cuMemMap(p + G, 2 * G, 0, handle, 0));
    OK(cuMemUnmap(p, G));
    OK(cuMemAddressFree(p, 4 * G));
}
EMU_TEST(map_refusals)

static void in_access_refusals(void)
{
    unsigned long long flags;
    emu_begin();
    CUdeviceptr p = reserve(4 * G);
    CUmemGenericAllocationHandle handle = create(2 * G);
    CUmemAccessDesc good = device_access(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CUmemAccessDesc bad = good;
    EXPECT(ERROR_INVALID_VALUE, cuMemSetAccess(p, 2 * G, &good, 1)); // reserved, not mapped
    OK(cuMemMap(p, 2 * G, 0, handle, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemSetAccess(p, 2 * G, NULL, 1));
    EXPECT(ERROR_INVALID_VALUE, cuMemSetAccess(p, 2 * G, &good, 0));
    EXPECT(ERROR_INVALID_VALUE, cuMemSetAccess(p, 0, &good, 1));
    EXPECT(ERROR_INVALID_VALUE, cuMemSetAccess(p, G, &good, 1));
    EXPECT(ERROR_INVALID_VALUE, cuMemSetAccess(p + G, G, &good, 1));
    EXPECT(ERROR_INVALID_VALUE, cuMemSetAccess(p, 3 * G, &good, 1));
    EXPECT(ERROR_INVALID_VALUE, cuMemSetAccess((uintptr_t)&bad, G, &good, 1));
    bad.flags = (CUmemAccess_flags)2;
    EXPECT(ERROR_INVALID_VALUE, cuMemSetAccess(p, 2 * G, &bad, 1));
    bad = good;
    bad.location.id = 8;
    EXPECT(ERROR_INVALID_DEVICE, cuMemSetAccess(p, 2 * G, &bad, 1));
    bad.location.id = -1;
    EXPECT(ERROR_INVALID_DEVICE, cuMemSetAccess(p, 2 * G, &bad, 1));
    bad.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_HOST_NUMA, 0};
    EXPECT(ERROR_INVALID_VALUE, cuMemSetAccess(p, 2 * G, &bad, 1));
    CHECK(access_of(p, 0) == 0);

    CUmemAccessDesc both[] = {device_access(1, CU_MEM_ACCESS_FLAGS_PROT_READ), good};
    OK(cuMemSetAccess(p, 2 * G, both, 2));
    CHECK(access_of(p, 0) == 3 && access_of(p + 2 * G - 1, 1) == 1 && access_of(p, 2) == 0);

    CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    EXPECT(ERROR_INVALID_VALUE, cuMemGetAccess(NULL, &location, p));
    EXPECT(ERROR_INVALID_VALUE, cuMemGetAccess(&flags, NULL, p));
    EXPECT(ERROR_INVALID_VALUE, cuMemGetAccess(&flags, &location, p + 2 * G));
    location.id = 8;
    EXPECT(ERROR_INVALID_DEVICE, cuMemGetAccess(&flags, &location, p));
}
EMU_TEST(access_refusals)

// What a new mapping finds at an address says nothing about the one before.
static void in_access_ends_with_the_mapping(void)
{
    emu_begin();
    CUdeviceptr p = reserve(G);
    CUmemGenericAllocationHandle handle = create(G);
    OK(cuMemMap(p, G, 0, handle, 0));
    grant(p, G, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cuMemUnmap(p, G));
    OK(cuMemMap(p, G, 0, handle, 0));
    CHECK(access_of(p, 0) == CU_MEM_ACCESS_FLAGS_PROT_NONE);
}
EMU_TEST(access_ends_with_the_mapping)

// Who touches memory in one of these states dies of it.
enum touch { RESERVED, MAPPED, READ_ONLY, TAKEN_BACK, UNMAPPED, TOUCHES };
static enum touch how_touched;

static void touch(void)
{
    emu_begin();
    CUdeviceptr p = reserve(G);
    CUmemGenericAllocationHandle handle = create(G);
    if (how_touched >= MAPPED) {
        OK(cuMemMap(p, G, 0, handle, 0));
    }
    if (how_touched >= READ_ONLY) {
        grant(p, G, CU_MEM_ACCESS_FLAGS_PROT_READ);
        CHECK(*at(p) == 0);
    }
    if (how_touched == TAKEN_BACK) {
        grant(p, G, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    }
    if (how_touched == UNMAPPED) {
        OK(cuMemUnmap(p, G));
    }
    signal(SIGSEGV, SIG_DFL);
    *(volatile int *)at(p) = 1;
}

static void touching_without_access_faults(void **state)
{
    (void)state;
    for (int i = 0; i < TOUCHES; i++) {
        how_touched = (enum touch)i;
        int status = emu_child_status(touch, NULL);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGSEGV);
    }
}

static CUresult clear(CUdeviceptr p, size_t bytes)
{
    CUresult result = cuMemsetD8Async(p, 0, bytes, NULL);
    OK(cuCtxSynchronize());
    return result;
}

// What the device does itself is held to the same: the whole range, live, mapped, granted to it.
static void in_work_needs_access(void)
{
    CUcontext other;
    emu_begin();
    CUdeviceptr p = reserve(4 * G);
    CUmemGenericAllocationHandle handle = create(G);
    EXPECT(ERROR_INVALID_VALUE, clear(p, 1));
    OK(cuMemMap(p, G, 0, handle, 0));
    EXPECT(ERROR_INVALID_VALUE, clear(p, 1));
    grant(p, G, CU_MEM_ACCESS_FLAGS_PROT_READ);
    EXPECT(ERROR_INVALID_VALUE, clear(p, 1));
    grant(p, G, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(clear(p, G));
    EXPECT(ERROR_INVALID_VALUE, clear(p, G + 1));
    EXPECT(ERROR_INVALID_VALUE, clear(p - 1, 2));
    OK(cuMemMap(p + G, G, 0, handle, 0));
    EXPECT(ERROR_INVALID_VALUE, clear(p, G + 1));
    grant(p + G, G, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(clear(p + 5, 2 * G - 5));

    OK(cuDevicePrimaryCtxRetain(&other, 1));
    OK(cuCtxSetCurrent(other));
    EXPECT(ERROR_INVALID_VALUE, clear(p, 1));
    CUmemAccessDesc desc = device_access(1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cuMemSetAccess(p, G, &desc, 1));
    OK(clear(p, G));
    OK(cuMemUnmap(p, G));
    EXPECT(ERROR_INVALID_VALUE, clear(p, 1));
}
EMU_TEST(work_needs_access)

// A state that grows: a large reservation, filled from the front and given back from the end.
static void in_grow_and_shrink(void)
{
    enum { N = 64 };
    emu_begin();
    CUdeviceptr p = reserve((size_t)64 << 30);
    for (size_t i = 0; i < N; i++) {
        CUmemGenericAllocationHandle handle = create(G);
        OK(cuMemMap(p + i * G, G, 0, handle, 0));
        OK(cuMemRelease(handle));
        grant(p + i * G, G, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        *at(p + i * G) = (int)i;
    }
    grant(p, N * G, CU_MEM_ACCESS_FLAGS_PROT_READ);
    CHECK(emu_stats().live_bytes == N * G && emu_stats().mappings == N);
    for (size_t i = N; i-- > 1;) {
        CHECK(*at(p + i * G) == (int)i);
        OK(cuMemUnmap(p + i * G, G));
    }
    CHECK(emu_stats().live_bytes == G);
    OK(cuMemUnmap(p, G));
    OK(cuMemAddressFree(p, (size_t)64 << 30));
}
EMU_TEST(grow_and_shrink)

// Threads that share nothing but the device.
static void *work_alone(void *context)
{
    OK(cuCtxSetCurrent(context));
    CUdeviceptr p = reserve(8 * G);
    for (int round = 0; round < 50; round++) {
        CUdeviceptr plain;
        CUmemGenericAllocationHandle handle = create(G);
        CUdeviceptr place = p + (size_t)(round % 8) * G;
        OK(cuMemMap(place, G, 0, handle, 0));
        OK(cuMemRelease(handle));
        grant(place, G, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        *at(place) = round;
        OK(cuMemAlloc(&plain, 1000));
        *at(plain) = round;
        CHECK(*at(place) == *at(plain));
        OK(cuMemFree(plain));
        OK(cuMemUnmap(place, G));
        EXPECT(ERROR_INVALID_VALUE, cuMemRelease(handle));
    }
    OK(cuMemAddressFree(p, 8 * G));
    return NULL;
}

static void in_many_threads(void)
{
    pthread_t threads[4];
    CUcontext context = emu_begin();
    for (int i = 0; i < 4; i++) {
        CHECK(pthread_create(&threads[i], NULL, work_alone, context) == 0);
    }
    for (int i = 0; i < 4; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    struct kern_emu_stats stats = emu_stats();
    CHECK(stats.live_bytes == 0 && stats.fds == 0 && stats.memory_handles == 0);
    CHECK(stats.allocations == 0 && stats.mappings == 0 && stats.reservations == 0);
}
EMU_TEST(many_threads)

// One handle, released by all at once: one succeeds.
static CUmemGenericAllocationHandle contested;

static void *release_contested(void *unused)
{
    (void)unused;
    return cuMemRelease(contested) == CUDA_SUCCESS ? &contested : NULL;
}

static void in_one_release_wins(void)
{
    OK(cuInit(0));
    for (int round = 0; round < 100; round++) {
        pthread_t threads[4];
        int winners = 0;
        contested = create(G);
        for (int i = 0; i < 4; i++) {
            CHECK(pthread_create(&threads[i], NULL, release_contested, NULL) == 0);
        }
        for (int i = 0; i < 4; i++) {
            void *won;
            CHECK(pthread_join(threads[i], &won) == 0);
            winners += won != NULL;
        }
        CHECK(winners == 1);
    }
    CHECK(emu_stats().live_bytes == 0);
}
EMU_TEST(one_release_wins)

static void in_out_of_file_descriptors(void)
{
    CUmemAllocationProp prop = device_prop(0);
    CUmemGenericAllocationHandle handle;
    OK(cuInit(0));
    struct rlimit limit = {16, 16};
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    int made = 0;
    CUresult result;
    while ((result = cuMemCreate(&handle, G, &prop, 0)) == CUDA_SUCCESS) {
        CHECK(++made < 16);
    }
    EXPECT(ERROR_OPERATING_SYSTEM, result);
    CHECK(emu_stats().live_bytes == (uint64_t)made * G);
}
EMU_TEST(out_of_file_descriptors)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(map_write_unmap),
        cmocka_unit_test(granularity),
        cmocka_unit_test(reserve_refusals),
        cmocka_unit_test(create_refusals),
        cmocka_unit_test(release_refusals),
        cmocka_unit_test(map_refusals),
        cmocka_unit_test(access_refusals),
        cmocka_unit_test(access_ends_with_the_mapping),
        cmocka_unit_test(touching_without_access_faults),
        cmocka_unit_test(work_needs_access),
        cmocka_unit_test(grow_and_shrink),
        cmocka_unit_test(many_threads),
        cmocka_unit_test(one_release_wins),
        cmocka_unit_test(out_of_file_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
