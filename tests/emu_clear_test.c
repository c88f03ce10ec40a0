// SPDX-License-Identifier: Apache-2.0
//
// emu: memory that is set to zero. What was written is zero after it and all else as it was; what
// nobody wrote still takes no memory.
#include "tests/emu_check.h"

#include <stdbool.h>

#define PAGE ((size_t)4096)
#define MIB ((size_t)1 << 20)
#define BYTES (64 * MIB)

// A range whose ends are not at those of pages, and what lies in it and on both sides of it.
#define BEGIN (3 * MIB + 5)
#define END (61 * MIB - 7)
static const size_t inside[] = {BEGIN, BEGIN + 4 * MIB, BEGIN + 4 * MIB + PAGE, 32 * MIB, END - 1};
static const size_t outside[] = {0, BEGIN - 1, END, BYTES - 1};

static size_t resident_bytes(void)
{
    size_t size, resident;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%zu %zu", &size, &resident) == 2);
    fclose(file);
    return resident * PAGE;
}

// [n] mappings of [bytes] bytes, one after the other.
static CUdeviceptr map_memory(size_t n, size_t bytes)
{
    CUdeviceptr p;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    OK(cuMemAddressReserve(&p, n * bytes, 0, 0, 0));
    for (size_t i = 0; i < n; i++) {
        CUmemGenericAllocationHandle handle;
        OK(cuMemCreate(&handle, bytes, &prop, 0));
        OK(cuMemMap(p + i * bytes, bytes, 0, handle, 0));
    }
    OK(cuMemSetAccess(p, n * bytes, &access, 1));
    return p;
}

static void clear(CUdeviceptr p, size_t bytes)
{
    OK(cuMemsetD8Async(p, 0, bytes, NULL));
    OK(cuStreamSynchronize(NULL));
}

static void check_clearing(CUdeviceptr p)
{
    unsigned char *memory = (unsigned char *)(uintptr_t)p;
    clear(p, PAGE); // the worker has its stack then
    size_t before = resident_bytes();
    clear(p, BYTES);
    CHECK(resident_bytes() < before + BYTES / 8);
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
        memory[inside[i]] = 1;
    }
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        memory[outside[i]] = 2;
    }
    clear(p + BEGIN, END - BEGIN);
    CHECK(resident_bytes() < before + BYTES / 8);
    for (size_t i = 0; i < BYTES; i++) {
        bool kept = i == outside[0] || i == outside[1] || i == outside[2] || i == outside[3];
        CHECK(memory[i] == (kept ? 2 : 0));
    }
}

static void in_allocations(void)
{
    CUdeviceptr p;
    emu_begin();
    OK(cuMemAlloc(&p, BYTES));
    check_clearing(p);
}
EMU_TEST(allocations)

static void in_mappings(void)
{
    emu_begin();
    check_clearing(map_memory(1, BYTES));
}
EMU_TEST(mappings)

// From one mapping into the next, which is another file.
static void in_neighbours(void)
{
    emu_begin();
    CUdeviceptr p = map_memory(2, 4 * MIB);
    memset((void *)(uintptr_t)p, 3, 8 * MIB);
    clear(p + MIB, 6 * MIB);
    const unsigned char *memory = (const unsigned char *)(uintptr_t)p;
    for (size_t i = 0; i < 8 * MIB; i++) {
        CHECK(memory[i] == (i < MIB || i >= 7 * MIB ? 3 : 0));
    }
}
EMU_TEST(neighbours)

// Page-locked memory is the process's own, and of it nothing is known.
static void in_host_memory(void)
{
    void *host;
    emu_begin();
    OK(cuMemHostAlloc(&host, 4 * MIB, 0));
    memset(host, 4, 4 * MIB);
    clear((CUdeviceptr)(uintptr_t)host + 1, 4 * MIB - 1);
    const unsigned char *memory = host;
    CHECK(memory[0] == 4);
    for (size_t i = 1; i < 4 * MIB; i++) {
        CHECK(memory[i] == 0);
    }
}
EMU_TEST(host_memory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations),
        cmocka_unit_test(mappings),
        cmocka_unit_test(neighbours),
        cmocka_unit_test(host_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
