// SPDX-License-Identifier: Apache-2.0
//
// A libFuzzer target: the input is the text of a manifest. A parse gives a manifest or a reason, a
// verification too, and both in the order of the document.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "manifest/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static void require(bool condition)
{
    if (!condition)
        abort();
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
    if (manifest)
        require(kern_manifest_verify(manifest, &diag) == (diag.errors == 0));
    for (size_t i = 1; i < diag.count; i++)
        require(diag.entries[i - 1].order <= diag.entries[i].order);
    kern_manifest_destroy(manifest);
    kern_diag_clear(&diag);
    return 0;
}
