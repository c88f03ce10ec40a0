// SPDX-License-Identifier: Apache-2.0
//
// Loading as on a GPU: every container of an artifact by itself, and among several that hold the
// same entry the one with the declared parameters. The driver's functions about code are replaced
// by ones that read the test's own containers: header, then one byte that says what is in it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "tests/rank_fixture.h"

enum content { FOREIGN = 'f', NARROW = 'n', WIDE = 'w', OTHER_ENTRY = 'o', PADDED = 'p' };

// What a container holds: entry "k" (or another one) with two parameters.
struct code {
    enum content content;
    size_t offset, bytes; // of the second parameter; the first one is a pointer
};

static struct code codes[] = {
    {NARROW, 8, 4},
    {WIDE, 8, 8},
    {OTHER_ENTRY, 8, 4},
    {PADDED, 16, 4},
};

static struct {
    const struct code *function; // the last one that was brought to the device
    int loaded, unloaded;
    int dynamic_shared;
} driver;

static CUresult load_data(CUmodule *module, const void *image)
{
    uint32_t magic;
    memcpy(&magic, image, sizeof(magic));
    assert_int_equal(magic, 0xBA55ED50u);
    assert_int_equal((uintptr_t)image % 8, 0);
    uint8_t content = ((const uint8_t *)image)[16];
    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
        if (codes[i].content == (enum content)content) {
            *module = (CUmodule)&codes[i];
            driver.loaded++;
            return CUDA_SUCCESS;
        }
    }
    return content == FOREIGN ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_ERROR_INVALID_IMAGE;
}

static CUresult unload(CUmodule module)
{
    assert_non_null(module);
    driver.unloaded++;
    return CUDA_SUCCESS;
}

static CUresult get_function(CUfunction *function, CUmodule module, const char *name)
{
    const struct code *code = (const struct code *)module;
    if (strcmp(name, code->content == OTHER_ENTRY ? "other" : "k") != 0) {
        return CUDA_ERROR_NOT_FOUND;
    }
    *function = (CUfunction)module;
    return CUDA_SUCCESS;
}

static CUresult get_param_info(CUfunction function, size_t index, size_t *offset, size_t *bytes)
{
    const struct code *code = (const struct code *)function;
    if (index > 1) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *offset = index == 0 ? 0 : code->offset;
    *bytes = index == 0 ? 8 : code->bytes;
    return CUDA_SUCCESS;
}

static CUresult get_attribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    assert_non_null(function);
    *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 256 : 0;
    return CUDA_SUCCESS;
}

static CUresult set_attribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    assert_non_null(function);
    assert_int_equal(attribute, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
    assert_int_equal(driver.dynamic_shared, 0); // once
    driver.dynamic_shared = value;
    return CUDA_SUCCESS;
}

static CUresult load_function(CUfunction function)
{
    driver.function = (const struct code *)function;
    return CUDA_SUCCESS;
}

static char directory[] = "/tmp/kern-rank-containers-XXXXXX";
static char artifact[64];

static struct rank_fixture fixture_with(const char *contents)
{
    uint8_t bytes[256] = {0};
    const uint32_t magic = 0xBA55ED50u;
    const uint16_t header_bytes = 16;
    const uint64_t payload = 8;
    size_t length = 0;
    for (; *contents != '\0'; contents++, length += 24) {
        memcpy(bytes + length, &magic, sizeof(magic));
        memcpy(bytes + length + 6, &header_bytes, sizeof(header_bytes));
        memcpy(bytes + length + 8, &payload, sizeof(payload));
        bytes[length + 16] = (uint8_t)*contents;
    }
    struct kern_diag diag = {0};
    assert_true(kern_file_write(artifact, bytes, length, &diag));

    struct rank_fixture fixture = {.artifact = artifact};
    static const char *const dirs[] = {directory};
    fixture.dirs = dirs;
    fixture.n_dirs = 1;
    fixture.device =
        kern_device_open(KERN_DEVICE_WANT_EMU, KERN_BUILD_DIR "/lib/libkern-emu.so", &diag);
    assert_non_null(fixture.device);
    fixture.device->kind = KERN_DEVICE_CUDA;
    fixture.device->cu.cuModuleLoadData = load_data;
    fixture.device->cu.cuModuleUnload = unload;
    fixture.device->cu.cuModuleGetFunction = get_function;
    fixture.device->cu.cuFuncGetParamInfo = get_param_info;
    fixture.device->cu.cuFuncGetAttribute = get_attribute;
    fixture.device->cu.cuFuncSetAttribute = set_attribute;
    fixture.device->cu.cuFuncLoad = load_function;
    memset(&driver, 0, sizeof(driver));
    return fixture;
}

// Entry k with a pointer and a parameter [type], launched twice with blocks of 32 threads.
// clang-format off
#define MANIFEST(type, block)                                                                      \
    "{'schema_version': 7, 'model': 'test',"                                                       \
    "'modules': {'m': {'source': 'label', 'sha256': '@SHA'}},"                                     \
    "'buffers': {'y': {'dtype': 'i32', 'shape': [4], 'kind': 'output'}},"                          \
    "'ops': {'o': {'params': ['out buffer<i32>', '" type "'], 'impl': {'launches': ["              \
    "  {'module': 'm', 'entry': 'k', 'block': [" block ",1,1], 'grid': [1,1,1],"                   \
    "   'shared_mem': 100000},"                                                                    \
    "  {'module': 'm', 'entry': 'k', 'block': [32,1,1], 'grid': [1,1,1],"                          \
    "   'shared_mem': 50000}]}}},"                                                                 \
    "'programs': {'step': {'calls': [{'op': 'o', 'args': [{'buf': 'y'}, {'" type "': 1}]}]}}}"
// clang-format on

static void load(struct rank_fixture *fixture, const char *json, bool expected)
{
    assert_true(fixture_create(fixture, json));
    assert_int_equal(kern_rank_load_modules(fixture->rank, &fixture->diag), expected);
}

static void the_container_with_the_declared_layout_wins(void **state)
{
    (void)state;
    struct rank_fixture fixture = fixture_with("fonwf");
    load(&fixture, MANIFEST("i64", "32"), true);
    assert_int_equal(driver.loaded, 3);
    assert_int_equal(driver.function->content, WIDE);
    assert_int_equal(driver.dynamic_shared, 100000); // the larger of the two launches
    fixture_close(&fixture);
    assert_int_equal(driver.unloaded, 3);

    fixture = fixture_with("wn");
    load(&fixture, MANIFEST("i32", "32"), true);
    assert_int_equal(driver.function->content, NARROW);
    fixture_close(&fixture);
}

static void an_offset_counts_as_well_as_a_size(void **state)
{
    (void)state;
    struct rank_fixture fixture = fixture_with("pw");
    load(&fixture, MANIFEST("i32", "32"), false);
    fixture_expect(&fixture, KERN_EXIT_ARTIFACT, "ops.o.impl.launches[0]",
                   "parameter 1 is declared i32, 4 bytes at 8; it is 4 bytes at 16",
                   "in other code of that name, parameter 1 is declared i32, 4 bytes at 8; it is "
                   "8 bytes at 8",
                   NULL);
    assert_int_equal(driver.unloaded, 2);
    fixture_close(&fixture);
}

static void no_container_for_this_device(void **state)
{
    (void)state;
    struct rank_fixture fixture = fixture_with("ff");
    load(&fixture, MANIFEST("i32", "32"), false);
    fixture_expect(&fixture, KERN_EXIT_ARTIFACT, artifact, "none of its 2 fatbin containers", NULL);
    fixture_close(&fixture);
}

static void a_container_that_the_driver_refuses(void **state)
{
    (void)state;
    struct rank_fixture fixture = fixture_with("n!");
    load(&fixture, MANIFEST("i32", "32"), false);
    fixture_expect(&fixture, KERN_EXIT_DEVICE, "byte 24", "cuModuleLoadData",
                   "CUDA_ERROR_INVALID_IMAGE", NULL);
    assert_int_equal(driver.unloaded, 1);
    fixture_close(&fixture);
}

static void a_block_larger_than_the_function_takes(void **state)
{
    (void)state;
    struct rank_fixture fixture = fixture_with("n");
    load(&fixture, MANIFEST("i32", "512"), false);
    fixture_expect(&fixture, KERN_EXIT_ARTIFACT, "ops.o.impl.launches[0]", "512 threads",
                   "at most 256", NULL);
    fixture_close(&fixture);
}

static int make_directory(void **state)
{
    (void)state;
    bool made = mkdtemp(directory) != NULL;
    snprintf(artifact, sizeof(artifact), "%s/artifact", directory);
    return !made;
}

static int remove_directory(void **state)
{
    (void)state;
    unlink(artifact);
    return rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_container_with_the_declared_layout_wins),
        cmocka_unit_test(an_offset_counts_as_well_as_a_size),
        cmocka_unit_test(no_container_for_this_device),
        cmocka_unit_test(a_container_that_the_driver_refuses),
        cmocka_unit_test(a_block_larger_than_the_function_takes),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
