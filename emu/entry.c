// SPDX-License-Identifier: Apache-2.0
//
// The way into every exported function: cuInit, and the checks that all of them share.
#include "emu/internal.h"

#include <pthread.h>

enum state { STATE_NEW, STATE_READY, STATE_FORKED };

static atomic_int state = STATE_NEW;
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static struct emu_config config;

// A driver's state does not survive fork, and neither do emu's worker threads: the child is told so
// by every call, cuInit included.
static void after_fork_in_child(void)
{
    atomic_store(&state, STATE_FORKED);
}

static CUresult init_once(void)
{
    if (!emu_config_read(&config) || !emu_fault_read()) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    emu_calls_read();
    if (config.n_visible == 0) {
        return CUDA_ERROR_NO_DEVICE;
    }
    CUresult fault = (CUresult)emu_fault_next("cuInit");
    if (fault != CUDA_SUCCESS) {
        return fault;
    }
    if (pthread_atfork(NULL, NULL, after_fork_in_child) != 0) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    atomic_store(&state, STATE_READY);
    return CUDA_SUCCESS;
}

CUresult cuInit(unsigned int flags)
{
    if (flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (atomic_load(&state) == STATE_FORKED) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    pthread_mutex_lock(&init_lock);
    CUresult result = atomic_load(&state) == STATE_READY ? CUDA_SUCCESS : init_once();
    pthread_mutex_unlock(&init_lock);
    return result;
}

CUresult cuDriverGetVersion(int *version)
{
    if (version == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *version = 13000;
    return CUDA_SUCCESS;
}

const struct emu_config *emu_config(void)
{
    return &config;
}

static CUresult check_context(const struct emu_context *context, unsigned flags)
{
    if (context == NULL) {
        return flags & EMU_NEEDS_CONTEXT ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
    }
    if ((flags & EMU_NEEDS_CONTEXT) && !atomic_load(&context->live)) {
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    return flags & EMU_IGNORE_STICKY ? CUDA_SUCCESS : (CUresult)atomic_load(&context->sticky);
}

CUresult emu_ready(unsigned flags)
{
    if (atomic_load_explicit(&state, memory_order_acquire) != STATE_READY) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    CUresult result = check_context(emu_context_current(), flags);
    if (result == CUDA_SUCCESS && (flags & EMU_UNSAFE_IN_CAPTURE) && emu_capture_forbids()) {
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return result;
}

CUresult emu_enter(const char *function, unsigned flags)
{
    CUresult result = emu_ready(flags);
    if (result == CUDA_SUCCESS) {
        result = (CUresult)emu_fault_next(function);
        struct emu_context *context = emu_context_current();
        if (context != NULL && emu_error_is_sticky(result)) {
            emu_context_poison(context, result);
        }
    }
    return result;
}
