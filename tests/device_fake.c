// SPDX-License-Identifier: Apache-2.0
//
// A driver for tests of the choice of a device: it has every function, starts up as the environment
// says and refuses everything else (device_fake_refusals.c). FAKE is "DRIVER" or "EMU", the part it
// plays: FAKE_INIT is then what cuInit returns, FAKE_DEVICES the number of devices and FAKE_VERSION
// the driver's version.
#include <stdlib.h>

#include "device/abi/cuda_functions.h"

#define DECLARE(name, symbol, params) CUresult name params __asm__(symbol);
KERN_CUDA_FUNCTIONS(DECLARE)

static int setting(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

// Module loading must be decided before the driver starts.
CUresult cuInit(unsigned int flags)
{
    if (flags != 0 || !getenv("CUDA_MODULE_LOADING"))
        return CUDA_ERROR_INVALID_VALUE;
    return (CUresult)setting(FAKE "_INIT", CUDA_SUCCESS);
}

CUresult cuDeviceGetCount(int *count)
{
    *count = setting(FAKE "_DEVICES", 2);
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
    *version = setting(FAKE "_VERSION", 13000);
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult result, const char **name)
{
#define CASE(code, value, text)                                                                    \
    case code:                                                                                     \
        *name = #code;                                                                             \
        return CUDA_SUCCESS;
    switch (result) {
        KERN_CUDA_RESULTS(CASE)
    }
#undef CASE
    *name = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult result, const char **description)
{
#define CASE(code, value, text)                                                                    \
    case code:                                                                                     \
        *description = text;                                                                       \
        return CUDA_SUCCESS;
    switch (result) {
        KERN_CUDA_RESULTS(CASE)
    }
#undef CASE
    *description = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}
