// SPDX-License-Identifier: Apache-2.0
#include "tests/manifest_rules_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "manifest/manifest.h"

static char *text_of(const char *base, const struct rules_case *one)
{
    char *text = text_edited(base, one->edits, RULES_EDITS);
    text_swap(text, '\'', '"');
    return text;
}

static bool same(const char *wanted, const char *found)
{
    return wanted && found ? strcmp(wanted, found) == 0 : wanted == found;
}

static bool as_said(const struct rules_case *one, const struct kern_diag *diag, bool verified)
{
    bool accepted = !one->rule || one->warns;
    if (verified != accepted || diag->count != (one->rule ? 1 : 0))
        return false;
    return !one->rule ||
           (same(one->rule, diag->entries[0].rule) && same(one->place, diag->entries[0].place) &&
            (!one->says || strstr(diag->entries[0].text, one->says)));
}

static bool run(const char *base, const struct rules_case *one)
{
    struct kern_diag diag = {0};
    char *text = text_of(base, one);
    struct kern_manifest *manifest = kern_manifest_parse(text, strlen(text), one->name, &diag);
    bool verified = manifest && kern_manifest_verify(manifest, &diag);
    bool right = manifest && as_said(one, &diag, verified) && manifest->verified == verified;
    if (!right) {
        fprintf(stderr, "%s: wanted %s at %s%s%s, found%s\n", one->name,
                one->rule ? one->rule : "no error", one->place ? one->place : "-",
                one->says ? " saying " : "", one->says ? one->says : "",
                diag.count ? ":" : " nothing");
        kern_diag_print(&diag, stderr, 20);
    }
    kern_manifest_destroy(manifest);
    kern_diag_clear(&diag);
    free(text);
    return right;
}

void rules_test(void **state)
{
    const struct rules_table *table = *state;
    size_t wrong = 0;
    for (size_t i = 0; i < table->count; i++)
        wrong += !run(table->base, &table->cases[i]);
    if (wrong)
        fail_msg("%zu of %zu manifests", wrong, table->count);
}
