// SPDX-License-Identifier: Apache-2.0
#include "rank/inspect.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "rank/codes.h"
#include "rank/internal.h"

// A launch whose entry is looked for.
struct wanted {
    const struct kern_launch *launch;
    const struct kern_module *module;
    const char *place; // "ops.add.impl.launches[0]"
    const struct rank_codes *codes;
    struct kern_arena *arena;
    struct kern_diag *diag;
};

// What became of it in the pieces of code.
struct findings {
    const char *checked, *absent, *unread;
    size_t misfits;
};

static void append(struct kern_arena *arena, const char **list, const char *item)
{
    *list = *list == NULL ? item : kern_arena_print(arena, "%s, %s", *list, item);
}

// What the pieces of one target say together.
struct at_target {
    bool found, fits;
    const char *why;    // one of them could not be read
    const char *misfit; // of the first one that has it otherwise
};

static struct at_target look_at_target(const struct wanted *wanted, size_t target)
{
    struct at_target at = {0};
    for (size_t i = 0; i < wanted->codes->count; i++) {
        const struct rank_code *code = &wanted->codes->items[i];
        if (code->target != target) {
            continue;
        }
        struct rank_layout layout = {0};
        const char *why = NULL;
        switch (rank_code_layout(code, wanted->launch->entry, &layout, &why)) {
        case RANK_ABSENT:
            break;
        case RANK_UNREADABLE:
            at.why = why;
            break;
        case RANK_FOUND: {
            uint32_t misfit = rank_layout_misfit(&layout, wanted->launch);
            at.found = true;
            at.fits = at.fits || misfit == KERN_NONE;
            if (misfit != KERN_NONE && at.misfit == NULL) {
                at.misfit = rank_layout_misfit_text(wanted->arena, &layout, wanted->launch, misfit);
            }
            break;
        }
        }
        free(layout.items);
    }
    return at;
}

static void judge_target(const struct wanted *wanted, size_t index, struct findings *findings)
{
    const char *target = wanted->codes->targets[index];
    struct at_target at = look_at_target(wanted, index);
    if (at.fits) {
        append(wanted->arena, &findings->checked, target);
    } else if (at.why != NULL) {
        append(wanted->arena, &findings->unread,
               kern_arena_print(wanted->arena, "%s (%s)", target, at.why));
    } else if (!at.found) {
        append(wanted->arena, &findings->absent, target);
    } else {
        findings->misfits++;
        kern_fail(wanted->diag, KERN_EXIT_ARTIFACT, wanted->place,
                  "entry %s of module %s (%s), %s: %s", wanted->launch->entry, wanted->module->name,
                  wanted->module->source, target, at.misfit);
    }
}

static void inspect_launch(const struct wanted *wanted, struct findings *findings)
{
    for (size_t t = 0; t < wanted->codes->n_targets; t++) {
        judge_target(wanted, t, findings);
    }
    if (findings->checked == NULL && findings->unread == NULL && findings->misfits == 0) {
        kern_fail(wanted->diag, KERN_EXIT_ARTIFACT, wanted->place,
                  "module %s (%s) has no entry %s: not in %s", wanted->module->name,
                  wanted->module->source, wanted->launch->entry, findings->absent);
    }
}

// Lists the entry, once, however many launches name it.
static void list(struct kern_inspection *inspection, const struct wanted *wanted, const char *path,
                 const struct findings *findings)
{
    const char *module = wanted->module->name, *entry = wanted->launch->entry;
    for (size_t i = 0; i < inspection->count; i++) {
        if (strcmp(inspection->items[i].module, module) == 0 &&
            strcmp(inspection->items[i].entry, entry) == 0) {
            return;
        }
    }
    kern_reserve(&inspection->items, &inspection->capacity, inspection->count + 1,
                 sizeof(*inspection->items));
    inspection->items[inspection->count++] = (struct kern_inspected){
        module, entry, path, findings->checked, findings->absent, findings->unread};
}

static void inspect_module(const struct kern_manifest *manifest, uint32_t module,
                           const struct rank_artifact *artifact, struct kern_inspection *inspection,
                           struct kern_diag *diag)
{
    struct rank_codes codes;
    struct kern_arena *arena = &inspection->arena;
    const char *path = kern_arena_print(arena, "%s", artifact->path);
    if (!rank_codes_list(artifact->bytes, artifact->length, path, arena, &codes, diag)) {
        return;
    }
    for (uint32_t o = 0; o < manifest->n_ops; o++) {
        const struct kern_op *op = &manifest->ops[o];
        for (size_t l = 0; l < op->n_launches; l++) {
            const struct kern_launch *launch = &op->launches[l];
            if (launch->is_extern || launch->module.index != module) {
                continue;
            }
            const char *place = kern_arena_print(arena, "ops.%s.impl.launches[%zu]", op->name, l);
            const struct wanted wanted = {launch, &manifest->modules[module], place, &codes, arena,
                                          diag};
            struct findings findings = {0};
            inspect_launch(&wanted, &findings);
            list(inspection, &wanted, path, &findings);
        }
    }
    rank_codes_free(&codes);
}

bool kern_inspect(const struct kern_manifest *manifest, const char *const *kernel_dirs,
                  size_t n_kernel_dirs, struct kern_digests *digests,
                  struct kern_inspection *inspection, struct kern_diag *diag)
{
    const struct rank_search search = {manifest, kernel_dirs, n_kernel_dirs, digests};
    struct rank_artifacts artifacts;
    size_t errors = diag->errors;
    *inspection = (struct kern_inspection){0};
    if (!rank_artifacts_find(&search, &artifacts, diag)) {
        return false;
    }
    for (uint32_t m = 0; m < manifest->n_modules; m++) {
        inspect_module(manifest, m, &artifacts.items[artifacts.of_module[m]], inspection, diag);
    }
    rank_multicast_warn(manifest, &artifacts, diag);
    rank_artifacts_free(&artifacts);
    return diag->errors == errors;
}

void kern_inspection_free(struct kern_inspection *inspection)
{
    free(inspection->items);
    kern_arena_free(&inspection->arena);
    *inspection = (struct kern_inspection){0};
}
