// SPDX-License-Identifier: Apache-2.0
//
// cuBLASLt of the emulated GPU: what its descriptors hold, what a product needs, and which
// algorithms there are.
//
// Algorithms. Three ids; which one is chosen changes what is accepted, and never a result's bits.
//
//     id   operands    alignment   tiles up to   k split   clusters
//      6   bf16         2 bytes    128x128       1..32     none
//     21   bf16        16 bytes    256x128       1..32     none
//     66   bf16, e4m3  16 bytes    256x128       1         any
//
// Alignment is that of each leading dimension in bytes, and of each pointer. A configuration is
//   CUBLAS_STATUS_INVALID_VALUE  if a number of it is out of its attribute's range: a tile id from
//   1
//     to 24, stages up to 38, swizzling 0 or 1, custom option up to 7, inner shape up to 4, cluster
//     shape 0 or 2 to 20, k split 1 to 32, and one reduction scheme if k is split, none else;
//   CUBLAS_STATUS_NOT_SUPPORTED  if the id has no such tile, split or cluster; if a leading
//     dimension is not aligned; if the tile is larger, on either axis, than twice the matrix
//     rounded up to a multiple of 64; or if a part of a split k has less than 32 elements.
// The workspace of a split k is 4 bytes per tile (in place), or the partial results, in f32 or in
// the result's type; else none.
#ifndef KERN_EMU_CUBLASLT_H
#define KERN_EMU_CUBLASLT_H

#include "emu/cublas_common.h"

struct emu_matrix_layout {
    struct emu_handle handle;
    int32_t type;
    int32_t order;
    uint64_t rows, cols;
    int64_t ld;
    int32_t batch_count;
    int64_t batch_offset;
};

struct emu_matmul_desc {
    struct emu_handle handle;
    int32_t compute;
    int32_t scale_type;
    int32_t pointer_mode;
    int32_t transa, transb, transc;
    int32_t fill_mode;
    uint32_t epilogue;
    int32_t sm_count_target;
    int32_t bias_type;
    int8_t fast_accumulation;
    const void *bias;
    const void *a_scale, *b_scale, *c_scale, *d_scale;
    const void *amax;
};

struct emu_matmul_preference {
    struct emu_handle handle;
    uint32_t search_mode;
    uint64_t max_workspace_bytes;
    uint32_t reduction_mask;
    uint32_t min_alignment[4]; // of A, B, C, D
    float max_waves;
    uint64_t impl_mask;
};

// What the descriptors of a product say.
struct emu_matmul {
    struct emu_gemm gemm; // without pointers, save those of the scales
    uint64_t m, n, k;     // of the column-major product: gemm.n, gemm.m, gemm.k
    struct emu_blas_types types;
    uint64_t ld_alignment; // the most that every leading dimension is a multiple of, in bytes
};

// CUBLAS_STATUS_INVALID_VALUE if they contradict each other, CUBLAS_STATUS_NOT_SUPPORTED if the
// product is none of those that are computed.
cublasStatus_t emu_matmul_describe(struct emu_matmul *matmul, cublasLtMatmulDesc_t desc,
                                   cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                   cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d);

// What an algorithm needs to compute [matmul].
struct emu_algo_needs {
    size_t workspace_bytes;
    uint64_t alignment; // of each pointer, in bytes
    float waves;
};

cublasStatus_t emu_algo_check(const cublasLtMatmulAlgo_t *given, const struct emu_matmul *matmul,
                              struct emu_algo_needs *needs);

// What limits a search for algorithms.
struct emu_algo_limits {
    size_t max_workspace_bytes;
    uint32_t reduction_mask;
    uint64_t alignment; // of the pointers that there will be
    float max_waves;    // 0: no limit
    uint64_t impl_mask;
    const cublasLtMatmulAlgo_t *only_id_of; // NULL: any
};

// The algorithms that compute [matmul] within [limits], the preferred one first; returns how many.
int emu_algo_search(const struct emu_matmul *matmul, const struct emu_algo_limits *limits,
                    cublasLtMatmulHeuristicResult_t *results, int max_results);

// Whether [algo] was made by cublasLtMatmulAlgoInit.
bool emu_algo_is_one(const cublasLtMatmulAlgo_t *algo);

// Sets one member of [object]: that of [attribute] in a table with its place and size.
struct emu_attribute {
    int attribute;
    size_t offset, bytes;
};
cublasStatus_t emu_attribute_set(void *object, const struct emu_attribute *table, size_t n,
                                 int attribute, const void *value, size_t bytes);

#endif
