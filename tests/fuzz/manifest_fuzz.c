// SPDX-License-Identifier: Apache-2.0
//
// A libFuzzer target: the input is the text of a manifest. A parse gives a manifest or a reason, a
// verification too, and both in the order of the document. What is written of a verified manifest
// reads back as the same, and what it is cut into verifies.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "manifest/cut.h"
#include "manifest/manifest.h"
#include "manifest/write.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void write_and_read_back(const struct kern_manifest *manifest)
{
    struct kern_diag diag = {0};
    size_t length, again_length;
    char *text = kern_manifest_write(manifest, &length);
    struct kern_manifest *again = kern_manifest_parse(text, length, "written", &diag);
    require(again && kern_manifest_verify(again, &diag));
    char *again_text = kern_manifest_write(again, &again_length);
    require(length == again_length && memcmp(text, again_text, length) == 0);
    kern_manifest_destroy(again);
    free(again_text);
    free(text);
    kern_diag_clear(&diag);
}

static void cut(const struct kern_manifest *manifest, const uint64_t *points, size_t n_points)
{
    struct kern_diag diag = {0};
    struct kern_manifest **stages = kern_manifest_cut(manifest, points, n_points, &diag);
    require(!stages == (diag.errors > 0));
    for (size_t i = 0; stages && i <= n_points; i++) {
        require(stages[i]->verified);
        write_and_read_back(stages[i]);
    }
    kern_manifest_stages_destroy(stages, n_points + 1);
    kern_diag_clear(&diag);
}

// Cuts at points that are good, points that an input chooses, and none.
static void cut_all_ways(const struct kern_manifest *manifest, const uint8_t *digest)
{
    struct kern_diag diag = {0};
    uint64_t points[2];
    bool balanced = kern_manifest_balance(manifest, 3, points, &diag);
    require(balanced == (diag.errors == 0));
    if (balanced)
        cut(manifest, points, 2);
    kern_diag_clear(&diag);
    points[0] = digest[0] % 8;
    points[1] = digest[1] == 0 ? UINT64_MAX : digest[1] % 8;
    cut(manifest, points, 1 + digest[2] % 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    struct kern_diag diag = {0};
    // A copy of exactly this size, with the NUL that a parse is promised.
    char *text = malloc(length + 1);
    require(text);
    memcpy(text, bytes, length);
    text[length] = '\0';
    struct kern_manifest *manifest = kern_manifest_parse(text, length, "fuzz", &diag);
    free(text);
    require(!manifest == (diag.errors > 0));
    bool verified = manifest && kern_manifest_verify(manifest, &diag);
    require(verified == (diag.errors == 0));
    for (size_t i = 1; i < diag.count; i++)
        require(diag.entries[i - 1].order <= diag.entries[i].order);
    if (verified) {
        write_and_read_back(manifest);
        cut_all_ways(manifest, manifest->digest);
    }
    kern_manifest_destroy(manifest);
    kern_diag_clear(&diag);
    return 0;
}
