// SPDX-License-Identifier: Apache-2.0
#include "topo/place.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static bool describe(const struct kern_device *device, int ordinal, struct kern_place *place,
                     struct kern_diag *diag)
{
    CUdevice handle;
    CUuuid uuid;
    const char *what = "looking at the visible devices";
    *place = (struct kern_place){.ordinal = ordinal, .numa = -1};
    if (!KERN_CU(device, diag, what, cuDeviceGet, &handle, ordinal) ||
        !KERN_CU(device, diag, what, cuDeviceGetName, place->name, sizeof place->name, handle) ||
        !KERN_CU(device, diag, what, cuDeviceGetPCIBusId, place->bus_id, sizeof place->bus_id,
                 handle) ||
        !KERN_CU(device, diag, what, cuDeviceGetUuid, &uuid, handle))
        return false;
    memcpy(place->uuid, uuid.bytes, sizeof place->uuid);
    // Older drivers do not know this attribute; then nobody does.
    if (device->cu.cuDeviceGetAttribute(&place->numa, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, handle) !=
        CUDA_SUCCESS)
        place->numa = -1;
    return true;
}

static int by_bus_id(const void *a, const void *b)
{
    const struct kern_place *x = a, *y = b;
    int order = strcasecmp(x->bus_id, y->bus_id);
    return order ? order : x->ordinal - y->ordinal;
}

bool kern_place_visible(const struct kern_device *device, struct kern_place **places, int *count,
                        struct kern_diag *diag)
{
    *places = NULL;
    if (!KERN_CU(device, diag, "counting the visible devices", cuDeviceGetCount, count))
        return false;
    *places = kern_calloc((size_t)*count, sizeof **places);
    for (int i = 0; i < *count; i++)
        if (!describe(device, i, &(*places)[i], diag)) {
            free(*places);
            *places = NULL;
            return false;
        }
    qsort(*places, (size_t)*count, sizeof **places, by_bus_id);
    return true;
}
