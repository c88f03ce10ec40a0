// SPDX-License-Identifier: Apache-2.0
//
// The functions of NCCL that this program calls, as in cublas_functions.h: one
// X(RETURNED, NAME, SYMBOL, PARAMETERS) each. NCCL 2.18 and every later one exports them.
#ifndef KERN_DEVICE_ABI_NCCL_FUNCTIONS_H
#define KERN_DEVICE_ABI_NCCL_FUNCTIONS_H

#include "device/abi/nccl.h"

// clang-format off
#define KERN_NCCL_FUNCTIONS(X) \
    X(ncclResult_t, ncclGetVersion, "ncclGetVersion", (int *version)) \
    X(const char *, ncclGetErrorString, "ncclGetErrorString", (ncclResult_t result)) \
    X(const char *, ncclGetLastError, "ncclGetLastError", (ncclComm_t comm)) \
    X(ncclResult_t, ncclGetUniqueId, "ncclGetUniqueId", (ncclUniqueId *id)) \
    X(ncclResult_t, ncclCommInitRankConfig, "ncclCommInitRankConfig", \
      (ncclComm_t *comm, int n_ranks, ncclUniqueId id, int rank, ncclConfig_t *config)) \
    X(ncclResult_t, ncclCommGetAsyncError, "ncclCommGetAsyncError", \
      (ncclComm_t comm, ncclResult_t *result)) \
    X(ncclResult_t, ncclCommFinalize, "ncclCommFinalize", (ncclComm_t comm)) \
    X(ncclResult_t, ncclCommDestroy, "ncclCommDestroy", (ncclComm_t comm)) \
    X(ncclResult_t, ncclCommAbort, "ncclCommAbort", (ncclComm_t comm)) \
    X(ncclResult_t, ncclAllReduce, "ncclAllReduce", \
      (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, \
       ncclComm_t comm, CUstream stream)) \
    X(ncclResult_t, ncclAllGather, "ncclAllGather", \
      (const void *send, void *recv, size_t send_count, ncclDataType_t type, ncclComm_t comm, \
       CUstream stream)) \
    X(ncclResult_t, ncclReduceScatter, "ncclReduceScatter", \
      (const void *send, void *recv, size_t recv_count, ncclDataType_t type, ncclRedOp_t op, \
       ncclComm_t comm, CUstream stream)) \
    X(ncclResult_t, ncclGroupStart, "ncclGroupStart", (void)) \
    X(ncclResult_t, ncclGroupEnd, "ncclGroupEnd", (void))
// clang-format on

#endif
