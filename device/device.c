// SPDX-License-Identifier: Apache-2.0
#include "device/device.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "device/internal.h"

#define DRIVER_LIBRARY "libcuda.so.1"
#define EMU_LIBRARY "libkern-emu.so"

#define SLOT(name, symbol, params) {symbol, offsetof(struct kern_cuda, name)},
static const struct kern_device_slot cuda_slots[] = {KERN_CUDA_FUNCTIONS(SLOT)};
#undef SLOT

#define N_CUDA_SLOTS (sizeof cuda_slots / sizeof cuda_slots[0])

enum outcome {
    READY,
    ABSENT, // no driver or no device; device->why says which
    BROKEN, // said to diag
};

static const char *result_name(const struct kern_device *device, CUresult result)
{
    const char *name = NULL;
    if (device->cu.cuGetErrorName)
        device->cu.cuGetErrorName(result, &name);
    return name ? name : "an unknown code";
}

// Asks the loaded driver for its devices. A driver without one may be of any age, so this comes
// before the complaint about functions that it lacks.
static enum outcome count_devices(struct kern_device *device, int *count, struct kern_diag *diag)
{
    const struct kern_cuda *cu = &device->cu;
    if (!cu->cuInit || !cu->cuDeviceGetCount || !cu->cuDriverGetVersion) {
        kern_fail(diag, KERN_EXIT_DEVICE, device->library, "this is not a CUDA driver library");
        return BROKEN;
    }
    const char *function = "cuInit";
    CUresult result = cu->cuInit(0);
    if (result == CUDA_SUCCESS) {
        function = "cuDeviceGetCount";
        result = cu->cuDeviceGetCount(count);
    }
    if (result != CUDA_SUCCESS) {
        const char *visible = getenv("CUDA_VISIBLE_DEVICES");
        bool hidden = result == CUDA_ERROR_NO_DEVICE && visible;
        device->why = kern_arena_print(&device->texts, "%s of %s returned %s (%d)%s%s%s", function,
                                       device->library, result_name(device, result), (int)result,
                                       hidden ? "; CUDA_VISIBLE_DEVICES is \"" : "",
                                       hidden ? visible : "", hidden ? "\"" : "");
        return ABSENT;
    }
    if (*count < 1) {
        device->why = kern_arena_print(&device->texts, "%s shows no device", device->library);
        return ABSENT;
    }
    return READY;
}

// [remedy] is what to do about a driver that lacks a function.
static enum outcome start(struct kern_device *device, const char *remedy, int *count,
                          struct kern_diag *diag)
{
    device->library = kern_device_library_path(device->handle, &device->texts);
    const char *missing = kern_device_fill(device->handle, &device->cu, cuda_slots, N_CUDA_SLOTS);
    enum outcome outcome = count_devices(device, count, diag);
    if (outcome != READY)
        return outcome;
    if (missing) {
        kern_fail(diag, KERN_EXIT_DEVICE, device->library, "there is no function %s in it; %s",
                  missing, remedy);
        return BROKEN;
    }
    return KERN_CU(device, diag, "asking for the driver's version", cuDriverGetVersion,
                   &device->driver_version)
               ? READY
               : BROKEN;
}

static enum outcome open_cuda(struct kern_device *device, struct kern_diag *diag)
{
    device->kind = KERN_DEVICE_CUDA;
    const char *error = NULL;
    device->handle = kern_device_dlopen(DRIVER_LIBRARY, &error, &device->texts);
    if (!device->handle) {
        device->why = kern_arena_print(&device->texts, "no CUDA driver (%s)", error);
        return ABSENT;
    }
    int count = 0;
    enum outcome outcome =
        start(device, "a driver of CUDA 12.4 (R550) or newer has it", &count, diag);
    if (outcome == READY)
        device->why = kern_arena_print(&device->texts, "the CUDA driver shows %d device%s", count,
                                       count == 1 ? "" : "s");
    return outcome;
}

// ../lib/libkern-emu.so as seen from the executable's directory, or NULL if it is not there.
static const char *emu_beside_executable(struct kern_arena *texts)
{
    char executable[4096];
    ssize_t length = readlink("/proc/self/exe", executable, sizeof executable - 1);
    if (length < 0)
        return NULL;
    executable[length] = 0;
    char *slash = strrchr(executable, '/');
    if (slash)
        *slash = 0;
    const char *path = kern_arena_print(texts, "%s/../lib/" EMU_LIBRARY, executable);
    return access(path, R_OK) == 0 ? path : NULL;
}

static bool open_emu(struct kern_device *device, const char *path, struct kern_diag *diag)
{
    device->kind = KERN_DEVICE_EMU;
    if (!path)
        path = emu_beside_executable(&device->texts);
    if (!path)
        path = KERN_LIBDIR "/" EMU_LIBRARY;

    const char *error = NULL;
    device->handle = kern_device_dlopen(path, &error, &device->texts);
    if (!device->handle)
        return kern_fail(diag, KERN_EXIT_DEVICE, "the emulated GPU",
                         "%s; name the file, or put it into ../lib beside the program", error);

    const char *why = device->why;
    int count = 0;
    enum outcome outcome = start(device, KERN_DEVICE_EMU_REMEDY, &count, diag);
    if (outcome == ABSENT)
        kern_fail(diag, KERN_EXIT_DEVICE, "the emulated GPU", "%s", device->why);
    device->why = why;
    return outcome == READY;
}

static bool open_chosen(struct kern_device *device, enum kern_device_choice choice,
                        const char *emu_library, struct kern_diag *diag)
{
    if (choice == KERN_DEVICE_WANT_EMU) {
        device->why = "the emulated GPU was asked for";
        return open_emu(device, emu_library, diag);
    }
    switch (open_cuda(device, diag)) {
    case READY:
        if (choice == KERN_DEVICE_WANT_CUDA)
            device->why = "CUDA was asked for";
        return true;
    case ABSENT:
        if (choice == KERN_DEVICE_WANT_CUDA)
            return kern_fail(diag, KERN_EXIT_DEVICE, "CUDA", "%s; without a GPU, ask for emu",
                             device->why);
        return open_emu(device, emu_library, diag);
    case BROKEN:
        break;
    }
    return false;
}

struct kern_device *kern_device_open(enum kern_device_choice choice, const char *emu_library,
                                     struct kern_diag *diag)
{
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    struct kern_device *device = kern_calloc(1, sizeof *device);
    if (open_chosen(device, choice, emu_library, diag))
        return device;
    kern_device_close(device);
    return NULL;
}

void kern_device_close(struct kern_device *device)
{
    if (!device)
        return;
    kern_arena_free(&device->texts);
    free(device);
}
