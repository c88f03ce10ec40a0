// SPDX-License-Identifier: Apache-2.0
#include "manifest/serving.h"

#include "manifest/serving_parts.h"

static void find_axes(struct kern_projection *projection)
{
    const struct kern_manifest *manifest = projection->manifest;
    struct kern_serving_axis *axes = projection->serving->axes;
    for (uint32_t v = 0; v < manifest->n_vars; v++)
        if (manifest->vars[v].axis != KERN_AXIS_NONE)
            axes[manifest->vars[v].axis] = (struct kern_serving_axis){v, manifest->vars[v].max};
}

static bool check_axes(struct kern_projection *projection)
{
    const struct kern_serving_axis *axes = projection->serving->axes;
    bool rows = axes[KERN_AXIS_ROWS].var != KERN_NONE;
    bool groups = axes[KERN_AXIS_GROUPS].var != KERN_NONE;
    struct kern_place vars = kern_place_member(NULL, "vars");
    if (!rows)
        kern_place_fail(projection->diag, "P1", 0, &vars,
                        "none has the axis \"rows\", so nothing counts the rows of a call");
    if (!groups)
        kern_place_fail(projection->diag, "P2", 0, &vars,
                        "none has the axis \"groups\", so nothing counts the sequences of a call");
    return rows && groups;
}

static void clear(struct kern_serving *serving)
{
    *serving = (struct kern_serving){.context = KERN_NONE};
    for (size_t i = 0; i < sizeof serving->axes / sizeof *serving->axes; i++)
        serving->axes[i].var = serving->token[i] = KERN_NONE;
    for (size_t i = 0; i < sizeof serving->fills / sizeof *serving->fills; i++)
        serving->fills[i] = KERN_NONE;
}

enum kern_serving_mode kern_serving_mode_of(const struct kern_manifest *manifest)
{
    bool last = !manifest->cut || manifest->cut->stage + 1 == manifest->cut->stages;
    return last ? KERN_SERVING_SAMPLED : KERN_SERVING_UNSAMPLED;
}

bool kern_serving_project(const struct kern_manifest *manifest, enum kern_serving_mode mode,
                          struct kern_serving *serving, struct kern_diag *diag)
{
    size_t errors_before = diag->errors;
    struct kern_projection projection = {.manifest = manifest, .serving = serving, .diag = diag};
    clear(serving);
    projection.widths =
        kern_arena_array(&serving->arena, manifest->n_buffers, sizeof *projection.widths);
    find_axes(&projection);
    if (check_axes(&projection)) {
        kern_project_buffers(&projection);
        kern_project_forwards(&projection, mode);
    }
    if (diag->errors == errors_before)
        return true;
    kern_diag_sort(diag);
    kern_serving_free(serving);
    return false;
}

const struct kern_forward *kern_serving_forward(const struct kern_serving *serving, uint64_t groups,
                                                uint64_t rows)
{
    const struct kern_forward *best = NULL;
    for (size_t i = 0; i < serving->n_forwards; i++) {
        const struct kern_forward *forward = &serving->forwards[i];
        if (forward->rows == rows && forward->groups >= groups &&
            (!best || forward->groups < best->groups))
            best = forward;
    }
    return best;
}

void kern_serving_free(struct kern_serving *serving)
{
    kern_arena_free(&serving->arena);
    clear(serving);
}
