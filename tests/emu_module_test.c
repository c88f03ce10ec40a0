// SPDX-License-Identifier: Apache-2.0
//
// Modules and functions of emu: what is loaded, what is refused, and what is asked of functions.
#include "tests/emu_kernel_fixture.h"

#include <dirent.h>
#include <elf.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int setup(void **state)
{
    (void)state;
    fixture_open();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fixture_close();
    return 0;
}

static CUresult load(const void *image)
{
    CUmodule module;
    CUresult result = cuModuleLoadData(&module, image);
    if (result == CUDA_SUCCESS) {
        assert_ok(cuModuleUnload(module));
    }
    return result;
}

static void other_images_are_told_apart(void **state)
{
    (void)state;
    Elf64_Ehdr cubin = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB},
                        .e_type = ET_EXEC,
                        .e_machine = 190};
    const unsigned char fatbin[] = {0x50, 0xED, 0x55, 0xBA, 1, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    const struct {
        const void *image;
        CUresult want;
    } cases[] = {
        {&cubin, CUDA_ERROR_NO_BINARY_FOR_GPU},
        {fatbin, CUDA_ERROR_NO_BINARY_FOR_GPU},
        {".version 8.0\n.target sm_90\n", CUDA_ERROR_NO_BINARY_FOR_GPU},
        {"//\n// by hand\n/* two\n lines */\n  .version 7.0\n", CUDA_ERROR_NO_BINARY_FOR_GPU},
        {"", CUDA_ERROR_INVALID_IMAGE},
        {"\x7f", CUDA_ERROR_INVALID_IMAGE},
        {"\x50\xED\x55", CUDA_ERROR_INVALID_IMAGE},
        {"//", CUDA_ERROR_INVALID_IMAGE},
        {"/* no end", CUDA_ERROR_INVALID_IMAGE},
        {"junk", CUDA_ERROR_INVALID_IMAGE},
        {NULL, CUDA_ERROR_INVALID_VALUE},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(load(cases[i].image), cases[i].want);
    }
}

// The artifact with one field of its header or first segment changed.
static void hostile_headers_are_refused(void **state)
{
    (void)state;
    const struct {
        size_t offset, bytes;
        uint64_t value;
        CUresult want;
    } cases[] = {
        {offsetof(Elf64_Ehdr, e_ident[EI_CLASS]), 1, ELFCLASS32, CUDA_ERROR_INVALID_IMAGE},
        {offsetof(Elf64_Ehdr, e_ident[EI_DATA]), 1, ELFDATA2MSB, CUDA_ERROR_INVALID_IMAGE},
        {offsetof(Elf64_Ehdr, e_type), 2, ET_REL, CUDA_ERROR_INVALID_IMAGE},
        {offsetof(Elf64_Ehdr, e_machine), 2, EM_S390, CUDA_ERROR_NO_BINARY_FOR_GPU},
        {offsetof(Elf64_Ehdr, e_phnum), 2, 0, CUDA_ERROR_INVALID_IMAGE},
        {offsetof(Elf64_Ehdr, e_phentsize), 2, 8, CUDA_ERROR_INVALID_IMAGE},
        {offsetof(Elf64_Ehdr, e_phoff), 8, UINT64_MAX - 8, CUDA_ERROR_INVALID_IMAGE},
        {offsetof(Elf64_Ehdr, e_phoff), 8, (uint64_t)3 << 30, CUDA_ERROR_INVALID_IMAGE},
        {offsetof(Elf64_Ehdr, e_shentsize), 2, 1, CUDA_ERROR_INVALID_IMAGE},
        {offsetof(Elf64_Ehdr, e_shoff), 8, (uint64_t)1 << 62, CUDA_ERROR_INVALID_IMAGE},
        {sizeof(Elf64_Ehdr) + offsetof(Elf64_Phdr, p_offset), 8, UINT64_MAX,
         CUDA_ERROR_INVALID_IMAGE},
        {sizeof(Elf64_Ehdr) + offsetof(Elf64_Phdr, p_filesz), 8, (uint64_t)1 << 40,
         CUDA_ERROR_INVALID_IMAGE},
    };
    // In pages of its own with nothing behind them, as a file would be mapped.
    size_t bytes;
    unsigned char *file = fixture_read(&bytes);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t room = (bytes + page - 1) / page * page;
    unsigned char *pages =
        mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(pages, MAP_FAILED);
    assert_int_equal(mprotect(pages + room, page, PROT_NONE), 0);
    for (size_t i = 0; i < COUNT(cases); i++) {
        memcpy(pages, file, bytes);
        memcpy(pages + cases[i].offset, &cases[i].value, cases[i].bytes);
        assert_int_equal(load(pages), cases[i].want);
    }
    // Cut off: only its first page is there.
    memcpy(pages, file, page);
    assert_int_equal(mprotect(pages + page, room - page, PROT_NONE), 0);
    assert_int_equal(load(pages), CUDA_ERROR_INVALID_IMAGE);
    assert_int_equal(munmap(pages, room + page), 0);
    free(file);
}

static void a_library_without_a_host_half_is_refused(void **state)
{
    (void)state;
    FILE *file = fopen(KERN_BUILD_DIR "/lib/libkern-emu.so", "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    size_t bytes = (size_t)ftell(file);
    rewind(file);
    void *image = malloc(bytes);
    assert_int_equal(fread(image, 1, bytes, file), bytes);
    fclose(file);
    assert_int_equal(load(image), CUDA_ERROR_NO_BINARY_FOR_GPU);
    free(image);
}

static uint32_t ask_instance(CUmodule module, CUstream stream)
{
    uint32_t *count = fixture_pinned(4);
    assert_ok(fixture_launch_pointer(fixture_function(module, "instance_count"), stream, count));
    assert_ok(cuStreamSynchronize(stream));
    uint32_t value = *count;
    assert_ok(cuMemFreeHost(count));
    return value;
}

static size_t count_fds(void)
{
    size_t n = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (readdir(directory) != NULL) {
        n++;
    }
    closedir(directory);
    return n;
}

static void every_load_is_an_instance_of_its_own(void **state)
{
    (void)state;
    CUstream stream = fixture_stream();
    size_t fds = count_fds();
    CUmodule first = fixture_load(), second = fixture_load();
    assert_int_equal(ask_instance(first, stream), 1);
    assert_int_equal(ask_instance(first, stream), 2);
    assert_int_equal(ask_instance(second, stream), 1);
    assert_ok(cuModuleUnload(first));
    CUmodule third = fixture_load();
    assert_int_equal(ask_instance(third, stream), 1);
    assert_int_equal(ask_instance(second, stream), 2);
    assert_ok(cuModuleUnload(second));
    assert_ok(cuModuleUnload(third));
    assert_int_equal(count_fds(), fds);
    assert_ok(cuStreamDestroy(stream));
}

static void unloading_waits_for_nothing(void **state)
{
    (void)state;
    CUstream stream = fixture_stream();
    CUmodule module = fixture_load();
    CUfunction spin = fixture_function(module, "spin");
    CUfunction append = fixture_function(module, "append");
    _Atomic uint32_t *flag = fixture_pinned(4);
    uint32_t *log = fixture_pinned(64);
    assert_ok(fixture_launch_pointer(spin, stream, flag));
    assert_ok(fixture_append(append, stream, log, 7));
    assert_ok(cuModuleUnload(module));
    assert_int_equal(fixture_append(append, stream, log, 8), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuModuleGetFunction(&append, module, "append"), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuFuncLoad(spin), CUDA_ERROR_INVALID_HANDLE);
    atomic_store(flag, 1);
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(log[0], 1);
    assert_int_equal(log[1], 7);
    struct kern_emu_stats stats;
    assert_int_equal(kern_emu_stats(0, &stats), 0);
    assert_int_equal(stats.modules, 0);
    assert_int_equal(stats.functions, 0);
    assert_ok(cuStreamDestroy(stream));
    assert_ok(cuMemFreeHost((void *)flag));
    assert_ok(cuMemFreeHost(log));
}

static void functions_are_found_by_name(void **state)
{
    (void)state;
    CUmodule module = fixture_load();
    CUfunction add, again;
    assert_ok(cuModuleGetFunction(&add, module, "add"));
    assert_ok(cuModuleGetFunction(&again, module, "add"));
    assert_ptr_equal(add, again);
    assert_int_equal(cuModuleGetFunction(&add, module, "ad"), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(cuModuleGetFunction(&add, module, ""), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuModuleGetFunction(&add, module, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuModuleGetFunction(NULL, module, "add"), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuModuleGetFunction(&add, NULL, "add"), CUDA_ERROR_INVALID_HANDLE);
    assert_ok(cuFuncLoad(again));
    assert_ok(cuModuleUnload(module));
}

static void params_are_told_one_by_one(void **state)
{
    (void)state;
    CUmodule module = fixture_load();
    CUfunction report = fixture_function(module, "report");
    const size_t want[][2] = {{0, 8}, {8, 1}, {16, 8}, {64, 128}};
    size_t offset, bytes;
    for (size_t i = 0; i < COUNT(want); i++) {
        assert_ok(cuFuncGetParamInfo(report, i, &offset, &bytes));
        assert_int_equal(offset, want[i][0]);
        assert_int_equal(bytes, want[i][1]);
    }
    assert_ok(cuFuncGetParamInfo(report, 3, &offset, NULL));
    assert_int_equal(cuFuncGetParamInfo(report, 4, &offset, &bytes), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuFuncGetParamInfo(report, 0, NULL, &bytes), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuFuncGetParamInfo(fixture_function(module, "trap"), 0, &offset, &bytes),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuFuncGetParamInfo(NULL, 0, &offset, &bytes), CUDA_ERROR_INVALID_HANDLE);
    assert_ok(cuModuleUnload(module));
}

static void attributes_have_limits(void **state)
{
    (void)state;
    CUmodule module = fixture_load();
    CUfunction report = fixture_function(module, "report"); // 1024 bytes of static shared memory
    const struct {
        CUfunction_attribute attribute;
        int value;
        CUresult want;
    } sets[] = {
        {CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448, CUDA_ERROR_INVALID_VALUE},
        {CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, -1, CUDA_ERROR_INVALID_VALUE},
        {CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 231424, CUDA_SUCCESS},
        {CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 2, CUDA_ERROR_INVALID_VALUE},
        {CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101, CUDA_ERROR_INVALID_VALUE},
        {CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50, CUDA_SUCCESS},
        {CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, 1, CUDA_SUCCESS},
        {CU_FUNC_ATTRIBUTE_NUM_REGS, 10, CUDA_ERROR_INVALID_VALUE},
        {(CUfunction_attribute)99, 0, CUDA_ERROR_INVALID_VALUE},
    };
    int value;
    assert_ok(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, report));
    assert_int_equal(value, 48 * 1024 - 1024);
    for (size_t i = 0; i < COUNT(sets); i++) {
        assert_int_equal(cuFuncSetAttribute(report, sets[i].attribute, sets[i].value),
                         sets[i].want);
    }
    const struct {
        CUfunction_attribute attribute;
        int want;
    } gets[] = {
        {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
        {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1024},
        {CU_FUNC_ATTRIBUTE_BINARY_VERSION, 90},
        {CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, 0},
        {CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 231424},
        {CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50},
        {CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 0},
        {CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, 1},
    };
    for (size_t i = 0; i < COUNT(gets); i++) {
        assert_ok(cuFuncGetAttribute(&value, gets[i].attribute, report));
        assert_int_equal(value, gets[i].want);
    }
    assert_int_equal(cuFuncGetAttribute(&value, (CUfunction_attribute)99, report),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuFuncGetAttribute(NULL, CU_FUNC_ATTRIBUTE_NUM_REGS, report),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, NULL),
                     CUDA_ERROR_INVALID_HANDLE);
    assert_ok(cuModuleUnload(module));
}

static void occupancy_follows_threads_and_shared_memory(void **state)
{
    (void)state;
    CUmodule module = fixture_load();
    CUfunction add = fixture_function(module, "add");
    const struct {
        int block_size;
        size_t shared;
        int want;
    } cases[] = {
        {1024, 0, 2}, {1000, 0, 2},      {256, 0, 8},        {32, 0, 32},
        {1, 0, 32},   {32, 47 << 10, 4}, {32, 227 << 10, 1}, {32, 228 << 10, 0},
    };
    int blocks;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_ok(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, cases[i].block_size,
                                                              cases[i].shared));
        assert_int_equal(blocks, cases[i].want);
    }
    const int sizes[] = {0, -1, 1025};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        assert_int_equal(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, sizes[i], 0),
                         CUDA_ERROR_INVALID_VALUE);
    }
    assert_ok(cuModuleUnload(module));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_images_are_told_apart),
        cmocka_unit_test(hostile_headers_are_refused),
        cmocka_unit_test(a_library_without_a_host_half_is_refused),
        cmocka_unit_test(every_load_is_an_instance_of_its_own),
        cmocka_unit_test(unloading_waits_for_nothing),
        cmocka_unit_test(functions_are_found_by_name),
        cmocka_unit_test(params_are_told_one_by_one),
        cmocka_unit_test(attributes_have_limits),
        cmocka_unit_test(occupancy_follows_threads_and_shared_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
