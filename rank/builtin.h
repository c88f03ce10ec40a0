// SPDX-License-Identifier: Apache-2.0
//
// What the files of the built-ins share: matrix products of cuBLASLt and cuBLAS, collectives of
// NCCL.
#ifndef KERN_RANK_BUILTIN_H
#define KERN_RANK_BUILTIN_H

#include "manifest/builtin.h"
#include "manifest/footprint.h"
#include "rank/internal.h"

// The most shapes that a product keeps ready, and the most that a pinned algorithm is checked for
// at load beside the corners.
#define RANK_SHAPES_MAX 64

// A launch of a built-in, as one call of a program binds it.
struct rank_builtin {
    const struct kern_builtin_info *info;
    const char *place;
    bool given[KERN_ROLES]; // an argument at the end may be left out
    struct rank_value operands[KERN_ROLES];
    struct rank_gemm *gemm; // NULL: a collective
    uint32_t group;         // a collective's
};

// The rows, columns and inner extent of a product and its row strides, in elements.
struct rank_gemm_shape {
    uint64_t m, n, k, lda, ldc;
};

// What is kept for one shape: the column-major layouts of cuBLASLt and the algorithm.
struct rank_gemm_plan {
    struct rank_gemm_shape shape;
    uint64_t last_use; // as rank_gemm.uses counts
    cublasLtMatrixLayout_t a, w, c;
    cublasLtMatmulAlgo_t algo;
};

// A product of cuBLASLt.
struct rank_gemm {
    cublasLtMatmulDesc_t desc;
    cublasLtMatmulPreference_t preference; // NULL: the algorithm is pinned
    cublasLtMatmulAlgo_t pinned;
    struct rank_gemm_plan *plans; // at most RANK_SHAPES_MAX; then the one used longest ago goes
    size_t n_plans, capacity;
    uint64_t uses;
    struct rank_gemm *next; // of the rank's
};

// builtin.c
// The integer operand [role] at [vars]; 0 if it is left out.
bool rank_operand_value(const struct rank_builtin *builtin, enum kern_role role,
                        const uint64_t *vars, uint64_t *value, struct kern_diag *diag);
// Whether the memory of the pointer operand [role] has room for [elements]; UINT64_MAX stands for
// any number that 64 bits cannot count.
bool rank_operand_holds(const struct rank_builtin *builtin, enum kern_role role, uint64_t elements);
// Says that it has not, and returns false. [shape] is the end of the message.
bool rank_operand_refuse(const struct rank_builtin *builtin, enum kern_role role, uint64_t elements,
                         const char *shape, struct kern_diag *diag);
void *rank_operand_pointer(const struct rank_builtin *builtin, enum kern_role role);
// Calls [visit] at the two corners of the vars that the operands of [launch] depend on, the var of
// its `when` clamped into the range, and with [between] at every combination of their values where
// these are at most RANK_SHAPES_MAX. A launch that can never run is not visited.
typedef bool rank_visit(struct kern_rank *rank, const struct rank_builtin *builtin,
                        const uint64_t *vars, struct kern_diag *diag);
bool rank_builtin_visit(struct kern_rank *rank, const struct rank_launch *launch, bool between,
                        rank_visit *visit, struct kern_diag *diag);

// blas.c
// Makes the handle of the library that [builtin] runs on, and the workspace, if they are not there.
bool rank_blas_open(struct kern_rank *rank, const struct rank_builtin *builtin,
                    struct kern_diag *diag);

// gemm.c
bool rank_gemm_compile(struct rank_call_site *site, const struct kern_launch *declared,
                       struct kern_diag *diag);
// *[issued] stays false if there was nothing to do. So does that of rank_collective_launch.
bool rank_gemm_launch(struct kern_rank *rank, const struct rank_builtin *builtin,
                      const uint64_t *vars, bool *issued, struct kern_diag *diag);
// The operands of a product with types, strides, addresses and alignments, for messages.
const char *rank_gemm_text(const struct rank_builtin *builtin, const struct rank_gemm_shape *shape,
                           struct kern_arena *arena);
cudaDataType_t rank_gemm_type(const struct rank_builtin *builtin, enum kern_role role);
// The largest power of two up to 256 that the address of [role] is a multiple of.
uint32_t rank_gemm_alignment(const struct rank_builtin *builtin, enum kern_role role);

// gemm_plan.c
// Makes what does not depend on the shape: descriptor, and the pinned algorithm or the preference.
bool rank_gemm_prepare(struct kern_rank *rank, struct rank_builtin *builtin,
                       const struct kern_gemm_algo *algo, struct kern_diag *diag);
// What is kept for [shape], made if it is new; NULL if no algorithm will do. Borrowed until the
// next call.
const struct rank_gemm_plan *rank_gemm_plan(struct kern_rank *rank,
                                            const struct rank_builtin *builtin,
                                            const struct rank_gemm_shape *shape,
                                            struct kern_diag *diag);

// collective.c
bool rank_collective_compile(struct rank_call_site *site, const struct kern_launch *declared,
                             struct kern_diag *diag);
bool rank_collective_launch(struct kern_rank *rank, const struct rank_builtin *builtin,
                            const uint64_t *vars, bool *issued, struct kern_diag *diag);

// Calls a function of the library and checks its status, as KERN_CU does.
#define RANK_LT(rank, diag, what, function, ...)                                                   \
    kern_cublas_check((rank)->device->cublaslt.function(__VA_ARGS__), #function, (what), (diag))
#define RANK_CUBLAS(rank, diag, what, function, ...)                                               \
    kern_cublas_check((rank)->device->cublas.function(__VA_ARGS__), #function, (what), (diag))

#endif
