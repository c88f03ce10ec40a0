// SPDX-License-Identifier: Apache-2.0
//
// The part of NCCL that this program uses, under its published names. Values and layouts are those
// of NCCL 2.28. ncclConfig_t only ever grew at its end and begins with its own size, so an older
// NCCL reads the members that it knows, and a newer one takes the rest as undefined.
#ifndef KERN_DEVICE_ABI_NCCL_H
#define KERN_DEVICE_ABI_NCCL_H

#include <limits.h>

#include "device/abi/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_PATCH 9
#define NCCL_VERSION_CODE 22809

typedef struct ncclComm *ncclComm_t;

#define NCCL_UNIQUE_ID_BYTES 128

typedef struct {
    char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

// X(NAME, VALUE) for every result that a function of NCCL can return.
// clang-format off
#define KERN_NCCL_RESULTS(X) \
    X(ncclSuccess, 0) \
    X(ncclUnhandledCudaError, 1) \
    X(ncclSystemError, 2) \
    X(ncclInternalError, 3) \
    X(ncclInvalidArgument, 4) \
    X(ncclInvalidUsage, 5) \
    X(ncclRemoteError, 6) \
    X(ncclInProgress, 7)
// clang-format on

#define KERN_NCCL_RESULT_ENUMERATOR(name, value) name = value,
typedef enum { KERN_NCCL_RESULTS(KERN_NCCL_RESULT_ENUMERATOR) } ncclResult_t;
#undef KERN_NCCL_RESULT_ENUMERATOR

typedef enum { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4 } ncclRedOp_t;

typedef enum {
    ncclInt8 = 0,
    ncclUint8 = 1,
    ncclInt32 = 2,
    ncclUint32 = 3,
    ncclInt64 = 4,
    ncclUint64 = 5,
    ncclFloat16 = 6,
    ncclFloat32 = 7,
    ncclFloat64 = 8,
    ncclBfloat16 = 9,
    ncclFloat8e4m3 = 10,
    ncclFloat8e5m2 = 11
} ncclDataType_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL

// The first three members are the initialiser's and not to be changed.
typedef struct ncclConfig_v22800 {
    size_t size;
    unsigned int magic;
    unsigned int version;
    int blocking;
    int cgaClusterSize;
    int minCTAs;
    int maxCTAs;
    const char *netName;
    int splitShare;
    int trafficClass;
    const char *commName;
    int collnetEnable;
    int CTAPolicy;
    int shrinkShare;
    int nvlsCTAs;
    int nChannelsPerNetPeer;
    int nvlinkCentricSched;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                                    \
    {                                                                                              \
        sizeof(ncclConfig_t),      /* size */                                                      \
            0xcafebeef,            /* magic */                                                     \
            NCCL_VERSION_CODE,     /* version */                                                   \
            NCCL_CONFIG_UNDEF_INT, /* blocking */                                                  \
            NCCL_CONFIG_UNDEF_INT, /* cgaClusterSize */                                            \
            NCCL_CONFIG_UNDEF_INT, /* minCTAs */                                                   \
            NCCL_CONFIG_UNDEF_INT, /* maxCTAs */                                                   \
            NCCL_CONFIG_UNDEF_PTR, /* netName */                                                   \
            NCCL_CONFIG_UNDEF_INT, /* splitShare */                                                \
            NCCL_CONFIG_UNDEF_INT, /* trafficClass */                                              \
            NCCL_CONFIG_UNDEF_PTR, /* commName */                                                  \
            NCCL_CONFIG_UNDEF_INT, /* collnetEnable */                                             \
            NCCL_CONFIG_UNDEF_INT, /* CTAPolicy */                                                 \
            NCCL_CONFIG_UNDEF_INT, /* shrinkShare */                                               \
            NCCL_CONFIG_UNDEF_INT, /* nvlsCTAs */                                                  \
            NCCL_CONFIG_UNDEF_INT, /* nChannelsPerNetPeer */                                       \
            NCCL_CONFIG_UNDEF_INT  /* nvlinkCentricSched */                                        \
    }

#ifdef __cplusplus
}
#endif
#endif
