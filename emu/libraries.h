// SPDX-License-Identifier: Apache-2.0
//
// The functions of cuBLASLt, cuBLAS and NCCL in libkern-emu.so, as emu/api.h has the driver's.
#ifndef KERN_EMU_LIBRARIES_H
#define KERN_EMU_LIBRARIES_H

#include "device/abi/cublas_functions.h"
#include "device/abi/cublaslt_functions.h"
#include "device/abi/nccl_functions.h"
#include "emu/api.h"

#define EMU_DECLARE(returned, name, symbol, params) EMU_API returned name params __asm__(symbol);
KERN_CUBLAS_FUNCTIONS(EMU_DECLARE)
KERN_CUBLASLT_FUNCTIONS(EMU_DECLARE)
KERN_NCCL_FUNCTIONS(EMU_DECLARE)
#undef EMU_DECLARE

#endif
