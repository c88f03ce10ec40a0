// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "device/internal.h"

const char *kern_device_fill(void *handle, void *table, const struct kern_device_slot *slots,
                             size_t count)
{
    const char *missing = NULL;
    for (size_t i = 0; i < count; i++) {
        void *address = dlsym(handle, slots[i].symbol);
        // ISO C has no conversion from void * to a function pointer; POSIX says they look alike.
        memcpy((char *)table + slots[i].offset, &address, sizeof address);
        if (!address && !missing)
            missing = slots[i].symbol;
    }
    return missing;
}

void *kern_device_dlopen(const char *name, const char **error, struct kern_arena *texts)
{
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        const char *text = dlerror();
        *error = kern_arena_copy(texts, text, strlen(text));
    }
    return handle;
}

const char *kern_device_library_path(void *handle, struct kern_arena *texts)
{
    struct link_map *map = NULL;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0)
        return "(unknown)";
    return kern_arena_copy(texts, map->l_name, strlen(map->l_name));
}
