// SPDX-License-Identifier: Apache-2.0
//
// Every function of the driver and of the libraries as a refusal; device_fake.c defines the few
// that do more, which win over these because these are weak.
#include "device/abi/cublas_functions.h"
#include "device/abi/cublaslt_functions.h"
#include "device/abi/cuda_functions.h"
#include "device/abi/nccl_functions.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define DRIVER_REFUSAL(name, symbol, params)                                                       \
    CUresult name params __asm__(symbol);                                                          \
    __attribute__((weak)) CUresult name params                                                     \
    {                                                                                              \
        return CUDA_ERROR_NOT_SUPPORTED;                                                           \
    }
KERN_CUDA_FUNCTIONS(DRIVER_REFUSAL)

#define LIBRARY_REFUSAL(returned, name, symbol, params)                                            \
    returned name params __asm__(symbol);                                                          \
    returned name params                                                                           \
    {                                                                                              \
        return (returned)0;                                                                        \
    }
KERN_CUBLAS_FUNCTIONS(LIBRARY_REFUSAL)
KERN_CUBLASLT_FUNCTIONS(LIBRARY_REFUSAL)
KERN_NCCL_FUNCTIONS(LIBRARY_REFUSAL)
