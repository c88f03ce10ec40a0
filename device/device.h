// SPDX-License-Identifier: Apache-2.0
//
// What lies below the runtime: the CUDA driver, cuBLASLt, cuBLAS and NCCL as tables of function
// pointers that are filled by dlopen. The program links none of them. Where no GPU is, the same
// tables are filled from libkern-emu.so, the emulated GPU, and nobody above can tell, save by
// asking for the kind.
#ifndef KERN_DEVICE_DEVICE_H
#define KERN_DEVICE_DEVICE_H

#include <stdbool.h>

#include "base/diag.h"
#include "device/abi/cublas_functions.h"
#include "device/abi/cublaslt_functions.h"
#include "device/abi/cuda_functions.h"
#include "device/abi/nccl_functions.h"

enum kern_device_kind {
    KERN_DEVICE_CUDA,
    KERN_DEVICE_EMU,
};

enum kern_device_choice {
    KERN_DEVICE_AUTO, // CUDA where a driver shows a device, else emu
    KERN_DEVICE_WANT_CUDA,
    KERN_DEVICE_WANT_EMU,
};

#define KERN_DEVICE_CUDA_MEMBER(name, symbol, params) CUresult(*name) params;
#define KERN_DEVICE_MEMBER(returned, name, symbol, params) returned(*name) params;

// One pointer per function of device/abi/*_functions.h, under its plain name.
struct kern_cuda {
    KERN_CUDA_FUNCTIONS(KERN_DEVICE_CUDA_MEMBER)
};
struct kern_cublas {
    KERN_CUBLAS_FUNCTIONS(KERN_DEVICE_MEMBER)
};
struct kern_cublaslt {
    KERN_CUBLASLT_FUNCTIONS(KERN_DEVICE_MEMBER)
};
struct kern_nccl {
    KERN_NCCL_FUNCTIONS(KERN_DEVICE_MEMBER)
};

#undef KERN_DEVICE_CUDA_MEMBER
#undef KERN_DEVICE_MEMBER

struct kern_device {
    enum kern_device_kind kind;
    const char *why;     // one sentence for the report: why this kind was chosen
    const char *library; // the file of the driver, as the loader resolved it
    int driver_version;  // as cuDriverGetVersion says: 13000 is 13.0
    struct kern_cuda cu;

    // Valid after the kern_device_need_* of the same name, NULL pointers before.
    struct kern_cublas cublas;
    struct kern_cublaslt cublaslt;
    struct kern_nccl nccl;

    struct kern_arena texts; // owns why and library
    void *handle;            // the driver's, of dlopen
};

// Chooses a driver, loads it, calls cuInit and checks that it shows a device. [emu_library] is the
// file of the emulated GPU, or NULL: libkern-emu.so in ../lib beside the executable, then in the
// directory where it was installed. CUDA_MODULE_LOADING is set to EAGER if it is not set, since a
// kernel that is loaded at its first launch may be loaded while another one waits for it; so call
// this while the process has one thread.
//
// AUTO falls back to emu if there is no libcuda.so.1, if its cuInit fails or if it shows no device;
// a driver that has devices but lacks a function is an error all the same. Returns NULL on failure.
// No context is made current.
struct kern_device *kern_device_open(enum kern_device_choice choice, const char *emu_library,
                                     struct kern_diag *diag);

// Frees the tables; NULL is allowed. The libraries stay loaded: drivers and NCCL leave threads and
// exit handlers behind, which must find their code.
void kern_device_close(struct kern_device *device);

// Loads the library on its first call and fills the table of the same name: libcublasLt.so.13 or
// 12, libcublas.so.13 or 12, libnccl.so.2; with emu all of them are in its own library.
// NCCL_RUNTIME_CONNECT is set to 0 if it is not set, since a connection that NCCL makes at the
// first collective cannot be made inside a capture.
bool kern_device_need_cublaslt(struct kern_device *device, struct kern_diag *diag);
bool kern_device_need_cublas(struct kern_device *device, struct kern_diag *diag);
bool kern_device_need_nccl(struct kern_device *device, struct kern_diag *diag);

// Returns true for success, else says at the place [what] ("allocating buffer a") that FUNCTION
// failed with NAME (number), TEXT, of kind KERN_EXIT_DEVICE.
bool kern_cuda_check(const struct kern_device *device, CUresult result, const char *function,
                     const char *what, struct kern_diag *diag);
const char *kern_cublas_status_name(cublasStatus_t status);
bool kern_cublas_check(cublasStatus_t status, const char *function, const char *what,
                       struct kern_diag *diag);

// As the two above; [comm] may be NULL and is asked for what NCCL logged last. ncclInProgress is a
// failure here: who uses a communicator without blocking looks for it first.
bool kern_nccl_check(const struct kern_device *device, ncclResult_t result, ncclComm_t comm,
                     const char *function, const char *what, struct kern_diag *diag);

// Calls a function of the driver and checks its result:
// KERN_CU(device, diag, "allocating buffer a", cuMemAlloc, &address, bytes).
#define KERN_CU(device, diag, what, function, ...)                                                 \
    kern_cuda_check((device), (device)->cu.function(__VA_ARGS__), #function, (what), (diag))

#endif
