// SPDX-License-Identifier: Apache-2.0
//
// The driver functions of libkern-emu.so, declared under their plain names and bound to the symbols
// that a driver's library exports. Whoever defines or links them includes this file.
#ifndef KERN_EMU_API_H
#define KERN_EMU_API_H

#include "device/abi/cuda.h"
#include "device/abi/cuda_functions.h"
#include "emu/stats.h"

#define EMU_DECLARE(name, symbol, params) EMU_API CUresult name params __asm__(symbol);
KERN_CUDA_FUNCTIONS(EMU_DECLARE)
#undef EMU_DECLARE

#endif
