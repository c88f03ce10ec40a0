// SPDX-License-Identifier: Apache-2.0
//
// Modules. A module's functions hold a reference to it, and pending work to its function: code that
// is still to run stays loaded after cuModuleUnload, which waits for nothing.
#include "emu/work.h"

#include <stdlib.h>
#include <string.h>

static void destroy(void *object)
{
    struct emu_module *module = object;
    if (module->image.library != NULL) {
        emu_image_unload(&module->image);
    }
    free(module->functions);
    free(module);
}

static void end_functions(struct emu_module *module)
{
    for (uint32_t i = 0; i < module->image.table->n_entries; i++) {
        struct emu_function *function = emu_handle_get(module->functions[i], EMU_FUNCTION);
        if (function != NULL) {
            emu_handle_free(function);
            emu_handle_put(function);
        }
    }
}

static CUresult make_functions(struct emu_module *module)
{
    const struct kern_host_module *table = module->image.table;
    module->functions = calloc(table->n_entries + 1u, sizeof *module->functions);
    if (module->functions == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (uint32_t i = 0; i < table->n_entries; i++) {
        struct emu_function *function = emu_function_new(module, &table->entries[i]);
        if (function == NULL) {
            end_functions(module);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        module->functions[i] = function->handle.value;
    }
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *handle, const void *image)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT | EMU_UNSAFE_IN_CAPTURE);
    if (handle == NULL || image == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct emu_module *module =
        emu_handle_new(EMU_MODULE, sizeof *module, emu_context_current(), destroy);
    if (module == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult result = emu_image_load(image, &module->image);
    if (result == CUDA_SUCCESS) {
        result = make_functions(module);
    }
    if (result != CUDA_SUCCESS) {
        emu_handle_free(module);
        return result;
    }
    *handle = EMU_HANDLE(CUmodule, module);
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule handle)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT | EMU_UNSAFE_IN_CAPTURE | EMU_IGNORE_STICKY);
    struct emu_module *module = emu_handle_get(EMU_VALUE(handle), EMU_MODULE);
    if (module == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    atomic_store(&module->unloaded, true);
    end_functions(module);
    bool freed = emu_handle_free(module);
    emu_handle_put(module);
    return freed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuModuleGetFunction(CUfunction *handle, CUmodule module_handle, const char *name)
{
    EMU_ENTER(EMU_NEEDS_CONTEXT);
    if (handle == NULL || name == NULL || *name == '\0') {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct emu_module *module = emu_handle_get(EMU_VALUE(module_handle), EMU_MODULE);
    if (module == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    CUresult result = CUDA_ERROR_NOT_FOUND;
    for (uint32_t i = 0; i < module->image.table->n_entries; i++) {
        if (strcmp(module->image.table->entries[i].name, name) == 0) {
            *handle = (CUfunction)(uintptr_t)module->functions[i];
            result = CUDA_SUCCESS;
            break;
        }
    }
    emu_handle_put(module);
    return result;
}
