// SPDX-License-Identifier: Apache-2.0
//
// The handles of cuBLASLt and cuBLAS on the compute stream and the workspace that they share.
#include "rank/builtin.h"

static bool open_workspace(struct kern_rank *rank, struct kern_diag *diag)
{
    if (rank->blas.workspace != 0) {
        return true;
    }
    if (!KERN_CU(rank->device, diag, "allocating the workspace of the matrix products", cuMemAlloc,
                 &rank->blas.workspace, KERN_GEMM_WORKSPACE)) {
        return false;
    }
    rank->memory.scratch += KERN_GEMM_WORKSPACE;
    return true;
}

static bool open_cublaslt(struct kern_rank *rank, struct kern_diag *diag)
{
    return rank->blas.lt != NULL ||
           (kern_device_need_cublaslt(rank->device, diag) &&
            RANK_LT(rank, diag, "making the handle of cuBLASLt", cublasLtCreate, &rank->blas.lt));
}

// Setting the stream takes the workspace away, so that comes after it. Sums of f32 results stay in
// f32 whatever the algorithm.
static bool open_cublas(struct kern_rank *rank, struct kern_diag *diag)
{
    const char *what = "making the handle of cuBLAS";
    if (rank->blas.cublas != NULL) {
        return true;
    }
    return kern_device_need_cublas(rank->device, diag) &&
           RANK_CUBLAS(rank, diag, what, cublasCreate, &rank->blas.cublas) &&
           RANK_CUBLAS(rank, diag, what, cublasSetStream, rank->blas.cublas, rank->stream) &&
           RANK_CUBLAS(rank, diag, what, cublasSetWorkspace, rank->blas.cublas,
                       (void *)(uintptr_t)rank->blas.workspace, KERN_GEMM_WORKSPACE) &&
           RANK_CUBLAS(rank, diag, what, cublasSetMathMode, rank->blas.cublas,
                       CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
}

bool rank_blas_open(struct kern_rank *rank, const struct rank_builtin *builtin,
                    struct kern_diag *diag)
{
    return open_workspace(rank, diag) &&
           (builtin->info->builtin == KERN_BUILTIN_CUBLAS_BF16_TN_F32 ? open_cublas(rank, diag)
                                                                      : open_cublaslt(rank, diag));
}

void rank_blas_close(struct kern_rank *rank)
{
    if (rank->blas.cublas != NULL) {
        rank->device->cublas.cublasDestroy(rank->blas.cublas);
    }
    if (rank->blas.lt != NULL) {
        rank->device->cublaslt.cublasLtDestroy(rank->blas.lt);
    }
    if (rank->blas.workspace != 0) {
        rank->device->cu.cuMemFree(rank->blas.workspace);
    }
    rank->blas = (struct rank_blas){0};
}
