// SPDX-License-Identifier: Apache-2.0
//
// Primary contexts, one per device, and which of them is current in a thread.
#include "emu/internal.h"
#include "emu/space.h"

#include <pthread.h>

static struct emu_context contexts[EMU_MAX_DEVICES];
static pthread_mutex_t retain_lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local struct emu_context *current;

struct emu_context *emu_context_current(void)
{
    return current;
}

CUcontext emu_context_handle(struct emu_context *context)
{
    return (CUcontext)context;
}

struct emu_context *emu_context_of(CUcontext handle)
{
    for (unsigned i = 0; i < emu_config()->n_visible; i++) {
        if (emu_context_handle(&contexts[i]) == handle) {
            return &contexts[i];
        }
    }
    return NULL;
}

void emu_context_poison(struct emu_context *context, CUresult error)
{
    int sound = CUDA_SUCCESS;
    atomic_compare_exchange_strong(&context->sticky, &sound, (int)error);
}

void emu_wait_all(void)
{
    for (unsigned i = 0; i < emu_config()->n_visible; i++) {
        if (atomic_load(&contexts[i].live)) {
            emu_streams_wait(&contexts[i]);
        }
    }
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    EMU_ENTER(EMU_IGNORE_STICKY);
    if (context == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!emu_device_ok(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    struct emu_context *primary = &contexts[device];
    pthread_mutex_lock(&retain_lock);
    if (primary->retained++ == 0) {
        primary->device = device;
        atomic_store(&primary->live, true);
    }
    pthread_mutex_unlock(&retain_lock);
    *context = emu_context_handle(primary);
    return CUDA_SUCCESS;
}

// Everything that was made in the context goes with it. Memory of cuMemCreate belongs to the device
// and stays, and so does a sticky error: only a new process is rid of it.
static void close_context(struct emu_context *context)
{
    atomic_store(&context->live, false);
    emu_streams_close(context);
    emu_handle_free_all(context);
    emu_spaces_close(context);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    EMU_ENTER(EMU_IGNORE_STICKY);
    if (!emu_device_ok(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    struct emu_context *primary = &contexts[device];
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&retain_lock);
    if (primary->retained == 0) {
        result = CUDA_ERROR_INVALID_CONTEXT;
    } else if (--primary->retained == 0) {
        close_context(primary);
    }
    pthread_mutex_unlock(&retain_lock);
    return result;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    EMU_ENTER(EMU_IGNORE_STICKY);
    if (context == NULL) {
        current = NULL;
        return CUDA_SUCCESS;
    }
    struct emu_context *found = emu_context_of(context);
    if (found == NULL || !atomic_load(&found->live)) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    current = found;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    EMU_ENTER(EMU_IGNORE_STICKY);
    if (context == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *context = current == NULL ? NULL : emu_context_handle(current);
    return CUDA_SUCCESS;
}
