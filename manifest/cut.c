// SPDX-License-Identifier: Apache-2.0
#include "manifest/cut.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "manifest/cut_parts.h"
#include "manifest/write.h"

// Half a SHA-256 in hex, and a NUL.
#define ID_CHARACTERS 16

static void make_id(const struct kern_manifest *manifest, const uint64_t *points, size_t n_points,
                    char id[ID_CHARACTERS + 1])
{
    size_t length;
    char *text = kern_manifest_write(manifest, &length);
    uint8_t *bytes = kern_calloc(length + 8 * n_points, 1);
    memcpy(bytes, text, length);
    for (size_t i = 0; i < n_points; i++)
        for (size_t j = 0; j < 8; j++)
            bytes[length + 8 * i + j] = (uint8_t)(points[i] >> 8 * j);
    uint8_t digest[KERN_SHA256_BYTES];
    char hex[KERN_SHA256_HEX + 1];
    kern_sha256(bytes, length + 8 * n_points, digest);
    kern_sha256_to_hex(digest, hex);
    memcpy(id, hex, ID_CHARACTERS);
    id[ID_CHARACTERS] = '\0';
    free(bytes);
    free(text);
}

// Passes on what a stage's own verification found; warnings were given for the whole already.
static void tell_of_stage(const char *name, const struct kern_diag *found, struct kern_diag *diag)
{
    for (size_t i = 0; i < found->count; i++) {
        const struct kern_diag_entry *entry = &found->entries[i];
        char place[KERN_PLACE_MAX + 64];
        if (entry->code == KERN_EXIT_OK)
            continue;
        snprintf(place, sizeof place, "%s%s%s", name, entry->place && *entry->place ? ": " : "",
                 entry->place ? entry->place : "");
        kern_fail_rule(diag, entry->rule, entry->order, place, "%s", entry->text);
    }
}

// Names the points round stage [index], which does not keep the rules by itself.
static void tell_of_points(const struct kern_cut_points *cut, size_t index, const char *name,
                           struct kern_diag *diag)
{
    char points[96];
    unsigned long long first = index ? cut->points[index - 1] : 0;
    unsigned long long end = index < cut->count ? cut->points[index] : 0;
    if (index == 0)
        snprintf(points, sizeof points, "up to the point %llu", end);
    else if (index == cut->count)
        snprintf(points, sizeof points, "from the point %llu on", first);
    else
        snprintf(points, sizeof points, "between the points %llu and %llu", first, end);
    kern_fail_rule(
        diag, "V-CUT", UINT64_MAX, name,
        "a stage keeps the rules by itself, and this one, %s, does not; cut elsewhere, or "
        "let --balance N look for the points",
        points);
}

static struct kern_manifest *make_stage(const struct kern_cut_points *cut, size_t index,
                                        const char *id, struct kern_diag *diag)
{
    char name[32];
    snprintf(name, sizeof name, "stage %zu", index);
    struct kern_diag found = {0};
    size_t length;
    char *text = kern_cut_stage_text(cut, index, id, &length);
    struct kern_manifest *stage = kern_manifest_parse(text, length, name, &found);
    if (stage && !kern_manifest_verify(stage, &found)) {
        kern_manifest_destroy(stage);
        stage = NULL;
    }
    tell_of_stage(name, &found, diag);
    if (stage)
        memcpy(stage->digest, cut->flow->manifest->digest, sizeof stage->digest);
    else
        tell_of_points(cut, index, name, diag);
    kern_diag_clear(&found);
    free(text);
    return stage;
}

static struct kern_manifest **make_stages(const struct kern_cut_points *cut, struct kern_diag *diag)
{
    char id[ID_CHARACTERS + 1];
    make_id(cut->flow->manifest, cut->points, cut->count, id);
    struct kern_manifest **stages = kern_calloc(cut->count + 1, sizeof *stages);
    bool whole = true;
    for (size_t i = 0; i <= cut->count; i++) {
        stages[i] = make_stage(cut, i, id, diag);
        whole = whole && stages[i];
    }
    if (whole)
        return stages;
    kern_manifest_stages_destroy(stages, cut->count + 1);
    return NULL;
}

struct kern_manifest **kern_manifest_cut(const struct kern_manifest *manifest,
                                         const uint64_t *points, size_t n_points,
                                         struct kern_diag *diag)
{
    struct kern_manifest **stages = NULL;
    struct kern_cut_flow flow;
    kern_cut_flow_open(&flow, manifest);
    bool can_be_cut = kern_cut_check_manifest(manifest, diag);
    if (kern_cut_check_points(&flow, points, n_points, diag) && can_be_cut) {
        struct kern_cut_points cut;
        kern_cut_points_open(&cut, &flow, points, n_points);
        if (kern_cut_check_flow(&cut, diag))
            stages = make_stages(&cut, diag);
        kern_cut_points_close(&cut);
    }
    kern_cut_flow_close(&flow);
    return stages;
}

void kern_manifest_stages_destroy(struct kern_manifest **stages, size_t count)
{
    for (size_t i = 0; stages && i < count; i++)
        kern_manifest_destroy(stages[i]);
    free(stages);
}

bool kern_manifest_arrives(const struct kern_manifest *manifest, const struct kern_buffer *buffer)
{
    return manifest->cut && buffer->exported &&
           (buffer->kind == KERN_INPUT || buffer->kind == KERN_INOUT);
}

bool *kern_cut_weights(const struct kern_manifest *manifest, struct kern_arena *arena)
{
    bool *weights = kern_arena_array(arena, manifest->n_buffers, sizeof *weights);
    for (uint32_t i = 0; i < manifest->n_buffers; i++)
        weights[i] = manifest->buffers[i].kind == KERN_WEIGHT;
    for (uint32_t i = 0; i < manifest->n_programs; i++) {
        const struct kern_program *program = &manifest->programs[i];
        for (size_t j = 0; program->derive && j < program->n_calls; j++) {
            for (size_t k = 0; k < program->calls[j].n_args; k++) {
                struct kern_access access = kern_call_access(manifest, &program->calls[j], k);
                if (access.target == KERN_TARGET_BUFFER && access.writes)
                    weights[access.index] = manifest->buffers[access.index].kind == KERN_CARRY;
            }
        }
    }
    return weights;
}

bool kern_manifest_weight_bytes(const struct kern_manifest *manifest, uint64_t *bytes)
{
    struct kern_arena arena = {0};
    bool *weights = kern_cut_weights(manifest, &arena);
    bool fits = true;
    *bytes = 0;
    for (uint32_t i = 0; i < manifest->n_buffers && fits; i++)
        if (weights[i])
            fits = !__builtin_add_overflow(*bytes, manifest->buffers[i].bytes, bytes);
    kern_arena_free(&arena);
    return fits;
}
