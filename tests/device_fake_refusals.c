// SPDX-License-Identifier: Apache-2.0
//
// Every function of the driver and of the libraries as a refusal; device_fake.c defines the few
// that do more, which win over these because these are weak. They look at no argument, so they are
// declared without any: on every ABI that has these libraries, a callee may leave them unread.
#include "device/abi/cublas_functions.h"
#include "device/abi/cublaslt_functions.h"
#include "device/abi/cuda_functions.h"
#include "device/abi/nccl_functions.h"

#define DRIVER_REFUSAL(name, symbol, params)                                                       \
    CUresult name(void) __asm__(symbol);                                                           \
    __attribute__((weak)) CUresult name(void)                                                      \
    {                                                                                              \
        return CUDA_ERROR_NOT_SUPPORTED;                                                           \
    }
KERN_CUDA_FUNCTIONS(DRIVER_REFUSAL)

#define LIBRARY_REFUSAL(returned, name, symbol, params)                                            \
    returned name(void) __asm__(symbol);                                                           \
    returned name(void)                                                                            \
    {                                                                                              \
        return (returned)0;                                                                        \
    }
KERN_CUBLAS_FUNCTIONS(LIBRARY_REFUSAL)
KERN_CUBLASLT_FUNCTIONS(LIBRARY_REFUSAL)
KERN_NCCL_FUNCTIONS(LIBRARY_REFUSAL)
