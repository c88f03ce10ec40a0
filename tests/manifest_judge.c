// SPDX-License-Identifier: Apache-2.0
//
// Reads manifests from standard input, one a line, and says of each whether its shape is right:
// "ok", or the first error of a rule that speaks of shapes. For manifest_random.py.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "manifest/manifest.h"

// The rules that a schema could express; the others ask more than that.
static bool speaks_of_shape(const char *rule)
{
    static const char *const rules[] = {"V-JSON",  "V-DUP",  "V-KEY", "V-TYPE",
                                        "V-CONST", "V-NAME", "V-NUM"};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strcmp(rule, rules[i]) == 0)
            return true;
    return false;
}

static void judge(const char *text, size_t length)
{
    struct kern_diag diag = {0};
    kern_manifest_destroy(kern_manifest_parse(text, length, "stdin", &diag));
    size_t i = 0;
    while (i < diag.count && !(diag.entries[i].rule && speaks_of_shape(diag.entries[i].rule)))
        i++;
    puts(i == diag.count ? "ok" : kern_diag_line(&diag, i));
    kern_diag_clear(&diag);
}

int main(void)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    while ((length = getline(&line, &capacity, stdin)) > 0) {
        line[--length] = '\0';
        judge(line, (size_t)length);
    }
    free(line);
    return 0;
}
