// SPDX-License-Identifier: Apache-2.0
//
// Loading code: every artifact that the manifest pins becomes one module of the driver or, if it
// has several containers, one per container that has code for this device.
#include "rank/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static void keep_module(struct kern_rank *rank, CUmodule module, uint32_t artifact)
{
    struct rank_modules *modules = &rank->modules;
    kern_reserve(&modules->handles, &modules->capacity, modules->count + 1,
                 sizeof(*modules->handles));
    kern_reserve(&modules->artifact, &modules->artifact_capacity, modules->count + 1,
                 sizeof(*modules->artifact));
    modules->handles[modules->count] = module;
    modules->artifact[modules->count] = artifact;
    modules->count++;
}

static bool load_whole(struct kern_rank *rank, const struct rank_artifact *artifact, uint32_t index,
                       struct kern_diag *diag)
{
    char what[RANK_WHAT];
    rank_print(what, "loading %s", artifact->path);
    CUmodule module = NULL;
    if (!KERN_CU(rank->device, diag, what, cuModuleLoadData, &module, artifact->bytes)) {
        return false;
    }
    keep_module(rank, module, index);
    return true;
}

// Loads one container; true with *[loaded] unchanged if it has no code for this device.
static bool load_container(struct kern_rank *rank, const struct rank_artifact *artifact,
                           uint32_t index, struct rank_span span, size_t *loaded,
                           struct kern_diag *diag)
{
    // The driver wants the alignment that a container has in memory, which its place in the file
    // does not promise.
    uint8_t *copy = malloc(span.length);
    if (copy == NULL) {
        return kern_fail(diag, KERN_EXIT_DEVICE, artifact->path,
                         "there is no memory for a fatbin container of %zu bytes", span.length);
    }
    memcpy(copy, artifact->bytes + span.offset, span.length);
    CUmodule module = NULL;
    CUresult result = rank->device->cu.cuModuleLoadData(&module, copy);
    free(copy);
    if (result == CUDA_ERROR_NO_BINARY_FOR_GPU) {
        return true;
    }
    char what[RANK_WHAT];
    rank_print(what, "loading the fatbin container at byte %zu of %s", span.offset, artifact->path);
    if (!kern_cuda_check(rank->device, result, "cuModuleLoadData", what, diag)) {
        return false;
    }
    keep_module(rank, module, index);
    (*loaded)++;
    return true;
}

static bool load_containers(struct kern_rank *rank, const struct rank_artifact *artifact,
                            uint32_t index, struct kern_diag *diag)
{
    struct rank_span *spans = NULL;
    size_t count = 0;
    if (!rank_fatbin_split(artifact->bytes, artifact->length, artifact->path, &spans, &count,
                           diag)) {
        return false;
    }
    size_t loaded = 0;
    bool ok = true;
    for (size_t i = 0; ok && i < count; i++) {
        ok = load_container(rank, artifact, index, spans[i], &loaded, diag);
    }
    free(spans);
    if (ok && count == 0) {
        return kern_fail(diag, KERN_EXIT_ARTIFACT, artifact->path,
                         "the shared object has no fatbin container in a section .nv_fatbin: it "
                         "holds no code for a GPU");
    }
    if (ok && loaded == 0) {
        return kern_fail(diag, KERN_EXIT_ARTIFACT, artifact->path,
                         "none of its %zu fatbin containers has code for this device", count);
    }
    return ok;
}

static bool load_artifact(struct kern_rank *rank, const struct rank_artifact *artifact,
                          uint32_t index, struct kern_diag *diag)
{
    switch (rank_image_kind(artifact->bytes, artifact->length)) {
    case RANK_IMAGE_SHARED_OBJECT:
        // emu calls the host half of the shared object, a GPU runs the device half.
        return rank->device->kind == KERN_DEVICE_EMU
                   ? rank_elf_check(artifact->bytes, artifact->length, artifact->path, diag) &&
                         load_whole(rank, artifact, index, diag)
                   : load_containers(rank, artifact, index, diag);
    case RANK_IMAGE_FATBIN:
        return load_containers(rank, artifact, index, diag);
    case RANK_IMAGE_CUBIN:
        return rank_elf_check(artifact->bytes, artifact->length, artifact->path, diag) &&
               load_whole(rank, artifact, index, diag);
    case RANK_IMAGE_PTX:
        return load_whole(rank, artifact, index, diag);
    case RANK_IMAGE_UNKNOWN:
        break;
    }
    return kern_fail(diag, KERN_EXIT_ARTIFACT, artifact->path,
                     "the file is neither a cubin nor a fatbin, PTX text or a shared object");
}

bool kern_rank_load_modules(struct kern_rank *rank, struct kern_diag *diag)
{
    const struct rank_search search = {rank->manifest, rank->kernel_dirs, rank->n_kernel_dirs,
                                       rank->digests};
    struct rank_artifacts artifacts;
    if (!rank_enter(rank, diag) || !rank_artifacts_find(&search, &artifacts, diag)) {
        return false;
    }
    bool ok = true;
    for (uint32_t i = 0; ok && i < artifacts.count; i++) {
        ok = load_artifact(rank, &artifacts.items[i], i, diag);
    }
    if (ok && rank->scan_multicast && rank->device->kind == KERN_DEVICE_CUDA) {
        rank_multicast_warn(rank->manifest, &artifacts, diag);
    }
    uint32_t n_modules = rank->manifest->n_modules;
    rank->modules.artifact_of = kern_arena_array(&rank->arena, n_modules, sizeof(uint32_t));
    for (uint32_t m = 0; m < n_modules; m++) {
        rank->modules.artifact_of[m] = artifacts.of_module[m];
    }
    rank_artifacts_free(&artifacts);
    rank->modules.loaded = ok && rank_functions_resolve(rank, diag);
    if (!rank->modules.loaded) {
        rank_modules_unload(rank);
    }
    return rank->modules.loaded;
}

void rank_modules_unload(struct kern_rank *rank)
{
    struct rank_modules *modules = &rank->modules;
    while (modules->count > 0) {
        rank->device->cu.cuModuleUnload(modules->handles[--modules->count]);
    }
    modules->n_functions = 0;
    modules->loaded = false;
}
