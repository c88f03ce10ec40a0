// SPDX-License-Identifier: Apache-2.0
#include "manifest/manifest.h"

#include <stdlib.h>

void kern_manifest_destroy(struct kern_manifest *manifest)
{
    if (!manifest)
        return;
    kern_names_free(&manifest->var_names);
    kern_names_free(&manifest->group_names);
    kern_names_free(&manifest->state_names);
    kern_names_free(&manifest->buffer_names);
    kern_names_free(&manifest->module_names);
    kern_names_free(&manifest->op_names);
    kern_names_free(&manifest->program_names);
    kern_arena_free(&manifest->arena);
    free(manifest);
}
