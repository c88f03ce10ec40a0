// SPDX-License-Identifier: Apache-2.0
//
// The devices: their number, names, places and attributes. They answer as one Hopper part does,
// where a program is known to ask.
#include "emu/internal.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char DEVICE_NAME[] = "kern emu GPU";
enum { PCI_ID_BYTES = sizeof "0000:00:00.0" };

// FNV-1a, 64 bits.
static uint64_t hash(uint64_t seed, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++) {
        seed = (seed ^ p[i]) * 0x100000001b3u;
    }
    return seed;
}

// splitmix64's finaliser: FNV alone leaves neighbouring inputs with similar high bits.
static uint64_t scramble(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

uint64_t emu_node_id(void)
{
    uint64_t id = 0xcbf29ce484222325u;
    char text[HOST_NAME_MAX + 1] = "";
    FILE *file = fopen("/etc/machine-id", "re");
    if (file != NULL) {
        if (fgets(text, sizeof text, file) != NULL) {
            id = hash(id, text, strlen(text));
        }
        fclose(file);
    }
    if (gethostname(text, sizeof text) == 0) {
        text[sizeof text - 1] = '\0';
        id = hash(id, text, strlen(text));
    }
    return scramble(id);
}

void emu_device_uuid(uint64_t node, unsigned installed, unsigned char uuid[16])
{
    for (uint64_t half = 0; half < 2; half++) {
        uint64_t bits = scramble(node + 2 * (uint64_t)installed + half + 1);
        memcpy(uuid + 8 * half, &bits, 8);
    }
    // Version 4, variant 1, as the driver's UUIDs look.
    uuid[6] = (unsigned char)((uuid[6] & 0x0f) | 0x40);
    uuid[8] = (unsigned char)((uuid[8] & 0x3f) | 0x80);
}

bool emu_device_ok(CUdevice device)
{
    return device >= 0 && (unsigned)device < emu_config()->n_visible;
}

CUresult cuDeviceGetCount(int *count)
{
    EMU_ENTER(EMU_IGNORE_STICKY);
    if (count == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *count = (int)emu_config()->n_visible;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    EMU_ENTER(EMU_IGNORE_STICKY);
    if (device == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!emu_device_ok(ordinal)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int bytes, CUdevice device)
{
    EMU_ENTER(EMU_IGNORE_STICKY);
    if (name == NULL || bytes <= 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!emu_device_ok(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    snprintf(name, (size_t)bytes, "%s", DEVICE_NAME);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    EMU_ENTER(EMU_IGNORE_STICKY);
    if (uuid == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!emu_device_ok(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    unsigned char bytes[16];
    emu_device_uuid(emu_config()->node, emu_config()->visible[device], bytes);
    memcpy(uuid->bytes, bytes, sizeof bytes);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *id, int bytes, CUdevice device)
{
    EMU_ENTER(EMU_IGNORE_STICKY);
    if (id == NULL || bytes < PCI_ID_BYTES) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!emu_device_ok(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    snprintf(id, (size_t)bytes, "0000:%02X:00.0", emu_config()->visible[device]);
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    EMU_ENTER(EMU_IGNORE_STICKY);
    if (bytes == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!emu_device_ok(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *bytes = emu_config()->memory;
    return CUDA_SUCCESS;
}

struct attribute {
    CUdevice_attribute attribute;
    int value;
};

// The same for every device and configuration. What emu does not do is 0, as are the attributes of
// the published list that stand nowhere here.
static const struct attribute attributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, INT_MAX},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, INT_MAX},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 2619000},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 5120},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 52428800},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
    {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT, 1},
    {CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_NUMA_ID, -1},
};

static int table_value(CUdevice_attribute attribute)
{
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++) {
        if (attributes[i].attribute == attribute) {
            return attributes[i].value;
        }
    }
    return 0;
}

static int attribute_value(CUdevice_attribute attribute, CUdevice device)
{
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        return (int)emu_config()->visible[device];
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
        return emu_config()->fabric != EMU_FABRIC_NONE;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
        return emu_config()->numa;
    default:
        return table_value(attribute);
    }
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    EMU_ENTER(EMU_IGNORE_STICKY);
    if (value == NULL || attribute < CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK ||
        attribute > CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!emu_device_ok(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *value = attribute_value(attribute, device);
    return CUDA_SUCCESS;
}
