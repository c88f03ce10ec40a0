// SPDX-License-Identifier: Apache-2.0
#include "tests/tiny_driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define RESERVATIONS_MAX 32
#define PLAIN_ADDRESS 0x1000ull         // of every allocation that is not mapped
#define FIRST_ADDRESS 0x100000000000ull // of reservations

struct memory {
    size_t bytes;
    unsigned char *data;
    size_t mappings;
    bool released;
};

struct granule {
    struct memory *memory; // NULL: nothing is mapped
    size_t offset;         // in memory
    bool accessible;
};

struct reservation {
    CUdeviceptr address;
    size_t bytes; // 0: free
    struct granule *granules;
};

static struct {
    size_t granule;
    CUdeviceptr next_address;
    struct reservation reservations[RESERVATIONS_MAX];
    struct tiny_counts counts;
    bool running; // work that nobody has waited for
    enum tiny_function failing;
    unsigned calls_left; // until it fails; 0: it does not
} tiny;

static const char *const names[] = {
    [TINY_CREATE] = "cuMemCreate",
    [TINY_RESERVE] = "cuMemAddressReserve",
    [TINY_MAP] = "cuMemMap",
    [TINY_SET_ACCESS] = "cuMemSetAccess",
    [TINY_UNMAP] = "cuMemUnmap",
    [TINY_MEMSET] = "cuMemsetD8Async",
    [TINY_COPY] = "cuMemcpyDtoDAsync",
    [TINY_SYNCHRONIZE] = "cuStreamSynchronize",
    [TINY_SET_CURRENT] = "cuCtxSetCurrent",
};

const char *tiny_function_name(enum tiny_function function)
{
    return names[function];
}

bool tiny_fail(enum tiny_function function, unsigned nth)
{
    bool met = tiny.calls_left == 0;
    tiny.failing = function;
    tiny.calls_left = nth;
    return met;
}

struct tiny_counts tiny_counts(void)
{
    return tiny.counts;
}

static bool fails(enum tiny_function function)
{
    return tiny.calls_left != 0 && function == tiny.failing && --tiny.calls_left == 0;
}

static CUresult broken(const char *rule)
{
    fprintf(stderr, "tiny driver: %s\n", rule);
    tiny.counts.broken++;
    return CUDA_ERROR_INVALID_VALUE;
}

// The granules of [address, address + bytes), whole ones of one reservation; NULL if it is not.
static struct granule *granules_of(CUdeviceptr address, size_t bytes)
{
    for (size_t r = 0; r < RESERVATIONS_MAX; r++) {
        const struct reservation *reserved = &tiny.reservations[r];
        size_t from = address - reserved->address;
        if (address >= reserved->address && bytes <= reserved->bytes &&
            from <= reserved->bytes - bytes) {
            return from % tiny.granule == 0 && bytes % tiny.granule == 0 && bytes != 0
                       ? &reserved->granules[from / tiny.granule]
                       : NULL;
        }
    }
    return NULL;
}

// The byte at [address], or NULL; *[left] are adjacent in its granule.
static unsigned char *byte_at(CUdeviceptr address, size_t *left)
{
    size_t within = address % tiny.granule;
    const struct granule *granule = granules_of(address - within, tiny.granule);
    if (granule == NULL || granule->memory == NULL || !granule->accessible) {
        return NULL;
    }
    *left = tiny.granule - within;
    return granule->memory->data + granule->offset + within;
}

// Reads (to is not NULL), writes (from is not NULL) or fills.
static bool access(CUdeviceptr address, unsigned char *to, const unsigned char *from, int value,
                   size_t length)
{
    for (size_t done = 0, left; done < length; done += left) {
        unsigned char *at = byte_at(address + done, &left);
        if (at == NULL) {
            return false;
        }
        left = left < length - done ? left : length - done;
        if (to != NULL) {
            memcpy(to + done, at, left);
        } else if (from != NULL) {
            memcpy(at, from + done, left);
        } else {
            memset(at, value, left);
        }
    }
    return true;
}

bool tiny_read(CUdeviceptr address, void *bytes, size_t length)
{
    return access(address, bytes, NULL, 0, length);
}

bool tiny_write(CUdeviceptr address, const void *bytes, size_t length)
{
    tiny.running = true;
    return access(address, NULL, bytes, 0, length);
}

static CUresult error_name(CUresult result, const char **text)
{
    *text = result == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "an error";
    return CUDA_SUCCESS;
}

static CUresult device_get(CUdevice *device, int ordinal)
{
    *device = ordinal;
    return CUDA_SUCCESS;
}

static CUresult context_retain(CUcontext *context, CUdevice device)
{
    (void)device;
    *context = (CUcontext)&tiny;
    tiny.counts.others++;
    return CUDA_SUCCESS;
}

static CUresult context_release(CUdevice device)
{
    (void)device;
    tiny.counts.others--;
    return CUDA_SUCCESS;
}

static CUresult set_current(CUcontext context)
{
    (void)context;
    return fails(TINY_SET_CURRENT) ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult stream_create(CUstream *stream, unsigned flags)
{
    (void)flags;
    *stream = (CUstream)&tiny;
    tiny.counts.others++;
    return CUDA_SUCCESS;
}

static CUresult stream_destroy(CUstream stream)
{
    (void)stream;
    tiny.counts.others--;
    return CUDA_SUCCESS;
}

static CUresult stream_synchronize(CUstream stream)
{
    (void)stream;
    if (fails(TINY_SYNCHRONIZE)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    tiny.running = false;
    return CUDA_SUCCESS;
}

static CUresult event_create(CUevent *event, unsigned flags)
{
    (void)flags;
    *event = (CUevent)&tiny;
    tiny.counts.others++;
    return CUDA_SUCCESS;
}

static CUresult event_destroy(CUevent event)
{
    (void)event;
    tiny.counts.others--;
    return CUDA_SUCCESS;
}

// Plain allocations are not what is tested: they are only counted, and filling them does nothing.
static CUresult mem_alloc(CUdeviceptr *address, size_t bytes)
{
    (void)bytes;
    *address = PLAIN_ADDRESS;
    tiny.counts.others++;
    return CUDA_SUCCESS;
}

static CUresult mem_free(CUdeviceptr address)
{
    (void)address;
    tiny.counts.others--;
    return CUDA_SUCCESS;
}

static CUresult host_alloc(void **host, size_t bytes, unsigned flags)
{
    (void)flags;
    *host = kern_calloc(bytes, 1);
    tiny.counts.others++;
    return CUDA_SUCCESS;
}

static CUresult host_free(void *host)
{
    free(host);
    tiny.counts.others--;
    return CUDA_SUCCESS;
}

static CUresult granularity(size_t *bytes, const CUmemAllocationProp *prop,
                            CUmemAllocationGranularity_flags option)
{
    (void)prop;
    (void)option;
    *bytes = tiny.granule;
    return CUDA_SUCCESS;
}

static CUresult create(CUmemGenericAllocationHandle *handle, size_t bytes,
                       const CUmemAllocationProp *prop, unsigned long long flags)
{
    (void)prop;
    if (fails(TINY_CREATE)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (bytes == 0 || bytes % tiny.granule != 0 || flags != 0) {
        return broken("cuMemCreate: bytes are not whole granules");
    }
    struct memory *memory = kern_calloc(1, sizeof(*memory));
    *memory = (struct memory){.bytes = bytes, .data = kern_calloc(bytes, 1)};
    // New memory holds what somebody left there.
    memset(memory->data, 0xee, bytes);
    tiny.counts.handles++;
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)memory;
    return CUDA_SUCCESS;
}

static void free_unused(struct memory *memory)
{
    if (memory->released && memory->mappings == 0) {
        tiny.counts.handles--;
        free(memory->data);
        free(memory);
    }
}

static CUresult release(CUmemGenericAllocationHandle handle)
{
    struct memory *memory = (struct memory *)(uintptr_t)handle;
    if (memory->released) {
        return broken("cuMemRelease: released twice");
    }
    memory->released = true;
    free_unused(memory);
    return CUDA_SUCCESS;
}

static CUresult reserve(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr hint,
                        unsigned long long flags)
{
    if (fails(TINY_RESERVE)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    size_t r = 0;
    while (r < RESERVATIONS_MAX && tiny.reservations[r].bytes != 0) {
        r++;
    }
    if (r == RESERVATIONS_MAX || bytes == 0 || bytes % tiny.granule != 0 || alignment != 0 ||
        hint != 0 || flags != 0) {
        return broken("cuMemAddressReserve: bad arguments");
    }
    tiny.reservations[r] = (struct reservation){
        .address = tiny.next_address,
        .bytes = bytes,
        .granules = kern_calloc(bytes / tiny.granule, sizeof(struct granule)),
    };
    *address = tiny.next_address;
    tiny.next_address += bytes + tiny.granule; // a gap, so that ranges never touch
    tiny.counts.reservations++;
    return CUDA_SUCCESS;
}

static CUresult address_free(CUdeviceptr address, size_t bytes)
{
    for (size_t r = 0; r < RESERVATIONS_MAX; r++) {
        struct reservation *reserved = &tiny.reservations[r];
        if (reserved->bytes == 0 || reserved->address != address || reserved->bytes != bytes) {
            continue;
        }
        for (size_t g = 0; g < bytes / tiny.granule; g++) {
            if (reserved->granules[g].memory != NULL) {
                return broken("cuMemAddressFree: something is mapped there");
            }
        }
        free(reserved->granules);
        *reserved = (struct reservation){0};
        tiny.counts.reservations--;
        return CUDA_SUCCESS;
    }
    return broken("cuMemAddressFree: not a reservation");
}

static CUresult map(CUdeviceptr address, size_t bytes, size_t offset,
                    CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    struct memory *memory = (struct memory *)(uintptr_t)handle;
    struct granule *granules = granules_of(address, bytes);
    if (fails(TINY_MAP)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (granules == NULL || bytes != memory->bytes || offset != 0 || flags != 0) {
        return broken("cuMemMap: bad arguments");
    }
    if (memory->mappings != 0) {
        return broken("cuMemMap: a chunk is mapped twice");
    }
    for (size_t g = 0; g < bytes / tiny.granule; g++) {
        if (granules[g].memory != NULL) {
            return broken("cuMemMap: something is mapped there");
        }
    }
    for (size_t g = 0; g < bytes / tiny.granule; g++) {
        granules[g] = (struct granule){.memory = memory, .offset = g * tiny.granule};
    }
    memory->mappings++;
    tiny.counts.mappings++;
    return CUDA_SUCCESS;
}

static CUresult unmap(CUdeviceptr address, size_t bytes)
{
    struct granule *granules = granules_of(address, bytes);
    if (fails(TINY_UNMAP)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (tiny.running) {
        return broken("cuMemUnmap: work on the stream was not waited for");
    }
    if (granules == NULL || granules[0].memory == NULL || granules[0].memory->bytes != bytes ||
        granules[0].offset != 0) {
        return broken("cuMemUnmap: no mapping");
    }
    struct memory *memory = granules[0].memory;
    for (size_t g = 0; g < bytes / tiny.granule; g++) {
        granules[g] = (struct granule){0};
    }
    memory->mappings--;
    tiny.counts.mappings--;
    free_unused(memory);
    return CUDA_SUCCESS;
}

static CUresult set_access(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *descs,
                           size_t count)
{
    struct granule *granules = granules_of(address, bytes);
    if (fails(TINY_SET_ACCESS)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (granules == NULL || count != 1 || descs->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
        return broken("cuMemSetAccess: bad arguments");
    }
    for (size_t g = 0; g < bytes / tiny.granule; g++) {
        if (granules[g].memory == NULL) {
            return broken("cuMemSetAccess: nothing is mapped there");
        }
        granules[g].accessible = true;
    }
    return CUDA_SUCCESS;
}

static CUresult fill(CUdeviceptr address, unsigned char value, size_t count, CUstream stream)
{
    (void)stream;
    if (fails(TINY_MEMSET)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    tiny.running = true;
    return address == PLAIN_ADDRESS || access(address, NULL, NULL, value, count)
               ? CUDA_SUCCESS
               : broken("cuMemsetD8Async: not all of it can be accessed");
}

static CUresult copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    (void)stream;
    if (fails(TINY_COPY)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    unsigned char *between = kern_calloc(bytes, 1);
    tiny.running = true;
    bool good = access(from, between, NULL, 0, bytes) && access(to, NULL, between, 0, bytes);
    free(between);
    return good ? CUDA_SUCCESS : broken("cuMemcpyDtoDAsync: not all of it can be accessed");
}

struct kern_device tiny_device(size_t granule)
{
    memset(&tiny, 0, sizeof(tiny));
    tiny.granule = granule;
    tiny.next_address = (FIRST_ADDRESS + granule - 1) / granule * granule;
    return (struct kern_device){
        .kind = KERN_DEVICE_EMU,
        .why = "a test asked for it",
        .library = "tiny",
        .cu =
            {
                .cuGetErrorName = error_name,
                .cuGetErrorString = error_name,
                .cuDeviceGet = device_get,
                .cuDevicePrimaryCtxRetain = context_retain,
                .cuDevicePrimaryCtxRelease = context_release,
                .cuCtxSetCurrent = set_current,
                .cuStreamCreate = stream_create,
                .cuStreamDestroy = stream_destroy,
                .cuStreamSynchronize = stream_synchronize,
                .cuEventCreate = event_create,
                .cuEventDestroy = event_destroy,
                .cuMemAlloc = mem_alloc,
                .cuMemFree = mem_free,
                .cuMemHostAlloc = host_alloc,
                .cuMemFreeHost = host_free,
                .cuMemGetAllocationGranularity = granularity,
                .cuMemCreate = create,
                .cuMemRelease = release,
                .cuMemAddressReserve = reserve,
                .cuMemAddressFree = address_free,
                .cuMemMap = map,
                .cuMemUnmap = unmap,
                .cuMemSetAccess = set_access,
                .cuMemsetD8Async = fill,
                .cuMemcpyDtoDAsync = copy,
            },
    };
}
