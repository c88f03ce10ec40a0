// SPDX-License-Identifier: Apache-2.0
#include "tests/manifest_rules_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "manifest/manifest.h"

// Replaces the one [from] in [text], which is freed, by [to].
static char *edit(const char *name, char *text, const char *from, const char *to)
{
    char *found = strstr(text, from);
    if (!found || strstr(found + 1, from))
        fail_msg("%s: \"%s\" does not stand exactly once in the text", name, from);
    char *edited = malloc(strlen(text) + strlen(to) + 1);
    assert_non_null(edited);
    size_t before = (size_t)(found - text);
    memcpy(edited, text, before);
    strcpy(edited + before, to);
    strcat(edited, found + strlen(from));
    free(text);
    return edited;
}

static char *text_of(const char *base, const struct rules_case *one)
{
    char *text = strdup(base);
    assert_non_null(text);
    for (size_t i = 0; i < RULES_EDITS && one->edits[i].from; i++)
        text = edit(one->name, text, one->edits[i].from, one->edits[i].to);
    for (char *quote = strchr(text, '\''); quote; quote = strchr(quote, '\''))
        *quote = '"';
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
