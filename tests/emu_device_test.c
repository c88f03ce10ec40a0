// SPDX-License-Identifier: Apache-2.0
//
// emu: devices, contexts and the names of errors.
#include "tests/emu_check.h"

#include <pthread.h>

static int device_attribute(CUdevice_attribute which)
{
    int value;
    OK(cuDeviceGetAttribute(&value, which, 0));
    return value;
}

static void in_before_init(void)
{
    int value;
    CUcontext context;
    CUdeviceptr p;
    EXPECT(ERROR_NOT_INITIALIZED, cuDeviceGetCount(&value));
    EXPECT(ERROR_NOT_INITIALIZED, cuDeviceGet(&value, 0));
    EXPECT(ERROR_NOT_INITIALIZED, cuDevicePrimaryCtxRetain(&context, 0));
    EXPECT(ERROR_NOT_INITIALIZED, cuCtxGetCurrent(&context));
    EXPECT(ERROR_NOT_INITIALIZED, cuMemAlloc(&p, 8));
    EXPECT(ERROR_INVALID_VALUE, cuInit(1));
    EXPECT(ERROR_NOT_INITIALIZED, cuDeviceGetCount(&value));
    OK(cuDriverGetVersion(&value));
    CHECK(value >= 12040);
    EXPECT(ERROR_INVALID_VALUE, cuDriverGetVersion(NULL));
    OK(cuInit(0));
    OK(cuInit(0));
    OK(cuDeviceGetCount(&value));
    CHECK(value == 8);
}
EMU_TEST(before_init)

static void in_devices(void)
{
    char text[64];
    CUuuid uuid;
    size_t bytes;
    int device = -1;
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 7));
    CHECK(device == 7);
    EXPECT(ERROR_INVALID_DEVICE, cuDeviceGet(&device, 8));
    EXPECT(ERROR_INVALID_DEVICE, cuDeviceGet(&device, -1));
    EXPECT(ERROR_INVALID_VALUE, cuDeviceGet(NULL, 0));
    EXPECT(ERROR_INVALID_VALUE, cuDeviceGetCount(NULL));

    OK(cuDeviceGetName(text, sizeof text, 3));
    CHECK(strcmp(text, "kern emu GPU") == 0);
    OK(cuDeviceGetName(text, 5, 3));
    CHECK(strcmp(text, "kern") == 0);
    EXPECT(ERROR_INVALID_VALUE, cuDeviceGetName(text, 0, 3));
    EXPECT(ERROR_INVALID_VALUE, cuDeviceGetName(NULL, 5, 3));
    EXPECT(ERROR_INVALID_DEVICE, cuDeviceGetName(text, 5, 8));

    OK(cuDeviceGetPCIBusId(text, 13, 3));
    CHECK(strcmp(text, "0000:03:00.0") == 0);
    EXPECT(ERROR_INVALID_VALUE, cuDeviceGetPCIBusId(text, 12, 3));
    EXPECT(ERROR_INVALID_DEVICE, cuDeviceGetPCIBusId(text, 13, 8));

    OK(cuDeviceTotalMem(&bytes, 3));
    CHECK(bytes == (size_t)16 << 30);
    EXPECT(ERROR_INVALID_DEVICE, cuDeviceTotalMem(&bytes, 8));
    EXPECT(ERROR_INVALID_VALUE, cuDeviceTotalMem(NULL, 0));

    OK(cuDeviceGetUuid(&uuid, 3));
    EXPECT(ERROR_INVALID_DEVICE, cuDeviceGetUuid(&uuid, -1));
    EXPECT(ERROR_INVALID_VALUE, cuDeviceGetUuid(NULL, 0));
}
EMU_TEST(devices)

static void in_attributes(void)
{
    int value;
    OK(cuInit(0));
    CHECK(device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) == 9);
    CHECK(device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) == 0);
    CHECK(device_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) == 132);
    CHECK(device_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) == 232448);
    CHECK(device_attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK) == 1024);
    CHECK(device_attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X) == 2147483647);
    CHECK(device_attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y) == 65535);
    CHECK(device_attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z) == 65535);
    CHECK(device_attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING) == 1);
    CHECK(device_attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) == 1);
    CHECK(device_attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) == 1);
    CHECK(device_attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED) == 1);
    CHECK(device_attribute(CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED) == 0);
    CHECK(device_attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID) == -1);
    EXPECT(ERROR_INVALID_VALUE, cuDeviceGetAttribute(&value, (CUdevice_attribute)0, 0));
    EXPECT(ERROR_INVALID_VALUE, cuDeviceGetAttribute(&value, (CUdevice_attribute)5000, 0));
    EXPECT(ERROR_INVALID_VALUE, cuDeviceGetAttribute(NULL, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0));
    EXPECT(ERROR_INVALID_DEVICE,
           cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 8));
}
EMU_TEST(attributes)

static void in_contexts(void)
{
    CUcontext a;
    CUcontext b;
    CUcontext again;
    CUcontext current = (CUcontext)&a;
    OK(cuInit(0));
    OK(cuCtxGetCurrent(&current));
    CHECK(current == NULL);
    EXPECT(ERROR_INVALID_VALUE, cuCtxGetCurrent(NULL));
    EXPECT(ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(0));
    EXPECT(ERROR_INVALID_DEVICE, cuDevicePrimaryCtxRelease(8));
    EXPECT(ERROR_INVALID_DEVICE, cuDevicePrimaryCtxRetain(&a, 8));
    EXPECT(ERROR_INVALID_VALUE, cuDevicePrimaryCtxRetain(NULL, 0));

    OK(cuDevicePrimaryCtxRetain(&a, 0));
    OK(cuCtxGetCurrent(&current));
    CHECK(current == NULL); // retaining does not make it current
    OK(cuDevicePrimaryCtxRetain(&again, 0));
    OK(cuDevicePrimaryCtxRetain(&b, 1));
    CHECK(a == again && a != b);
    OK(cuCtxSetCurrent(a));
    OK(cuCtxSetCurrent(b));
    OK(cuCtxGetCurrent(&current));
    CHECK(current == b);
    EXPECT(ERROR_INVALID_CONTEXT, cuCtxSetCurrent((CUcontext)&a));
    EXPECT(ERROR_INVALID_CONTEXT, cuCtxSetCurrent((CUcontext)(uintptr_t)0x12345));
    OK(cuCtxGetCurrent(&current));
    CHECK(current == b);

    OK(cuDevicePrimaryCtxRelease(0));
    OK(cuCtxSetCurrent(a)); // retained once more
    OK(cuDevicePrimaryCtxRelease(0));
    EXPECT(ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(0));
    EXPECT(ERROR_INVALID_CONTEXT, cuCtxSetCurrent(a));
    size_t bytes;
    EXPECT(ERROR_CONTEXT_IS_DESTROYED, cuMemGetInfo(&bytes, &bytes));
    OK(cuCtxSetCurrent(NULL));
    EXPECT(ERROR_INVALID_CONTEXT, cuMemGetInfo(&bytes, &bytes));
}
EMU_TEST(contexts)

static void *other_thread(void *context)
{
    CUcontext current = context;
    size_t bytes;
    OK(cuCtxGetCurrent(&current));
    CHECK(current == NULL);
    EXPECT(ERROR_INVALID_CONTEXT, cuMemGetInfo(&bytes, &bytes));
    OK(cuCtxSetCurrent(context));
    OK(cuMemGetInfo(&bytes, &bytes));
    return NULL;
}

static void in_current_is_the_threads(void)
{
    pthread_t thread;
    CUcontext context = emu_begin();
    CHECK(pthread_create(&thread, NULL, other_thread, context) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}
EMU_TEST(current_is_the_threads)

static void in_fork_is_refused(void)
{
    int n;
    emu_begin();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        EXPECT(ERROR_NOT_INITIALIZED, cuDeviceGetCount(&n));
        EXPECT(ERROR_NOT_INITIALIZED, cuInit(0));
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    OK(cuDeviceGetCount(&n));
}
EMU_TEST(fork_is_refused)

static void in_error_names(void)
{
    const char *text;
#define CHECK_NAME(error, value, string)                                                           \
    OK(cuGetErrorName((CUresult)(value), &text));                                                  \
    CHECK(strcmp(text, #error) == 0);                                                              \
    OK(cuGetErrorString((CUresult)(value), &text));                                                \
    CHECK(text[0] != '\0');
    KERN_CUDA_RESULTS(CHECK_NAME)
#undef CHECK_NAME
    EXPECT(ERROR_INVALID_VALUE, cuGetErrorName((CUresult)12345, &text));
    CHECK(text == NULL);
    EXPECT(ERROR_INVALID_VALUE, cuGetErrorString((CUresult)12345, &text));
    EXPECT(ERROR_INVALID_VALUE, cuGetErrorName(CUDA_SUCCESS, NULL));
    EXPECT(ERROR_INVALID_VALUE, cuGetErrorString(CUDA_SUCCESS, NULL));
}
EMU_TEST(error_names)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_init),
        cmocka_unit_test(devices),
        cmocka_unit_test(attributes),
        cmocka_unit_test(contexts),
        cmocka_unit_test(current_is_the_threads),
        cmocka_unit_test(fork_is_refused),
        cmocka_unit_test(error_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
