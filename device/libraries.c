// SPDX-License-Identifier: Apache-2.0
//
// The libraries above the driver, each loaded when it is first needed.
#include <stdlib.h>

#include "device/device.h"
#include "device/internal.h"

// A library that is built for a newer CUDA than the driver's does not run, so each name says which
// driver it wants.
struct soname {
    const char *name;
    int driver_version;
};

#define MAX_SONAMES 2

struct library {
    const char *title;
    const char *remedy;
    struct soname names[MAX_SONAMES]; // the preferred one first
    const struct kern_device_slot *slots;
    size_t n_slots;
};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

#define SLOT(returned, name, symbol, params) {symbol, offsetof(struct kern_cublaslt, name)},
static const struct kern_device_slot cublaslt_slots[] = {KERN_CUBLASLT_FUNCTIONS(SLOT)};
#undef SLOT
#define SLOT(returned, name, symbol, params) {symbol, offsetof(struct kern_cublas, name)},
static const struct kern_device_slot cublas_slots[] = {KERN_CUBLAS_FUNCTIONS(SLOT)};
#undef SLOT
#define SLOT(returned, name, symbol, params) {symbol, offsetof(struct kern_nccl, name)},
static const struct kern_device_slot nccl_slots[] = {KERN_NCCL_FUNCTIONS(SLOT)};
#undef SLOT

#define TOOLKIT_REMEDY "put the directory of the CUDA toolkit's libraries into LD_LIBRARY_PATH"

static const struct library cublaslt = {
    .title = "cuBLASLt",
    .remedy = TOOLKIT_REMEDY,
    .names = {{"libcublasLt.so.13", 13000}, {"libcublasLt.so.12", 12000}},
    .slots = cublaslt_slots,
    .n_slots = COUNT(cublaslt_slots),
};

static const struct library cublas = {
    .title = "cuBLAS",
    .remedy = TOOLKIT_REMEDY,
    .names = {{"libcublas.so.13", 13000}, {"libcublas.so.12", 12000}},
    .slots = cublas_slots,
    .n_slots = COUNT(cublas_slots),
};

static const struct library nccl = {
    .title = "NCCL",
    .remedy = "install NCCL 2.18 or newer, or put its directory into LD_LIBRARY_PATH",
    .names = {{"libnccl.so.2", 0}},
    .slots = nccl_slots,
    .n_slots = COUNT(nccl_slots),
};

// The first of the library's names that loads, or NULL with the loader's last words in *[error].
static void *open_first(const struct library *library, int driver_version, const char **error,
                        struct kern_arena *texts)
{
    *error = "the driver is too old for every version of it";
    for (size_t i = 0; i < MAX_SONAMES && library->names[i].name; i++) {
        if (driver_version < library->names[i].driver_version)
            continue;
        void *handle = kern_device_dlopen(library->names[i].name, error, texts);
        if (handle)
            return handle;
    }
    return NULL;
}

static bool need(struct kern_device *device, const struct library *library, void *table,
                 struct kern_diag *diag)
{
    const char *error = NULL;
    void *handle = device->kind == KERN_DEVICE_EMU
                       ? device->handle
                       : open_first(library, device->driver_version, &error, &device->texts);
    if (!handle)
        return kern_fail(diag, KERN_EXIT_DEVICE, library->title, "%s; %s", error, library->remedy);

    const char *missing = kern_device_fill(handle, table, library->slots, library->n_slots);
    if (!missing)
        return true;
    const char *remedy = device->kind == KERN_DEVICE_EMU ? KERN_DEVICE_EMU_REMEDY : library->remedy;
    return kern_fail(diag, KERN_EXIT_DEVICE, kern_device_library_path(handle, &device->texts),
                     "there is no function %s in it; %s", missing, remedy);
}

// A pointer in the device's table is the mark that the library was loaded, so a table goes there
// only when it is whole.
bool kern_device_need_cublaslt(struct kern_device *device, struct kern_diag *diag)
{
    struct kern_cublaslt table;
    if (device->cublaslt.cublasLtCreate)
        return true;
    if (!need(device, &cublaslt, &table, diag))
        return false;
    device->cublaslt = table;
    return true;
}

bool kern_device_need_cublas(struct kern_device *device, struct kern_diag *diag)
{
    struct kern_cublas table;
    if (device->cublas.cublasCreate)
        return true;
    if (!need(device, &cublas, &table, diag))
        return false;
    device->cublas = table;
    return true;
}

bool kern_device_need_nccl(struct kern_device *device, struct kern_diag *diag)
{
    struct kern_nccl table;
    if (device->nccl.ncclGetVersion)
        return true;
    setenv("NCCL_RUNTIME_CONNECT", "0", 0);
    if (!need(device, &nccl, &table, diag))
        return false;
    device->nccl = table;
    return true;
}
