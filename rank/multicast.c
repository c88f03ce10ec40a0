// SPDX-License-Identifier: Apache-2.0
//
// A warning of kernels that copy by multicast and are given memory of peers: a multicast bulk copy
// onto a peer's mapping has hung GPUs, which no error code tells. A manifest does not say how a
// kernel copies, so its machine code is looked at.
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "rank/codes.h"
#include "rank/internal.h"
#include "rank/sass.h"

#define SECONDS_MAX 30.0

// A launch that some call hands the addresses of peers.
struct suspect {
    const struct kern_launch *launch;
    const char *place;
    bool multicast; // its entry copies so
};

struct suspects {
    struct suspect *items;
    size_t count, capacity;
    struct kern_arena arena;
};

// Whether the interface param is handed to the launch, as it is or in a pack.
static bool takes_param(const struct kern_launch *launch, uint64_t param)
{
    for (size_t a = 0; a < launch->n_args; a++) {
        const struct kern_value *arg = &launch->args[a];
        if (arg->kind == KERN_VALUE_PARAM && arg->param == param) {
            return true;
        }
        for (size_t f = 0; arg->kind == KERN_VALUE_PACK && f < arg->pack->n_fields; f++) {
            const struct kern_value *value = &arg->pack->fields[f].value;
            if ((value->kind == KERN_VALUE_PARAM && value->param == param) ||
                (value->kind == KERN_VALUE_TENSORMAP && value->tensormap->param == param)) {
                return true;
            }
        }
    }
    return false;
}

static void add_suspect(struct suspects *suspects, const struct kern_op *op, size_t launch)
{
    for (size_t i = 0; i < suspects->count; i++) {
        if (suspects->items[i].launch == &op->launches[launch]) {
            return;
        }
    }
    kern_reserve(&suspects->items, &suspects->capacity, suspects->count + 1,
                 sizeof(*suspects->items));
    suspects->items[suspects->count++] = (struct suspect){
        .launch = &op->launches[launch],
        .place = kern_arena_print(&suspects->arena, "ops.%s.impl.launches[%zu]", op->name, launch)};
}

static void suspect_call(const struct kern_manifest *manifest, const struct kern_call *call,
                         struct suspects *suspects)
{
    const struct kern_op *op = &manifest->ops[call->op.index];
    for (size_t i = 0; i < call->n_args; i++) {
        const struct kern_value *arg = &call->args[i];
        if (arg->kind != KERN_VALUE_BUFFER || manifest->buffers[arg->ref.index].kind != KERN_PEER) {
            continue;
        }
        for (size_t l = 0; l < op->n_launches; l++) {
            if (!op->launches[l].is_extern && takes_param(&op->launches[l], i)) {
                add_suspect(suspects, op, l);
            }
        }
    }
}

static bool has_device_code(const struct rank_artifact *artifact)
{
    struct kern_diag diag = {0};
    struct kern_arena arena = {0};
    struct rank_codes codes;
    bool found = false;
    if (rank_codes_list(artifact->bytes, artifact->length, artifact->path, &arena, &codes, &diag)) {
        for (size_t i = 0; i < codes.count; i++) {
            found = found || codes.items[i].kind != RANK_CODE_HOST;
        }
        rank_codes_free(&codes);
    }
    kern_arena_free(&arena);
    kern_diag_clear(&diag);
    return found;
}

// The suspects of one artifact, while its code is read.
struct scan {
    struct suspects *suspects;
    const struct rank_artifacts *artifacts;
    uint32_t artifact;
};

static bool is_of(const struct scan *scan, const struct suspect *suspect)
{
    return scan->artifacts->of_module[suspect->launch->module.index] == scan->artifact;
}

static void look_at_line(void *context, const char *function, const char *line)
{
    const struct scan *scan = context;
    if (strstr(line, ".MULTICAST") == NULL) {
        return;
    }
    for (size_t i = 0; i < scan->suspects->count; i++) {
        struct suspect *suspect = &scan->suspects->items[i];
        if (is_of(scan, suspect) && strcmp(suspect->launch->entry, function) == 0) {
            suspect->multicast = true;
        }
    }
}

// False with the reason if the code of the artifact could not be looked at.
static bool scan_artifact(struct scan *scan, uint64_t deadline, const char **why)
{
    const struct rank_artifact *artifact = &scan->artifacts->items[scan->artifact];
    bool wanted = false;
    for (size_t i = 0; i < scan->suspects->count; i++) {
        wanted = wanted || is_of(scan, &scan->suspects->items[i]);
    }
    const struct rank_sass_reader reader = {look_at_line, scan};
    return !wanted || !has_device_code(artifact) ||
           rank_sass_read(artifact->path, deadline, &reader, why);
}

void rank_multicast_warn(const struct kern_manifest *manifest,
                         const struct rank_artifacts *artifacts, struct kern_diag *diag)
{
    struct suspects suspects = {0};
    for (uint32_t p = 0; p < manifest->n_programs; p++) {
        for (size_t c = 0; c < manifest->programs[p].n_calls; c++) {
            suspect_call(manifest, &manifest->programs[p].calls[c], &suspects);
        }
    }
    uint64_t deadline = kern_deadline_in(SECONDS_MAX);
    struct scan scan = {.suspects = &suspects, .artifacts = artifacts};
    for (; scan.artifact < artifacts->count; scan.artifact++) {
        const char *why;
        if (!scan_artifact(&scan, deadline, &why)) {
            kern_warn(diag, NULL, 0, artifacts->items[scan.artifact].path,
                      "its kernels are given memory of peers, and whether they copy onto it by "
                      "multicast, which has hung GPUs, is not known: cuobjdump would show it, and "
                      "%s",
                      why);
            break; // it would fail for the next one as well
        }
    }
    for (size_t i = 0; i < suspects.count; i++) {
        const struct suspect *suspect = &suspects.items[i];
        if (suspect->multicast) {
            kern_warn(diag, NULL, 0, suspect->place,
                      "entry %s of module %s copies by multicast and is given memory of peers; "
                      "onto a peer's memory such a copy has hung GPUs",
                      suspect->launch->entry, suspect->launch->module.name);
        }
    }
    free(suspects.items);
    kern_arena_free(&suspects.arena);
}
