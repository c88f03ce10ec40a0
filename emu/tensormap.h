// SPDX-License-Identifier: Apache-2.0
//
// What cuTensorMapEncodeTiled of the emulated GPU puts into the 128 bytes of a CUtensorMap. A GPU
// keeps its own, secret layout there; the host half of a kernel reads this one. C and C++.
#ifndef KERN_EMU_TENSORMAP_H
#define KERN_EMU_TENSORMAP_H

#include <stdint.h>

#define KERN_EMU_TENSOR_MAP_MAGIC 0x6d746b65u // "ektm" in memory
#define KERN_EMU_TENSOR_MAP_RANK 5

// Dimension 0 is the innermost. Entries from [rank] on are 1 (dims, box, element_strides) or 0
// (strides). Enumerations have the values of device/abi/cuda.h.
struct kern_emu_tensor_map {
    uint32_t magic;
    uint8_t data_type;  // CUtensorMapDataType
    uint8_t rank;       // 1 to 5
    uint8_t interleave; // CUtensorMapInterleave
    uint8_t swizzle;    // CUtensorMapSwizzle
    uint8_t promotion;  // CUtensorMapL2promotion
    uint8_t fill;       // CUtensorMapFloatOOBfill
    uint8_t element_strides[KERN_EMU_TENSOR_MAP_RANK];
    uint8_t element_bits;                           // 4, 6, 8, 16, 32 or 64
    uint64_t address;                               // of element (0, …, 0)
    uint64_t strides[KERN_EMU_TENSOR_MAP_RANK - 1]; // bytes, of dimensions 1, 2, 3, 4
    uint64_t dims[KERN_EMU_TENSOR_MAP_RANK];        // elements
    uint16_t box[KERN_EMU_TENSOR_MAP_RANK];         // elements, before element_strides
    uint8_t zero[22];
};

#endif
