// SPDX-License-Identifier: Apache-2.0
//
// Errors: their names and texts, and which of them end a context.
#include "emu/internal.h"

#include <stdlib.h>
#include <string.h>

struct error {
    CUresult result;
    const char *name;
    const char *text;
};

#define ERROR_ROW(name, value, text) {name, #name, text},
static const struct error errors[] = {KERN_CUDA_RESULTS(ERROR_ROW)};
#undef ERROR_ROW

static const struct error *find_error(CUresult result)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        if (errors[i].result == result) {
            return &errors[i];
        }
    }
    return NULL;
}

// These two answer before cuInit as well, since they explain its failure.
CUresult cuGetErrorName(CUresult result, const char **name)
{
    if (name == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const struct error *error = find_error(result);
    *name = error == NULL ? NULL : error->name;
    return error == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult result, const char **text)
{
    if (text == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const struct error *error = find_error(result);
    *text = error == NULL ? NULL : error->text;
    return error == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

bool emu_error_parse(const char *name, CUresult *error)
{
    char *end;
    long number = strtol(name, &end, 10);
    bool numeric = end != name && *end == '\0';
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        if (numeric ? (long)errors[i].result == number : strcmp(errors[i].name, name) == 0) {
            *error = errors[i].result;
            return *error != CUDA_SUCCESS;
        }
    }
    return false;
}

bool emu_error_is_sticky(CUresult error)
{
    switch (error) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
        return true;
    default:
        return false;
    }
}
