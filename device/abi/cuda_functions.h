// SPDX-License-Identifier: Apache-2.0
//
// The driver functions that this program calls: one X(NAME, SYMBOL, PARAMETERS) each, all of them
// returning CUresult. NAME is the published name without a version, SYMBOL what the driver's
// library exports: where a function has several versions, the one that drivers from CUDA 12.4 up
// to 13 export with this one signature.
//
// device/ makes its table of function pointers from this list. A library that implements the
// functions declares them with the exported symbol as the assembler name and then defines them
// under their plain names:
//
//     #define DECLARE(name, symbol, params) CUresult name params __asm__(symbol);
//     KERN_CUDA_FUNCTIONS(DECLARE)
#ifndef KERN_DEVICE_ABI_CUDA_FUNCTIONS_H
#define KERN_DEVICE_ABI_CUDA_FUNCTIONS_H

#include "device/abi/cuda.h"

// clang-format off
#define KERN_CUDA_FUNCTIONS(X) \
    X(cuInit, "cuInit", (unsigned int flags)) \
    X(cuDriverGetVersion, "cuDriverGetVersion", (int *version)) \
    X(cuGetErrorName, "cuGetErrorName", (CUresult result, const char **name)) \
    X(cuGetErrorString, "cuGetErrorString", (CUresult result, const char **text)) \
    \
    X(cuDeviceGetCount, "cuDeviceGetCount", (int *count)) \
    X(cuDeviceGet, "cuDeviceGet", (CUdevice *device, int ordinal)) \
    X(cuDeviceGetName, "cuDeviceGetName", (char *name, int bytes, CUdevice device)) \
    X(cuDeviceGetUuid, "cuDeviceGetUuid_v2", (CUuuid *uuid, CUdevice device)) \
    X(cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId", (char *id, int bytes, CUdevice device)) \
    X(cuDeviceTotalMem, "cuDeviceTotalMem_v2", (size_t *bytes, CUdevice device)) \
    X(cuDeviceGetAttribute, "cuDeviceGetAttribute", \
      (int *value, CUdevice_attribute attribute, CUdevice device)) \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", \
      (CUcontext *context, CUdevice device)) \
    X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice device)) \
    X(cuCtxSetCurrent, "cuCtxSetCurrent", (CUcontext context)) \
    X(cuCtxGetCurrent, "cuCtxGetCurrent", (CUcontext *context)) \
    X(cuCtxSynchronize, "cuCtxSynchronize", (void)) \
    \
    X(cuMemGetInfo, "cuMemGetInfo_v2", (size_t *free_bytes, size_t *total_bytes)) \
    X(cuMemAlloc, "cuMemAlloc_v2", (CUdeviceptr *address, size_t bytes)) \
    X(cuMemFree, "cuMemFree_v2", (CUdeviceptr address)) \
    X(cuMemHostAlloc, "cuMemHostAlloc", (void **host, size_t bytes, unsigned int flags)) \
    X(cuMemFreeHost, "cuMemFreeHost", (void *host)) \
    X(cuMemHostRegister, "cuMemHostRegister_v2", (void *host, size_t bytes, unsigned int flags)) \
    X(cuMemHostUnregister, "cuMemHostUnregister", (void *host)) \
    X(cuMemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2", \
      (CUdeviceptr *address, void *host, unsigned int flags)) \
    X(cuPointerGetAttribute, "cuPointerGetAttribute", \
      (void *value, CUpointer_attribute attribute, CUdeviceptr address)) \
    \
    X(cuMemAddressReserve, "cuMemAddressReserve", \
      (CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr hint, \
       unsigned long long flags)) \
    X(cuMemAddressFree, "cuMemAddressFree", (CUdeviceptr address, size_t bytes)) \
    X(cuMemCreate, "cuMemCreate", \
      (CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *prop, \
       unsigned long long flags)) \
    X(cuMemRelease, "cuMemRelease", (CUmemGenericAllocationHandle handle)) \
    X(cuMemMap, "cuMemMap", \
      (CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, \
       unsigned long long flags)) \
    X(cuMemUnmap, "cuMemUnmap", (CUdeviceptr address, size_t bytes)) \
    X(cuMemSetAccess, "cuMemSetAccess", \
      (CUdeviceptr address, size_t bytes, const CUmemAccessDesc *descs, size_t count)) \
    X(cuMemGetAccess, "cuMemGetAccess", \
      (unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address)) \
    X(cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity", \
      (size_t *bytes, const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags option)) \
    X(cuMemExportToShareableHandle, "cuMemExportToShareableHandle", \
      (void *shareable, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type, \
       unsigned long long flags)) \
    X(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle", \
      (CUmemGenericAllocationHandle *handle, void *shareable, CUmemAllocationHandleType type)) \
    X(cuMemGetAllocationPropertiesFromHandle, "cuMemGetAllocationPropertiesFromHandle", \
      (CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)) \
    \
    X(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", \
      (CUdeviceptr to, const void *from, size_t bytes, CUstream stream)) \
    X(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", \
      (void *to, CUdeviceptr from, size_t bytes, CUstream stream)) \
    X(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", \
      (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)) \
    X(cuMemcpy2DAsync, "cuMemcpy2DAsync_v2", (const CUDA_MEMCPY2D *copy, CUstream stream)) \
    X(cuMemsetD8Async, "cuMemsetD8Async", \
      (CUdeviceptr address, unsigned char value, size_t count, CUstream stream)) \
    X(cuMemsetD32Async, "cuMemsetD32Async", \
      (CUdeviceptr address, unsigned int value, size_t count, CUstream stream)) \
    \
    X(cuStreamCreate, "cuStreamCreate", (CUstream *stream, unsigned int flags)) \
    X(cuStreamDestroy, "cuStreamDestroy_v2", (CUstream stream)) \
    X(cuStreamSynchronize, "cuStreamSynchronize", (CUstream stream)) \
    X(cuStreamQuery, "cuStreamQuery", (CUstream stream)) \
    X(cuStreamWaitEvent, "cuStreamWaitEvent", \
      (CUstream stream, CUevent event, unsigned int flags)) \
    X(cuEventCreate, "cuEventCreate", (CUevent *event, unsigned int flags)) \
    X(cuEventDestroy, "cuEventDestroy_v2", (CUevent event)) \
    X(cuEventRecord, "cuEventRecord", (CUevent event, CUstream stream)) \
    X(cuEventRecordWithFlags, "cuEventRecordWithFlags", \
      (CUevent event, CUstream stream, unsigned int flags)) \
    X(cuEventQuery, "cuEventQuery", (CUevent event)) \
    X(cuEventSynchronize, "cuEventSynchronize", (CUevent event)) \
    X(cuEventElapsedTime, "cuEventElapsedTime", \
      (float *milliseconds, CUevent start, CUevent end)) \
    \
    X(cuModuleLoadData, "cuModuleLoadData", (CUmodule *module, const void *image)) \
    X(cuModuleUnload, "cuModuleUnload", (CUmodule module)) \
    X(cuModuleGetFunction, "cuModuleGetFunction", \
      (CUfunction *function, CUmodule module, const char *name)) \
    X(cuFuncGetAttribute, "cuFuncGetAttribute", \
      (int *value, CUfunction_attribute attribute, CUfunction function)) \
    X(cuFuncSetAttribute, "cuFuncSetAttribute", \
      (CUfunction function, CUfunction_attribute attribute, int value)) \
    X(cuFuncGetParamInfo, "cuFuncGetParamInfo", \
      (CUfunction function, size_t index, size_t *offset, size_t *bytes)) \
    X(cuFuncLoad, "cuFuncLoad", (CUfunction function)) \
    X(cuLaunchKernelEx, "cuLaunchKernelEx", \
      (const CUlaunchConfig *config, CUfunction function, void **params, void **extra)) \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor, \
      "cuOccupancyMaxActiveBlocksPerMultiprocessor", \
      (int *blocks, CUfunction function, int block_size, size_t dynamic_shared)) \
    X(cuTensorMapEncodeTiled, "cuTensorMapEncodeTiled", \
      (CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address, \
       const cuuint64_t *dims, const cuuint64_t *strides, const cuuint32_t *box, \
       const cuuint32_t *element_strides, CUtensorMapInterleave interleave, \
       CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, \
       CUtensorMapFloatOOBfill fill)) \
    \
    X(cuStreamBeginCapture, "cuStreamBeginCapture_v2", \
      (CUstream stream, CUstreamCaptureMode mode)) \
    X(cuStreamEndCapture, "cuStreamEndCapture", (CUstream stream, CUgraph *graph)) \
    X(cuStreamIsCapturing, "cuStreamIsCapturing", \
      (CUstream stream, CUstreamCaptureStatus *status)) \
    X(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", \
      (CUgraphExec *exec, CUgraph graph, unsigned long long flags)) \
    X(cuGraphLaunch, "cuGraphLaunch", (CUgraphExec exec, CUstream stream)) \
    X(cuGraphExecDestroy, "cuGraphExecDestroy", (CUgraphExec exec)) \
    X(cuGraphDestroy, "cuGraphDestroy", (CUgraph graph)) \
    X(cuGraphGetNodes, "cuGraphGetNodes", (CUgraph graph, CUgraphNode *nodes, size_t *count))
// clang-format on

#endif
