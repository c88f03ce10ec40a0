// SPDX-License-Identifier: Apache-2.0
//
// What a CUDA driver function can return: KERN_CUDA_RESULTS(X) has one X(NAME, VALUE, TEXT) per
// code of the published enum, in ascending order. The enumerators of CUresult come from this list,
// and so do the answers of an implementation's cuGetErrorName and cuGetErrorString.
#ifndef KERN_DEVICE_ABI_CUDA_RESULTS_H
#define KERN_DEVICE_ABI_CUDA_RESULTS_H

// clang-format off
#define KERN_CUDA_RESULTS(X) \
    X(CUDA_SUCCESS, 0, "no error") \
    X(CUDA_ERROR_INVALID_VALUE, 1, "invalid argument") \
    X(CUDA_ERROR_OUT_OF_MEMORY, 2, "out of memory") \
    X(CUDA_ERROR_NOT_INITIALIZED, 3, "cuInit was not called or failed") \
    X(CUDA_ERROR_DEINITIALIZED, 4, "the driver is shutting down") \
    X(CUDA_ERROR_PROFILER_DISABLED, 5, "the profiler is not initialised for this run") \
    X(CUDA_ERROR_PROFILER_NOT_INITIALIZED, 6, "the profiler was not initialised") \
    X(CUDA_ERROR_PROFILER_ALREADY_STARTED, 7, "the profiler is already running") \
    X(CUDA_ERROR_PROFILER_ALREADY_STOPPED, 8, "the profiler is already stopped") \
    X(CUDA_ERROR_STUB_LIBRARY, 34, "the library is a stub for linking, not a driver") \
    X(CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, 36, "the call needs a newer driver") \
    X(CUDA_ERROR_DEVICE_UNAVAILABLE, 46, "all devices are busy or unavailable") \
    X(CUDA_ERROR_NO_DEVICE, 100, "no CUDA device was found") \
    X(CUDA_ERROR_INVALID_DEVICE, 101, "invalid device ordinal") \
    X(CUDA_ERROR_DEVICE_NOT_LICENSED, 102, "the device has no valid licence") \
    X(CUDA_ERROR_INVALID_IMAGE, 200, "the module image is invalid") \
    X(CUDA_ERROR_INVALID_CONTEXT, 201, "no context is current, or not a valid one") \
    X(CUDA_ERROR_CONTEXT_ALREADY_CURRENT, 202, "the context is already current") \
    X(CUDA_ERROR_MAP_FAILED, 205, "a map operation failed") \
    X(CUDA_ERROR_UNMAP_FAILED, 206, "an unmap operation failed") \
    X(CUDA_ERROR_ARRAY_IS_MAPPED, 207, "the array is mapped") \
    X(CUDA_ERROR_ALREADY_MAPPED, 208, "the resource is already mapped") \
    X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209, "the image has no code for this device") \
    X(CUDA_ERROR_ALREADY_ACQUIRED, 210, "the resource is already acquired") \
    X(CUDA_ERROR_NOT_MAPPED, 211, "the resource is not mapped") \
    X(CUDA_ERROR_NOT_MAPPED_AS_ARRAY, 212, "the resource is not mapped as an array") \
    X(CUDA_ERROR_NOT_MAPPED_AS_POINTER, 213, "the resource is not mapped as a pointer") \
    X(CUDA_ERROR_ECC_UNCORRECTABLE, 214, "uncorrectable ECC error") \
    X(CUDA_ERROR_UNSUPPORTED_LIMIT, 215, "the device does not know this limit") \
    X(CUDA_ERROR_CONTEXT_ALREADY_IN_USE, 216, "the context is in use by another thread") \
    X(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, 217, "no peer access between these devices") \
    X(CUDA_ERROR_INVALID_PTX, 218, "the PTX did not compile") \
    X(CUDA_ERROR_INVALID_GRAPHICS_CONTEXT, 219, "invalid graphics context") \
    X(CUDA_ERROR_NVLINK_UNCORRECTABLE, 220, "uncorrectable NVLink error") \
    X(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, 221, "the PTX compiler library was not found") \
    X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222, "the PTX is newer than the compiler") \
    X(CUDA_ERROR_JIT_COMPILATION_DISABLED, 223, "PTX compilation is disabled") \
    X(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, 224, "the device has no such execution affinity") \
    X(CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC, 225, "the code synchronises on the device") \
    X(CUDA_ERROR_CONTAINED, 226, "a contained error; the context cannot be used further") \
    X(CUDA_ERROR_INVALID_SOURCE, 300, "invalid device kernel source") \
    X(CUDA_ERROR_FILE_NOT_FOUND, 301, "file not found") \
    X(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, 302, "a symbol of a shared object is missing") \
    X(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, 303, "a shared object failed to initialise") \
    X(CUDA_ERROR_OPERATING_SYSTEM, 304, "a call to the operating system failed") \
    X(CUDA_ERROR_INVALID_HANDLE, 400, "invalid resource handle") \
    X(CUDA_ERROR_ILLEGAL_STATE, 401, "the resource is not in a valid state for this call") \
    X(CUDA_ERROR_LOSSY_QUERY, 402, "the answer would lose information") \
    X(CUDA_ERROR_NOT_FOUND, 500, "named symbol not found") \
    X(CUDA_ERROR_NOT_READY, 600, "not ready yet") \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, 700, "illegal memory access") \
    X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701, "the launch asks for too many resources") \
    X(CUDA_ERROR_LAUNCH_TIMEOUT, 702, "the kernel ran too long") \
    X(CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING, 703, "incompatible texturing mode") \
    X(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, 704, "peer access is already enabled") \
    X(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, 705, "peer access is not enabled") \
    X(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, 708, "the primary context is already active") \
    X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709, "the context is destroyed") \
    X(CUDA_ERROR_ASSERT, 710, "a device-side assert fired") \
    X(CUDA_ERROR_TOO_MANY_PEERS, 711, "no resources for another peer") \
    X(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712, "the host memory is already registered") \
    X(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, 713, "the host memory is not registered") \
    X(CUDA_ERROR_HARDWARE_STACK_ERROR, 714, "hardware stack error") \
    X(CUDA_ERROR_ILLEGAL_INSTRUCTION, 715, "illegal instruction") \
    X(CUDA_ERROR_MISALIGNED_ADDRESS, 716, "misaligned address") \
    X(CUDA_ERROR_INVALID_ADDRESS_SPACE, 717, "operation on the wrong address space") \
    X(CUDA_ERROR_INVALID_PC, 718, "invalid program counter") \
    X(CUDA_ERROR_LAUNCH_FAILED, 719, "the kernel trapped or failed otherwise") \
    X(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, 720, "too many blocks in a cooperative launch") \
    X(CUDA_ERROR_TENSOR_MEMORY_LEAK, 721, "tensor memory was not freed") \
    X(CUDA_ERROR_NOT_PERMITTED, 800, "operation not permitted") \
    X(CUDA_ERROR_NOT_SUPPORTED, 801, "operation not supported") \
    X(CUDA_ERROR_SYSTEM_NOT_READY, 802, "the system is not ready (fabric manager, daemons)") \
    X(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803, "kernel module and user library do not match") \
    X(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, 804, "no forward compatibility on this device") \
    X(CUDA_ERROR_MPS_CONNECTION_FAILED, 805, "MPS: no connection to the server") \
    X(CUDA_ERROR_MPS_RPC_FAILURE, 806, "MPS: call to the server failed") \
    X(CUDA_ERROR_MPS_SERVER_NOT_READY, 807, "MPS: the server is not ready") \
    X(CUDA_ERROR_MPS_MAX_CLIENTS_REACHED, 808, "MPS: too many clients") \
    X(CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED, 809, "MPS: too many device connections") \
    X(CUDA_ERROR_MPS_CLIENT_TERMINATED, 810, "MPS: the server ended this client") \
    X(CUDA_ERROR_CDP_NOT_SUPPORTED, 811, "dynamic parallelism is not supported") \
    X(CUDA_ERROR_CDP_VERSION_MISMATCH, 812, "dynamic parallelism of another version") \
    X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900, "not permitted while the stream captures") \
    X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901, "an earlier error invalidated the capture") \
    X(CUDA_ERROR_STREAM_CAPTURE_MERGE, 902, "the call would merge two captures") \
    X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, 903, "the capture did not begin on this stream") \
    X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904, "captured work was not joined at the end") \
    X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, 905, "a dependency crosses the capture's border") \
    X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906, "implicit dependency on the legacy stream") \
    X(CUDA_ERROR_CAPTURED_EVENT, 907, "the event was last recorded in a capture") \
    X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908, "the capture began in another thread") \
    X(CUDA_ERROR_TIMEOUT, 909, "the time for this operation is over") \
    X(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, 910, "the graph update breaks a constraint") \
    X(CUDA_ERROR_EXTERNAL_DEVICE, 911, "an external device reported an error") \
    X(CUDA_ERROR_INVALID_CLUSTER_SIZE, 912, "invalid cluster size") \
    X(CUDA_ERROR_FUNCTION_NOT_LOADED, 913, "the function is not loaded") \
    X(CUDA_ERROR_INVALID_RESOURCE_TYPE, 914, "invalid resource type") \
    X(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, 915, "invalid resource configuration") \
    X(CUDA_ERROR_KEY_ROTATION, 916, "a key rotation is in progress") \
    X(CUDA_ERROR_UNKNOWN, 999, "unknown error")
// clang-format on

#endif
