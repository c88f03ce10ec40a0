// SPDX-License-Identifier: Apache-2.0
#include "device/device.h"

bool kern_cuda_check(const struct kern_device *device, CUresult result, const char *function,
                     const char *what, struct kern_diag *diag)
{
    if (result == CUDA_SUCCESS)
        return true;

    // A driver that is newer than the one this was built for may return a code that only it knows,
    // and a code that not even it knows leaves the pointers as they are or sets them to NULL.
    const char *name = NULL;
    const char *text = NULL;
    device->cu.cuGetErrorName(result, &name);
    device->cu.cuGetErrorString(result, &text);
    kern_fail(diag, KERN_EXIT_DEVICE, what, "%s failed with %s (%d), %s", function,
              name ? name : "an unknown code", (int)result, text ? text : "no description");
    diag->entries[diag->count - 1].library_code = (int)result;
    return false;
}

const char *kern_cublas_status_name(cublasStatus_t status)
{
#define CASE(name, value)                                                                          \
    case name:                                                                                     \
        return #name;
    switch (status) {
        KERN_CUBLAS_STATUSES(CASE)
    }
    return "an unknown code";
#undef CASE
}

bool kern_cublas_check(cublasStatus_t status, const char *function, const char *what,
                       struct kern_diag *diag)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return true;
    return kern_fail(diag, KERN_EXIT_DEVICE, what, "%s failed with %s (%d)", function,
                     kern_cublas_status_name(status), (int)status);
}

static const char *nccl_result_name(ncclResult_t result)
{
#define CASE(name, value)                                                                          \
    case name:                                                                                     \
        return #name;
    switch (result) {
        KERN_NCCL_RESULTS(CASE)
    }
    return "an unknown code";
#undef CASE
}

bool kern_nccl_check(const struct kern_device *device, ncclResult_t result, ncclComm_t comm,
                     const char *function, const char *what, struct kern_diag *diag)
{
    if (result == ncclSuccess)
        return true;
    const char *text = device->nccl.ncclGetErrorString(result);
    const char *last = device->nccl.ncclGetLastError(comm);
    bool logged = last && *last;
    return kern_fail(diag, KERN_EXIT_DEVICE, what, "%s failed with %s (%d), %s%s%s", function,
                     nccl_result_name(result), (int)result, text ? text : "no description",
                     logged ? "; NCCL's last words: " : "", logged ? last : "");
}
